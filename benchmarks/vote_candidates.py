"""Whether votes of capsules would add the true up direction to the candidates that geometry proposes.

    python -m benchmarks.vote_candidates --modelnet40 FOLDER [--shapes 300]

Training shapes of ModelNet40 that both `modelnet40` and `modelnet40-features` held out, each whole and as one camera
sees it, rotated at random. The votes are those of `modelnet40-features` for the poses of its three likeliest classes;
their modes are up to eight groups of votes within 15°, the heaviest first. One row for whole shapes and one for views
(results/vote_candidates.csv): the shares with a direction within 10° of up among the candidates, among the modes, and
among both, and the mean numbers of candidates and modes.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from benchmarks.candidates import UP, choose, degrees, write
from benchmarks.measure import RESULTS
from rich.progress import track
from torch import Tensor

import qecnet
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import derive_seed, open_dataset, sample_view, stratified_split
from qecnet.geometry import OrientedPoints, PointCloud, prepare, sample_points
from qecnet.models import Model
from qecnet.nn import Ballot

_CLASSES, _MODES = 3, 8
_NEAR = math.cos(math.radians(15) / 2)  # of two quaternions whose rotations are 15° apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modelnet40", type=Path, required=True, help="folder of meshes, CLASS/train/NAME")
    parser.add_argument("--shapes", type=int, default=300, help="shapes, chosen at random")
    given = parser.parse_args()
    verifying, voting = qecnet.load("modelnet40"), qecnet.load(RESULTS / "modelnet40-features")
    items = open_dataset("modelnet40", given.modelnet40).items("train")
    held = stratified_split([item.label for item in items], verifying.setting("validation"), seed=0)[1]
    found: dict[str, list[tuple[float, float, int, int]]] = {"whole": [], "views": []}
    for number, item in enumerate(track(choose([items[n] for n in held], given.shapes))):
        generator, shape = torch.Generator().manual_seed(derive_seed(number)), item.load()
        clouds = sample_points(shape, verifying.config.points, generator), sample_view(shape, generator).cloud
        for kind, cloud in zip(found, clouds, strict=True):
            found[kind].append(measure(verifying, voting, cloud, generator))
    rows: list[dict[str, Any]] = []
    for kind, values in found.items():
        candidates, votes, *counts = torch.tensor(values, dtype=torch.float64).T
        shares = {"candidates": candidates, "votes": votes, "both": torch.minimum(candidates, votes)}
        means = {name: f"{(angle <= 10).double().mean():.4f}" for name, angle in shares.items()}
        numbers = dict(zip(("mean_candidates", "mean_modes"), (f"{count.mean():.1f}" for count in counts), strict=True))
        rows.append({"shapes": kind, "number": len(values), **means, **numbers})
    write("vote_candidates.csv", rows)


def measure(
    verifying: Model, voting: Model, cloud: PointCloud, generator: torch.Generator
) -> tuple[float, float, int, int]:
    """Degrees from up to the nearest candidate and the nearest mode of a rotated cloud, and how many there are."""
    q = random_quaternion((), generator, dtype=torch.float64)
    rotated, up = PointCloud(cloud.points.double()).rotated(q), rotate(q.float(), UP)
    poses = prepare(rotated, verifying.config).candidates
    ups = rotate(poses[poses.any(-1)], UP)
    prediction = voting.predict_points(OrientedPoints.stack([prepare(rotated, voting.config)]))
    modes = rotate(find_modes(prediction.ballots[-1]), UP)
    return float(degrees(ups, up).min()), float(degrees(modes, up).min()), len(ups), len(modes)


def find_modes(ballot: Ballot) -> Tensor:
    """Modes (M, 4) WXYZ of the votes for one cloud's likeliest classes."""
    modes = []
    for label in ballot.scores[0].topk(_CLASSES).indices.tolist():
        votes, trust = ballot.votes[0, label], ballot.trust[0, label].clone()
        near = (votes @ votes.T).abs() > _NEAR
        for _ in range(_MODES):
            heaviest = int((near.to(trust) @ trust).argmax())
            weights = torch.where(near[heaviest], trust, 0)
            if not bool(weights.any()):
                break
            same_side = torch.where(votes @ votes[heaviest] < 0, -1.0, 1.0)
            modes.append(torch.nn.functional.normalize((weights * same_side) @ votes, dim=0))
            trust = torch.where(near[heaviest], 0, trust)
    return torch.stack(modes)


if __name__ == "__main__":
    main()
