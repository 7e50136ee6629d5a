"""Whatever is wrong with a file, there is one sentence that names it and says why, and nothing is allocated for it."""

import io
import os
import resource
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.kinds import as_cloud

from qecnet.formats import ReadError, read, read_cloud
from qecnet.geometry import PointCloud

TRIANGLE = "0 0 0\n1 0 0\n0 1 0\n"
BILLIONS = 5_000_000_000


def npy(array: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npy_header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": descr})
    return file.getvalue()


def npz(packed: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def lying() -> bytes:
    """An NPZ whose directory declares far more than deflate could hold in the bytes there are."""
    content = bytearray(npz(zipfile.ZIP_DEFLATED, points=npy_header((10**8, 3)) + b"\0" * 900))
    size = content.index(b"PK\x01\x02") + 24
    content[size : size + 4] = struct.pack("<I", 24 * 10**8 + 128)
    return bytes(content)


def ply(*lines: str, format: str = "ascii", body: bytes = b"") -> bytes:
    return "\n".join(["ply", f"format {format} 1.0", *lines, "end_header\n"]).encode() + body


def pcd(
    points: object = 2, width: object = 2, data: str = "ascii", fields: str = "x y z", body: bytes = b"", **other
) -> bytes:
    count = len(fields.split())
    header = {"FIELDS": fields, "SIZE": "4 " * count, "TYPE": "F " * count, "COUNT": "1 " * count} | other
    header |= {"WIDTH": width, "HEIGHT": 1, "POINTS": points, "DATA": data}
    return "".join(f"{key} {value}\n" for key, value in header.items()).encode() + body


XYZ = ("property float x", "property float y", "property float z")
LITTLE = "binary_little_endian"
CASES = {
    "empty.off": (b"", "empty"),
    "blank.xyz": (b" \n\n ", "empty"),
    "unknown.dat": (b"\x07\x01\x02 nothing known", "not in a format"),
    "garbage.off": (bytes(range(256)) * 4, "OFF"),
    "garbage.obj": (bytes(range(256)) * 4, "no vertices"),
    "garbage.stl": (bytes(range(256)) * 4, "truncated"),
    "garbage.pcd": (bytes(range(256)) * 4, "DATA"),
    "garbage.ply": (bytes(range(256)) * 4, "end_header"),
    "garbage.npy": (bytes(range(256)) * 4, "NPY header"),
    "garbage.npz": (bytes(range(256)) * 4, "unpacked"),
    "garbage.xyz": (bytes(range(256)) * 4, "number"),
    "utf16.xyz": (TRIANGLE.encode("utf-16"), "UTF-16"),
    "latin.xyz": ("0 0 0\n1 0 0\n0 é 0\n".encode("latin-1"), "in place of a number"),
    "off_vertices.off": (f"OFF\n5 1 0\n{TRIANGLE}3 0 1 2\n".encode(), "declares 5 vertices"),
    "off_billions.off": (f"OFF\n{BILLIONS} 1 0\n{TRIANGLE}3 0 1 2\n".encode(), "declares 5,000,000,000 vertices"),
    "off_faces.off": (f"OFF\n3 {BILLIONS} 0\n{TRIANGLE}3 0 1 2\n".encode(), "5,000,000,000 faces"),
    "off_fewer.off": (f"OFF\n2 1 0\n{TRIANGLE}3 0 1 2\n".encode(), "declares 2 vertices"),
    "off_none.off": (b"OFF\n0 0 0\n", "shape|declares 0"),
    "off_binary.off": (b"OFF BINARY\n\0\0\0\3", "text OFF"),
    "off_no_counts.off": (b"OFF\n", "OFF"),
    "off_past.off": (f"OFF\n3 1 0\n{TRIANGLE}3 0 1 3\n".encode(), "vertex 3.*3 vertices"),
    "off_negative.off": (f"OFF\n3 1 0\n{TRIANGLE}3 0 1 -1\n".encode(), "vertex -1"),
    "off_fraction.off": (f"OFF\n3 1 0\n{TRIANGLE}3 0 1 1.5\n".encode(), "whole number"),
    "off_huge_index.off": (f"OFF\n3 1 0\n{TRIANGLE}3 0 1 1e300\n".encode(), "whole number"),
    "off_nan_index.off": (f"OFF\n3 1 0\n{TRIANGLE}3 0 1 nan\n".encode(), "whole number"),
    "off_corners.off": (f"OFF\n3 1 0\n{TRIANGLE}7 0 1 2\n".encode(), "fewer corners"),
    "off_minus.off": (f"OFF\n3 1 0\n{TRIANGLE}-1 0 1 2\n".encode(), "fewer corners"),
    "off_two.off": (b"OFF\n3 0 0\n0 0\n1 0\n0 1\n", "too few numbers"),
    "off_points.off": (f"OFF\n3 1 0\n{TRIANGLE}1 0\n".encode(), "shape"),
    "noff_short.off": (f"NOFF\n3 1 0\n{TRIANGLE}3 0 1 2\n".encode(), "too few numbers"),
    "obj_past.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "vertex 3"),
    "obj_before.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf -1 -2 -9\n", "vertex -6"),
    "obj_zero.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "counts vertices from 1"),
    "obj_bare.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf \n", "without corners"),
    "obj_short.obj": (b"v 0 0 0\nv 1 0\nv 0 1 0\nf 1 2 3\n", "fewer than three"),
    "obj_word.obj": (b"v 0 0 0\nv 1 0 x\nv 0 1 0\nf 1 2 3\n", "b'x'"),
    "stl_short.stl": (b"\0" * 80 + struct.pack("<I", 2) + b"\0" * 50, "2 triangles"),
    "stl_billions.stl": (b"\0" * 80 + struct.pack("<I", 2**32 - 1) + b"\0" * 50, "4,294,967,295 triangles"),
    "stl_none.stl": (b"\0" * 84, "no triangles"),
    "stl_stub.stl": (b"\0" * 20, "20 bytes"),
    "stl_ascii.stl": (b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n", "truncated"),
    "stl_end.stl": (b"solid a\nfacet\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n", "endsolid"),
    "stl_bare.stl": (b"solid a\nendsolid a\n", "no triangles"),
    "ply_header.ply": (b"ply\nformat ascii 1.0\nelement vertex 3\n", "end_header"),
    "ply_no_vertex.ply": (ply("element face 0", "property list uchar int vertex_indices"), "no vertices"),
    "ply_zero.ply": (ply("element vertex 0", *XYZ), "at least one point"),
    "ply_bare.ply": (ply(f"element vertex {BILLIONS}"), "at least one point"),
    "ply_type.ply": (ply("element vertex 1", "property quad x", body=b"0 0 0"), "property quad x"),
    "ply_format.ply": (ply("element vertex 1", *XYZ, format="xml", body=b"0 0 0"), "format xml"),
    "ply_count.ply": (ply("element vertex -1", *XYZ, body=b"0 0 0"), "element vertex -1"),
    "ply_list.ply": (ply("element vertex 1", *XYZ, "property list uchar int a", body=b"0 0 0 0"), "list among"),
    "ply_no_z.ply": (ply("element vertex 1", *XYZ[:2], body=b"0 0"), "x, y and z"),
    "ply_short.ply": (ply("element vertex 3", *XYZ, body=b"0 0 0 1 0 0"), "declares 3 rows of 'vertex'"),
    "ply_word.ply": (ply("element vertex 1", *XYZ, body=b"0 zero 0"), "b'zero'"),
    "ply_billions.ply": (ply(f"element vertex {BILLIONS}", *XYZ, format=LITTLE, body=b"\0" * 900), "5,000,000,000"),
    "ply_strips.ply": (
        ply("element vertex 1", *XYZ, "element tristrips 1", "property list int int a", body=b"0 0 0 1 0"),
        "strips",
    ),
    "ply_no_list.ply": (
        ply("element vertex 1", *XYZ, "element face 1", "property int a", body=b"0 0 0 1"),
        "vertex_indices",
    ),
    "pcd_no_data.pcd": (pcd().replace(b"DATA", b"DTA"), "no `DATA`"),
    "pcd_short.pcd": (pcd(body=b"0 0 0\n1 0\n"), "declares 2 points"),
    "pcd_long.pcd": (pcd(body=b"0 0 0\n1 0 0\n0 1 0\n"), "declares 2 points"),
    "pcd_disagree.pcd": (pcd(points=3, body=b"0 0 0\n1 0 0\n"), "agree"),
    "pcd_word.pcd": (pcd(points="two", width="two"), "missing"),
    "pcd_none.pcd": (pcd(0, 0), "no points"),
    "pcd_billions.pcd": (pcd(BILLIONS, BILLIONS, "binary", body=b"\0" * 900), "5,000,000,000 points"),
    "pcd_packed.pcd": (
        pcd(BILLIONS, BILLIONS, "binary_compressed", body=struct.pack("<II", 892, 2**32 - 1) + b"\0" * 892),
        "whose length differs",
    ),
    "pcd_bomb.pcd": (
        pcd(10**8, 10**8, "binary_compressed", body=struct.pack("<II", 892, 12 * 10**8) + b"\0" * 892),
        "whose length differs",
    ),
    "pcd_lzf.pcd": (pcd(data="binary_compressed", body=struct.pack("<II", 4, 24) + b"\xff" * 4), "unpacked"),
    "pcd_encoding.pcd": (pcd(data="zstd"), "ascii, binary or"),
    "pcd_fields.pcd": (pcd(fields="x y i", body=b"0 0 0\n1 0 0\n"), "no fields x, y and z"),
    "pcd_type.pcd": (pcd(TYPE="F F Q"), "TYPE Q"),
    "pcd_lengths.pcd": (pcd(SIZE="4 4"), "different lengths"),
    "pcd_counts.pcd": (pcd(COUNT="1 1 -1"), "COUNT -1"),
    "eight.xyz": (b"0 0 0 1 1 1 1 1\n1 0 0 1 1 1 1 1\n", "2 × 8"),
    "two.xyz": (b"x y\n0 0\n1 0\n", "2 × 2"),
    "ragged.xyz": (b"0 0 0\n1 0 0\n0 1\n", "line 3"),
    "names.csv": (b"x,y,z,t\n0,0,0\n1,0,0\n", "names 4 columns"),
    "hole.csv": (b"0,0,0\n1,,0\n", "line 2"),
    "comma.csv": (b"0,5;1,5;2,5\n1,5;2,5;3,5\n", "decimal points"),
    "header.csv": (b"x,y,z\n", "no numbers"),
    "comma.xyz": (b"0,126\t-0,132\t0,640\n0,1\t0,2\t0,3\n", "b'0,126', which looks like a decimal comma"),
    "comma_below.txt": (b"x y z\n0,126 -0,132 0,640\n", "decimal points"),
    "python.xyz": (b"1_000 2 3\n1 2 3\n", "b'1_000' in place of a number"),
    "newlines.stl": (b"solid\n" + b"\n" * 500_000, "endsolid"),
    "solid_cut.stl": (b"solid".ljust(80, b"\0") + struct.pack("<I", 9) + b"\0" * 90, "declares 9 triangles"),
    "minus.xyz": (b"0 0 0\n1 0 -\n", "b'-'"),
    "nan.xyz": (b"nan nan nan\ninf 0 0\n", "none of the 2 points"),
    "object.npy": (npy(np.array([[1, "a", None]], dtype=object), allow_pickle=True), "object"),
    "text.npy": (npy(np.array([["a", "b", "c"]])), "instead of numbers"),
    "complex.npy": (npy(np.zeros((4, 3), complex)), "complex128"),
    "flat.npy": (npy(np.zeros(12)), "12 numbers"),
    "wide.npy": (npy(np.zeros((3, 100))), "3 × 100"),
    "batch.npy": (npy(np.zeros((2, 4, 3))), "2 × 4 × 3"),
    "none.npy": (npy(np.zeros((0, 3))), "empty"),
    "cut.npy": (npy(np.zeros((100, 3)))[:-8], "truncated"),
    "billions.npy": (npy_header((BILLIONS, 3)) + b"\0" * 900, "5000000000"),
    "negative.npy": (npy_header((-4, -3)) + b"\0" * 96, "-4, -3"),
    "magic.npy": (b"\x93NUMPY", "NPY header"),
    "no_points.npz": (npz(a=npy(np.zeros((4, 3))), b=npy(np.zeros((4, 3)))), "no array `points` .*a, b"),
    "nothing.npz": (npz(), "nothing"),
    "cut.npz": (npz(points=npy(np.zeros((100, 3))))[:-30], "unpacked"),
    "object.npz": (npz(points=npy(np.array([[1, "a", None]], dtype=object), allow_pickle=True)), "object"),
    "normals.npz": (npz(points=npy(np.ones((4, 3))), normals=npy(np.ones((3, 3)))), "normals of shape"),
    "bomb.npz": (npz(zipfile.ZIP_BZIP2, points=npy(np.zeros((10**6, 3)))), "NumPy does not write"),
    "lying.npz": (lying(), "declares an array"),
    "billions.npz": (npz(points=npy_header((BILLIONS, 3)) + b"\0" * 900), "5000000000"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_gets_one_sentence_with_its_name(tmp_path, name):
    content, message = CASES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ReadError, match=message) as caught:
        read(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: ")
    assert len(sentence.removeprefix(str(path))) < 250
    assert sentence.isprintable()


def test_a_mesh_without_area_is_refused_when_it_is_sampled(tmp_path):
    path = tmp_path / "line.off"
    path.write_text("OFF\n3 1 0\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n")
    with pytest.raises(ReadError, match=f"^{path}: .*zero area"):
        read_cloud(path)


def test_all_points_equal_are_one_point_with_a_count(tmp_path):
    path = tmp_path / "same.xyz"
    path.write_text("0.1 0.2 0.3\n" * 50)
    cloud = read(path)
    assert isinstance(cloud, PointCloud)
    assert (len(cloud), cloud.duplicates) == (1, 49)


@pytest.mark.parametrize(("name", "message"), [("absent.off", "no such file"), ("", "is a directory")])
def test_paths_that_are_not_files_are_refused_by_name(tmp_path, name, message):
    with pytest.raises(ReadError, match=message) as caught:
        read(tmp_path / name)
    assert str(tmp_path) in str(caught.value)


def test_a_signalling_nan_is_dropped_without_a_warning(tmp_path):
    path = tmp_path / "scan.ply"
    signalling = struct.pack("<I", 0x7F800001)
    path.write_bytes(ply("element vertex 2", *XYZ, format=LITTLE, body=signalling * 3 + b"\0" * 12))
    assert as_cloud(read(path)).points.tolist() == [[0, 0, 0]]


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "a.off").symlink_to(tmp_path / "b.off")
    (tmp_path / "b.off").symlink_to(tmp_path / "a.off")
    with pytest.raises(ReadError, match=r"a\.off: cannot be opened \(too many levels of symbolic links\)"):
        read(tmp_path / "a.off")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.off")
    with pytest.raises(ReadError, match="a device or a pipe"):
        read(tmp_path / "pipe.off")


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "locked.off"
    path.write_text("OFF")
    monkeypatch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    with pytest.raises(ReadError, match="permission denied"):
        read(path)


def test_headers_of_billions_allocate_nothing(tmp_path):
    """All of the cases in a process that may take no more than 500 MB on top of what it has after its imports."""
    for name, (content, _) in CASES.items():
        (tmp_path / name).write_bytes(content)
    script = """
import resource, sys
from pathlib import Path
from qecnet.formats import ReadError, read
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 500 * 2**20,) * 2)
for path in Path(sys.argv[1]).iterdir():
    try:
        read(path)
    except ReadError:
        continue
    raise SystemExit(f"{path} was read")
"""
    if not Path("/proc/self/statm").exists() or not hasattr(resource, "RLIMIT_AS"):
        pytest.skip("needs Linux to bound a process's memory")
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
