"""The commands on real files of every kind, good and bad, each of them once in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.formats.test_bad_files import CASES
from typer.testing import CliRunner

from qecnet.algebra import random_quaternion, rotate, to_matrix
from qecnet.cli.main import app
from qecnet.datasets import make_shape
from qecnet.formats import SUFFIXES, read, write
from qecnet.geometry import Mesh, PointCloud

QEC = Path(sys.executable).with_name("qec")
KINDS = ("off", "obj", "ply", "stl", "pcd", "xyz", "npy")
TURN = random_quaternion((), generator=4, dtype=torch.float64)
BAD = {name: content for name, (content, _) in CASES.items()} | {
    "line.off": b"OFF\n3 1 0\n0 0 0\n1 0 0\n2 0 0\n3 0 1 2\n",  # has no area
    "line.xyz": b"".join(b"%d 0 0\n" % place for place in range(400)),  # has no surface
}


def qec(*arguments):
    return subprocess.run([QEC, *map(str, arguments)], capture_output=True, text=True, check=False)


def run_here(*arguments):
    """The same in this process: for later runs of a command, which would only start Python again."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_chair(path: Path, chair: Mesh) -> None:
    """As a mesh where the format has meshes, else as a cloud."""
    if path.suffix == ".obj":
        lines = [f"v {x} {y} {z}" for x, y, z in chair.vertices.tolist()]
        lines += [f"f {a} {b} {c}" for a, b, c in (chair.faces + 1).tolist()]
        path.write_text("\n".join(lines))
    elif path.suffix == ".stl":
        triangles = np.zeros(len(chair.faces), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
        triangles["corners"] = chair.vertices[chair.faces].numpy()
        path.write_bytes(bytes(80) + len(triangles).to_bytes(4, "little") + triangles.tobytes())
    elif path.suffix in (".off", ".ply"):
        write(path, chair)
    else:
        write(path, PointCloud(chair.sample(3000, torch.Generator().manual_seed(0)).points))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A rotated chair in each format, and every kind of bad file."""
    folder = tmp_path_factory.mktemp("library")
    chair = make_shape("chair", 3)
    turned = replace(chair, vertices=rotate(TURN, chair.vertices))
    for kind in KINDS:
        write_chair(folder / f"chair.{kind}", turned)
    for name, content in BAD.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def upright(tmp_path_factory):
    """The same chair as it was made."""
    folder = tmp_path_factory.mktemp("upright")
    for kind in KINDS:
        write_chair(folder / f"chair.{kind}", make_shape("chair", 3))
    return folder


GOOD = {f"chair.{kind}" for kind in KINDS}
SEEN = {name for name in BAD if Path(name).suffix in SUFFIXES} - {"header.csv"}
"""Files that commands report within a folder: others have no known extension, or are text without numbers."""


def check_told(stderr: str, folder: Path, names: set[str]) -> None:
    """Beside notes, there is one line for each name, which begins with it and moves no cursor."""
    lines = [line for line in stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == len(names)
    assert all(line.isprintable() for line in lines)
    assert {Path(line.removeprefix("qec: ").split(": ")[0]) for line in lines} == {folder / name for name in names}


def test_classify_reports_every_file(library):
    done = qec("classify", *sorted(library.iterdir()), "--json")
    assert done.returncode == 1
    rows = {Path(row["file"]).name: row for row in map(json.loads, done.stdout.splitlines())}
    assert {*rows} == GOOD | {*BAD}
    assert {name for name, row in rows.items() if "error" in row} == {*BAD}
    check_told(done.stderr, library, {*BAD})
    for name in GOOD:
        assert rows[name]["label"] == "chair"
        assert 0.3 < rows[name]["confidence"] <= 1
        assert np.isclose(np.linalg.norm(rows[name]["pose"]), 1)
    assert rows["chair.off"]["pose"] == pytest.approx(rows["chair.obj"]["pose"], abs=1e-3)


def test_orient_writes_each_format_and_overwrites_nothing(library, tmp_path):
    out = tmp_path / "out"
    done = qec("orient", library, "-o", out)
    assert done.returncode == 1
    check_told(done.stderr, library, SEEN)
    assert {path.name for path in out.iterdir()} == GOOD
    for name in GOOD:
        before, after = read(library / name), read(out / name)
        assert type(before) is type(after)
        places = [shape.vertices if isinstance(shape, Mesh) else shape.points for shape in (before, after)]
        assert len(places[0]) == len(places[1])
        first, second = (torch.pdist(rows[:200]) for rows in places)
        assert torch.allclose(first, second, atol=1e-3), f"{name} was bent"

    written = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()}
    refused = run_here("orient", *(library / name for name in sorted(GOOD)), "-o", out)
    assert refused.exit_code == 1
    assert refused.stdout == ""
    check_told(refused.stderr, out, GOOD)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.iterdir()} == written
    os.truncate(out / "chair.ply", 0)
    forced = run_here("orient", *(library / name for name in sorted(GOOD)), "-o", out, "--force")
    assert forced.exit_code == 0, forced.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {name: old for name, (old, _) in written.items()}


def test_index_and_search_find_the_chair_in_every_format(library, upright):
    indexed = qec("index", library)
    assert indexed.returncode == 1
    check_told(indexed.stderr, library, SEEN)
    assert f"{len(GOOD)} shapes" in indexed.stdout
    found = qec("search", upright / "chair.stl", "--library", library, "--json")
    assert found.returncode == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert {Path(row["file"]).name for row in rows} == GOOD
    for row in rows:
        assert row["similarity"] > 0.5
        expected = TURN * torch.tensor([1, -1, -1, -1])
        assert abs(torch.tensor(row["rotation"], dtype=torch.float64) @ expected) > np.cos(np.radians(25) / 2)


@pytest.mark.parametrize(("source", "target"), [("off", "npy"), ("obj", "ply"), ("stl", "xyz"), ("pcd", "off")])
def test_align_works_across_formats(library, upright, tmp_path, source, target):
    out = tmp_path / f"out.{source}"
    run = qec if source == "off" else run_here
    done = run("align", upright / f"chair.{source}", library / f"chair.{target}", "-o", out, "--transform-only")
    assert done.stderr == ""
    matrix = torch.from_numpy(np.loadtxt(done.stdout.splitlines()))
    assert torch.trace(matrix[:3, :3].T @ to_matrix(TURN)) > 1 + 2 * np.cos(np.radians(25))
    shapes = read(upright / f"chair.{source}"), read(out)
    before, after = (shape.vertices if isinstance(shape, Mesh) else shape.points for shape in shapes)
    assert torch.allclose(before @ matrix[:3, :3].T + matrix[:3, 3], after, atol=1e-4)


@pytest.mark.parametrize("name", BAD)
def test_bad_file_ends_commands_that_take_one_file(library, tmp_path, name):
    out = tmp_path / f"out{Path(name).suffix}"
    out.write_text("mine")
    result = run_here("align", library / name, library / "chair.npy", "-o", out, "--force")
    assert result.exit_code == 1
    assert result.stdout == ""
    check_told(result.stderr, library, {name})
    assert out.read_text() == "mine"
    assert [*tmp_path.iterdir()] == [out]
