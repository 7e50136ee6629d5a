"""FLARE against the frames that PCL's own estimator is tested with, on the Stanford bunny."""

import json

import numpy as np
import pytest
import torch

from qecnet.formats import read_cloud
from qecnet.geometry import Radii, local_frames
from qecnet.geometry._flare import PointNormals, flare_axes
from qecnet.geometry._support import centre_cloud, search_tree


@pytest.fixture
def golden(shared):
    return json.loads((shared / "goldens" / "flare_bun0.json").read_text())


@pytest.fixture
def bunny(shared):
    return read_cloud(shared / "goldens" / "bun0.pcd").points


def settings(golden):
    """The golden's radii and viewpoint."""
    given = golden["settings"]
    radii = Radii(given["normals"]["radius"], given["z_axis_radius"], given["tangent_radius"], given["margin"])
    return radii, torch.tensor(given["normals"]["viewpoint"], dtype=torch.float64)


# The golden's rings consist of every fifth point.
SURFACE = slice(0, None, 5)


def frames_of(points, radii, eye):
    """Rotation matrices (N, 3, 3) and valid (N,) at all points, with rings of the golden's points."""
    cloud = centre_cloud(points)
    scaled = radii.scaled((1 + 1e-6) / cloud.radius)
    normals = PointNormals(cloud, scaled.normals, eye, points.dtype)
    x, z, valid = flare_axes(cloud, cloud.points, scaled, search_tree(cloud.points[SURFACE]), normals)
    return torch.from_numpy(np.stack([x, np.cross(z, x), z], axis=-1)), torch.from_numpy(valid)


def test_frames_agree_with_pcl(golden, bunny, dtype):
    columns, valid = frames_of(bunny.to(dtype), *settings(golden))
    for place, expected in ((int(k), v) for k, v in golden["points"].items()):
        assert valid[place]
        for axis, column in zip("xyz", columns[place].T, strict=True):
            assert np.abs(column.numpy() - expected[axis]).max() < 1e-3


def test_every_point_of_the_bunny_has_a_frame_as_in_pcl(golden, bunny):
    assert frames_of(bunny, *settings(golden))[1].all()


def test_frames_at_some_points_are_those_at_all(golden, bunny):
    radii, eye = settings(golden)
    some = local_frames(bunny, torch.tensor([15, 45]), "flare", radii, eye)
    assert torch.equal(some.quaternions, local_frames(bunny, None, "flare", radii, eye).quaternions[[15, 45]])


def flare_naive(points, i, radii, eye):
    """PCL's algorithm for one point, as a plain loop; None where PCL has no frame of its own."""

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
    around = points[SURFACE]
    distances = (around - points[i]).norm(dim=-1)
    ring = around[(distances > radii.margin * radii.tangent) & (distances <= radii.tangent)]
    if z is None or len(ring) == 0 or (distances <= radii.tangent).sum() < 6:
        return None
    x = ring[((ring - points[i]) @ z).argmax()] - points[i]
    x = torch.nn.functional.normalize(x - (x @ z) * z, dim=0)
    return torch.stack([x, torch.linalg.cross(z, x), z], dim=1)


@pytest.mark.parametrize("radii", [Radii(0.01, 0.025, 0.1), Radii(0.02, 0.012, 0.02)], ids=["wide", "narrow"])
def test_frames_agree_with_the_naive_loop(golden, bunny, radii):
    _, eye = settings(golden)
    columns, valid = frames_of(bunny, radii, eye)
    kinds = set()
    for i in range(len(bunny)):
        expected = flare_naive(bunny, i, radii, eye)
        kinds.add(expected is None)
        assert bool(valid[i]) == (expected is not None)
        if expected is not None:
            assert torch.allclose(columns[i], expected, atol=1e-6)
    assert kinds == ({False} if radii.tangent == 0.1 else {False, True})
