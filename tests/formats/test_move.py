"""A file that is moved: points and normals are where they should be, and everything else is as it was."""

import io
import re

import lzf
import numpy as np
import pytest
import torch
from tests.kinds import as_mesh

from qecnet.algebra import random_quaternion, to_matrix
from qecnet.datasets import make_shape
from qecnet.formats import Motion, move_file, read, write
from qecnet.formats.move import move_bytes
from qecnet.geometry import PointCloud

MOTION = Motion(
    to_matrix(random_quaternion((), generator=4, dtype=torch.float64)).numpy(),
    np.array([3.0, -2.0, 0.5]),
    np.array([0.2, 0.1, -0.4]),
)

NOTHING = Motion(np.eye(3), np.zeros(3), np.zeros(3))
BACK = Motion(MOTION.rotation.T, -MOTION.translation, MOTION.about + MOTION.translation)
POINTS = np.random.default_rng(0).normal(size=(30, 3))
NORMALS = POINTS[::-1] / np.linalg.norm(POINTS[::-1], axis=1, keepdims=True)


def lines(table, separator=" ") -> str:
    return "".join(separator.join(repr(float(v)) for v in row) + "\n" for row in table)


def pcd(kind: str) -> bytes:
    row = np.dtype(
        [
            ("rgb", "<u4"),
            ("x", "<f4"),
            ("y", "<f4"),
            ("pad", "<u1", 3),
            ("z", "<f4"),
            *((f"normal_{axis}", "<f4") for axis in "xyz"),
        ]
    )
    table, names = np.zeros(30, row), row.names or ()
    table["rgb"], table["pad"] = np.arange(30), 7
    for place, axis in enumerate("xyz"):
        table[axis], table[f"normal_{axis}"] = POINTS[:, place], NORMALS[:, place]
    header = (
        "VERSION 0.7\nFIELDS rgb x y pad z normal_x normal_y normal_z\nSIZE 4 4 4 1 4 4 4 4\n"
        f"TYPE U F F U F F F F\nCOUNT 1 1 1 3 1 1 1 1\nWIDTH 30\nHEIGHT 1\nPOINTS 30\nDATA {kind}\n"
    ).encode()
    if kind == "ascii":
        words = ([v for name in names for v in np.atleast_1d(line[name])] for line in table)
        return header + "".join(" ".join(map(str, line)) + "\n" for line in words).encode()
    if kind == "binary":
        return header + table.tobytes() + b"behind"
    raw = b"".join(np.ascontiguousarray(table[name]).tobytes() for name in names)
    packed = lzf.compress(raw, 2 * len(raw))
    return header + len(packed).to_bytes(4, "little") + len(raw).to_bytes(4, "little") + packed


def ply(kind: str, number: str = "double") -> bytes:
    order = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "<"}[kind]
    names = ["x", "red", "y", "z", "nx", "ny", "nz"]
    header = (
        f"ply\nformat {kind} 1.0\ncomment made by hand\nelement before 2\nproperty list uchar int things\n"
        "element vertex 30\n"
        + "".join(f"property {'uchar' if name == 'red' else number} {name}\n" for name in names)
        + "element face 2\nproperty list uchar int vertex_indices\nproperty float quality\nend_header\n"
    )
    table = np.zeros(
        30, [(name, "u1" if name == "red" else order + {"double": "f8", "float": "f4"}[number]) for name in names]
    )
    for place, axis in enumerate("xyz"):
        table[axis], table[f"n{axis}"] = POINTS[:, place], NORMALS[:, place]
    table["red"] = np.arange(30)
    if kind == "ascii":
        body = "2 5 6\n0\n" + "".join(" ".join(map(str, row)) + "\n" for row in table.tolist())
        return (header + body + "3 0 1 2 0.5\n4 3 4 5 6 0.25\n").encode()
    u, i, f = np.dtype("u1"), np.dtype(order + "i4"), np.dtype(order + "f4")
    before = u.type(2).tobytes() + np.array([5, 6], i).tobytes() + u.type(0).tobytes()
    faces = b"".join(
        u.type(len(at)).tobytes() + np.array(at, i).tobytes() + np.array([q], f).tobytes()
        for at, q in (([0, 1, 2], 0.5), ([3, 4, 5, 6], 0.25))
    )
    return header.encode() + before + table.tobytes() + faces


def stl(kind: str) -> bytes:
    corners = POINTS.reshape(-1, 3, 3)
    normals = NORMALS[: len(corners)]
    if kind == "ascii":
        return (
            "solid of mine\n"
            + "".join(
                f"facet normal {lines([n])}outer loop\n"
                + "".join(f"  VERTEX {lines([c])}" for c in three)
                + "endloop\nendfacet\n"
                for n, three in zip(normals, corners, strict=True)
            )
            + "endsolid of mine\n"
        ).encode()
    table = np.zeros(len(corners), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    table["normal"], table["corners"], table["attribute"] = normals, corners, 9
    return b"colours".ljust(80) + len(corners).to_bytes(4, "little") + table.tobytes()


def saved(save, *arrays, **named) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


FACES = "".join(f"3 {3 * n} {3 * n + 1} {3 * n + 2}\n" for n in range(10))
OBJ = (
    "mtllib paint.mtl\n# v 1 2 3\no thing\n"
    + "".join(f"v {line} 0.5 0.25 1.0 # red\n" for line in lines(POINTS).splitlines())
    + "vt 0.5 0.5\n"
    + "".join(f"vn {line}\n" for line in lines(NORMALS).splitlines())
    + "usemtl red\nf 1/1/1 2/1/2 3/1/3\nf -1 -2 -3\n"
)
BOTH = np.hstack([POINTS, NORMALS])
FILES = {
    "plain.off": f"OFF\n# mine\n30 10 0\n{lines(POINTS)}{FACES}".encode(),
    "glued.off": f"OFF30 10 0\n{lines(POINTS)}{FACES}".encode(),
    "flowing.off": ("OFF 30 10 0 " + (lines(POINTS) + FACES).replace("\n", " ")).encode(),
    "colours.off": (
        "COFF\n30 2 0\n"
        + "".join(f"{line} 255 0 0 255\n" for line in lines(POINTS).splitlines())
        + "3 0 1 2 0.1 0.2 0.3\n4 3 4 5 6\n"
    ).encode(),
    "normals.off": f"NOFF\n30 10 0\n{lines(BOTH)}{FACES}".encode(),
    "mesh.obj": OBJ.encode(),
    "windows.obj": OBJ.replace("\n", "\r\n").encode(),
    "cloud.obj": re.sub("f .*\n", "", OBJ).encode(),
    "bare.obj": re.sub("vn .*\n", "", OBJ).replace("/1/1", "").replace("/1/2", "").replace("/1/3", "").encode(),
    **{f"{kind}.ply": ply(kind) for kind in ("ascii", "binary_little_endian", "binary_big_endian")},
    **{f"{kind}.stl": stl(kind) for kind in ("ascii", "binary")},
    **{f"{kind}.pcd": pcd(kind) for kind in ("ascii", "binary", "binary_compressed")},
    "three.xyz": lines(POINTS).encode(),
    "normals.xyz": ("# x y z and normals\n" + lines(BOTH)).encode(),
    "colours.txt": lines(np.hstack([POINTS, np.full((30, 3), 200)])).encode(),
    "counted.txt": ("30\n" + lines(POINTS)).encode(),
    "named.csv": ("red,x,y,z,nx,ny,nz\n" + "".join(f"9,{line}\n" for line in lines(BOTH, ",").splitlines())).encode(),
    "semicolons.csv": lines(POINTS, ";").encode(),
    "three.npy": saved(np.save, POINTS),
    "columns.npy": saved(np.save, np.asfortranarray(BOTH.astype(np.float32))),
    "whole.npy": saved(np.save, np.arange(30).reshape(10, 3)),
    "named.npz": saved(np.savez_compressed, points=POINTS, normals=NORMALS.astype(np.float32), label=np.array(3)),
    "single.npz": saved(np.savez, BOTH),
}


def shape_in(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    shape = read(tmp_path / name)
    if isinstance(shape, PointCloud):
        return shape.points.numpy(), None if shape.normals is None else shape.normals.numpy(), None
    return shape.vertices.numpy(), None, shape.faces.numpy()


@pytest.mark.parametrize("name", FILES)
def test_points_and_normals_move_and_faces_stay(name, tmp_path):
    before, after = FILES[name], move_bytes(FILES[name], "." + name.split(".")[1], MOTION)
    points, normals, faces = shape_in(name, before, tmp_path)
    moved, turned, same = shape_in(name, after, tmp_path)
    assert np.allclose(moved, MOTION.points(points), atol=2e-6)
    assert (normals is None) == (turned is None)
    if normals is not None:
        assert np.allclose(turned, MOTION.directions(normals), atol=2e-6)
    assert (faces is None) == (same is None)
    assert faces is None or (faces == same).all()


FAR = Motion(MOTION.rotation, np.array([500_000.0, 5_600_000.0, 300.0]), np.zeros(3))
SINGLE = {
    **{f"{kind}.ply": ply(kind, "float") for kind in ("ascii", "binary_little_endian", "binary_big_endian")},
    **{f"{kind}.pcd": pcd(kind) for kind in ("ascii", "binary", "binary_compressed")},
    "columns.npy": FILES["columns.npy"],
    "single.npz": saved(np.savez_compressed, points=POINTS.astype(np.float32), label=np.array(3)),
    "short.xyz": ("1e-5 0 0\n" + "".join(" ".join(f"{v:.3g}" for v in row) + "\n" for row in POINTS)).encode(),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_shape_keeps_its_detail_far_from_the_origin(name, tmp_path):
    suffix = "." + name.split(".")[1]
    before, after = SINGLE[name], move_bytes(SINGLE[name], suffix, FAR)
    points, normals, faces = shape_in(name, before, tmp_path)
    moved, turned, same = shape_in(name, after, tmp_path)
    assert np.allclose(moved, FAR.points(points), rtol=0, atol=1e-5)
    assert faces is None or (faces == same).all()
    assert normals is None or np.allclose(turned, FAR.directions(normals), atol=1e-6)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_doubles_are_kept_even_if_too_coarse(kind):
    """Farther than any unit of length makes sense of; the file is still written."""
    farther = Motion(MOTION.rotation, np.full(3, 5e12), np.zeros(3))
    moved = move_bytes(ply("binary_little_endian", kind), ".ply", farther)
    assert all(b"property double %s\n" % axis in moved for axis in (b"x", b"y", b"z"))


def test_last_of_several_viewpoints_is_moved():
    before = pcd("ascii").replace(b"POINTS", b"VIEWPOINT 9 9 9 1 0 0 0\nVIEWPOINT 1 2 3 1 0 0 0\nPOINTS", 1)
    lines = [line for line in move_bytes(before, ".pcd", MOTION).splitlines() if line.startswith(b"VIEWPOINT")]
    assert np.allclose([float(word) for word in lines[-1].split()[1:4]], MOTION.points(np.array([[1.0, 2.0, 3.0]]))[0])


def test_only_coordinates_become_doubles():
    for kind in ("ascii", "binary_big_endian"):
        before, after = ply(kind, "float"), move_bytes(ply(kind, "float"), ".ply", FAR)
        start = before.index(b"end_header")
        wide = re.sub(rb"float (?=[xyz]\n)", b"double ", before[:start])
        assert after.startswith(wide + b"end_header")
        assert after.endswith(before[-20:])
    for kind in ("ascii", "binary", "binary_compressed"):
        before, after = pcd(kind), move_bytes(pcd(kind), ".pcd", FAR)
        header = before.split(b"DATA")[0].replace(b"SIZE 4 4 4 1 4 4 4 4", b"SIZE 4 8 8 1 8 4 4 4")
        assert after.startswith(header + b"DATA")
    table = move_bytes(pcd("binary"), ".pcd", FAR).removesuffix(b"behind")[-30 * 43 :]
    assert [int.from_bytes(table[43 * row :][:4], "little") for row in range(30)] == [*range(30)]
    assert {table[43 * row :][20:23] for row in range(30)} == {b"\7\7\7"}


def test_type_is_kept_if_it_was_as_coarse_before(tmp_path):
    far = saved(np.save, FAR.points(POINTS).astype(np.float32))
    about = Motion(MOTION.rotation, np.zeros(3), FAR.translation)
    assert np.load(io.BytesIO(move_bytes(far, ".npy", about))).dtype == np.float32
    (tmp_path / "a.stl").write_bytes(FILES["binary.stl"])
    move_file(tmp_path / "a.stl", tmp_path / "b.stl", MOTION)


@pytest.mark.parametrize(
    ("source", "target"), [("binary.stl", "b.stl"), ("plain.off", "b.stl"), ("plain.off", "b.glb")]
)
def test_a_format_without_doubles_is_refused_far_from_the_origin(source, target, tmp_path):
    pytest.importorskip("trimesh")
    (tmp_path / source).write_bytes(FILES[source])
    with pytest.raises(ValueError, match=r"stores coordinates as float32, .*; write it as PLY or OBJ$"):
        move_file(tmp_path / source, tmp_path / target, FAR)
    assert not (tmp_path / target).exists()
    move_file(tmp_path / source, tmp_path / "b.ply", FAR)
    moved, there = as_mesh(read(tmp_path / "b.ply")), as_mesh(read(tmp_path / source))
    assert np.allclose(moved.vertices.numpy(), FAR.points(there.vertices.numpy()), rtol=0, atol=1e-6)


def numbers_of(data: bytes) -> list[float]:
    return [float(word) for word in re.findall(rb"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", data)]


@pytest.mark.parametrize("name", FILES)
def test_no_motion_changes_nothing(name):
    before, after = FILES[name], move_bytes(FILES[name], "." + name.split(".")[1], NOTHING)
    if name in ("whole.npy", "binary_compressed.pcd") or name.endswith(".npz"):
        return
    if b"\0" in before:
        assert after == before
    else:
        assert numbers_of(after) == numbers_of(before)
        bare = [re.sub(rb"[-+0-9.e]+", b"0", data) for data in (before, after)]
        assert bare[0] == bare[1]


@pytest.mark.parametrize("name", ["mesh.obj", "ascii.ply", "ascii.stl", "normals.off"])
def test_normals_of_meshes_are_rotated(name):
    after = move_bytes(FILES[name], "." + name.split(".")[1], MOTION)
    there = np.array(numbers_of(after))
    turned = MOTION.directions(NORMALS[0])
    assert min(np.abs(there - value).min() for value in turned) < 1e-12
    assert max(np.abs(there - value).min() for value in turned) < 1e-12


@pytest.mark.parametrize("name", ["three.xyz", "three.npy", "plain.off"])
def test_a_motion_and_its_inverse_restore_the_points(name, tmp_path):
    suffix = "." + name.split(".")[1]
    back = move_bytes(move_bytes(FILES[name], suffix, MOTION), suffix, BACK)
    assert np.allclose(shape_in(name, back, tmp_path)[0], POINTS, atol=1e-12)


def test_other_arrays_and_columns_are_kept():
    after = np.load(io.BytesIO(move_bytes(FILES["named.npz"], ".npz", MOTION)))
    assert after["label"] == 3
    assert after["points"].dtype == np.float64
    assert after["normals"].dtype == np.float32
    assert np.load(io.BytesIO(move_bytes(FILES["columns.npy"], ".npy", MOTION))).dtype == np.float32


@pytest.mark.filterwarnings("error")
def test_rows_that_are_not_finite_stay_as_they_are():
    rows = BOTH.copy()
    rows[3:6, :3] = [[np.nan, 1, 2], [np.inf, 1, 2], [-np.inf, np.inf, 2]]
    rows[7, 3:] = np.nan
    after = np.load(io.BytesIO(move_bytes(saved(np.save, rows), ".npy", MOTION)))
    assert np.array_equal(after[3:6, :3], rows[3:6, :3], equal_nan=True)
    assert np.isnan(after[7, 3:]).all()
    assert np.allclose(after[6:, :3], MOTION.points(POINTS[6:]))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("viewpoint", ["VIEWPOINT 1 2 3 1 0 0 0\n", ""])
def test_viewpoint_is_moved_and_keeps_its_place_in_the_header(ending, viewpoint):
    header = pcd("ascii").decode().split("DATA")[0].replace("WIDTH 30\nHEIGHT 1\n", f"WIDTH 15\nHEIGHT 2\n{viewpoint}")
    body = "DATA" + pcd("ascii").decode().split("DATA")[1]
    after = move_bytes((header + body).replace("\n", ending).encode(), ".pcd", BACK).decode()
    lines_after = after.split("DATA")[0].split(ending)
    assert [line.split()[0] for line in lines_after if line] == (
        ["VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS"]
    )
    assert after.count("\n") == after.count(ending)
    camera = [float(word) for word in lines_after[7].split()[1:4]]
    assert np.allclose(camera, BACK.points(np.array([[1, 2, 3] if viewpoint else [0, 0, 0]], np.float64))[0])


def test_integer_coordinates_in_a_binary_file_cannot_be_moved():
    header = b"ply\nformat binary_little_endian 1.0\nelement vertex 9\n"
    header += b"".join(f"property int {axis}\n".encode() for axis in "xyz") + b"end_header\n"
    with pytest.raises(ValueError, match="stores its coordinates as integers"):
        move_bytes(header + np.arange(27, dtype="<i4").tobytes(), ".ply", MOTION)


def test_materials_and_images_are_copied(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "pictures").mkdir(parents=True)
    target.mkdir()
    (source / "thing.obj").write_bytes(FILES["mesh.obj"])
    (source / "paint.mtl").write_text("newmtl red\nmap_Kd -s 1 1 1 pictures/red.png\nbump ../outside.png\n")
    (source / "pictures" / "red.png").write_bytes(b"red")
    (tmp_path / "outside.png").write_bytes(b"not ours")
    move_file(source / "thing.obj", target / "moved.obj", MOTION)
    names = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert names == ["moved.obj", "paint.mtl", "pictures/red.png"]
    assert b"usemtl red" in (target / "moved.obj").read_bytes()


def test_unreadable_file_is_not_written(tmp_path):
    (tmp_path / "bad.off").write_text("OFF\n3 1 0\n0 0 0\n")
    with pytest.raises(ValueError, match=rf"^{tmp_path}/bad\.off: declares"):
        move_file(tmp_path / "bad.off", tmp_path / "out.off", MOTION)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.off"]


@pytest.mark.parametrize("suffix", [".off", ".ply"])
def test_real_shapes_move(suffix, tmp_path):
    mesh = make_shape("toilet", 1)
    write(tmp_path / f"a{suffix}", mesh)
    move_file(tmp_path / f"a{suffix}", tmp_path / f"b{suffix}", MOTION)
    moved = as_mesh(read(tmp_path / f"b{suffix}"))
    assert np.allclose(moved.vertices.numpy(), MOTION.points(mesh.vertices.numpy()), atol=1e-9)
    assert torch.equal(moved.faces, mesh.faces)
