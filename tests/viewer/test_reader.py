"""Uploads are parsed by another process, within limits, and a bad one does not affect the next."""

import sys
import time
import zipfile
from io import BytesIO

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud

from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.geometry import Mesh, PointCloud
from qecnet.viewer import reader as module
from qecnet.viewer.wire import unpack

POINTS = b"0 0 1\n1 2 3\n4 5 7\n"


def test_a_mesh_and_a_cloud_are_parsed(reader, tmp_path):
    chair = make_shape("chair", 1)
    write(tmp_path / "chair.ply", chair)
    read = reader.read("chair.ply", (tmp_path / "chair.ply").read_bytes())
    assert isinstance(read, Mesh)
    assert torch.equal(read.faces, chair.faces)
    expected = chair.vertices - chair.vertices.mean(0)
    torch.testing.assert_close(read.vertices, expected / expected.abs().max(), atol=1e-5, rtol=0)
    cloud = reader.read("a.xyz", b"\n".join(b"%d %d %d" % (i, i * i, 7) for i in range(50)))
    assert isinstance(cloud, PointCloud)
    assert len(cloud) == 50


def test_precision_does_not_depend_on_the_position(reader):
    points = np.random.default_rng(0).random((50, 3))
    there = reader.read("far.xyz", "\n".join(f"{x + 1e6:.6f} {y:.6f} {z:.6f}" for x, y, z in points).encode())
    expected = points - points.mean(0)
    np.testing.assert_allclose(there.points.numpy(), expected / np.abs(expected).max(), atol=1e-5)


@pytest.mark.parametrize("size", [1e-60, 1e200, 1e308])
def test_precision_does_not_depend_on_the_scale(reader, size):
    points = np.random.default_rng(0).random((50, 3))
    cloud = reader.read("a.xyz", "\n".join(f"{x:.17g} {y:.17g} {z:.17g}" for x, y, z in size * points).encode())
    expected = points - points.mean(0)
    np.testing.assert_allclose(cloud.points.numpy(), expected / np.abs(expected).max(), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("bad.off", b"OFF\n3 1 0\n0 0 0\n", "^bad.off: "),
        ("empty.ply", b"", "^empty.ply: "),
        ("noise.bin", bytes(range(256)) * 20, "^noise.bin: "),
        ("../../etc/passwd\n.obj", b"v 1 2", "^passwd[?].obj: "),
        ("C:\\shapes\\x.stl", b"solid", "^x.stl: "),
    ],
)
def test_an_invalid_file_is_refused_in_a_sentence(reader, name, data, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        reader.read(name, data)
    assert "\n" not in str(caught.value)
    assert len(reader.read("a.xyz", POINTS)) == 3


def test_too_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_UPLOAD_POINTS", 2)
    header, _ = unpack(module._parse("a.xyz", POINTS))
    assert header["error"] == "a.xyz: has 3 points or triangles; the viewer accepts 2"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory")
def test_memory_is_limited(reader, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 300.0)  # a busy machine would reach that limit first
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("points.npy", "w") as member:
        header = {"descr": "|u1", "fortran_order": False, "shape": (100_000_000, 3)}
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(300):
            member.write(bytes(1_000_000))
    assert len(packed.getvalue()) < 2**20
    with pytest.raises(ValueError, match=r"^many.npz: unpacks to 2,289 MB, above the limit of 512 MB"):
        reader.read("many.npz", packed.getvalue())
    assert len(reader.read("a.xyz", POINTS)) == 3


def test_a_failed_start_is_retried(monkeypatch):
    reader = module.UploadReader()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(module, "_START_SECONDS", 0.0)
            reader.start()
        assert reader._process is None
        assert len(as_cloud(reader.read("a.xyz", POINTS))) == 3
    finally:
        reader.close()


def test_time_is_limited(reader, monkeypatch):
    reader.read("a.xyz", POINTS)
    process = reader._process
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    with pytest.raises(ValueError, match="could not be read within 0 seconds"):
        reader.read("a.xyz", b"0 0 1\n" * 200_000)
    assert not process.is_alive()
    monkeypatch.undo()
    assert len(reader.read("a.xyz", POINTS)) == 3


def test_the_process_ends_when_the_pipe_is_closed(reader):
    reader.read("a.xyz", POINTS)
    process = reader._process
    reader._pipe.close()  # as the system does for a process that was killed
    end = time.monotonic() + 20
    while process.is_alive() and time.monotonic() < end:
        time.sleep(0.05)
    assert not process.is_alive()
    with pytest.raises(ValueError, match="reading it crashed"):
        reader.read("a.xyz", POINTS)
    assert reader._process is None
