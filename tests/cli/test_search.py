"""`qec index` and `qec search` as a user runs them."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from qecnet import DEFAULT_MODEL
from qecnet.algebra import angular_distance, random_quaternion, rotate
from qecnet.cli._options import INDEX
from qecnet.cli.main import app
from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.models.library import read_library
from qecnet.models.named import weights_file

QEC = Path(sys.executable).with_name("qec")
TURN = random_quaternion((), generator=3, dtype=torch.float64)


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path):
    library = tmp_path / "library"
    (library / "deep").mkdir(parents=True)
    for kind in ("bed", "chair"):
        write(library / f"{kind}.xyz", make_shape(kind, 1).sample(700, torch.Generator().manual_seed(0)))
    write(library / "deep" / "toilet.off", make_shape("toilet", 1))
    return library


def test_the_real_commands_find_a_turned_shape(folder, tmp_path):
    toilet = make_shape("toilet", 1)
    write(tmp_path / "query.ply", replace(toilet, vertices=rotate(TURN, toilet.vertices)))
    indexed = subprocess.run([QEC, "index", folder], capture_output=True, text=True, check=False)
    assert indexed.returncode == 0, indexed.stderr
    assert "3 shapes (3 new or changed, 0 unchanged, 0 removed)" in indexed.stdout
    command = [QEC, "search", tmp_path / "query.ply", "--library", folder, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[0]["file"] == str(folder / "deep" / "toilet.off")
    assert len(found) == 3
    assert angular_distance(torch.tensor(found[0]["rotation"], dtype=torch.float64), TURN) < 0.04


def test_an_index_is_kept_up_to_date(run, folder):
    (folder / "bad.ply").write_bytes(b"ply\n")
    first = run("index", folder)
    assert first.exit_code == 1
    assert len(first.stderr.splitlines()) == 1
    assert "3 shapes (3 new or changed, 0 unchanged, 0 removed)" in first.stdout
    (folder / "bad.ply").unlink()
    (folder / "bed.xyz").unlink()
    again = run("index", folder)
    assert again.exit_code == 0, again.output
    assert "2 shapes (0 new or changed, 2 unchanged, 1 removed)" in again.stdout
    result = run("search", folder / "chair.xyz", "--library", folder, "-n", 1)
    assert result.exit_code == 0, result.output
    assert "chair.xyz" in result.stdout
    assert "toilet" not in result.stdout


KEEPING_EVERYTHING_AT_ONCE = """
import sys
from qecnet.cli._options import INDEX
from qecnet.cli.main import app
from qecnet.models import library
library._SECONDS = 0
sys.argv = ["qec", "index", sys.argv[1], "--workers", "1"]
app()
"""


def test_what_was_killed_goes_on_where_it_was(run, folder):
    many = 40  # three batches: the first is kept long before the last
    for number in range(many):
        write(folder / f"{number:03d}.npy", make_shape("chair", number).sample(500, torch.Generator().manual_seed(0)))
    process = subprocess.Popen([sys.executable, "-c", KEEPING_EVERYTHING_AT_ONCE, str(folder)])
    try:
        end = time.monotonic() + 300
        while not (folder / INDEX).exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.001)
    finally:
        process.kill()
        process.wait()
    kept = len(read_library(folder / INDEX).files)
    assert 1 <= kept < many
    assert run("search", folder / "bed.xyz", "--library", folder).exit_code == 0
    again = run("index", folder)
    assert again.exit_code == 0, again.output
    assert f"{many + 3} shapes ({many + 3 - kept} new or changed, {kept} unchanged, 0 removed)" in again.stdout


def test_an_index_of_other_weights_is_made_anew_only_when_asked(run, folder):
    assert run("index", folder).exit_code == 0
    refused = run("index", folder, "--model", "modelnet40-paper")
    assert refused.exit_code == 1
    assert f"other weights ({DEFAULT_MODEL})" in refused.stderr
    assert run("index", folder, "--model", "modelnet40-paper", "--force").exit_code == 0
    assert run("search", folder / "chair.xyz", "--library", folder).exit_code == 0


def test_a_read_only_library_is_indexed_elsewhere(run, folder, tmp_path):
    index = tmp_path / "chairs.safetensors"
    assert run("index", folder, "--index", index).exit_code == 0
    assert index.exists()
    assert not (folder / INDEX).exists()
    found = run("search", folder / "chair.xyz", "--library", folder, "--index", index, "-n", 1, "--json")
    assert json.loads(found.stdout)["file"] == str(folder / "chair.xyz")


def test_search_takes_a_model_that_has_moved(run, folder, tmp_path):
    weights = tmp_path / "mine.safetensors"
    shutil.copy(weights_file(DEFAULT_MODEL), weights)
    assert run("index", folder, "--model", weights).exit_code == 0
    moved = weights.rename(tmp_path / "moved.safetensors")
    lost = run("search", folder / "chair.xyz", "--library", folder)
    assert lost.exit_code == 1
    assert "if it has moved, name it with --model" in lost.stderr
    assert run("search", folder / "chair.xyz", "--library", folder, "--model", moved).exit_code == 0
    other = run("search", folder / "chair.xyz", "--library", folder, "--model", "modelnet40-paper")
    assert other.exit_code == 1
    assert f"qec index {folder} --model modelnet40-paper --force" in other.stderr


def test_what_is_missing_is_one_sentence(run, folder):
    for arguments, said in (
        (("index", folder / "none"), "is not a folder"),
        (("search", folder / "chair.xyz", "--library", folder), "create it with qec index"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert said in result.stderr
