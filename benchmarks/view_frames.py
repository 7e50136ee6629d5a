"""How repeatable "centred" frames are on views of one side, for two rules of sign and two centres.

    python -m benchmarks.view_frames --data modelnet10.zip [--shapes 60]

Normals look toward the centre, as all models in the package were trained, or away from the camera, which is the same
on a convex shape. x axes look to the centre: the centroid of the view, or a point that is moved away from the camera by
the median distance between both, 0.16 of the view's radius. "true centre" is that of the whole shape, which nobody
knows. Test shapes of ModelNet10, each in a random pose. One row for each choice (results/view_frames.csv): of up to 512
farthest points of a view, the shares whose frame is within 30° of that of the whole shape there, by the centroid rule,
and of that of a second view where this sees the point, too; and the accuracy and up within 10° of
`modelnet10-features`.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.candidates import UP, choose, write
from rich.progress import track
from scipy.spatial import cKDTree
from torch import Tensor

import qecnet
from qecnet.algebra import angular_distance, canonicalize, from_matrix, random_quaternion, rotate
from qecnet.datasets import View, derive_seed, open_dataset, sample_view
from qecnet.geometry import OrientedPoints, PointCloud, default_radii, farthest_points, fit_normals, local_frames

MOVED = 0.16
FRAMES = 512
RULES = {
    "toward the centre, centroid": (False, "centroid"),
    "toward the centre, moved": (False, "moved"),
    "toward the centre, true centre": (False, "true"),
    "away from the camera, centroid": (True, "centroid"),
    "away from the camera, moved": (True, "moved"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="ModelNet10")
    parser.add_argument("--shapes", type=int, default=60)
    given = parser.parse_args()
    model = qecnet.load("modelnet10-features")
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, item in enumerate(track(choose(open_dataset("modelnet10", given.data).items("test"), given.shapes))):
        generator = torch.Generator().manual_seed(derive_seed(number))
        shape = item.load()
        q = random_quaternion((), generator, dtype=torch.float64)
        whole = PointCloud(rotate(q, shape.points.double())).normalized(torch.float64)
        views = [sample_view(shape, generator) for _ in range(2)]
        first, second = (view.cloud.rotated(q).clean().normalized(torch.float64) for view in views)
        at = first.points[farthest_points(first.points, min(FRAMES, len(first)))]
        in_whole, in_second = (carry(at, first, other) for other in (whole, second))
        trained = local_frames(whole.points, in_whole, "centred")
        seen = torch.from_numpy(cKDTree(second.points.numpy()).query(in_second.numpy())[0] <= 0.05)
        batch = []
        for rule in RULES:
            frames, valid = estimate(rule, first, at, views[0], q)
            others, also = estimate(rule, second, in_second, views[1], q)
            scores = found[rule]
            scores["as_the_whole"].append(agreement(frames, trained.quaternions, valid & trained.valid))
            if (both := valid & also & seen).any():
                scores["as_another_view"].append(agreement(frames, others, both))
            batch.append(to_oriented(at - centre_of(rule, first, views[0], q), frames, valid))
        prediction = model.predict_points(OrientedPoints.stack(batch))
        for rule, label, pose in zip(RULES, prediction.label.tolist(), prediction.pose.double(), strict=True):
            found[rule]["accuracy"].append(float(model.classes[label] in item.name))
            cosine = rotate(pose / pose.norm(), UP.double()) @ rotate(q, UP.double())
            found[rule]["up_within_10"].append(float(cosine >= np.cos(np.radians(10))))
    rows: list[dict[str, Any]] = []
    for rule, scores in found.items():
        means = {name: f"{np.mean(values):.3f}" for name, values in scores.items()}
        rows.append({"normals, centre": rule, "shapes": given.shapes, **means})
    write("view_frames.csv", rows)


def carry(points: Tensor, source: PointCloud, target: PointCloud) -> Tensor:
    """Points (N, 3) in the coordinates of another normalised cloud."""
    return (source.restore(points) - target.centre) / target.scale


def centre_of(rule: str, cloud: PointCloud, view: View, q: Tensor) -> Tensor:
    """The centre by a rule, in the coordinates of a normalised view, (3,)."""
    which = RULES[rule][1]
    if which == "true":
        return (rotate(q, view.centre) - cloud.centre) / cloud.scale
    assert cloud.viewpoint is not None
    away: Tensor = -MOVED * (which == "moved") * cloud.viewpoint / cloud.viewpoint.norm()
    return away


def estimate(rule: str, cloud: PointCloud, at: Tensor, view: View, q: Tensor) -> tuple[Tensor, Tensor]:
    """Frames (N, 4) at positions (N, 3) of a normalised view, and which are valid."""
    centre = centre_of(rule, cloud, view, q)
    by_camera = RULES[rule][0]
    radius = default_radii(cloud.points).normals
    assert cloud.viewpoint is not None
    z, valid = fit_normals(cloud.points, at, radius, sign=cloud.viewpoint if by_camera else centre)
    z = -z if by_camera else z
    x = centre - at - ((centre - at) * z).sum(-1, keepdim=True) * z
    length = x.norm(dim=-1, keepdim=True)
    valid = valid & (length[:, 0] > 1e-3)
    x = x / length.clamp_min(1e-9)
    matrices = torch.stack((x, torch.linalg.cross(z, x), z), dim=-1)
    matrices[~valid] = torch.eye(3, dtype=torch.float64)
    return canonicalize(from_matrix(matrices, orthonormal=True)), valid


def agreement(frames: Tensor, others: Tensor, both: Tensor) -> float:
    """The share of frames within 30° of each other, where both are valid."""
    return float((angular_distance(frames, others)[both] <= np.radians(30)).double().mean())


def to_oriented(positions: Tensor, frames: Tensor, valid: Tensor) -> OrientedPoints:
    """What networks read, filled up to 512 points."""
    more = FRAMES - len(positions)
    positions = positions / positions.norm(dim=-1).amax()
    frames = torch.cat((frames, torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64).repeat(more, 1)))
    positions = torch.nn.functional.pad(positions, (0, 0, 0, more))
    return OrientedPoints.from_frames(positions.float(), frames.float(), torch.nn.functional.pad(valid, (0, more)))


if __name__ == "__main__":
    main()
