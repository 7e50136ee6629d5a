"""Readers against files that other programs wrote, and against cases made by hand."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud, as_mesh, present

from qecnet.formats import Motion, move_file, read, read_cloud, write
from qecnet.geometry import Mesh

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pypcd4 = pytest.importorskip("pypcd4")
    trimesh = pytest.importorskip("trimesh")

SHARED = Path(os.environ.get("QECNET_SHARED", Path(__file__).parents[3] / "shared"))
RNG = np.random.default_rng(0)


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is absent; set QECNET_SHARED to the folder with the shared data")
    return path


def save(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def triangles(mesh: Mesh) -> np.ndarray:
    return mesh.vertices[mesh.faces].numpy()


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        ("off", {}),
        ("obj", {}),
        ("ply", {"encoding": "ascii"}),
        ("ply", {"encoding": "binary"}),
        ("stl", {"file_type": "stl"}),
        ("stl", {"file_type": "stl_ascii"}),
    ],
)
@pytest.mark.parametrize("lie", ["", ".xyz", ".ply", ".dat"])
def test_meshes_written_by_trimesh(tmp_path, suffix, options, lie):
    theirs = trimesh.creation.annulus(1.0, 2.0, 3.0)
    path = tmp_path / f"shape.{suffix}"
    theirs.export(path, **options)
    path = path.rename(f"{path}{lie}")
    ours = read(path)
    assert isinstance(ours, Mesh)
    assert ours.name == path.name
    np.testing.assert_allclose(triangles(ours), theirs.triangles, atol=1e-6)


def test_a_scene_of_several_parts_is_one_shape(tmp_path):
    parts = [trimesh.creation.box(), trimesh.creation.icosphere(subdivisions=1).apply_translation([3, 0, 0])]
    path = tmp_path / "scene.obj"
    trimesh.Scene(parts).export(path)
    assert path.read_text().count("\no ") == 2
    ours = as_mesh(read(path))
    assert len(ours.faces) == sum(len(part.faces) for part in parts)
    assert trimesh.Trimesh(ours.vertices.numpy(), ours.faces.numpy()).area == pytest.approx(
        sum(part.area for part in parts), rel=1e-6
    )


def test_every_modelnet_mesh_is_what_trimesh_reads():
    paths = sorted(shared("modelnet/meshes").rglob("*.off"))
    assert paths
    for path in paths:
        ours, theirs = as_mesh(read(path)), trimesh.load_mesh(path, process=False)
        np.testing.assert_array_equal(ours.vertices.numpy(), theirs.vertices)
        np.testing.assert_array_equal(ours.faces.numpy(), theirs.faces)


@pytest.mark.parametrize("encoding", [pypcd4.Encoding(name) for name in ("ascii", "binary", "binary_compressed")])
def test_clouds_written_by_pypcd4(tmp_path, encoding):
    rows = RNG.normal(size=(300, 5)).astype(np.float32)
    path = tmp_path / "scan.pcd"
    cloud = pypcd4.PointCloud.from_points(rows, ("intensity", "x", "y", "ring", "z"), [np.float32] * 5)
    cloud.save(path, encoding=encoding)
    np.testing.assert_allclose(as_cloud(read(path)).points.numpy(), rows[:, [1, 2, 4]], rtol=1e-6)


def test_pcl_bunny_has_its_points_and_normals():
    ours, theirs = as_cloud(read(shared("goldens/bun0.pcd"))), pypcd4.PointCloud.from_path(shared("goldens/bun0.pcd"))
    np.testing.assert_allclose(ours.points.numpy(), theirs.numpy(("x", "y", "z")), rtol=1e-6)
    fields = ("normal_x", "normal_y", "normal_z")
    np.testing.assert_allclose(present(ours.normals).numpy(), theirs.numpy(fields), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_a_ply_cloud_written_by_trimesh(tmp_path, encoding):
    points = RNG.normal(size=(50, 3))
    path = tmp_path / "scan.ply"
    path.write_bytes(trimesh.exchange.ply.export_ply(trimesh.PointCloud(points), encoding=encoding))
    np.testing.assert_allclose(as_cloud(read(path)).points.numpy(), points, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"delimiter": ","}, {"delimiter": ";"}, {"fmt": "%.3f"}, {"newline": "\r\n"}])
@pytest.mark.parametrize("header", ["", "x y z"])
def test_text_written_by_numpy(tmp_path, options, header):
    points = RNG.normal(size=(50, 3)).round(3)
    path = tmp_path / "scan.xyz"
    np.savetxt(path, points, header=header, comments="" if options.get("delimiter") is None else "# ", **options)
    np.testing.assert_array_equal(as_cloud(read(path)).points.numpy(), points)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f8", np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_saved_by_numpy(tmp_path, dtype, order):
    points = np.asarray((100 * RNG.normal(size=(50, 3))).astype(dtype), order=order)
    np.save(tmp_path / "a.npy", points)
    np.savez_compressed(tmp_path / "b.npz", points=points, label=3)
    np.savez(tmp_path / "c.npz", points)
    for name in ("a.npy", "b.npz", "c.npz"):
        np.testing.assert_array_equal(as_cloud(read(tmp_path / name)).points.numpy(), points.astype(np.float64))


SQUARE = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
OFFS = {
    "plain": f"OFF\n4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n",
    "lower case": f"off\n4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n",
    "all on one line": f"OFF 4 2 0 {SQUARE}3 0 1 2 3 0 2 3".replace("\n", " "),
    "glued": f"OFF4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n",
    "one line": f"OFF 4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n",
    "no edges": f"OFF\n4 2\n{SQUARE}3 0 1 2\n3 0 2 3",
    "comments": f"# by hand\nOFF # header\n# sizes\n4 2 0\n\n{SQUARE}# faces\n3 0 1 2 # first\n3 0 2 3\n",
    "windows": f"OFF\n4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n".replace("\n", "\r\n"),
    "old mac": f"OFF\n4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n".replace("\n", "\r"),
    "byte order mark": f"\ufeffOFF\n4 2 0\n{SQUARE}3 0 1 2\n3 0 2 3\n",
    "polygon": f"OFF\n4 1 0\n{SQUARE}4 0 1 2 3\n",
    "mixed": f"OFF\n4 3 0\n{SQUARE}3 0 1 2\n2 0 1\n3 0 2 3\n",
    "face colours": f"OFF\n4 2 0\n{SQUARE}3 0 1 2 255 0 0\n3 0 2 3 0.5 0.5 0.5 1\n",
    "COFF": "COFF\n4 1 0\n" + SQUARE.replace("\n", " 255 0 0 255\n") + "4 0 1 2 3\n",
    "NOFF": "NOFF\n4 1 0\n" + SQUARE.replace("\n", " 0 0 1\n") + "4 0 1 2 3\n",
}
OBJS = {
    "plain": "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n",
    "polygon": "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n",
    "negative": "v 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 -1\nv 0 1 0\nf -4 -2 -1\n",
    "texture": "s 1\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvn 0 0 1\nf 1/1/1 2/1/1 3/1/1\nf 1//1 3//1 4//1\n",
    "colours": "# c\no a\nv 0 0 0 1 0 0\nv 1 0 0 1 0 0\nv 1 1 0\nv 0 1 0 1\ng b\nf 1/1 2/1 3/1\ns off\nf 1/1 3/1 4/1\n",
    "continued": "v 0 0 0\nv 1 0 \\\n0\nv 1 1 0\nv 0 1 0\nf 1 2 \\\r\n3\nf 1 3 4\n",
}


@pytest.mark.parametrize("suffix", [".off", ".obj", ".txt", ""])
@pytest.mark.parametrize("text", [*OFFS.values(), *OBJS.values()], ids=[*OFFS, *(f"OBJ {k}" for k in OBJS)])
def test_square_is_two_triangles_in_every_notation(tmp_path, text, suffix):
    mesh = as_mesh(read(save(tmp_path / f"square{suffix}", text)))
    expected = [[[0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 0], [0, 1, 0]]]
    np.testing.assert_array_equal(triangles(mesh), expected)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_binary_ply_with_all_that_the_format_allows(tmp_path, order):
    name = {"<": "little", ">": "big"}[order]
    header = f"""ply
format binary_{name}_endian 1.0
comment element vertex 9
obj_info nothing
element camera 2
property list uchar float matrix
property double focus
element vertex 5
property uchar red
property double x
property float y
property short z
element face 3
property uchar flags
property list ushort uint vertex_indices
property list uchar float texcoord
element edge 99
property int vertex1
end_header
"""
    vertices = np.zeros(5, f"u1,{order}f8,{order}f4,{order}i2")
    vertices["f1"], vertices["f2"], vertices["f3"] = [0, 1, 1, 0, 0.5], [0, 0, 1, 1, 2], [0, 0, 0, 0, 7]
    body = np.array([1], "u1").tobytes() + np.zeros(1, f"{order}f4,{order}f8").tobytes()
    body += np.array([0], "u1").tobytes() + np.zeros(1, f"{order}f8").tobytes() + vertices.tobytes()
    for corners in ([0, 1, 2, 3], [3, 2, 4], [0, 1]):
        body += b"\x01" + np.array([len(corners)], f"{order}u2").tobytes() + np.array(corners, f"{order}u4").tobytes()
        body += b"\x02" + np.zeros(2, f"{order}f4").tobytes()
    mesh = as_mesh(read(save(tmp_path / "shape.ply", header.encode() + body)))
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [3, 2, 4]]
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 2, 7]]


def test_a_pcd_with_padding_counts_and_rows_of_nan(tmp_path):
    header = "VERSION 0.7\nFIELDS _ x y z _ h\nSIZE 1 4 4 4 1 4\nTYPE U F F F U F\nCOUNT 3 1 1 1 1 2\n"
    header += "WIDTH 2\nHEIGHT 3\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 6\nDATA binary\n"
    table = np.zeros(6, [("a", "u1", 3), ("p", "<f4", 3), ("b", "u1"), ("h", "<f4", 2)])
    table["p"] = np.arange(18).reshape(6, 3)
    table["p"][[1, 4], 0] = np.nan
    cloud = as_cloud(read(save(tmp_path / "organised.pcd", header.encode() + table.tobytes())))
    np.testing.assert_array_equal(cloud.points.numpy(), table["p"][[0, 2, 3, 5]])
    assert cloud.non_finite == 2


@pytest.mark.parametrize(
    ("size", "viewpoint", "place"),
    [
        ("WIDTH 6\nHEIGHT 1", "VIEWPOINT 0 0 0 1 0 0 0", None),
        ("WIDTH 6\nHEIGHT 1", "VIEWPOINT 0 0 1.5 1 0 0 0", [0, 0, 1.5]),
        ("WIDTH 2\nHEIGHT 3", "VIEWPOINT 0 0 0 1 0 0 0", [0, 0, 0]),
        ("WIDTH 2\nHEIGHT 3", "VERSION .7", [0, 0, 0]),
        ("WIDTH 6", "VIEWPOINT 1 2", None),
        ("WIDTH 6", "VIEWPOINT 1 2 nan 1 0 0 0", None),
        ("WIDTH 6", "VIEWPOINT a b c 1 0 0 0", None),
    ],
)
def test_the_viewpoint_of_a_pcd_is_read_and_moved(tmp_path, size, viewpoint, place):
    header = (
        f"VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\n{size}\n{viewpoint}\nPOINTS 6\nDATA ascii\n"
    )
    body = "".join(f"{i} {i * i} {i % 2}\n" for i in range(6))
    file = save(tmp_path / "scan.pcd", header + body)
    found = as_cloud(read(file)).viewpoint
    assert (None if found is None else found.tolist()) == place
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    motion = Motion(turn, np.array([10.0, 0, 0]), np.zeros(3))
    move_file(file, tmp_path / "moved.pcd", motion)
    move_file(file, tmp_path / "moved.npy", motion)
    moved = as_cloud(read(tmp_path / "moved.pcd"))
    np.testing.assert_allclose(moved.points, motion.points(as_cloud(read(file)).points.numpy()))
    if place is None:
        assert moved.viewpoint is None
    else:
        np.testing.assert_allclose(present(moved.viewpoint), motion.points(np.array([place]))[0], atol=1e-12)
        write(tmp_path / "written.pcd", moved)
        written = as_cloud(read(tmp_path / "written.pcd"))
        np.testing.assert_allclose(present(written.viewpoint), present(moved.viewpoint))


@pytest.mark.parametrize(
    "text",
    [
        "1 2 3\n4 5 6\n",
        "# x y z\n1,2,3\n4,5,6",
        "x,y,z\n1,2,3\n4,5,6\n",
        "//X Y Z\n1 2 3\n4 5 6\n",
        '"id","z","x","y"\n0,3,1,2\n1,6,4,5\n',
        "2\n1 2 3\n4 5 6\n",
        "1\t2\t3\r\n4\t5\t6\r\n",
        "1, 2, 3\n4 ,5 ,6\n",
        "1 2 3\r4 5 6\r",
        "1 2 3 255 0 0\n4 5 6 0 128 0\n",
        "1;2;3\n\n4;5;6\n\n",
        "1 2 3\n1 2 3\n4 5 6\n4 5 nan\n",
    ],
)
@pytest.mark.parametrize("suffix", [".xyz", ".csv", ".off", ""])
def test_two_points_in_every_notation(tmp_path, text, suffix):
    cloud = as_cloud(read(save(tmp_path / f"cloud{suffix}", text)))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert cloud.normals is None


@pytest.mark.parametrize("text", ["1 2 3 0 0 1\n4 5 6 0 0.6 0.8\n", "nx ny nz x y z\n0 0 1 1 2 3\n0 0.6 0.8 4 5 6\n"])
def test_unit_or_named_columns_are_normals(tmp_path, text):
    cloud = as_cloud(read(save(tmp_path / "cloud.txt", text)))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert present(cloud.normals).tolist() == [[0, 0, 1], [0, 0.6, 0.8]]


@pytest.mark.parametrize(
    "text",
    [
        "v 1 2 3\nvn 0 0 1\nv 4 5 6\nvn 0 0.6 0.8\n",
        "NOFF\n2 0 0\n1 2 3 0 0 1\n4 5 6 0 0.6 0.8\n",
        "ply\nformat ascii 1.0\nelement vertex 2\n"
        + "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
        + "end_header\n1 2 3 0 0 1\n4 5 6 0 0.6 0.8\n",
    ],
    ids=["OBJ", "NOFF", "PLY"],
)
def test_clouds_keep_the_normals_of_their_files(tmp_path, text):
    cloud = as_cloud(read(save(tmp_path / "cloud", text)))
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert present(cloud.normals).tolist() == [[0, 0, 1], [0, 0.6, 0.8]]


def test_a_binary_stl_may_begin_with_solid_and_end_with_more(tmp_path):
    plain = trimesh.creation.box().export(file_type="stl")
    ours = as_mesh(read(save(tmp_path / "box.stl", b"solid" + plain[5:] + b"\0\0")))
    np.testing.assert_array_equal(triangles(ours), triangles(as_mesh(read(save(tmp_path / "plain.stl", plain)))))


def test_a_ply_may_give_its_faces_first(tmp_path):
    header = "ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int vertex_indices\nelement vertex 3\n"
    header += "property float x\nproperty float y\nproperty float z\nend_header\n"
    mesh = as_mesh(read(save(tmp_path / "a.ply", header + "3 0 1 2\n0 0 0\n1 0 0\n0 1 0\n")))
    assert triangles(mesh).tolist() == [[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]


def test_comments_may_be_in_any_language(tmp_path):
    # Å in UTF-8 ends with the byte that Latin-1 takes for the end of a line.
    ply = "ply\nformat ascii 1.0\ncomment by \u00c5ke \u00c5\nelement vertex 1\n"
    ply += "property float x\nproperty float y\nproperty float z\nend_header\n1 2 3\n"
    pcd = "VERSION 0.7\n# by \u00c5FIELDS\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\n"
    pcd += "WIDTH 1\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 1\n# \u00c5POINTS 2\nDATA ascii\n1 2 3\n"
    for text in (ply, pcd):
        assert as_cloud(read(save(tmp_path / "scan", text))).points.tolist() == [[1, 2, 3]]


def test_points_and_normals_stay_together_when_some_are_dropped(tmp_path):
    cloud = as_cloud(
        read(save(tmp_path / "cloud.txt", "1 0 0 1 0 0\nnan 0 0 0 1 0\n2 0 0 0 0 1\n1 0 0 0 1 0\n3 0 0 nan 0 1\n"))
    )
    assert cloud.points[:, 0].tolist() == [1, 2, 3]
    assert present(cloud.normals).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert (cloud.non_finite, cloud.duplicates) == (1, 1)


@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_huge_and_tiny_coordinates_are_read_as_they_are(tmp_path, size):
    points = RNG.normal(size=(20, 3)) * size
    np.savetxt(tmp_path / "cloud.xyz", points, fmt="%.17g")
    np.testing.assert_array_equal(as_cloud(read(tmp_path / "cloud.xyz")).points.numpy(), points)


def test_read_cloud_samples_meshes_and_returns_clouds_unchanged(tmp_path):
    mesh = save(tmp_path / "square.off", OFFS["polygon"])
    cloud = read_cloud(mesh, 100)
    assert len(cloud) == 100
    assert cloud.name == "square.off"
    assert torch.equal(cloud.points, read_cloud(mesh, 100, generator=torch.Generator().manual_seed(0)).points)
    assert not torch.equal(cloud.points, read_cloud(mesh, 100, generator=1).points)
    assert len(read_cloud(save(tmp_path / "a.xyz", SQUARE), 100)) == 4
