"""Damaged files of every format: each is read, or refused with a `ReadError`; nothing else ever happens."""

import io
import struct

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qecnet.formats import ReadError, read, read_cloud, write
from qecnet.geometry import Mesh, PointCloud

lzf = pytest.importorskip("lzf")


def compressed_pcd(points: np.ndarray) -> bytes:
    raw = points.astype("<f4").T.tobytes()
    packed = lzf.compress(raw, 2 * len(raw))
    header = (
        f"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH {len(points)}\nPOINTS {len(points)}\nDATA binary_compressed\n"
    )
    return header.encode() + struct.pack("<II", len(packed), len(raw)) + packed


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory) -> list[bytes]:
    """One small sound file of every kind, to be damaged."""
    folder = tmp_path_factory.mktemp("whole")
    points = torch.arange(24.0).reshape(8, 3) % 5
    normals = torch.nn.functional.normalize(points + 1, dim=-1)
    mesh = Mesh(points, torch.tensor([[0, 1, 2], [2, 3, 4], [5, 6, 7]]))
    for suffix in (".ply", ".off"):
        write(folder / f"mesh{suffix}", mesh)
    for suffix in (".ply", ".pcd", ".xyz", ".csv", ".npy", ".npz"):
        write(folder / f"cloud{suffix}", PointCloud(points, normals))
    packed = io.BytesIO()
    np.savez_compressed(packed, points=points.numpy(), normals=normals.numpy())
    stl = np.zeros(2, "3f4,(3,3)f4,u2")
    stl["f1"] = np.arange(18).reshape(2, 3, 3)
    by_hand = [
        packed.getvalue(),
        compressed_pcd(np.zeros((200, 3))),
        b"\0" * 80 + struct.pack("<I", 2) + stl.tobytes(),
        b"solid a\nfacet normal 0 0 1\nouter loop\n"
        b"vertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid\n",
        b"o a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nf 1//1 2//1 3//1\nf -1 -2 -3\n",
        b"COFF\n3 1 0\n0 0 0 1 0 0 1\n1 0 0 1 0 0 1\n0 1 0 1 0 0 1\n3 0 1 2 9 9 9\n",
        b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty double z\n"
        b"element face 2\nproperty list uchar int vertex_index\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n2 0 1\n",
        b"ply\nformat binary_big_endian 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
        b"element face 2\nproperty list uchar short vertex_indices\nend_header\n"
        + b"\0" * 12
        + b"\3\0\0\0\0\0\0\1\0\0",
        b"VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n"
        b"COUNT 1 1 1\nWIDTH 2\nHEIGHT 1\nPOINTS 2\nDATA ascii\n0 0 0\n1 2 nan\n",
    ]
    return [path.read_bytes() for path in sorted(folder.iterdir())] + by_hand


SUFFIXES = st.sampled_from([".off", ".obj", ".ply", ".stl", ".pcd", ".xyz", ".csv", ".npy", ".npz", ".dat", ""])
PIECES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from(
        [b"\n", b" ", b"\r", b"#", b"-", b".", b"-1", b"0", b"1e308", b"nan", b"inf", b"9" * 20, b"5000000000"]
    ),
    st.sampled_from(
        [b"\xff" * 4, b"\0" * 8, b"\xff\xff\xff\x7f", b"list", b"double", b"vertex", b"face", b"uchar", b"F", b"x"]
    ),
)


def check(path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        shape = read(path)
        cloud = read_cloud(path, 10)
    except ReadError as error:
        sentence = str(error)
    else:
        assert type(shape) in (Mesh, PointCloud)
        assert cloud.points.dtype == torch.float64
        assert cloud.points.isfinite().all()
        return
    assert sentence.startswith(f"{path}: ")
    assert sentence.isprintable()


def damage(data: st.DataObject, content: bytes) -> bytes:
    """Up to four places cut, overwritten, filled in, repeated, or the end cut off."""
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 16)))
        kind = data.draw(st.sampled_from(["replace", "insert", "repeat", "truncate"]))
        if kind == "replace":
            content = content[:start] + data.draw(PIECES) + content[end:]
        elif kind == "insert":
            content = content[:start] + data.draw(PIECES) + content[start:]
        elif kind == "repeat":
            content = content[:end] + content[start:]
        else:
            content = content[:start]
    return content


def damaged_files(folder, whole_files, data) -> None:
    content = damage(data, data.draw(st.sampled_from(whole_files)))
    check(folder / f"damaged{data.draw(SUFFIXES)}", content)


fuzz = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@given(st.data())
@settings(max_examples=300, **fuzz)
def test_damaged_files(tmp_path, whole_files, data):
    damaged_files(tmp_path, whole_files, data)


@given(st.binary(max_size=300), SUFFIXES)
@settings(max_examples=200, **fuzz)
def test_files_of_noise(tmp_path, content, suffix):
    check(tmp_path / f"noise{suffix}", content)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=20_000, **fuzz)
def test_many_damaged_files(tmp_path, whole_files, data):
    damaged_files(tmp_path, whole_files, data)
