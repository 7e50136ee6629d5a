"""`make demo` as a user runs it: a table, a picture and a page, and nothing that is wrong goes unmarked."""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.kinds import present

from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.formats import write

DEMO = Path(__file__).parents[1] / "examples" / "demo"


def demo(*arguments):
    command = [sys.executable, DEMO, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "200"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def said(folder):
    write(folder / "mine.xyz", make_shape("chair", 7).sample(3000, torch.Generator().manual_seed(0)))
    done = demo(folder / "mine.xyz", "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_lists_every_shape_and_the_users_file(said):
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if "│" in line]
    shapes = {row[0]: row for row in rows if len(row) == 6}
    assert [*shapes] == ["mine.xyz", *(kind.replace("_", " ") for kind in FURNITURE_CLASSES)]
    for name, (_, label, _, error, tilt, mark) in shapes.items():
        angles = [float(angle.rstrip("°")) for angle in (error, tilt) if angle != "–"]
        assert ("class" in mark) == (name != "mine.xyz" and label != name)
        assert ("pose" in mark) == any(angle > 15 for angle in angles)
    pairs = [row for row in rows if len(row) == 3]
    assert len([row for row in pairs if row[0].startswith("two different")]) == 5
    assert any(row[0].startswith("mine.xyz and our") for row in pairs)
    for _, error, mark in pairs:
        assert ("wrong" in mark) == (error != "–" and float(error.rstrip("°")) > 15)


def test_what_is_right_is_counted_as_it_is_marked(said, folder):
    header, *lines = (folder / "out" / "demo.csv").read_text().splitlines()
    assert header == "what,right,of"
    counts = {what: (int(right), int(total)) for what, right, total in (line.split(",") for line in lines)}
    marks = [line for line in said.splitlines() if "✗" in line]
    wrong = {
        "classes": sum("wrong class" in line for line in marks),
        "poses": sum("wrong" in line and "pose" in line for line in marks),
        "alignments": sum(line.count("│") == 4 for line in marks),
    }
    assert {what: total - right for what, (right, total) in counts.items()} == wrong
    assert (counts["classes"][1], counts["poses"][1]) == (len(FURNITURE_CLASSES), len(FURNITURE_CLASSES) + 1)
    told = [f"{right} of {total}" for right, total in counts.values()]
    assert f"{told[0]} classified correctly, {told[1]} poses and {told[2]} alignments within 15°" in said


def test_the_picture_is_a_png(said, folder):
    assert (folder / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_self_contained_and_marks_the_same_errors_as_the_table(said, folder):
    page = (folder / "out" / "index.html").read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?(?!#)[^"'#]|@import|url\(|https?:|fetch\(""", page)
    wrong = sum(line.count("✗") for line in said.splitlines())
    assert page.count("class=bad") == wrong
    assert "mine.xyz" in page
    clouds = present(re.search(r'id="clouds" data-shaded[^>]*>(.*?)</script>', page))
    assert all(len(base64.b64decode(text)) % 9 == 0 for text in json.loads(clouds[1])), "a point and its normal"


def test_bad_file_gives_a_one_sentence_error(tmp_path):
    (tmp_path / "bad.off").write_text("OFF\n3 1 0\n")
    done = demo(tmp_path / "bad.off", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "bad.off" in done.stderr
    assert not (tmp_path / "out").exists()
