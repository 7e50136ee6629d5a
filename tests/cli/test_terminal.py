"""Commands at a terminal: folders with other files, narrow windows, closed pipes, interrupts and plain ASCII."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kinds import present
from tests.rotations import to_scipy
from typer.testing import CliRunner

import qecnet
from qecnet.algebra import random_quaternion
from qecnet.cli._output import angle_about_axis, print_table
from qecnet.cli.main import app
from qecnet.datasets import make_shape
from qecnet.formats import write

QEC = Path(sys.executable).with_name("qec")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path):
    """Three clouds in a folder with a long name."""
    place = tmp_path / "a folder of shapes whose name is long" / "scans"
    place.mkdir(parents=True)
    for seed in range(3):
        write(place / f"chair{seed}.npy", make_shape("chair", seed).sample(600, torch.Generator().manual_seed(0)))
    return place


def test_other_files_in_a_folder_are_counted_and_not_failures(folder):
    (folder / "notes.txt").write_text("Scanned in May.\nThe second chair has lost a leg.\n")
    (folder / "photo.JPG").write_bytes(b"\xff\xd8\xff")
    (folder / "other.jpg").write_bytes(b"\xff\xd8\xff")
    result = run("classify", folder, "--json")
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr == f"note: {folder}: 3 files skipped: .jpg, .txt\n"


def test_columns_line_up_below_a_heading_that_is_wider_than_the_names(capsys):
    print_table({"class": 5}, [("-", "chair")], len("-"))
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.index("class") == row.index("chair")


def test_text_clouds_in_a_folder_are_read(folder):
    cloud = make_shape("chair", 9).sample(600, torch.Generator().manual_seed(0)).points.numpy()
    np.savetxt(folder / "plain.txt", cloud)
    np.savetxt(folder / "named.csv", cloud, delimiter=",", header="x,y,z", comments="")
    result = run("info", folder)
    assert result.exit_code == 0, result.stderr
    assert "plain.txt: cloud, 600 points" in result.stdout
    assert "named.csv: cloud, 600 points" in result.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_opened_is_reported(folder):
    (folder / "private").mkdir(mode=0)
    _check_unopened(folder)


def test_a_folder_that_fails_to_open_is_reported(folder, monkeypatch):
    (folder / "private").mkdir()
    scandir = os.scandir

    def refuse(path):
        if Path(path).name == "private":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    _check_unopened(folder)


def _check_unopened(folder):
    result = run("classify", folder, "--json")
    assert result.exit_code == 1
    assert f"{folder / 'private'}: cannot be opened (permission denied)" in result.stderr
    assert len([line for line in result.stdout.splitlines() if "label" in line]) == 3


def in_terminal(*command, columns):
    """What a command prints on a terminal of so many columns."""
    leader, follower = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns)}
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.PIPE, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                shown += os.read(leader, 4096)
            except OSError:
                break
        assert process.wait() == 0, present(process.stderr).read()
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def test_paths_are_whole_in_a_narrow_terminal(folder):
    shown = in_terminal(QEC, "classify", folder, columns=80)
    assert all(str(folder / f"chair{seed}.npy") in shown.splitlines() for seed in range(3))
    rest = [line for line in shown.splitlines() if not line.startswith("/")]
    assert len(rest) == 5
    assert all(len(line) <= 80 for line in rest)


def test_brackets_in_names_are_printed(folder, monkeypatch):
    (folder / "chair0.npy").rename(folder / "chair[v2].npy")
    (folder / "x").mkdir()
    weights = qecnet.load(qecnet.DEFAULT_MODEL)
    monkeypatch.setattr(weights, "classes", tuple(f"{name}[v2]" for name in weights.classes))
    monkeypatch.setattr("qecnet.models.load", lambda name, **options: weights)
    shown = run("classify", folder / "chair[v2].npy").stdout
    assert "chair[v2].npy" in shown
    assert "  chair[v2]" in shown


def test_closed_pipe_is_not_an_error(folder):
    for command in (f"{QEC} classify '{folder}' --json", f"{QEC} info '{folder}'", f"{QEC} --help"):
        done = subprocess.run(["bash", "-c", f"{command} | head -c 5"], capture_output=True, text=True, check=False)
        assert done.stderr == "", command
        assert len(done.stdout) == 5


def test_an_ascii_terminal_gets_a_readable_table(folder):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [QEC, "classify", folder]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"chair +0\.\d\d .* \d+ deg about \(", done.stdout.decode("ascii"))


INTERRUPTED = """
import os, signal, sys
wanted = sys.argv.pop(1)
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from qecnet.cli.main import app
app()
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [("typer", "info"), ("numpy.linalg", "classify"), ("torch", "classify"), ("torch", "info"), ("torch", "orient")],
)
def test_an_interrupt_while_modules_are_imported_prints_nothing(folder, module, command):
    arguments = [sys.executable, "-c", INTERRUPTED, module, command, folder]
    options = ["-o", folder / "out"] if command == "orient" else []
    done = subprocess.run([*arguments, *options], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert done.stdout == done.stderr == ""


def test_an_interrupt_keeps_the_rows_that_are_done(folder):
    command = [QEC, "classify", *[folder] * 400, "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = [present(process.stdout).readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=120)
    assert "confidence" in first[0]
    assert "chair0.npy" in first[1]
    assert len(rest.splitlines()) < 1197
    assert said == ""
    assert process.returncode == 130


def test_a_file_has_the_same_row_alone_and_in_a_batch(folder):
    def rows(*files):
        found = [json.loads(line) for line in run("classify", *files, "--json").stdout.splitlines()]
        return {row["file"]: {key: value for key, value in row.items() if key != "milliseconds"} for row in found}

    together = rows(*sorted(folder.iterdir()))
    assert together == {name: row for name in together for name, row in rows(name).items()}


def test_commands_write_nothing_into_the_working_folder(folder, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for arguments in (("classify", folder), ("info", folder), ("models",), ("index", folder)):
        assert run(*arguments).exit_code == 0
    assert run("search", folder / "chair0.npy", "--library", folder).exit_code == 0
    assert [*empty.iterdir()] == []


@pytest.mark.parametrize("seed", range(5))
def test_angle_and_axis_are_those_of_the_rotation_vector(seed):
    pose = random_quaternion((), generator=seed, dtype=torch.float64)
    vector = to_scipy(pose).as_rotvec()
    angle = np.linalg.norm(vector)
    x, y, z = vector / angle
    expected = f"{np.degrees(angle):.0f}° about ({x:.2f}, {y:.2f}, {z:.2f})"
    assert angle_about_axis(pose.tolist()) == angle_about_axis((-pose).tolist()) == expected
