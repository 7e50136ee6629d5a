"""Memory follows the length of a file, not what the file declares; what unpacks has a limit that users can raise."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from tests.kinds import as_cloud

from qecnet.formats import Motion, ReadError, move_file, read
from qecnet.formats.move import move_bytes

NOTHING = Motion(np.eye(3), np.zeros(3), np.zeros(3))
MB = 2**20


def save_npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def peak_memory(function, *arguments):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r".") as caught:
            function(*arguments)
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


def test_a_small_archive_of_many_points_is_refused_before_it_is_unpacked(tmp_path):
    path = save_npz(tmp_path / "bomb.npz", points=np.zeros((25_000_000, 3), np.float16))
    assert path.stat().st_size < MB
    peak, message = peak_memory(read, path)
    assert "unpacks to 572 MB, above the limit of 512 MB" in message
    assert peak < 8 * MB


def test_the_limit_can_be_lowered_and_raised(tmp_path, monkeypatch):
    path = save_npz(tmp_path / "scan.npz", points=np.arange(300_000.0).reshape(-1, 3))
    monkeypatch.setenv("QECNET_MAX_UNPACKED_MB", "1")
    with pytest.raises(ReadError, match=r"unpacks to 2 MB, above the limit of 1 MB; .*QECNET_MAX_UNPACKED_MB"):
        read(path)
    monkeypatch.setenv("QECNET_MAX_UNPACKED_MB", "3")
    assert len(as_cloud(read(path))) == 100_000


def test_integers_count_as_the_floats_that_they_become(tmp_path, monkeypatch):
    monkeypatch.setenv("QECNET_MAX_UNPACKED_MB", "1")
    path = save_npz(tmp_path / "scan.npz", points=np.zeros((100_000, 3), np.int8))
    with pytest.raises(ReadError, match="unpacks to 2 MB"):
        read(path)


def test_members_that_are_not_needed_are_not_unpacked_by_reading(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        points = io.BytesIO()
        np.save(points, np.eye(3))
        archive.writestr("points.npy", points.getvalue())
        archive.writestr("noise.npy", bytes(200 * MB))
    (tmp_path / "scan.npz").write_bytes(out.getvalue())
    tracemalloc.start()
    read(tmp_path / "scan.npz")
    move_file(tmp_path / "scan.npz", tmp_path / "moved.npz", NOTHING)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * MB
    with zipfile.ZipFile(tmp_path / "moved.npz") as archive:
        assert archive.getinfo("noise.npy").file_size == 200 * MB


@pytest.mark.parametrize("vertex_first", [True, False])
def test_faces_that_a_ply_has_no_room_for_are_refused_at_once(tmp_path, vertex_first):
    vertex = "element vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
    face = "element face 2000000000\nproperty list uchar int vertex_indices\n"
    header = "ply\nformat binary_little_endian 1.0\n" + (vertex + face if vertex_first else face + vertex)
    (tmp_path / "faces.ply").write_bytes(header.encode() + b"end_header\n" + bytes(4 * MB))
    peak, message = peak_memory(read, tmp_path / "faces.ply")
    assert "declares 2,000,000,000 rows of 'face'" in message
    assert peak < 20 * MB


def test_empty_faces_take_little_memory(tmp_path):
    header = "ply\nformat binary_little_endian 1.0\nelement face 100000\nproperty list uchar int vertex_indices\n"
    header += "element vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
    data = header.encode() + b"\x03" + bytes(12) + bytes(99_999) + bytes(12)
    (tmp_path / "faces.ply").write_bytes(data)
    tracemalloc.start()
    read(tmp_path / "faces.ply")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * len(data)


def test_moving_respects_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("QECNET_MAX_UNPACKED_MB", "1")
    path = save_npz(tmp_path / "scan.npz", points=np.zeros((MB, 3)))
    with pytest.raises(ValueError, match="unpacks to 24 MB"):
        move_bytes(path.read_bytes(), ".npz", NOTHING)


def test_other_members_are_moved_as_they_are_packed(tmp_path, monkeypatch):
    monkeypatch.setenv("QECNET_MAX_UNPACKED_MB", "1")
    before = save_npz(tmp_path / "a.npz", noise=np.arange(MB), points=np.eye(3), more=np.ones(3))
    move_file(before, tmp_path / "b.npz", NOTHING)
    members = []
    for path in (before, tmp_path / "b.npz"):
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            members.append({i.filename: (i.CRC, i.compress_size, i.file_size) for i in archive.infolist()})
    assert members[0] == members[1]
    with np.load(tmp_path / "b.npz") as after:
        np.testing.assert_array_equal(after["noise"], np.arange(MB))
        np.testing.assert_array_equal(after["more"], np.ones(3))
