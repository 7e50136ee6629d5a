"""What a stranger at a terminal finds: an example with each command, and completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from qecnet.cli.main import app

QEC = Path(sys.executable).with_name("qec")


def commands(group, *before):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield (*before, name)


@pytest.mark.parametrize("words", [*commands(get_command(app))], ids=" ".join)
def test_each_command_has_an_example_of_itself(words):
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"Example: qec {' '.join(words)}" in " ".join(shown.output.split())


def test_the_shell_completes_commands():
    asked = {"_QEC_COMPLETE": "complete_bash", "COMP_WORDS": "qec cla", "COMP_CWORD": "1"}
    done = subprocess.run([QEC], env=os.environ | asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["classify"], done.stderr
    in_a_shell = ["bash", "-c", f"{QEC} --show-completion; exit"]
    script = subprocess.run(in_a_shell, capture_output=True, text=True, check=False)
    assert "_QEC_COMPLETE=complete_bash" in script.stdout, script.stderr
