"""The pages: their figures are those of results/, and they build as a site that needs no other host."""

import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.kinds import present

import qecnet

ROOT = Path(__file__).parents[1]
_SPEC = present(importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py"))
tables = importlib.util.module_from_spec(_SPEC)
sys.modules["tables"] = tables
present(_SPEC.loader).exec_module(tables)


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_the_results(page):
    assert tables.fill(page) == page.read_text(encoding="utf-8"), "run make readme"


def test_each_table_is_on_a_page():
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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that the pages were built into, without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_exported_name_is_in_the_reference(site):
    """A module in `qecnet` without `__all__`, and the package `cli`, are not for other programs."""
    page = (ROOT / "docs" / "api.md").read_text()
    listed = {*re.findall(r'id="(qecnet\.[\w.]+)"', (site / "api.html").read_text(encoding="utf-8"))}
    listed |= {f"qecnet.{name}" for name in re.findall(r"\[`(\w+)`\]\[qecnet\.\w+\.\1\]", page)}
    inside = [(f"qecnet.{found.name}", found.ispkg) for found in pkgutil.iter_modules(qecnet.__path__)]
    modules = {name: importlib.import_module(name) for name, _ in [("qecnet", True), *inside]}
    closed = [name for name, is_package in inside if is_package and not hasattr(modules[name], "__all__")]
    assert closed == ["qecnet.cli"]
    exported = [(name, export) for name, module in modules.items() for export in getattr(module, "__all__", ())]
    assert len(exported) > 200
    # A function in a module of its own name has an entry of its own.
    missing = [names for names in exported if not {".".join(names), ".".join((*names, names[1]))} & listed]
    assert missing == []


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = [*site.rglob("*.html")]
    assert {path.with_suffix(".html").name for path in tables.PAGES[1:]} <= {page.name for page in pages}
    for page in pages:
        found = Loaded()
        found.feed(page.read_text(encoding="utf-8"))
        assert found.addresses
        assert not [address for address in found.addresses if re.match(r"(\w+:)?//", address)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_the_site_has_the_files_of_results_that_pages_link_to_or_show(site):
    files = 0
    for page in (ROOT / "docs").glob("*.md"):
        for place in re.findall(r"\]\(\.\./(results[^)]*)\)", page.read_text()):
            assert (ROOT / place).exists(), (page.name, place)
            if (ROOT / place).is_file():
                shown = place.replace("CARD.md", "CARD.html")
                assert (site / shown).is_file(), shown
                html = (site / page.name).with_suffix(".html").read_text(encoding="utf-8")
                assert f'href="{shown}"' in html or f'src="{shown}"' in html, shown
                files += 1
    assert files > 50
