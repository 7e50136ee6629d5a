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
from qecnet.models import edit_library, load, read_library
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


def test_a_rotated_shape_is_found(run, folder, tmp_path):
    toilet = make_shape("toilet", 1)
    write(tmp_path / "query.ply", replace(toilet, vertices=rotate(TURN, toilet.vertices)))
    indexed = run("index", folder)
    assert indexed.exit_code == 0, indexed.stderr
    assert "3 shapes (3 new or changed, 0 unchanged, 0 removed)" in indexed.stdout
    done = run("search", tmp_path / "query.ply", "--library", folder, "--json")
    assert done.exit_code == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[0]["file"] == str(folder / "deep" / "toilet.off")
    assert len(found) == 3
    assert angular_distance(torch.tensor(found[0]["rotation"], dtype=torch.float64), TURN) < 0.04


def test_an_index_is_kept_up_to_date(run, folder):
    (folder / "bad.ply").write_bytes(b"ply\n")
    first = run("index", folder)
    assert first.exit_code == 1
    assert len(first.stderr.splitlines()) == 1
    assert "3 shapes (3 new or changed, 0 unchanged, 0 removed, 1 failed)" in first.stdout
    (folder / "bad.ply").unlink()
    (folder / "bed.xyz").unlink()
    again = run("index", folder)
    assert again.exit_code == 0, again.output
    assert "2 shapes (0 new or changed, 2 unchanged, 1 removed)" in again.stdout
    result = run("search", folder / "chair.xyz", "--library", folder, "-n", 1)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "chair.xyz" in result.stdout
    assert "toilet" not in result.stdout


COMMIT_AT_ONCE = """
import sys
from qecnet.cli.main import app
from qecnet.models.library import shape_library
shape_library._SECONDS = 0
sys.argv = ["qec", "index", sys.argv[1], "--workers", "1"]
app()
"""


def count(index: Path) -> int:
    """Count the shapes of an index that may not exist yet."""
    try:
        with read_library(index) as library:
            return len(library)
    except ValueError:
        return 0


def test_a_killed_run_continues_where_it_stopped(run, folder):
    many = 40  # three batches: the first is kept long before the last
    for number in range(many):
        write(folder / f"{number:03d}.npy", make_shape("chair", number).sample(500, torch.Generator().manual_seed(0)))
    process = subprocess.Popen([sys.executable, "-c", COMMIT_AT_ONCE, str(folder)])
    try:
        end = time.monotonic() + 300
        while not count(folder / INDEX):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    kept = count(folder / INDEX)
    assert 1 <= kept < many
    found = run("search", folder / "bed.xyz", "--library", folder)
    assert found.exit_code == 0
    assert found.stderr.startswith(f"note: {folder / INDEX}: is not finished; qec index is at work or was interrupted")
    again = run("index", folder)
    assert again.exit_code == 0, again.output
    assert f"{many + 3} shapes ({many + 3 - kept} new or changed, {kept} unchanged, 0 removed)" in again.stdout


def test_an_index_of_other_weights_is_replaced_only_with_force(run, folder):
    assert run("index", folder).exit_code == 0
    refused = run("index", folder, "--model", "modelnet40-paper")
    assert refused.exit_code == 1
    assert f"other weights ({DEFAULT_MODEL})" in refused.stderr
    assert run("index", folder, "--model", "modelnet40-paper", "--force").exit_code == 0
    assert run("search", folder / "chair.xyz", "--library", folder).exit_code == 0


def test_a_read_only_library_is_indexed_elsewhere(run, folder, tmp_path):
    index = tmp_path / "chairs"
    folder.chmod(0o555)
    assert run("index", folder, "--index", index).exit_code == 0
    assert index.is_dir()
    assert not (folder / INDEX).exists()
    for file in index.iterdir():
        file.chmod(0o444)
    index.chmod(0o555)
    found = run("search", folder / "chair.xyz", "--library", folder, "--index", index, "-n", 1, "--json")
    assert json.loads(found.stdout)["file"] == str(folder / "chair.xyz")


def test_search_filters_by_class_and_confidence(run, folder):
    assert run("index", folder).exit_code == 0
    search = "search", folder / "bed.xyz", "--library", folder, "--json"
    everything = [json.loads(line) for line in run(*search).stdout.splitlines()]
    for row in everything:
        found = run(*search, "--class", row["label"], "--min-confidence", row["confidence"] - 0.001).stdout
        assert row["file"] in [json.loads(line)["file"] for line in found.splitlines()]
        assert {json.loads(line)["label"] for line in found.splitlines()} == {row["label"]}
    assert run(*search, "--min-confidence", 1).stdout == ""
    unknown = run(*search, "--class", "spoon")
    assert unknown.exit_code == 1
    assert "spoon: is not a class of" in unknown.stderr


def test_renamed_and_removed_files_are_noticed(run, folder):
    assert run("index", folder).exit_code == 0
    (folder / "bed.xyz").rename(folder / "deep" / "bed.xyz")
    (folder / "chair.xyz").unlink()
    again = run("index", folder)
    assert "2 shapes (0 new or changed, 1 unchanged, 1 removed, 1 renamed)" in again.stdout
    found = run("search", folder / "deep" / "bed.xyz", "--library", folder, "-n", 1, "--json")
    assert json.loads(found.stdout)["file"] == str(folder / "deep" / "bed.xyz")


def test_broken_link_gives_a_one_sentence_error_and_the_rest_is_indexed(run, folder, tmp_path):
    (folder / "gone.ply").symlink_to(folder / "nothing.ply")
    for command in (("index", folder), ("classify", folder, "-o", tmp_path / "r.csv", "--workers", 1)):
        result = run(*command)
        assert result.exit_code == 1
        said = "cannot be read (no such file or directory); restore what this link leads to, or delete it"
        assert result.stderr == f"qec: {folder}/gone.ply: {said}\n"
    assert "3 done, 0 unchanged, 1 failed" in result.stdout


def test_a_file_is_not_an_index(run, folder):
    for command in (("index", folder), ("search", folder / "chair.xyz", "--library", folder)):
        refused = run(*command, "--index", folder / "chair.xyz")
        assert refused.exit_code == 1
        assert (
            refused.stderr == f"qec: {folder / 'chair.xyz'}: is a file, but an index is a folder; give another path\n"
        )


def test_concurrent_commands_do_not_add_to_one_index(run, folder):
    with edit_library(folder / INDEX, load(DEFAULT_MODEL)):
        refused = run("index", folder)
        assert refused.exit_code == 1
        assert len(refused.stderr.splitlines()) == 1
        assert f"{folder / INDEX}: another process is adding to this index" in refused.stderr
        assert run("search", folder / "chair.xyz", "--library", folder).exit_code == 0


def test_a_folder_of_other_files_is_not_an_index(run, folder, tmp_path):
    result = run("index", folder, "--index", folder, "--force")
    assert result.exit_code == 1
    assert "is a folder with other files; give a new folder" in result.stderr
    assert (folder / "chair.xyz").exists()


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


def test_missing_files_give_a_one_sentence_error(run, folder):
    for arguments, said in (
        (("index", folder / "none"), "is not a folder"),
        (("index",), "no folder was given"),
        (("index", folder / "deep", folder / "bed.xyz"), "contains them all with --library"),
        (("search", folder / "chair.xyz", "--library", folder), "create it with qec index"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert said in result.stderr
