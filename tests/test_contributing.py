"""What CONTRIBUTING says about the code is true: the files that a shape passes, and the size of each part."""

import inspect
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.test_layering import code_lines
from typer.testing import CliRunner

import qecnet
from qecnet.cli.main import app
from qecnet.datasets import make_shape
from qecnet.formats import write

PACKAGE = Path(qecnet.__file__).parent
TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()


def section(title: str) -> str:
    """The text below a heading."""
    return TEXT.split(f"## {title}", 1)[1].split("\n## ", 1)[0]


def test_files_that_a_shape_passes_through(tmp_path):
    """A function of each runs, which traces that classify a chair show."""
    write(tmp_path / "chair.off", make_shape("chair", 3))
    ran: set[str] = set()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # the bodies of modules and classes are not
        if event == "call" and is_function and path.startswith(str(PACKAGE)):
            ran.add(Path(path).relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        done = CliRunner().invoke(app, ["classify", str(tmp_path / "chair.off")])
    finally:
        sys.setprofile(before)
    assert done.exit_code == 0
    walk = section("From `qec classify chair.off` to the printed row")
    listed = set(re.findall(r"`((?!tests)[a-z]+/\w+\.py)`", walk))
    table = re.findall(r"^\| .*\| `([a-z]+/\w+\.py)` \|", walk, re.MULTILINE)
    assert f"passes through {len(table)} of them" in walk
    (said,) = re.findall(r"functions of about (\d+) files", walk)
    assert abs(len(ran) - int(said)) <= 0.1 * len(ran)
    assert len(listed) == len(table) + 10 + 4
    assert listed <= ran


SIZES = re.findall(r"\*\*`(\w+)`\*\*, ([\d,]+)", section("What the large parts buy"))


@pytest.mark.parametrize(("name", "lines"), SIZES)
def test_the_size_of_each_part(name, lines):
    folder = next(path for path in sorted(PACKAGE.rglob(name)) if path.is_dir())
    suffixes = (".cpp", ".h") if name == "compiled" else (".py",)
    found = sum(len(path.read_text().splitlines()) for path in folder.rglob("*") if path.suffix in suffixes)
    assert abs(found - int(lines.replace(",", ""))) < 0.1 * found


def test_the_size_of_the_package():
    total, code = re.findall(r"about ([\d,]+) lines of Python .*?; ([\d,]+) of them are code", TEXT)[0]
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    for said, found in (
        (total, sum(len(source.splitlines()) for source in sources)),
        (code, sum(sum(map(bool, code_lines(source))) for source in sources)),
    ):
        assert abs(found - int(said.replace(",", ""))) < 0.1 * found
