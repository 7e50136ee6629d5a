"""`qec frames` and `qec repeatability` as a user runs them."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud
from typer.testing import CliRunner

from qecnet.algebra import to_matrix
from qecnet.cli.main import app
from qecnet.formats import read, write
from qecnet.geometry import Mesh, PointCloud


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def wedge():
    """A box with one corner pulled out: a mesh without symmetry."""
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 3)
    corners[7] += torch.tensor([0.8, 0.3, 0.5])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return Mesh(corners, torch.tensor([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))


@pytest.fixture
def file(tmp_path, wedge):
    path = tmp_path / "wedge.off"
    write(path, wedge)
    return path


def test_the_summary_has_points_frames_and_time(run, file):
    result = run("frames", file, "--points", 3000, "--frames", 100)
    assert result.exit_code == 0, result.output
    first, second = result.output.splitlines()
    assert first == "wedge.off: 3,000 points"
    assert "of 100 flare frames are valid" in second
    assert second.endswith("ms")


def test_npz_frames_are_on_the_surface(run, file, tmp_path):
    out = tmp_path / "frames.npz"
    assert run("frames", file, "-o", out, "--method", "centred", "--points", 4000).exit_code == 0
    with np.load(out) as frames:
        assert frames["points"].shape == (512, 3)
        assert frames["valid"].mean() > 0.95
        assert np.allclose(np.linalg.norm(frames["quaternions"], axis=1), 1, atol=1e-5)
        on_floor = (np.abs(frames["points"][:, 2]) < 1e-4) & frames["valid"]
        inner = on_floor & (frames["points"][:, :2] > 0.25).all(1) & (frames["points"][:, :2] < 0.75).all(1)
        z = to_matrix(torch.from_numpy(frames["quaternions"]))[..., 2].numpy()
        assert inner.any()
        assert np.allclose(z[inner], [0, 0, 1], atol=1e-3), "the floor's normals look inwards, up"


def test_ply_has_coloured_axes(run, file, tmp_path):
    out = tmp_path / "frames.ply"
    assert run("frames", file, "-o", out, "--frames", 50, "--points", 3000).exit_code == 0
    header, _, body = out.read_bytes().partition(b"end_header\n")
    edges = int(header.split(b"element edge ")[1].split()[0])
    vertices = np.frombuffer(body, [("xyz", "<f8", 3), ("rgb", "u1", 3)], count=2 * edges)
    ends = vertices["xyz"].reshape(-1, 3, 2, 3)
    axes = ends[:, :, 1] - ends[:, :, 0]
    lengths = np.linalg.norm(axes, axis=-1)
    assert np.allclose(lengths, lengths.mean(), rtol=1e-5)
    assert np.allclose(np.cross(axes[:, 2], axes[:, 0]), axes[:, 1] * lengths.mean(), atol=1e-6), "y is z × x"
    assert (vertices["rgb"].reshape(-1, 3, 2, 3) == 255 * np.eye(3)[None, :, None]).all()
    assert len(as_cloud(read(out))) > 0, "other programs' readers, ours among them, take the file"


def test_z_points_in_the_given_direction(run, file, tmp_path):
    out = tmp_path / "frames.npz"
    assert run("frames", file, "-o", out, "--method", "centred", "--viewpoint", "0.5,0.5,-9").exit_code == 0
    with np.load(out) as frames:
        on_floor = (np.abs(frames["points"][:, 2]) < 1e-4) & frames["valid"]
        z = to_matrix(torch.from_numpy(frames["quaternions"]))[..., 2].numpy()
    assert on_floor.any()
    assert (z[on_floor, 2] < 0).all()


def test_a_file_is_read_once(run, file, monkeypatch):
    opened = []
    read_bytes = Path.read_bytes

    def count(path):
        opened.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", count)
    assert run("frames", file, "--viewpoint", "0.5,0.5,-9").exit_code == 0
    assert opened == [file]


def test_a_viewpoint_inside_the_shape_is_refused(run, file, tmp_path):
    done = run("frames", file, "--viewpoint", "0.5,0.5,0.5", "-o", tmp_path / "frames.npz")
    assert done.exit_code == 1
    assert "the viewpoint (0.5, 0.5, 0.5) is inside the shape" in done.stderr
    assert not (tmp_path / "frames.npz").exists()


def test_a_viewpoint_that_a_clouds_normals_face_away_from_is_refused(run, tmp_path):
    points = torch.nn.functional.normalize(torch.randn(900, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    cap = points[points[:, 2] > 0.5]
    for name, normals in (("outward", cap), ("inward", -cap)):
        write(tmp_path / f"{name}.ply", PointCloud(cap, normals))
    assert run("frames", tmp_path / "outward.ply", "--viewpoint", "0,0,5").exit_code == 0
    done = run("frames", tmp_path / "inward.ply", "--viewpoint", "0,0,5")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "100% of the normals face away from the viewpoint (0, 0, 5)" in done.stderr


def test_the_same_seed_gives_the_same_file(run, file, tmp_path):
    outs = [tmp_path / f"{i}.npz" for i in range(3)]
    for out, seed in zip(outs, (1, 1, 2), strict=True):
        assert run("frames", file, "-o", out, "--seed", seed, "--points", 2000).exit_code == 0
    first, again, other = (np.load(out)["points"] for out in outs)
    assert (first == again).all()
    assert (first != other).any()


def test_a_picture_is_drawn(run, file, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    out = tmp_path / "frames.png"
    result = run("frames", file, "--plot", out, "--points", 2000)
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")


def test_nothing_is_overwritten_without_force(run, file, tmp_path):
    out = tmp_path / "frames.npz"
    out.write_text("mine")
    refused = run("frames", file, "-o", out)
    assert refused.exit_code == 1
    assert "exists already" in refused.stderr
    assert out.read_text() == "mine"
    assert run("frames", file, "-o", out, "--force", "--points", 1000).exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["frames.npz", "wedge.off"], "nothing is left aside"


@pytest.mark.parametrize("arguments", [("-o", "frames.stl"), ("-o", "nowhere/frames.npz"), ("--plot", "frames.gif2")])
def test_unwritable_names_are_refused_before_any_work(run, file, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = run("frames", file, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_bad_input_gives_a_one_sentence_error(run, tmp_path):
    few = tmp_path / "few.xyz"
    write(few, PointCloud(torch.eye(3)))
    (tmp_path / "empty.off").write_text("")
    for name in ("few.xyz", "empty.off", "missing.ply", "."):
        result = run("frames", tmp_path / name)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert len(result.stderr.splitlines()) == 1
    assert "few.xyz: has 3 distinct points" in run("frames", few).stderr


SQUARE = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
CLOUD = torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
REFUSED = {
    "header.ply": "ply\nformat ascii 1.0\nelement vertex 4\n",
    "past.off": f"OFF\n4 1 0\n{SQUARE}3 0 1 9\n",
    "no_area.off": "OFF\n3 1 0\n0 0 0\n1 1 1\n2 2 2\n3 0 1 2\n",
    "equal.xyz": "0.1 0.2 0.3\n" * 50,
    "nan.xyz": "nan nan nan\n" * 50,
    "billions.off": f"OFF\n5000000000 1 0\n{SQUARE}3 0 1 2\n",
    "loop.off": None,
}
MASKED = {
    "line.xyz": torch.linspace(0, 1, 50, dtype=torch.float64)[:, None] * torch.tensor([1.0, 2, 3]),
    "plane.xyz": CLOUD * torch.tensor([1.0, 1, 0]),
    "some_nan.xyz": torch.cat([CLOUD, torch.full((3, 3), torch.nan, dtype=torch.float64)]),
    "huge.xyz": 1e12 * CLOUD,
    "tiny.xyz": 1e-12 * CLOUD,
}


@pytest.mark.parametrize("name", REFUSED)
def test_file_without_a_shape_is_refused_and_nothing_is_written(run, tmp_path, name):
    path, out = tmp_path / name, tmp_path / "out.npz"
    if REFUSED[name] is None:
        path.symlink_to(path)
    else:
        path.write_text(REFUSED[name])
    result = run("frames", path, "-o", out)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert name in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == [name], "nothing half-written"


@pytest.mark.parametrize("name", MASKED)
def test_clouds_without_some_frames_are_prepared_with_a_mask(run, tmp_path, name):
    path, out = tmp_path / name, tmp_path / "out.npz"
    np.savetxt(path, MASKED[name].numpy(), fmt="%.17g")
    result = run("frames", path, "-o", out, "--method", "centred")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    with np.load(out) as frames:
        assert np.isfinite(frames["quaternions"]).all()
        assert np.isfinite(frames["points"]).all()
        assert frames["valid"].any() == (name != "line.xyz")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--points", 100_000_000_000),
        ("--seed", 99_999_999_999_999_999_999),
        ("--viewpoint", "inf,0,0"),
        ("--viewpoint", "nan,0,0"),
        ("-o", "folder.npz", "--force"),
    ],
)
def test_options_out_of_range_are_refused(run, file, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.npz").mkdir()
    result = run("frames", file, *arguments)
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert any(words in result.stderr for words in ("Invalid value", "finite", "is a folder"))


def test_repeatability_of_a_folder_is_a_table(run, file, tmp_path, monkeypatch):
    monkeypatch.setattr("qecnet.evaluation.repeatability.SIZES", (1500, 600))
    out = tmp_path / "table.csv"
    result = run("repeatability", tmp_path, "-o", out, "--places", 60, "--seed", 3)
    assert result.exit_code == 0, result.output
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(r["method"], int(r["points"])) for r in rows] == [
        (m, n) for n in (1500, 600) for m in ("flare", "shot", "centred")
    ]
    for row in rows:
        assert row["shapes"] == "1"
        assert row["seed"] == "3"
        assert float(row["radius_z_axis"]) >= 0.06
        assert 0.5 < float(row["valid"]) <= 1
        assert float(row["within_5"]) <= float(row["within_15"]) <= float(row["within_30"])
    assert float(rows[2]["percentile_50"]) < float(rows[1]["percentile_50"]), "flat faces: centred before SHOT"


def test_repeatability_leaves_out_point_clouds(run, file, tmp_path, monkeypatch):
    monkeypatch.setattr("qecnet.evaluation.repeatability.SIZES", (600,))
    (tmp_path / "clouds").mkdir()
    (tmp_path / "clouds" / "cloud.xyz").write_text("".join(f"{x} {x * x} 0\n" for x in range(20)))
    result = run("repeatability", tmp_path, "-o", tmp_path / "table.csv", "--places", 20)
    assert result.exit_code == 0, result.output
    with (tmp_path / "table.csv").open() as stream:
        assert {row["shapes"] for row in csv.DictReader(stream)} == {"1"}
    result = run("repeatability", tmp_path / "clouds")
    assert result.exit_code == 1
    assert "points without faces" in result.stderr


def test_repeatability_writes_no_file_by_default(run, file, tmp_path, monkeypatch):
    monkeypatch.setattr("qecnet.evaluation.repeatability.SIZES", (600,))
    monkeypatch.chdir(tmp_path)
    result = run("repeatability", ".", "--places", 20)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 3
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_repeatability_without_meshes_gives_a_one_sentence_error(run, tmp_path):
    (tmp_path / "empty").mkdir()
    for name, sentence in (
        ("empty", "contains no file of a supported format"),
        ("nothing", "no such file or directory"),
    ):
        result = run("repeatability", tmp_path / name)
        assert result.exit_code == 1
        assert sentence in result.stderr
        assert len(result.stderr.splitlines()) == 1
