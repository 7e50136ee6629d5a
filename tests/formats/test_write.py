"""What is written is read again as it was, by us and by others, and never half."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.kinds import as_cloud, as_mesh, present

from qecnet.formats import read, write
from qecnet.geometry import Mesh, PointCloud

trimesh = pytest.importorskip("trimesh")

coordinates = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: arrays(
        dtype, st.tuples(st.integers(1, 20), st.just(3)), elements={"allow_nan": False, "allow_infinity": False}
    )
)


@given(coordinates, st.booleans(), st.sampled_from([".ply", ".pcd", ".xyz", ".txt", ".csv", ".npy", ".npz"]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cloud_written_and_read_is_the_same(tmp_path, points, with_normals, suffix):
    given = torch.from_numpy(points)
    normals = torch.nn.functional.normalize(given.double() % 7 + 0.1, dim=-1).to(given.dtype) if with_normals else None
    cloud = PointCloud(given, normals).clean()
    path = tmp_path / f"cloud{suffix}"
    write(path, cloud)
    again = as_cloud(read(path))
    assert torch.equal(again.points.to(given.dtype), cloud.points)
    assert (again.normals is None) == (normals is None)
    if normals is not None:
        assert torch.equal(present(again.normals).to(given.dtype), present(cloud.normals))
    assert again.duplicates == again.non_finite == 0


@pytest.mark.parametrize("suffix", [".ply", ".off"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mesh_written_and_read_is_the_same_to_us_and_to_trimesh(tmp_path, suffix, dtype):
    sphere = trimesh.creation.icosphere(subdivisions=2)
    mesh = Mesh(torch.from_numpy(sphere.vertices.copy()).to(dtype), torch.from_numpy(sphere.faces.copy()).long())
    write(tmp_path / f"sphere{suffix}", mesh)
    again = as_mesh(read(tmp_path / f"sphere{suffix}"))
    assert torch.equal(again.vertices.to(dtype), mesh.vertices)
    assert torch.equal(again.faces, mesh.faces)
    theirs = trimesh.load_mesh(tmp_path / f"sphere{suffix}", process=False)
    np.testing.assert_allclose(theirs.vertices, mesh.vertices.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(theirs.faces, mesh.faces.numpy())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "cloud.xyz"
    write(path, PointCloud(torch.ones(1, 3)))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(path, PointCloud(torch.zeros(2, 3)))
    assert as_cloud(read(path)).points.tolist() == [[1, 1, 1]]
    assert os.listdir(tmp_path) == ["cloud.xyz"]


@pytest.mark.parametrize("shape", [PointCloud(torch.ones(1, 3)), Mesh(torch.ones(1, 3), torch.zeros(1, 3).long())])
def test_a_format_that_is_not_written_is_refused_with_those_that_are(tmp_path, shape):
    with pytest.raises(ValueError, match=r"shape\.docx: .*use one of .*\.ply"):
        write(tmp_path / "shape.docx", shape)
    assert not os.listdir(tmp_path)
