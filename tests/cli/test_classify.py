"""`qec classify`, `qec models`, `qec info` and `qec --version` as a user runs them."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud
from typer.testing import CliRunner

import qecnet
from qecnet.cli.main import app
from qecnet.datasets import make_shape
from qecnet.formats import read, write
from qecnet.geometry import PointCloud

QEC = Path(sys.executable).with_name("qec")


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A chair in each format, and files that cannot be read."""
    folder = tmp_path_factory.mktemp("library")
    chair = make_shape("chair", 3)
    cloud = chair.sample(800, torch.Generator().manual_seed(0))
    for suffix in (".off", ".ply"):
        write(folder / f"chair{suffix}", chair)
    for suffix in (".pcd", ".xyz", ".npy"):
        write(folder / f"cloud{suffix}", PointCloud(cloud.points))
    (folder / "deep").mkdir()
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in chair.vertices.tolist())
    faces = "".join(f"f {a} {b} {c}\n" for a, b, c in (chair.faces + 1).tolist())
    (folder / "deep" / "chair.obj").write_text(vertices + faces)
    corners = chair.vertices[chair.faces].numpy().astype("<f4")
    triangles = np.zeros(len(corners), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    triangles["corners"] = corners
    (folder / "deep" / "chair.stl").write_bytes(bytes(80) + len(corners).to_bytes(4, "little") + triangles.tobytes())
    return folder


@pytest.fixture
def spoiled(library, tmp_path):
    """A good file between two bad ones."""
    (tmp_path / "a.ply").write_bytes(b"ply\nformat ascii 1.0\n")
    shutil.copy(library / "cloud.npy", tmp_path / "b.npy")
    (tmp_path / "c [bold].off").write_text("OFF\n3 1 0\n0 0 0\n")
    return tmp_path


def test_a_folder_of_all_formats_is_classified(run, library):
    done = run("classify", library, "--json")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    found = {Path(row["file"]).name: row for row in map(json.loads, done.stdout.splitlines())}
    assert [*found] == ["chair.off", "chair.ply", "cloud.npy", "cloud.pcd", "cloud.xyz", "chair.obj", "chair.stl"]
    for row in found.values():
        assert row["label"] == "chair"
        assert row["confidence"] == max(row["scores"].values())
        assert np.isclose(np.linalg.norm(row["pose"]), 1)
    for same in ("chair.off", "chair.obj"):
        assert np.allclose(found["chair.ply"]["pose"], found[same]["pose"], atol=1e-3)


def test_the_table_has_all_columns(run, library):
    result = run("classify", library / "cloud.npy", library / "chair.off")
    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if ".npy" in line or ".off" in line]
    assert len(rows) == 2
    for row in rows:
        assert "chair" in row
        assert "° about (" in row


def test_csv_has_a_line_per_file(run, spoiled):
    result = run("classify", spoiled, "--csv")
    assert result.exit_code == 1
    bad, good, worse = csv.DictReader(io.StringIO(result.stdout))
    assert good["label"] == "chair"
    assert good["error"] == ""
    assert np.isclose(sum(float(good[axis]) ** 2 for axis in "wxyz"), 1)
    assert bad["label"] == worse["label"] == ""
    assert bad["error"]


def test_bad_files_are_reported_and_the_others_classified(run, spoiled):
    result = run("classify", spoiled, spoiled / "none.ply", "--json")
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["label" in row for row in rows] == [False, True, False, False]
    assert all(row["error"].startswith(row["file"]) for row in rows if "error" in row)
    said = result.stderr.splitlines()
    assert len(said) == 3
    assert all(line.startswith(f"qec: {spoiled}") for line in said)
    table = run("classify", spoiled)
    assert table.exit_code == 1
    assert "b.npy" in table.stdout
    assert "a.ply" not in table.stdout


def test_empty_globs_and_folders_fail_alone(run, library, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("classify", tmp_path / "empty", tmp_path / "*.ply", library / "*.n?y", "--json")
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [Path(row["file"]).name for row in rows] == ["empty", "*.ply", "cloud.npy"]
    assert "contains no file" in rows[0]["error"]
    assert "matches no file" in rows[1]["error"]
    assert rows[2]["label"] == "chair"


def test_low_confidence_is_labelled_unknown(run, library):
    unsure, sure = (
        json.loads(run("classify", library / "cloud.npy", "--json", "--min-confidence", limit).stdout)
        for limit in (1, 0.1)
    )
    assert unsure["label"] == "unknown"
    assert sure["label"] == unsure["guess"] == sure["guess"] == "chair"
    assert unsure["confidence"] == sure["confidence"]
    options = library / "cloud.npy", "--min-confidence", 1
    assert "unknown (chair?)" in run("classify", *options).stdout
    (row,) = csv.DictReader(io.StringIO(run("classify", *options, "--csv").stdout))
    assert (row["label"], row["guess"]) == ("unknown", "chair")


def test_the_symmetry_of_the_class_is_printed(run, tmp_path):
    write(tmp_path / "stand.off", make_shape("night_stand", 1))
    found = json.loads(run("classify", tmp_path / "stand.off", "--json", "--model", "modelnet10-features").stdout)
    assert found["symmetry"] == {"night_stand": 4, "dresser": 2}[found["label"]]


def test_another_model_has_other_classes(run, library):
    found = json.loads(run("classify", library / "cloud.npy", "--json", "--model", "modelnet40-paper").stdout)
    assert len(found["scores"]) == 40


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--model", "nothing"), "nothing: is neither a model in the package"), (("--json", "--csv"), "give one of them")],
)
def test_wrong_options_give_a_one_sentence_error(run, library, options, said):
    result = run("classify", library / "cloud.npy", *options)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr


def test_models_are_named_with_their_classes(run):
    result = run("models")
    assert result.exit_code == 0
    for name in qecnet.list_models():
        assert name in result.stdout
    assert result.stdout.count("(default)") == 1
    assert "46,990" in result.stdout
    assert "night_stand" in result.stdout


def test_info_prints_what_a_file_contains(run, library, tmp_path):
    assert "mesh, 648 vertices, 1,248 triangles" in run("info", library / "chair.off").stdout
    points = torch.tensor([[0.0, 0, 0], [2, 4, 8], [2, 4, 8], [float("nan"), 0, 0]])
    np.save(tmp_path / "cloud.npy", points.numpy())
    said = run("info", tmp_path / "cloud.npy").stdout
    assert "cloud, 2 points" in said
    assert "size    2 × 4 × 8" in said
    assert "1 point (not finite)" in said
    assert "1 point (repeated)" in said
    several = run("info", library / "chair.off", tmp_path / "none.ply", tmp_path / "cloud.npy")
    assert several.exit_code == 1
    assert "chair.off: mesh" in several.stdout
    assert "cloud.npy: cloud" in several.stdout
    assert len(several.stderr.splitlines()) == 1
    assert "none.ply" in several.stderr


def test_info_prints_the_viewpoint_and_whether_it_is_used(run, library, tmp_path):
    cloud = as_cloud(read(library / "cloud.npy"))
    far, inside = torch.tensor([0.0, 0, 9], dtype=torch.float64), cloud.points.double().mean(0)
    for viewpoint, is_used in ((far, True), (inside, False)):
        write(tmp_path / "a.pcd", cloud.seen_from(viewpoint))
        (line,) = (
            line for line in run("info", tmp_path / "a.pcd").stdout.splitlines() if line.startswith("  viewpoint ")
        )
        assert np.allclose([float(word) for word in line.split()[1:4]], viewpoint.numpy(), atol=1e-4)
        assert ("ignored" in line) != is_used
    assert "  viewpoint " not in run("info", library / "cloud.npy").stdout


def test_the_version_is_printed(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"qecnet {qecnet.__version__}\n"


def test_a_model_without_classes_prints_the_up_direction(run, library):
    asked = library / "cloud.npy", "--model", "upright"
    heading, line = run("classify", *asked).stdout.splitlines()
    assert heading.split() == ["file", "up", "confidence", "orientation", "ms"]
    assert "object" not in line
    row = json.loads(run("classify", *asked, "--json").stdout)
    assert (row["label"], row["guess"], row["second"], row["scores"]) == (None, None, None, {})
    assert "({:.2f}, {:.2f}, {:.2f})".format(*(value + 0.0 for value in row["up"])) in line
    assert f"{row['confidence']:.2f}" in line
    (found,) = csv.DictReader(io.StringIO(run("classify", *asked, "--csv").stdout))
    assert (found["label"], float(found["confidence"])) == ("", row["confidence"])
    assert [float(found[f"up_{axis}"]) for axis in "xyz"] == row["up"]
    answer = qecnet.load("upright").predict(library / "cloud.npy")
    assert np.allclose(row["centre"], answer.centre.numpy(), atol=1e-4 * answer.radius)
    assert row["radius"] == pytest.approx(answer.radius, rel=1e-4)
    unsure = run("classify", *asked, "--min-confidence", 1).stdout
    assert ("unknown" in unsure) == (answer.confidence < 1)


def test_json_lists_the_likely_orientations(run, library):
    (row,) = map(json.loads, run("classify", library / "cloud.npy", "--json", "--model", "upright").stdout.splitlines())
    shares = [candidate["probability"] for candidate in row["candidates"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares[:-1]) < 0.9 < sum(shares) + 1e-3
    answer = qecnet.load("upright").predict(library / "cloud.npy")
    assert row["candidates"] == [candidate.describe() for candidate in answer.likely_candidates()]


def test_json_says_which_candidates_may_face_any_way(run, tmp_path):
    angle = torch.rand(2000, generator=torch.Generator().manual_seed(0)) * 6.2832
    height = torch.rand(2000, generator=torch.Generator().manual_seed(1))
    radius = 0.3 + 0.2 * height
    write(tmp_path / "vase.xyz", PointCloud(torch.stack((radius * angle.cos(), radius * angle.sin(), height), -1)))
    row = json.loads(run("classify", tmp_path / "vase.xyz", "--json", "--model", "upright").stdout)
    assert row["candidates"][0]["any_azimuth"] is True


def test_fast_answers_are_similar(run, library):
    slow, fast = (
        json.loads(run("classify", library / "cloud.npy", "--json", *more).stdout) for more in ((), ("--fast",))
    )
    assert fast["label"] == slow["label"]
    assert fast["confidence"] == pytest.approx(slow["confidence"], abs=0.3)


def test_wires_are_classified_and_a_line_is_refused(run, tmp_path):
    along, axes = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None], torch.eye(3, dtype=torch.float64)
    write(tmp_path / "wires.xyz", PointCloud(torch.cat([along * axis for axis in axes])))
    write(tmp_path / "line.xyz", PointCloud(along * torch.tensor([1.0, 2.0, 3.0])))
    done = run("classify", "--json", tmp_path)
    assert done.exit_code == 1
    rows = {Path(row["file"]).name: row for row in map(json.loads, done.stdout.splitlines())}
    assert rows["wires.xyz"]["label"] in qecnet.load(qecnet.DEFAULT_MODEL).classes
    assert "has no surface (its points lie on a line); give points that do not" in rows["line.xyz"]["error"]
