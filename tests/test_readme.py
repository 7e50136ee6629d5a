"""Every snippet of the README and of the pages runs as it stands, among files of the names that they use.

Blocks of `python` are executed, and so is each `qec` command of blocks of `sh`, in this process (real ones are started
by `tests/cli/test_end_to_end.py`). Blocks of `console` need data that is not here, or hours: their commands and options
are looked up.
"""

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from qecnet.algebra import random_quaternion, rotate
from qecnet.cli.main import app, load_command
from qecnet.datasets import make_shape
from qecnet.formats import SUFFIXES, write

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = {("export.md", "python"), ("train.md", "sh")}


def blocks(language):
    return [
        pytest.param(code, id=f"{page.name}-{number}", marks=[pytest.mark.slow] * ((page.name, language) in SLOW))
        for page in PAGES
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL))
    ]


def commands(code, program):
    return [line.split("  #")[0].strip() for line in code.splitlines() if line.startswith(f"{program} ")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The files that snippets speak of."""
    folder = tmp_path_factory.mktemp("files")
    chair, turn = make_shape("chair", 3), random_quaternion((), 2, dtype=torch.float64)
    rotated = replace(chair, vertices=rotate(turn, chair.vertices))
    write(folder / "scan.ply", rotated.sample(30_000, torch.Generator().manual_seed(0)))
    write(folder / "a.ply", chair)
    write(folder / "b.ply", rotated)
    write(folder / "chair.obj", rotated)
    (folder / "meshes").mkdir()
    for kind in ("bed", "chair"):
        write(folder / "meshes" / f"{kind}.off", make_shape(kind, 1))
    for kind in ("chair", "table"):
        (folder / "furniture" / kind).mkdir(parents=True)
        for seed in range(6):
            cloud = make_shape(kind, seed).sample(1500, torch.Generator().manual_seed(seed))
            write(folder / "furniture" / kind / f"{seed}.xyz", cloud)
    return folder


@pytest.fixture
def files(made, tmp_path, monkeypatch):
    """A copy of them, the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code, files):
    if "qec-index" in code:
        assert CliRunner().invoke(app, ["index", "meshes"]).exit_code == 0
    exec(compile(code, "snippet", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_run(code, files, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(files / "cache"))
    if "qec search" in code and "qec index" not in code:
        assert CliRunner().invoke(app, ["index", "meshes"]).exit_code == 0
    for command in commands(code, "qec"):
        words, _, _ = command.partition(" > ")
        result = CliRunner().invoke(app, shlex.split(words)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {command.split()[1] for command in commands(code, "make")} <= {*targets}


@pytest.mark.parametrize("code", blocks("console"))
def test_commands_that_need_data_exist_with_their_options(code):
    assert commands(code, "qec")
    for command in commands(code, "qec"):
        _, *words = command.split()
        found = load_command(words.pop(0))
        if hasattr(found, "commands"):
            found = found.commands[words.pop(0)]
        known = {name for parameter in found.params for name in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, command


def test_there_are_snippets_of_each_kind():
    assert all(len(blocks(language)) > 2 for language in ("python", "sh", "console"))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "src/qecnet/viewer/page/index.html"])
def test_every_format_is_named_where_users_look(page):
    words = set(re.findall(r"\w+", (ROOT / page).read_text().upper()))
    assert {suffix[1:].upper() for suffix in SUFFIXES} <= words
