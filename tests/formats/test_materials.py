"""Materials of an OBJ: only its own files are copied, each model keeps its own, and nothing is left half-written."""

import errno
import os

import numpy as np
import pytest

from qecnet.formats import Motion, move_file

NOTHING = Motion(np.eye(3), np.zeros(3), np.zeros(3))
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl red\nf 1 2 3\n"


def make_model(folder, library=b"paint.mtl", texture=b"red.png", image=b"image"):
    """An OBJ with a library and a texture; either is written only if its name is a plain one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "thing.obj").write_bytes(b"mtllib " + library + b"\n" + OBJ.encode())
    for name, data in ((library, b"newmtl red\nmap_Kd " + texture + b"\n"), (texture, image)):
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.write_bytes(data)
    return folder / "thing.obj"


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_copies_are_reported(tmp_path):
    source, target = make_model(tmp_path / "in"), tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    written = move_file(source, target, NOTHING)
    assert sorted(written) == [target.parent / "paint.mtl", target.parent / "red.png"]
    assert names_in(target.parent) == ["moved.obj", "paint.mtl", "red.png"]


@pytest.mark.parametrize(
    ("library", "texture"),
    [
        (b".ssh/authorized_keys", b"red.png"),
        (b".hidden.mtl", b"red.png"),
        (b".secret/paint.mtl", b"red.png"),
        (b"notes.txt", b"red.png"),
        (b"../elsewhere/paint.mtl", b"red.png"),
    ],
)
def test_only_visible_libraries_below_the_folder_are_copied(tmp_path, library, texture):
    source, target = make_model(tmp_path / "in", library, texture), tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    assert move_file(source, target, NOTHING) == []
    assert names_in(target.parent) == ["moved.obj"]


@pytest.mark.parametrize(
    "texture", [b".config/autostart/x.desktop", b"run.sh", b".red.png", b"../red.png", b".x/a.png"]
)
def test_only_visible_images_below_the_folder_are_copied(tmp_path, texture):
    source, target = make_model(tmp_path / "in", texture=texture), tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    move_file(source, target, NOTHING)
    assert names_in(target.parent) == ["moved.obj", "paint.mtl"]


@pytest.mark.parametrize("link", ["paint.mtl", "red.png", "sub"])
def test_no_link_is_followed(tmp_path, link):
    (tmp_path / "secret").mkdir()
    for name in ("paint.mtl", "red.png"):
        (tmp_path / "secret" / name).write_bytes(b"newmtl red\n# secret")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / link).symlink_to(tmp_path / "secret" / ("" if link == "sub" else link))
    source = folder / "thing.obj"
    source.write_bytes(b"mtllib paint.mtl\nmtllib sub/paint.mtl\n" + OBJ.encode())
    if link != "paint.mtl":
        (folder / "paint.mtl").write_bytes(b"newmtl red\nmap_Kd red.png\nmap_Ks sub/red.png\n")
    target = tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    move_file(source, target, NOTHING)
    assert not any(b"secret" in path.read_bytes() for path in target.parent.rglob("*") if path.is_file())


def test_models_with_materials_of_one_name_keep_their_own(tmp_path):
    (tmp_path / "out").mkdir()
    for number in (1, 2, 3):
        source = make_model(tmp_path / f"in{number}", image=b"image %d" % min(number, 2))
        move_file(source, tmp_path / "out" / f"thing{number}.obj", NOTHING)
    for number in (1, 2, 3):
        text = (tmp_path / "out" / f"thing{number}.obj").read_text()
        library = text.splitlines()[0].removeprefix("mtllib ")
        texture = (tmp_path / "out" / library).read_text().splitlines()[1].removeprefix("map_Kd ")
        assert (tmp_path / "out" / texture).read_bytes() == b"image %d" % min(number, 2)
    assert (tmp_path / "out" / "red.png").read_bytes() == b"image 1"


def test_names_may_have_spaces_and_follow_options(tmp_path):
    texture = b"-s 1 1 1 -bm 0.5 my pictures/deep red.png"
    source = make_model(tmp_path / "in", b"my paint.mtl", b"my pictures/deep red.png")
    (tmp_path / "in" / "my paint.mtl").write_bytes(b"newmtl red\nbump " + texture + b"\n")
    target = tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    move_file(source, target, NOTHING)
    assert names_in(target.parent) == ["moved.obj", "my paint.mtl", "my pictures/deep red.png"]


def test_several_libraries_on_one_line(tmp_path):
    source = make_model(tmp_path / "in", b"paint.mtl")
    (tmp_path / "in" / "other.mtl").write_text("newmtl blue\n")
    source.write_text("mtllib paint.mtl other.mtl\n" + OBJ)
    target = tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    move_file(source, target, NOTHING)
    assert names_in(target.parent) == ["moved.obj", "other.mtl", "paint.mtl", "red.png"]


@pytest.mark.parametrize("full_after", [0, 1, 2])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, full_after):
    source, target = make_model(tmp_path / "in"), tmp_path / "out" / "moved.obj"
    target.parent.mkdir()
    calls = iter(range(10))

    def sync(handle):
        if os.path.isfile(f"/proc/self/fd/{handle}") and next(calls) >= full_after:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(OSError, match="no space left on device"):
        move_file(source, target, NOTHING)
    assert names_in(target.parent) == []


def test_moving_within_a_folder_copies_nothing(tmp_path):
    source = make_model(tmp_path / "in")
    assert move_file(source, source.with_name("moved.obj"), NOTHING) == []
    assert names_in(tmp_path / "in") == ["moved.obj", "paint.mtl", "red.png", "thing.obj"]
