"""The pages: their figures are those of results/, and they build as a site that needs no other host."""

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.kinds import present

ROOT = Path(__file__).parents[1]
_SPEC = present(importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py"))
tables = importlib.util.module_from_spec(_SPEC)
sys.modules["tables"] = tables
present(_SPEC.loader).exec_module(tables)


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_the_results(page):
    assert tables.fill(page) == page.read_text(encoding="utf-8"), "run make readme"


def test_each_table_stands_somewhere():
    text = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert {*re.findall(r"<!-- figures: ([a-z-]+) -->", text)} == {*tables.BLOCKS}
    assert text.count("<!-- figures: ") == text.count("<!-- end -->")


class Loaded(HTMLParser):
    """What a browser fetches by itself."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        wanted = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
        given = dict(attrs)
        if tag in wanted and (address := given.get(wanted[tag])) and given.get("rel") != "canonical":
            self.addresses.append(address)


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert {path.with_suffix(".html").name for path in tables.PAGES[1:]} <= {page.name for page in pages}
    for page in pages:
        found = Loaded()
        found.feed(page.read_text(encoding="utf-8"))
        assert found.addresses
        assert not [address for address in found.addresses if re.match(r"(\w+:)?//", address)], page
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style
