"""`qec orient` and `qec align` as a user runs them."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud, as_mesh, present
from typer.testing import CliRunner

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import angular_distance, from_matrix, random_quaternion, rotate, to_matrix
from qecnet.cli.main import app
from qecnet.datasets import make_shape, sample_view
from qecnet.formats import read, write
from qecnet.formats.read import _load_standard_input as load_standard_input
from qecnet.geometry import PointCloud

QEC = Path(sys.executable).with_name("qec")
TURN = random_quaternion((), generator=2, dtype=torch.float64)
SHIFT = torch.tensor([5.0, 1.0, -2.0], dtype=torch.float64)


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def chair():
    return make_shape("chair", 3)


@pytest.fixture
def folder(tmp_path, chair):
    """A chair, the same one turned and moved, as a mesh and as a cloud."""
    there = replace(chair, vertices=rotate(TURN, chair.vertices) + SHIFT)
    write(tmp_path / "chair.ply", chair)
    write(tmp_path / "turned.ply", there)
    write(tmp_path / "scan.xyz", there.sample(900, torch.Generator().manual_seed(0)))
    return tmp_path


def motion_between(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rotation from one set of points to the same ones elsewhere (Kabsch), and how far off they are then."""
    a, b = before - before.mean(0), after - after.mean(0)
    u, _, v = torch.linalg.svd(a.T @ b)
    signs = torch.diag(torch.tensor([1.0, 1.0, float(torch.sign(torch.det(u @ v)))], dtype=torch.float64))
    rotation = v.T @ signs @ u.T
    return from_matrix(rotation), (a @ rotation.T - b).abs().amax()


def test_a_file_is_rotated_by_its_pose(run, folder):
    done = run("orient", folder / "turned.ply", "-o", folder / "out.ply")
    assert done.exit_code == 0, done.stderr
    assert re.search(r": confidence [01]\.\d\d, rotated by", done.stdout)
    before, after = as_mesh(read(folder / "turned.ply")), as_mesh(read(folder / "out.ply"))
    assert torch.equal(before.faces, after.faces), "the same mesh, and no sample of it"
    rotation, off = motion_between(before.vertices, after.vertices)
    pose = qecnet.load("upright").predict(folder / "turned.ply").pose
    assert off < 1e-6
    assert angular_distance(rotation, pose * torch.tensor([1, -1, -1, -1])) < 1e-4
    assert (before.vertices.mean(0) - after.vertices.mean(0)).norm() < 1, "it stays where it was"


def test_upright_is_the_same_for_all_poses(run, folder):
    assert run("orient", folder / "chair.ply", folder / "turned.ply", "-o", folder / "out").exit_code == 0
    first, second = (as_mesh(read(folder / "out" / name)).vertices for name in ("chair.ply", "turned.ply"))
    rotation, _ = motion_between(first, second)
    assert angular_distance(rotation, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)) < np.radians(2)


def test_a_folder_keeps_its_subfolders_and_bad_files_stop_no_other(run, folder, tmp_path):
    library = tmp_path / "library"
    (library / "deep").mkdir(parents=True)
    (folder / "scan.xyz").rename(library / "deep" / "scan.xyz")
    (library / "bad.off").write_text("OFF\n3 1 0\n0 0 0\n")
    result = run("orient", library, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "bad.off" in result.stderr
    written = [path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written == [Path("deep/scan.xyz")]
    assert len(as_cloud(read(tmp_path / "out" / "deep" / "scan.xyz"))) == 900


def test_nothing_is_overwritten_without_force(run, folder):
    before = (folder / "chair.ply").read_bytes()
    for arguments in (("orient", folder / "turned.ply"), ("align", folder / "turned.ply", folder / "scan.xyz")):
        refused = run(*arguments, "-o", folder / "chair.ply")
        assert refused.exit_code == 1
        assert "exists already" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert (folder / "chair.ply").read_bytes() == before
    assert run("orient", folder / "turned.ply", "-o", folder / "chair.ply", "--force").exit_code == 0
    assert (folder / "chair.ply").read_bytes() != before


@pytest.mark.parametrize("suffix", [".off", ".obj", ".stl", ".glb"])
def test_the_name_of_the_output_chooses_its_format(run, folder, suffix):
    assert run("orient", folder / "turned.ply", "-o", folder / "same.ply").exit_code == 0
    assert run("orient", folder / "turned.ply", "-o", folder / f"out{suffix}", "--output-up", "z").exit_code == 0
    same, other = as_mesh(read(folder / "same.ply")), as_mesh(read(folder / f"out{suffix}"))
    assert torch.allclose(same.vertices[same.faces], other.vertices[other.faces], atol=1e-5)


def test_a_format_that_cannot_be_written_is_refused(run, folder):
    for arguments in (("orient", folder / "turned.ply"), ("align", folder / "turned.ply", folder / "chair.ply")):
        for name, why in (("out.docx", "cannot write this type"), ("out.xyz", "a mesh cannot be written as .xyz")):
            refused = run(*arguments, "-o", folder / name)
            assert refused.exit_code == 1
            assert why in refused.stderr
            assert not (folder / name).exists()
            assert all(suffix in refused.stderr for suffix in (".glb", ".obj", ".ply"))
            assert ".dae" not in refused.stderr, "it can be read only"


def test_output_has_the_requested_up_axis(run, folder):
    for name, options in (("z.ply", ()), ("y.ply", ("--output-up", "y")), ("default.glb", ())):
        assert run("orient", folder / "turned.ply", "-o", folder / name, *options).exit_code == 0
    z, y, glb = (as_mesh(read(folder / name)).vertices for name in ("z.ply", "y.ply", "default.glb"))
    upright, rotated = z - z.mean(0), y - y.mean(0)
    assert torch.allclose(upright[:, [0, 2]], rotated[:, [0, 1]], atol=1e-5)
    assert torch.allclose(upright[:, 1], -rotated[:, 2], atol=1e-5)
    assert torch.allclose(y, glb, atol=1e-5)


def test_a_name_that_ends_with_a_slash_is_a_new_folder(run, folder):
    assert run("orient", folder / "turned.ply", "-o", f"{folder}/new/deep/").exit_code == 0
    assert (folder / "new" / "deep" / "turned.ply").exists()


def test_output_inside_the_input_is_not_oriented_again(run, folder):
    (folder / "in").mkdir()
    (folder / "turned.ply").rename(folder / "in" / "turned.ply")
    for _ in range(2):
        result = run("orient", folder / "in", "-o", folder / "in" / "out", "--skip-existing")
        assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (folder / "in" / "out").rglob("*")) == ["turned.ply"]


def test_a_dry_run_prints_what_a_run_writes_and_writes_nothing(run, folder):
    arguments = ("orient", folder / "turned.ply", "-o", folder / "new" / "out.ply", "--json", "--model", "modelnet10")
    planned = run(*arguments, "--dry-run")
    assert planned.exit_code == 0
    assert not (folder / "new").exists()
    done = run(*arguments)
    before, after = (json.loads(result.stdout) for result in (planned, done))
    assert (before.pop("written"), after.pop("written")) == (False, True)
    assert before == after
    assert (after["file"], after["label"]) == (str(folder / "turned.ply"), "chair")
    points, there = (as_mesh(read(folder / name)).vertices for name in ("turned.ply", "new/out.ply"))
    rotation, centre = (torch.tensor(after[name], dtype=torch.float64) for name in ("rotation", "centre"))
    assert torch.allclose(rotate(rotation, points - centre) + centre, there, atol=1e-5), "the motion can be reproduced"


def test_json_lists_the_likely_orientations(run, folder):
    done = run("orient", folder / "turned.ply", "-o", folder / "out.ply", "--json", "--force-doubtful")
    row = json.loads(done.stdout)
    answer = qecnet.load("upright").predict(folder / "turned.ply")
    assert row["candidates"] == [candidate.describe() for candidate in answer.likely_candidates()]
    assert [*row["candidates"][0]] == ["pose", "probability", "any_azimuth"]


def test_doubtful_files_are_written_only_if_forced(run, folder):
    arguments = ("orient", folder / "turned.ply", "-o", folder / "out.ply", "--min-confidence", "1")
    refused = run(*arguments)
    assert refused.exit_code == 1
    assert "upright with confidence" in refused.stderr
    assert "upright with confidence" in run(*arguments, "--model", "modelnet10").stderr
    assert "chair with confidence" in run(*arguments, "--model", "modelnet10-features").stderr
    assert not (folder / "out.ply").exists()
    assert run(*arguments, "--force-doubtful").exit_code == 0
    assert (folder / "out.ply").exists()


def test_existing_files_are_skipped_on_request(run, folder):
    (folder / "out").mkdir()
    (folder / "out" / "turned.ply").write_bytes(b"before")
    result = run("orient", folder / "turned.ply", folder / "scan.xyz", "-o", folder / "out", "--skip-existing")
    assert result.exit_code == 0
    assert (folder / "out" / "turned.ply").read_bytes() == b"before"
    assert (folder / "out" / "scan.xyz").exists()


def test_copied_materials_are_printed(run, folder, chair):
    (folder / "in").mkdir()
    write(folder / "in" / "chair.obj", chair)
    text = (folder / "in" / "chair.obj").read_text()
    (folder / "in" / "chair.obj").write_text("mtllib paint.mtl\n" + text)
    (folder / "in" / "paint.mtl").write_text("newmtl red\n")
    result = run("orient", folder / "in" / "chair.obj", "-o", f"{folder}/out/")
    assert result.exit_code == 0
    assert f"copied {folder}/out/paint.mtl" in result.stdout


@pytest.mark.parametrize("name", ["turned.ply", "scan.xyz"])
def test_standard_input_is_a_file_without_a_name(folder, name):
    out = (folder / "out").with_suffix(Path(name).suffix)
    command = [QEC, "orient", "-", "-o", out]
    done = subprocess.run(command, input=(folder / name).read_bytes(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    load_standard_input.cache_clear()  # a process reads it once
    described = CliRunner().invoke(app, ["info", "-"], input=out.read_bytes())
    load_standard_input.cache_clear()
    assert described.exit_code == 0, described.stderr


def test_files_of_the_same_name_do_not_overwrite_each_other(run, folder, tmp_path):
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "chair.ply", read(folder / "chair.ply"))
    result = run("orient", folder / "chair.ply", tmp_path / "other" / "chair.ply", "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "as another file is" in result.stderr
    assert (tmp_path / "out" / "chair.ply").exists()


def test_align_prints_the_motion_and_applies_it(run, folder, chair):
    result = run("align", folder / "chair.ply", folder / "turned.ply", "-o", folder / "out.ply", "--refine")
    assert result.exit_code == 0, result.output
    said = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if not line.startswith(" ")}
    assert [*said] == ["source", "target", "quaternion", "axis-angle", "matrix", "translation", "residual"]
    quaternion = torch.tensor([float(word) for word in said["quaternion"][:4]], dtype=torch.float64)
    assert angular_distance(quaternion, TURN) < np.radians(1)
    there = as_mesh(read(folder / "turned.ply")).vertices
    assert (as_mesh(read(folder / "out.ply")).vertices - there).abs().amax() < 0.05
    assert float(said["residual"][0]) < 0.05


def test_alignment_by_a_model_without_classes_has_no_labels(run, folder):
    shapes = folder / "chair.ply", folder / "turned.ply", "--model", "upright"
    row = json.loads(run("align", *shapes, "--json").stdout)
    assert [row[name]["label"] for name in ("source", "target")] == [None, None]
    assert all(0 < row[name]["confidence"] <= 1 for name in ("source", "target"))
    source, target, *_ = run("align", *shapes).stdout.splitlines()
    for line, name in ((source, "source"), (target, "target")):
        assert line.split() == [name, "confidence", f"{row[name]['confidence']:.2f}"]


def test_the_matrix_only_and_json_exclude_each_other(run, folder):
    result = run(
        "align", folder / "chair.ply", folder / "scan.xyz", "--transform-only", "--json", "-o", folder / "o.ply"
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("qec: --transform-only and --json cannot be combined")
    assert not (folder / "o.ply").exists()


def test_transform_only_prints_the_matrix(run, folder):
    done = run("align", folder / "chair.ply", folder / "scan.xyz", "--transform-only")
    assert done.exit_code == 0, done.stderr
    matrix = np.loadtxt(done.stdout.splitlines())
    assert matrix.shape == (4, 4)
    assert np.allclose(matrix[3], [0, 0, 0, 1])
    assert np.allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-6)
    expected = qecnet.load(DEFAULT_MODEL).align(folder / "chair.ply", folder / "scan.xyz")
    assert np.allclose(matrix[:3, :3], to_matrix(expected.rotation).numpy(), atol=1e-4)


def test_a_difference_of_units_is_noticed_and_corrected(run, folder, chair):
    write(folder / "millimetres.ply", replace(chair, vertices=chair.vertices * 1000))
    arguments = ("align", folder / "millimetres.ply", folder / "turned.ply", "--json")
    plain = run(*arguments)
    assert plain.exit_code == 0, plain.output
    assert "1,000 times larger than the target (metres against millimetres?)" in plain.stderr
    scaled = run(*arguments, "--scale", "-o", folder / "out.ply")
    assert scaled.exit_code == 0, scaled.output
    assert scaled.stderr == ""
    row = json.loads(scaled.stdout)
    assert row["scale"] == 0.001
    assert row["residual"] < 0.2
    matrix = np.array(row["matrix"])
    assert np.allclose(matrix[:3, :3] @ matrix[:3, :3].T, 1e-6 * np.eye(3))
    there = as_mesh(read(folder / "millimetres.ply")).vertices.numpy() @ matrix[:3, :3].T + matrix[:3, 3]
    assert np.allclose(as_mesh(read(folder / "out.ply")).vertices.numpy(), there, atol=1e-6)


def test_a_smaller_difference_of_sizes_is_noticed_if_it_is_to_be_refined(run, folder, chair):
    pytest.importorskip("small_gicp")
    write(folder / "large.ply", replace(chair, vertices=chair.vertices * 2.6))
    write(folder / "near.ply", replace(chair, vertices=chair.vertices * 1.3))
    large, near = (("align", folder / name, folder / "turned.ply") for name in ("large.ply", "near.ply"))
    sentence = re.compile(r"large\.ply: is 2\.[567] times larger than the target; --scale corrects this\n$")
    assert sentence.search(run(*large, "--refine").stderr)
    for arguments in (large, (*large, "--scale", "--refine"), (*near, "--refine")):
        assert run(*arguments).stderr == ""


def test_doubtful_alignments_are_noted(run, folder):
    write(folder / "bed.ply", make_shape("bed", 1))
    result = run("align", folder / "chair.ply", folder / "bed.ply")
    assert result.exit_code == 0
    assert "chair.ply: is classified as chair, the target as bed; the result may be wrong" in result.stderr
    write(
        folder / "plane.xyz",
        PointCloud(torch.rand(200, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1.0, 0.0])),
    )
    result = run("align", folder / "plane.xyz", folder / "plane.xyz", "--model", "upright")
    assert [line.split(": ")[2].split(" (")[0] for line in result.stderr.splitlines()] == ["has a low confidence"] * 2
    assert not run("align", folder / "chair.ply", folder / "turned.ply").stderr


def test_failed_alignment_gives_a_one_sentence_error(run, folder):
    result = run("align", folder / "chair.ply", folder / "none.ply", "-o", folder / "out.ply")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert not (folder / "out.ply").exists()


@pytest.mark.parametrize(
    "factors", [(1e-200, 1e200), (1e200, 1e-200), (1e200, 1e200), (1e-200, 1e-200), (1e-310, 1e-310)]
)
@pytest.mark.parametrize("options", [(), ("--scale", "--refine"), ("--json",)])
def test_sizes_beyond_all_measure_give_a_one_sentence_error(run, folder, chair, factors, options):
    points = chair.sample(500, torch.Generator().manual_seed(0)).points.double()
    for name, factor in zip(("a.npy", "b.npy"), factors, strict=True):
        np.save(folder / name, (points * factor).numpy())
    result = run("align", folder / "a.npy", folder / "b.npy", *options)
    assert (result.exit_code, result.stdout) == (1, "")
    first, second = (folder / name for name in ("a.npy", "b.npy"))
    assert result.stderr == f"qec: {first}: is too large or too small to be aligned with {second}\n"


def test_sizes_are_not_compared_when_alignment_fails(run, folder, chair):
    write(folder / "large.ply", replace(chair, vertices=chair.vertices * 1000))
    result = run("align", folder / "large.ply", folder / "chair.ply", "--model", "nothing")
    assert result.exit_code == 1
    assert result.stderr.startswith("qec: nothing: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "axis"), [("-Y", (0, -1, 0)), ("+x", (1, 0, 0)), ("0,-3,0", (0, -1, 0)), ("0.2,-1,0.1", (0.2, -1, 0.1))]
)
def test_known_up_restricts_orientations(run, folder, text, axis):
    up = torch.nn.functional.normalize(torch.tensor(axis, dtype=torch.float64), dim=0)
    z = torch.tensor([0, 0, 1.0], dtype=torch.float64)
    done = run("classify", folder / "turned.ply", "--json", "--up", text)
    assert torch.allclose(rotate(torch.tensor(json.loads(done.stdout)["pose"]).double(), z), up, atol=1e-4)
    done = run("orient", folder / "turned.ply", "-o", folder / "out.ply", "--json", "--up", text, "--force-doubtful")
    assert torch.allclose(rotate(torch.tensor(json.loads(done.stdout)["rotation"]).double(), up), z, atol=1e-5)
    done = run("align", folder / "turned.ply", folder / "chair.ply", "--json", "--up", text)
    assert torch.allclose(rotate(torch.tensor(json.loads(done.stdout)["rotation"]).double(), up), up, atol=1e-5)


@pytest.mark.parametrize("refine", [(), ("--refine",)])
def test_known_ups_of_source_and_target_may_differ(run, folder, refine):
    z = torch.tensor([0, 0, 1.0], dtype=torch.float64)
    up = rotate(TURN, z)
    text = ",".join(map(str, up.tolist()))
    given = folder / "turned.ply", folder / "chair.ply", "--up", text, "--target-up", "z"
    done = run("align", *given, "--json", "-o", folder / "out.ply", *refine)
    assert done.exit_code == 0, done.output
    rotation = torch.tensor(json.loads(done.stdout)["rotation"]).double()
    assert torch.allclose(rotate(rotation, up), z, atol=1e-5)
    assert angular_distance(rotation, TURN * torch.tensor([1, -1, -1, -1])) < np.radians(2)


def test_target_up_needs_up(run, folder):
    refused = run("align", folder / "turned.ply", folder / "chair.ply", "--target-up", "z", "-o", folder / "out.ply")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == ("qec: --target-up is given without --up; give the up direction of the source, too\n")
    assert not (folder / "out.ply").exists()


@pytest.mark.parametrize("text", ["w", "0,0", "0,0,0", "nan,0,1", "1 2 3"])
def test_invalid_target_directions_are_refused(run, folder, text):
    refused = run("align", folder / "turned.ply", folder / "chair.ply", "--up", "z", "--target-up", text)
    assert refused.exit_code == 2
    assert "--target-up" in refused.stderr


@pytest.mark.parametrize("text", ["w", "0,0", "0,0,0", "nan,0,1", "1 2 3"])
def test_invalid_directions_are_refused(run, folder, text):
    refused = run("classify", folder / "chair.ply", "--up", text)
    assert refused.exit_code == 2
    assert "--up" in refused.stderr
    said = " ".join(refused.stderr.replace("│", " ").split())
    assert "axis, such as z" in said or "not finite" in said


def test_impossible_viewpoints_give_a_one_sentence_error(run, folder, chair):
    cloud = chair.sample(2000, torch.Generator().manual_seed(0))
    view = sample_view(chair, torch.Generator().manual_seed(1)).cloud
    camera = ",".join(str(value) for value in present(view.viewpoint).tolist())
    write(folder / "view.pcd", view)
    write(folder / "whole.ply", replace(cloud, normals=None))
    upward = torch.zeros_like(cloud.points) + torch.tensor([0, 0, 1.0], dtype=torch.float64)
    write(folder / "normals.ply", replace(cloud, normals=upward))
    assert run("classify", folder / "view.pcd").exit_code == 0
    assert run("classify", folder / "view.pcd", "--viewpoint", camera).exit_code == 0
    for file, viewpoint, sentence in (
        (
            "whole.ply",
            ",".join(map(str, cloud.points.mean(0).tolist())),
            "is inside the shape; give the camera's position",
        ),
        (
            "normals.ply",
            "0,0,-50",
            "of the normals face away from the viewpoint (0, 0, -50); give the camera's position",
        ),
    ):
        refused = run("classify", folder / file, "--viewpoint", viewpoint)
        assert refused.exit_code == 1
        assert len(refused.stderr.splitlines()) == 1
        assert sentence in refused.stderr


def test_view_of_too_few_points_gives_a_one_sentence_error(run, folder):
    (folder / "few.xyz").write_text("".join(f"{i} {i * i} {i % 3}\n" for i in range(8)))
    refused = run("classify", folder / "few.xyz", "--viewpoint", "0,0,50")
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert "has 8 distinct points; a shape needs at least 9" in refused.stderr
