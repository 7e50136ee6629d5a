"""FLARE against the frames that PCL's own estimator is tested with, on the Stanford bunny."""

import json

import numpy as np
import pytest
import torch

from qecnet.algebra import to_matrix
from qecnet.formats import read_cloud
from qecnet.geometry import Radii, flare_frames, local_frames


@pytest.fixture
def golden(shared):
    return json.loads((shared / "goldens" / "flare_bun0.json").read_text())


@pytest.fixture
def bunny(shared):
    return read_cloud(shared / "goldens" / "bun0.pcd").points


def settings(golden):
    """The golden's settings as arguments of `flare_frames`."""
    given = golden["settings"]
    radii = Radii(given["normals"]["radius"], given["z_axis_radius"], given["tangent_radius"], given["margin"])
    return {
        "radii": radii,
        "sign": torch.tensor(given["normals"]["viewpoint"], dtype=torch.float64),
        "surface": torch.arange(0, 397, 5),
    }


def test_frames_and_scores_are_pcls(golden, bunny, dtype):
    frames, scores = flare_frames(bunny.to(dtype), **settings(golden))
    columns = to_matrix(frames.quaternions.double())
    for place, expected in ((int(k), v) for k, v in golden["points"].items()):
        assert frames.valid[place]
        for axis, column in zip("xyz", columns[place].T, strict=True):
            assert np.abs(column.numpy() - expected[axis]).max() < 1e-3
        assert abs(float(scores[place]) - expected["score"]) < 1e-4


def test_every_point_of_the_bunny_has_a_frame_as_in_pcl(golden, bunny):
    assert flare_frames(bunny, **settings(golden))[0].valid.all()


def test_the_interface_gives_the_same_frames(golden, bunny):
    given = {name: value for name, value in settings(golden).items() if name != "surface"}
    direct, _ = flare_frames(bunny, **given)
    frames = local_frames(bunny, torch.tensor([15, 45]), method="flare", **given)
    assert torch.equal(frames.quaternions, direct.quaternions[[15, 45]])


def flare_naive(points, i, radii, eye, surface):
    """PCL's algorithm for one point, in words of one syllable; None where PCL has no frame of its own."""

    def plane(place, radius):
        near = points[(points - place).norm(dim=-1) <= radius]
        return torch.linalg.eigh(torch.cov(near.T)).eigenvectors[:, 0] if len(near) >= 3 else None

    def normal(place):
        axis = plane(place, radii.normals)
        return axis if axis is None or (eye - place) @ axis >= 0 else -axis

    near = points[(points - points[i]).norm(dim=-1) <= radii.z_axis]
    if len(near) >= 6:
        z = plane(points[i], radii.z_axis)
        normals = [n for n in map(normal, near) if n is not None]
        z = z if z @ torch.stack(normals).mean(0) >= 0 else -z
    else:
        z = normal(points[i])
    around = points[surface]
    distances = (around - points[i]).norm(dim=-1)
    ring = around[(distances > radii.margin * radii.tangent) & (distances <= radii.tangent)]
    if z is None or len(ring) == 0 or (distances <= radii.tangent).sum() < 6:
        return None
    heights = (ring - points[i]) @ z
    x = ring[heights.argmax()] - points[i]
    x = torch.nn.functional.normalize(x - (x @ z) * z, dim=0)
    return torch.stack([x, torch.linalg.cross(z, x), z], dim=1), heights.max()


@pytest.mark.parametrize("radii", [Radii(0.01, 0.025, 0.1), Radii(0.02, 0.012, 0.02)], ids=["wide", "narrow"])
def test_the_fast_way_is_the_plain_loop(golden, bunny, radii):
    given = {**settings(golden), "radii": radii}
    frames, scores = flare_frames(bunny, **given)
    columns = to_matrix(frames.quaternions)
    kinds = set()
    for i in range(len(bunny)):
        expected = flare_naive(bunny, i, radii, given["sign"], given["surface"])
        kinds.add(expected is None)
        assert bool(frames.valid[i]) == (expected is not None)
        if expected is not None:
            assert torch.allclose(columns[i], expected[0], atol=1e-6)
            assert abs(scores[i] - expected[1]) < 1e-8
    assert kinds == ({False} if radii.tangent == 0.1 else {False, True})
