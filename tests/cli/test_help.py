"""`qec --help`, `--version` and completion: fast, complete, and plain text."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qecnet.cli.main import COMMANDS, app, load_command
from qecnet.nn import find_network, list_networks

QEC = Path(sys.executable).with_name("qec")


def all_commands():
    for name in COMMANDS:
        loaded = load_command(name)
        for inner in getattr(loaded, "commands", ("",)):
            yield (name, inner) if inner else (name,)


def help_of(*words):
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    return " ".join(shown.output.split())


@pytest.mark.parametrize("words", [(), ("evaluate",), *all_commands()], ids=" ".join)
def test_each_help_text_has_an_example(words):
    assert " ".join(("Example: qec", *words)) in help_of(*words)


def test_each_command_is_listed_with_its_summary():
    listed = help_of()
    assert all(f"{name} {summary}" in listed for name, summary in COMMANDS.items())


@pytest.mark.parametrize(("name", "summary"), COMMANDS.items())
def test_the_help_text_begins_with_the_summary(name, summary):
    assert load_command(name).help.startswith(summary.removesuffix("."))


@pytest.mark.parametrize("words", [*all_commands()], ids=" ".join)
def test_help_shows_no_huge_limits(words):
    assert str(2**63 - 1) not in help_of(*words)


def test_each_network_is_listed():
    """In a text, as the registry would import torch."""
    networks = [name for name in list_networks() if find_network(name).network.__module__.startswith("qecnet.")]
    (listed,) = re.findall(r"Network: (.*?)\. Default", help_of("train"))
    assert sorted(set(re.findall(r"\w+", listed)) - {"or"}) == sorted(networks)


def test_brackets_in_help_are_text():
    assert "qecnet[export]" in help_of("export")


def test_a_seed_that_is_too_large_is_refused():
    refused = CliRunner().invoke(app, ["classify", "x.ply", "--seed", str(2**63)])
    assert refused.exit_code == 2
    assert "is larger than" in refused.stderr


COMPLETE = {"_QEC_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
LIGHT = [
    ("help", ["--help"], {}),
    ("version", ["--version"], {}),
    *((f"help of {' '.join(words)}", [*words, "--help"], {}) for words in all_commands()),
    ("completion of a command", [], COMPLETE | {"COMP_WORDS": "qec cla"}),
    ("completion of an option", [], COMPLETE | {"COMP_WORDS": "qec classify --mo", "COMP_CWORD": "2"}),
]


REFUSED = [
    ("classify --json --csv x.off", "cannot be combined"),
    ("classify", "no files were given"),
    ("orient -o out/", "no files were given"),
    ("orient x.off -o out/ --results r.csv --dry-run", "--results needs a folder"),
    ("align a.off b.off --json --transform-only", "cannot be combined"),
    ("index", "no folder was given"),
    ("search x.off --library nowhere", "create it with qec index nowhere"),
    ("export model.txt", "name it *.onnx"),
    ("frames x.off -o frames.txt", "name it *.npz or *.ply"),
    ("repeatability . -o table.txt", "name it *.csv"),
    ("report . -o page.txt", "name it *.html"),
    ("merge .", "exists already"),
    ("evaluate rotation nowhere", "there is no such folder"),
]


RUN_ALL = """
import contextlib, io, json, os, sys
from qecnet.cli.main import app
for name, arguments, environment in json.loads(sys.argv[1]):
    printed, said = io.StringIO(), io.StringIO()
    os.environ.update(environment)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        app(arguments, prog_name="qec")
    for variable in environment:
        del os.environ[variable]
    heavy = sorted({"torch", "numpy", "rich"} & {*sys.modules})
    print(json.dumps([name, printed.getvalue(), said.getvalue(), heavy]))
"""


def run_all(calls):
    """Run commands in one process, so that Python and Typer are loaded once."""
    command = [sys.executable, "-c", RUN_ALL, json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_commands_that_do_not_compute_import_no_torch():
    found, errors = run_all(LIGHT)
    assert [(name, bool(printed), heavy) for name, printed, _, heavy in found] == [
        (name, True, []) for name, *_ in LIGHT
    ], errors


def test_options_are_checked_before_torch_is_imported():
    found, errors = run_all([(words, words.split(), {}) for words, _ in REFUSED])
    assert [(words, heavy) for words, _, _, heavy in found] == [(words, []) for words, _ in REFUSED], errors
    for (_, reason), (_, printed, said, _) in zip(REFUSED, found, strict=True):
        assert reason in said
        assert printed == ""


def test_the_shell_completes_commands():
    asked = COMPLETE | {"COMP_WORDS": "qec cla"}
    done = subprocess.run([QEC], env=os.environ | asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["classify"], done.stderr
    in_a_shell = ["bash", "-c", f"{QEC} --show-completion; exit"]
    script = subprocess.run(in_a_shell, capture_output=True, text=True, check=False)
    assert "_QEC_COMPLETE=complete_bash" in script.stdout, script.stderr
