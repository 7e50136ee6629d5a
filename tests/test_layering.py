"""CONTRIBUTING's rule: data walks one way, so no room imports from a room above it."""

import ast
import sys
from pathlib import Path

import pytest

import qecnet

PACKAGE = Path(qecnet.__file__).parent
MAY_LOOK_AT = {
    "algebra": set(),
    "testing": {"algebra"},
    "files": set(),
    "workers": set(),
    "geometry": {"algebra"},
    "nn": {"algebra", "files", "geometry"},
    "formats": {"files", "geometry"},
    "datasets": {"algebra", "files", "fingerprint", "formats", "geometry", "workers"},
    "fingerprint": set(),
    # A run may start with weights that ship.
    "training": {"algebra", "files", "geometry", "nn", "datasets", "models"},
    "models": {"algebra", "files", "geometry", "nn", "formats", "datasets", "workers"},
    # What a network reads of a shape is said once, in models.
    "evaluation": {"algebra", "files", "geometry", "nn", "fingerprint", "formats", "datasets", "workers", "models"},
}
OPEN_TO_ALL = {"cli", "viewer"}
"""Rooms for people: they look at everything, and nothing looks at them."""


def imported_rooms(path: Path) -> set[str]:
    """The rooms of qecnet that a file imports, at the top or inside a function."""
    parts = ("qecnet", *path.relative_to(PACKAGE).with_suffix("").parts)
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            rooms |= {name.name.split(".")[1] for name in node.names if name.name.startswith("qecnet.")}
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            base = list(parts[: len(parts) - node.level]) if node.level else []
            full = base + module
            if full[:1] == ["qecnet"]:
                rooms |= {full[1]} if len(full) > 1 else {name.name for name in node.names}
    return rooms


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in OPEN_TO_ALL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_room_looks_at_a_room_above_it(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in MAY_LOOK_AT, f"{room} is not a room of CONTRIBUTING; say in this test what it may look at"
    above = imported_rooms(path) - MAY_LOOK_AT[room] - {room, "DEFAULT_MODEL", "__version__"}
    assert not above, f"{path.name} in {room} imports from {sorted(above)}"


def test_algebra_looks_at_nothing_but_torch():
    allowed = {"torch", "qecnet", *sys.stdlib_module_names}
    for path in (PACKAGE / "algebra").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert {name.split(".")[0] for name in names} <= allowed, path.name


def test_the_rule_bites(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    (tmp_path / "algebra").mkdir()
    source = tmp_path / "algebra" / "sneaky.py"
    source.write_text("from ..nn import routing\nimport qecnet.formats.read\ndef f():\n    from .. import training\n")
    assert imported_rooms(source) == {"nn", "formats", "training"}
