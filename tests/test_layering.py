"""CONTRIBUTING's rules: data flows one way, packages are imported by their front door, one name has one meaning."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import qecnet

PACKAGE = Path(qecnet.__file__).parent
MAY_LOOK_AT = {
    "algebra": set(),
    "testing": {"algebra"},
    "files": {"schema"},
    "schema": set(),
    "workers": set(),
    "compiled": set(),
    "geometry": {"algebra", "compiled"},
    "nn": {"algebra", "compiled", "files", "geometry", "schema"},
    "formats": {"files", "geometry", "schema"},
    "datasets": {"algebra", "files", "fingerprint", "formats", "geometry", "workers"},
    "fingerprint": set(),
    # A run may start with weights that ship.
    "training": {"algebra", "files", "geometry", "nn", "datasets", "models", "schema"},
    "models": {"algebra", "files", "geometry", "nn", "formats", "datasets", "schema", "workers"},
    "bulk": {"compiled", "files", "models", "schema", "workers"},
    # What a network reads of a shape is said once, in models.
    "evaluation": {
        "algebra",
        "datasets",
        "files",
        "fingerprint",
        "formats",
        "geometry",
        "models",
        "nn",
        "schema",
        "workers",
    },
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


MODULES = {
    ".".join(("qecnet", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def exports(module: str) -> set[str]:
    """The names in a package's `__all__`."""
    for node in ast.parse(MODULES[module].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def imported_modules(module: str, source: str) -> Iterator[tuple[str, str]]:
    """Each module of qecnet that `source` imports, or imports a name from, and that name or nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".") if node.level else []
            above = node.level - (MODULES[module].name == "__init__.py") if node.level else 0
            target = ".".join([*base[: len(base) - above], *filter(None, [node.module])])
            for alias in node.names if target in MODULES else ():
                inside = f"{target}.{alias.name}"
                yield (inside, "") if inside in MODULES and alias.name not in exports(target) else (target, alias.name)


def past_the_door(module: str, source: str) -> list[str]:
    """What a module imports from inside a package that it does not belong to, and private names of others."""
    found = []
    for target, name in imported_modules(module, source):
        home = target.rpartition(".")[0]
        own = module.rpartition(".")[0] if MODULES[module].name != "__init__.py" else module
        if (home and not f"{own}.".startswith(f"{home}.")) or (name.startswith("_") and not name.startswith("__")):
            found.append(f"{target} {name}".strip())
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_other_packages_are_imported_by_their_front_door(module):
    """So no module with a leading underscore is used outside its package either."""
    assert not past_the_door(module, MODULES[module].read_text())


def test_a_package_exports_what_other_packages_import():
    for module, path in MODULES.items():
        for target, name in imported_modules(module, path.read_text()):
            if name and MODULES[target].name == "__init__.py" and target != "qecnet":
                assert name in exports(target), f"{module} imports {name} from {target}, which does not export it"


def test_one_name_has_one_meaning():
    """No two public classes, functions or modules have one name; a command may be named like what it does."""
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        if module.startswith("qecnet.cli"):
            continue
        if path.name != "__init__.py":
            places.setdefault(f"{path.stem}.py", []).append(module)
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if "overload" not in map(ast.unparse, node.decorator_list):
                places.setdefault(node.name, []).append(module)
    twice = {name: found for name, found in places.items() if len(found) > 1 and not name.startswith("_")}
    assert not twice


def test_the_rule_bites(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    (tmp_path / "algebra").mkdir()
    source = tmp_path / "algebra" / "sneaky.py"
    source.write_text("from ..nn import routing\nimport qecnet.formats.read\ndef f():\n    from .. import training\n")
    assert imported_rooms(source) == {"nn", "formats", "training"}


def test_the_rule_of_front_doors_bites():
    lines = (
        "from ..algebra import _check, rotate",
        "from ..algebra.modes import grad_where",
        "from .votes import _x",
        "import qecnet.geometry.mesh",
        "from qecnet.geometry import prepare",
        "from .fused import routed, route_fused",
    )
    found = past_the_door("qecnet.nn.module", "\n".join(lines))
    assert found == [
        "qecnet.algebra._check",
        "qecnet.algebra.modes grad_where",
        "qecnet.nn.votes _x",
        "qecnet.geometry.mesh",
        "qecnet.nn.fused.routed",
    ]
