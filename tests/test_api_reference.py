"""The API reference lists everything that the packages export."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_exported_name_is_in_the_reference(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    listed = {*re.findall(r'id="(qecnet\.[\w.]+)"', (tmp_path / "api.html").read_text(encoding="utf-8"))}
    packages = re.findall(r"^## (qecnet\.\w+)$", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE)
    modules = [importlib.import_module(package) for package in packages]
    exported = [(module.__name__, name) for module in modules for name in getattr(module, "__all__", ())]
    assert len(exported) > 50
    # A function in a module of its own name has an entry of its own.
    missing = [names for names in exported if not {".".join(names), ".".join((*names, names[1]))} & listed]
    assert missing == []
