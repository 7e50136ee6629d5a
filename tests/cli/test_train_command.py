"""`qec train` as a user runs it: settings from a file and options, and every kind of bad input."""

import json
import zipfile

import pytest
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.nn import list_networks

TINY = """
dataset = "shapes"
per_class = 3
points = 200
subsamplings = 2
frames = 16
patches = 4
neighbours = 4
capsules = 2
epochs = 1
batch_size = 4
validation = 0.5
"""


@pytest.fixture(scope="session")
def frames_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("frames")


@pytest.fixture
def run(frames_folder):
    return lambda *arguments: CliRunner().invoke(
        app, ["train", "--cache", str(frames_folder), "--workers", "1", *(str(a) for a in arguments)]
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def trained(run, file, tmp_path):
    result = run("--settings", file, "--out", tmp_path / "run", "--set", "siamese=0.1", "--set", "capsules=3")
    assert result.exit_code == 0, result.output
    return tmp_path / "run"


def refusal(result):
    """The one sentence of a run that was refused."""
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("qec: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_options_override_the_file_and_all_settings_are_written(trained):
    settings = json.loads((trained / "settings.json").read_text())
    assert (settings["capsules"], settings["siamese"], settings["frames"]) == (3, 0.1, 16)
    assert settings["learning_rate"] == 1e-3


def test_lines_are_plain_where_there_is_no_terminal(run, file, tmp_path):
    result = run("--settings", file, "--out", tmp_path / "run")
    first, last = result.stdout.strip().splitlines()
    assert first.startswith("epoch 1/1  loss ")
    assert " NR " in first
    assert " AR " in first
    assert last == f"written to {tmp_path / 'run'}"
    assert "\x1b" not in result.output


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(run, file, trained):
    before = contents(trained)
    said = refusal(run("--settings", file, "--out", trained))
    assert said.endswith("already holds a run (settings.json); continue it with --resume, or give another --out")
    assert contents(trained) == before


@pytest.mark.parametrize(("change", "then", "now"), [("capsules=5", 3, 5), ("seed=1", 0, 1), ("margin=0.2", 0.1, 0.2)])
def test_a_resume_with_another_setting_is_refused_by_its_name(run, trained, change, then, now):
    before = contents(trained)
    said = refusal(run("--out", trained, "--resume", "--set", change))
    assert f"was started with {change.partition('=')[0]} = {then}, not {now};" in said
    assert contents(trained) == before


def test_a_resume_needs_no_settings(run, trained):
    assert run("--out", trained, "--resume").exit_code == 0


def test_a_resume_of_nothing_is_refused(run, tmp_path):
    assert "run: holds no run to resume" in refusal(run("--out", tmp_path / "run", "--resume"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["settings.json", "checkpoint.safetensors"])
def test_a_damaged_run_is_refused(run, trained, name):
    (trained / name).write_bytes((trained / name).read_bytes()[:40])
    before = contents(trained)
    assert f"{name}: is damaged" in refusal(run("--out", trained, "--resume"))
    assert contents(trained) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--dataset", "modelnet10"], "modelnet10 is read from files; give the path of their folder or zip"),
        (["--dataset", "modelnet10", "--data", "{}/absent"], "absent: there is no such folder or zip"),
        (["--dataset", "modelnet10", "--data", "{}/empty"], "empty: is an empty folder"),
        (["--dataset", "modelnet10", "--data", "{}/half.zip"], "half.zip: is not a complete zip file"),
        (["--dataset", "modelnet10", "--data", "{}/other"], "other: is not modelnet10, which has no class cat, dog"),
        (["--dataset", "shapes", "--data", "{}/empty"], "empty: shapes are generated, not read"),
        (
            ["--dataset", "shapes", "--config", "upright", "--set", "unlabelled=scanned_objects"],
            "unlabelled is 'scanned_objects'; give its folder with --unlabelled-data",
        ),
        (["--config", "ours"], f"config is 'ours'; it must be one of {', '.join(list_networks())}"),
        (["--set", "epochs=few"], "epochs is 'few'; it must be a whole number"),
        (["--set", "speed=1"], "speed is not a setting"),
        (["--settings", "{}/absent.toml"], "absent.toml: cannot be opened"),
        (["--dataset", "shapes", "--set", "per_class=1"], "per_class is 1; a train and a test split need at least 2"),
    ],
)
def test_bad_input_gives_a_one_sentence_error_and_nothing_is_made(run, tmp_path, arguments, sentence):
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "half.zip", "w") as archive:
        archive.writestr("chair/train/chair_0001.off", "OFF\n0 0 0\n" * 1000)
    (tmp_path / "half.zip").write_bytes((tmp_path / "half.zip").read_bytes()[:5000])
    for kind in ("cat", "dog"):
        for split in ("train", "test"):
            (tmp_path / "other" / kind / split).mkdir(parents=True)
            (tmp_path / "other" / kind / split / f"{kind}_0001.xyz").write_text("0 0 0\n1 0 0\n0 1 0\n")
    said = refusal(run("--out", tmp_path / "run", *(argument.format(tmp_path) for argument in arguments)))
    assert sentence in said
    assert not (tmp_path / "run").exists()


def test_file_in_place_of_a_folder_is_refused(run, file):
    assert "run.toml: is a file; choose a folder for --out" in refusal(run("--settings", file, "--out", file))
    assert file.read_text() == TINY


def test_a_batch_larger_than_the_data_is_refused(run, file, tmp_path):
    result = run("--settings", file, "--out", tmp_path / "run", "--set", "batch_size=500")
    assert "batch_size is 500, with 10 training shapes" in refusal(result)
    assert contents(tmp_path / "run") == {}
