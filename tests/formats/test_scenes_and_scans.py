"""glTF, GLB, 3MF, DAE, LAS and LAZ against the libraries that wrote them, and the sentence when these are missing."""

import base64
import json
import multiprocessing
import sys

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud, as_mesh, present

from qecnet.algebra import random_quaternion, to_matrix
from qecnet.formats import Motion, ReadError, move_file, read, write
from qecnet.geometry import Mesh, PointCloud

trimesh = pytest.importorskip("trimesh")
laspy = pytest.importorskip("laspy")

MOTION = Motion(
    to_matrix(random_quaternion((), generator=4, dtype=torch.float64)).numpy(),
    np.array([3.0, -2.0, 0.5]),
    np.array([0.2, 0.1, -0.4]),
)

DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset><up_axis>Y_UP</up_axis></asset>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array><technique_common>
<accessor source="#a" count="3" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><translate>0 0 5</translate><instance_geometry url="#g"/></node>
</visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>
"""


def scene():
    ball = trimesh.creation.icosphere(subdivisions=1).apply_translation([3, 0, 0])
    return trimesh.Scene([trimesh.creation.box(), ball])


def one_file_gltf(scene) -> bytes:
    files = scene.export(file_type="gltf")
    document = json.loads(files["model.gltf"])
    for buffer in document["buffers"]:
        data = base64.b64encode(files[buffer["uri"]]).decode()
        buffer["uri"] = f"data:application/octet-stream;base64,{data}"
    return json.dumps(document).encode()


def save(path, data):
    path.write_bytes(data)
    return path


def corners(mesh: Mesh) -> np.ndarray:
    return np.sort(mesh.vertices[mesh.faces].numpy().reshape(-1, 9), axis=0)


@pytest.mark.parametrize("name", ["a.glb", "a.gltf", "a.3mf", "a.dat"])
def test_all_meshes_of_a_scene_are_one_shape(tmp_path, name):
    data = one_file_gltf(scene()) if name == "a.gltf" else scene().export(file_type="3mf" if "3mf" in name else "glb")
    mesh = read(save(tmp_path / name, data))
    expected = scene().to_geometry()
    assert isinstance(mesh, Mesh)
    np.testing.assert_allclose(corners(mesh), np.sort(expected.triangles.reshape(-1, 9), axis=0), atol=1e-6)


def test_a_collada_file_is_read_in_the_coordinates_of_its_scene(tmp_path):
    pytest.importorskip("collada")
    mesh = as_mesh(read(save(tmp_path / "a.dae", DAE.encode())))
    assert mesh.vertices[mesh.faces].tolist() == [[[0, 0, 5], [1, 0, 5], [0, 1, 5]]]


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_gltf_moves_in_place(tmp_path, suffix):
    data = one_file_gltf(scene()) if suffix == ".gltf" else scene().export(file_type="glb")
    source, target = save(tmp_path / f"a{suffix}", data), tmp_path / f"b{suffix}"
    move_file(source, target, MOTION)
    before, after = as_mesh(read(source)), as_mesh(read(target))
    np.testing.assert_allclose(after.vertices.numpy(), MOTION.points(before.vertices.numpy()), atol=1e-6)
    assert torch.equal(before.faces, after.faces)


def test_a_format_that_is_only_read_is_converted(tmp_path):
    pytest.importorskip("collada")
    source = save(tmp_path / "a.dae", DAE.encode())
    move_file(source, tmp_path / "b.3mf", MOTION)
    moved = as_mesh(read(tmp_path / "b.3mf"))
    np.testing.assert_allclose(
        corners(moved), np.sort(MOTION.points(as_mesh(read(source)).vertices.numpy()).reshape(-1, 9), axis=0)
    )
    with pytest.raises(ValueError, match=r"b\.dae: a mesh cannot be written as \.dae"):
        move_file(source, tmp_path / "b.dae", MOTION)


def separate_gltf(folder, name):
    """A scene whose buffers are in `name`, as a glTF refers to it, and the bytes of that file."""
    files = trimesh.Scene([trimesh.creation.box()]).export(file_type="gltf")
    document = json.loads(files["model.gltf"])
    starts, data = [], b""
    for buffer in document["buffers"]:
        starts.append(len(data))
        data += files[buffer["uri"]]
    for view in document["bufferViews"]:
        view["byteOffset"] = view.get("byteOffset", 0) + starts[view["buffer"]]
        view["buffer"] = 0
    document["buffers"] = [{"uri": name, "byteLength": len(data)}]
    return save(folder / "a.gltf", json.dumps(document).encode()), data


@pytest.mark.parametrize("name", ["scene.bin", "parts/my%20scene.bin"])
def test_a_gltf_is_read_with_its_bin_file_and_moved_into_one_file(tmp_path, name):
    (tmp_path / "parts").mkdir()
    path, data = separate_gltf(tmp_path, name)
    save(tmp_path / name.replace("%20", " "), data)
    mesh = as_mesh(read(path))
    assert mesh.vertices.abs().amax() == 0.5
    (tmp_path / "out").mkdir()
    move_file(path, tmp_path / "out" / "b.gltf", MOTION)
    moved = as_mesh(read(tmp_path / "out" / "b.gltf"))
    np.testing.assert_allclose(moved.vertices.numpy(), MOTION.points(mesh.vertices.numpy()), atol=1e-6)


@pytest.mark.parametrize(
    "name", ["../secret.bin", "/etc/secret.bin", ".secret.bin", "secret.key", "link.bin", "absent.bin"]
)
def test_a_gltf_opens_no_other_files(tmp_path, name):
    (tmp_path / "in").mkdir()
    path, data = separate_gltf(tmp_path / "in", name)
    for other in ("secret.bin", "in/.secret.bin", "in/secret.key"):
        save(tmp_path / other, data)
    (tmp_path / "in" / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ReadError, match="keeps its data in another file"):
        read(path)


def test_a_bin_file_above_the_limit_is_not_opened(tmp_path, monkeypatch):
    path, data = separate_gltf(tmp_path, "scene.bin")
    save(tmp_path / "scene.bin", data.ljust(2 << 20, b"\0"))
    monkeypatch.setenv("QECNET_MAX_UNPACKED_MB", "1")
    with pytest.raises(ReadError, match=r"a\.gltf: unpacks to 2 MB"):
        read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"buffers": [{"uri": "../../secret.bin", "byteLength": 9}]}, "in another file"),
        (lambda d: d | {"accessors": [{"count": 10**12, "type": "VEC3", "componentType": 5126}]}, "declares 1,000,0"),
        (lambda d: d | {"accessors": 7}, "damaged list"),
        (lambda d: d | {"accessors": [{"count": float("inf")}]}, "damaged list"),
        (lambda d: d | {"meshes": []}, "damaged|holds no"),
    ],
)
def test_a_bad_gltf_is_refused(tmp_path, change, message):
    document = change(json.loads(one_file_gltf(scene())))
    with pytest.raises(ReadError, match=message):
        read(save(tmp_path / "a.gltf", json.dumps(document).encode()))


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_scans_are_written_read_and_moved(tmp_path, suffix):
    points = np.random.default_rng(0).normal(size=(500, 3)) * 30 + [500_000, 4_500_000, 100]
    write(tmp_path / f"a{suffix}", PointCloud(torch.from_numpy(points)))
    np.testing.assert_allclose(as_cloud(read(tmp_path / f"a{suffix}")).points.numpy(), points, atol=1e-5)
    move_file(tmp_path / f"a{suffix}", tmp_path / f"b{suffix}", MOTION)
    np.testing.assert_allclose(as_cloud(read(tmp_path / f"b{suffix}")).points.numpy(), MOTION.points(points), atol=1e-4)


def test_other_fields_of_a_scan_are_kept(tmp_path):
    file = laspy.LasData(laspy.LasHeader(point_format=3, version="1.2"))
    file.x, file.y, file.z = np.arange(30.0).reshape(3, 10)
    file.intensity = np.arange(10)
    file.write(tmp_path / "a.las")
    move_file(tmp_path / "a.las", tmp_path / "b.las", MOTION)
    assert laspy.read(tmp_path / "b.las").intensity.tolist() == list(range(10))


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_a_truncated_scan_is_refused(tmp_path, suffix):
    write(tmp_path / f"a{suffix}", PointCloud(torch.rand(500, 3, generator=torch.Generator().manual_seed(0))))
    data = (tmp_path / f"a{suffix}").read_bytes()
    with pytest.raises(ReadError, match=r"truncated|damaged"):
        read(save(tmp_path / f"cut{suffix}", data[: len(data) // 2]))


@pytest.mark.parametrize(("name", "library"), [("a.glb", "trimesh"), ("a.las", "laspy")])
def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch, name, library):
    if library == "trimesh":
        path = save(tmp_path / name, scene().export(file_type="glb"))
    else:
        path = tmp_path / name
        write(path, PointCloud(torch.eye(3)))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ReadError, match=rf"needs {library}, which cannot .*; pip install 'qecnet\[formats\]'"):
        read(path)


@pytest.mark.parametrize("columns", [4, 5, 6, 7])
def test_intensity_and_colour_behind_the_coordinates_are_left_out(tmp_path, columns):
    table = np.hstack([np.arange(30.0).reshape(10, 3), np.full((10, columns - 3), 200.0)])
    np.savetxt(tmp_path / "a.xyz", table, fmt="%g")
    np.save(tmp_path / "a.npy", table)
    for name in ("a.xyz", "a.npy"):
        cloud = as_cloud(read(tmp_path / name))
        assert cloud.points.tolist() == table[:, :3].tolist()
        assert cloud.normals is None


def test_normals_may_follow_an_intensity(tmp_path):
    save(tmp_path / "a.xyz", b"1 2 3 9 0 0 1\n4 5 6 7 0 0.6 0.8\n")
    assert present(as_cloud(read(tmp_path / "a.xyz")).normals).tolist() == [[0, 0, 1], [0, 0.6, 0.8]]


def test_quoted_numbers_are_numbers(tmp_path):
    path = save(tmp_path / "a.csv", b'"x","y","z"\n"1.5","2","3"\n"4","5","6"\n')
    assert as_cloud(read(path)).points.tolist() == [[1.5, 2, 3], [4, 5, 6]]
    move_file(path, tmp_path / "b.csv", Motion(np.eye(3), np.ones(3), np.zeros(3)))
    assert (tmp_path / "b.csv").read_bytes().startswith(b'"x","y","z"\n"2.5')
    with pytest.raises(ReadError, match="decimal comma"):
        read(save(tmp_path / "c.csv", b'"1,5","2,5","3,5"\n"1,5","2,5","3,5"\n'))


def test_text_keeps_its_digits(tmp_path):
    points = np.random.default_rng(0).uniform(-5, 5, (2000, 3)).round(6)
    np.savetxt(tmp_path / "a.xyz", points, fmt="%.6f")
    move_file(tmp_path / "a.xyz", tmp_path / "b.xyz", MOTION)
    sizes = [(tmp_path / name).stat().st_size for name in ("a.xyz", "b.xyz")]
    assert sizes[1] < 1.1 * sizes[0]
    np.testing.assert_allclose(np.loadtxt(tmp_path / "b.xyz"), MOTION.points(points), atol=6e-7)


def test_integers_in_text_get_the_digits_that_a_rotation_needs(tmp_path):
    points = np.array([[500_000, 4_500_000, 0], [500_010, 4_500_000, 3], [500_000, 4_500_007, 1]])
    np.savetxt(tmp_path / "a.xyz", points, fmt="%d")
    move_file(tmp_path / "a.xyz", tmp_path / "b.xyz", MOTION)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "b.xyz"), MOTION.points(points.astype(float)), atol=1e-4, rtol=0)


def test_chunks_larger_than_any_writer_makes_are_refused(tmp_path):
    path = tmp_path / "a.laz"
    write(path, PointCloud(torch.from_numpy(np.random.default_rng(0).normal(size=(50, 3)))))
    data = path.read_bytes()
    chunk = (50_000).to_bytes(4, "little")
    assert data.count(chunk) == 1
    path.write_bytes(data.replace(chunk, (0x0200C350).to_bytes(4, "little")))
    with pytest.raises(ReadError, match="compressed chunks of 33,604,432 points each"):
        read(path)


@pytest.mark.parametrize(
    ("suffix", "place", "sentence"), [(".las", 100, "declares .* records"), (".laz", None, "compressed chunks")]
)
def test_counts_that_a_scan_has_no_room_for_are_refused_at_once(tmp_path, suffix, place, sentence):
    path = tmp_path / f"a{suffix}"
    write(path, PointCloud(torch.from_numpy(np.random.default_rng(0).normal(size=(50, 3)))))
    data = bytearray(path.read_bytes())
    if place is None:
        points = int.from_bytes(data[96:100], "little")
        place = int.from_bytes(data[points : points + 8], "little") + 4
    data[place : place + 4] = (2_000_000_000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ReadError, match=sentence):
        read(path)


@pytest.mark.parametrize(("place", "value"), [(-8, 0), (-4, 4)], ids=["no items", "smaller items"])
def test_a_damaged_laz_prints_nothing_but_the_error(tmp_path, capfd, place, value):
    """The decoder panics on both, and would print a backtrace."""
    path = tmp_path / "a.laz"
    write(path, PointCloud(torch.from_numpy(np.random.default_rng(0).normal(size=(50, 3)))))
    data = bytearray(path.read_bytes())
    data[int.from_bytes(data[96:100], "little") + place] = value  # in the record that describes the compression
    path.write_bytes(data)
    with pytest.raises(ReadError, match="the file is damaged"):
        read(path)
    assert capfd.readouterr().err == ""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs a system that can fork")
def test_a_laz_is_read_in_a_process_forked_after_another_was_read(tmp_path):
    path = tmp_path / "a.laz"
    write(path, PointCloud(torch.eye(3)))
    expected = as_cloud(read(path)).points
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert torch.equal(as_cloud(pool.apply_async(read, (path,)).get(timeout=60)).points, expected)
