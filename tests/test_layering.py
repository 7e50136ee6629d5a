"""CONTRIBUTING's rules on the code: what may import what, one name with one meaning, nothing twice, nothing unused."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import TypeVar

import pytest

import qecnet
from qecnet.nn import list_networks

Definition = TypeVar("Definition", ast.FunctionDef, ast.ClassDef)
PACKAGE = Path(qecnet.__file__).parent
REPO = Path(__file__).parents[1]
OUTSIDE = [path for top in ("benchmarks", "examples", "docs") for path in sorted((REPO / top).rglob("*.py"))]
"""Code that uses the package."""
LAYERS = (REPO / "CONTRIBUTING.md").read_text().split("\n## Where things are\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| (`.*?) \| .* \| (.*?) \|$", LAYERS, re.MULTILINE)
SHARED = {*re.findall(r"`(\w+)\.py`", LAYERS)}
"""Modules that every package may import that imports anything, and that import only one another."""
INTERFACES = {name for names, allowed in ROWS if allowed.startswith("everything") for name in re.findall(r"\w+", names)}
"""They may import everything, and nothing imports them."""
MAY_IMPORT = {name.strip("`"): {*re.findall(r"\w+", allowed)} for name, allowed in ROWS if "," not in name}
"""Of each package; those at the bottom import nothing, no shared modules either."""


def imported_packages(path: Path) -> set[str]:
    """The packages of qecnet that a file imports, at the top or inside a function."""
    parts = ("qecnet", *path.relative_to(PACKAGE).with_suffix("").parts)
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            packages |= {name.name.split(".")[1] for name in node.names if name.name.startswith("qecnet.")}
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            base = list(parts[: len(parts) - node.level]) if node.level else []
            full = base + module
            if full[:1] == ["qecnet"]:
                packages |= {full[1]} if len(full) > 1 else {name.name for name in node.names}
    return packages


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in INTERFACES)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_package_imports_only_what_it_may(path):
    package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if package == "__init__":
        return
    assert package in MAY_IMPORT.keys() | SHARED, f"{package} is not in the table in CONTRIBUTING.md"
    allowed = MAY_IMPORT.get(package, set())
    if allowed or package in SHARED:
        allowed = allowed | SHARED
    above = imported_packages(path) - allowed - {package, "DEFAULT_MODEL", "__version__"}
    assert not above, f"{path.name} in {package} imports from {sorted(above)}; CONTRIBUTING.md does not allow it"


def test_every_row_of_the_table_is_needed():
    """It names packages that exist, and what each of them imports."""
    for package, allowed in MAY_IMPORT.items():
        paths = [path for path in (PACKAGE / f"{package}.py", *(PACKAGE / package).rglob("*.py")) if path.exists()]
        assert paths, package
        used = set().union(*map(imported_packages, paths))
        assert allowed <= used, f"{package} does not import {sorted(allowed - used)}"
    assert all((PACKAGE / f"{name}.py").exists() for name in SHARED)
    assert len(MAY_IMPORT) > 10
    assert {"cli", "viewer"} == INTERFACES


def test_algebra_imports_nothing_but_torch():
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


def inner_imports(module: str, source: str) -> list[str]:
    """What a module imports from inside a package that it does not belong to, and private names of others."""
    found = []
    for target, name in imported_modules(module, source):
        home = target.rpartition(".")[0]
        own = module.rpartition(".")[0] if MODULES[module].name != "__init__.py" else module
        if (home and not f"{own}.".startswith(f"{home}.")) or (name.startswith("_") and not name.startswith("__")):
            found.append(f"{target} {name}".strip())
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_other_packages_are_imported_as_a_whole(module):
    """So no module with a leading underscore is used outside its package either."""
    assert not inner_imports(module, MODULES[module].read_text())


def test_names_that_a_package_exports_are_imported_from_it():
    """In benchmarks, examples and the documentation, too, which may also import from inside a package."""
    for path in OUTSIDE:
        for node in ast.walk(ast.parse(path.read_text())):
            home = (node.module or "").rpartition(".")[0] if isinstance(node, ast.ImportFrom) else ""
            if isinstance(node, ast.ImportFrom) and home in MODULES and home != "qecnet":
                exported = exports(home) & {alias.name for alias in node.names}
                assert not exported, f"{path.relative_to(REPO)} imports {sorted(exported)} from inside {home}"


def test_a_package_exports_what_other_packages_import():
    for module, path in MODULES.items():
        for target, name in imported_modules(module, path.read_text()):
            if name and MODULES[target].name == "__init__.py" and target != "qecnet":
                assert name in exports(target), f"{module} imports {name} from {target}, which does not export it"


def test_one_name_has_one_meaning():
    """No two public classes, functions, modules, types or constants have one name.

    A command and its module may be named like what the command does, a type may be defined again in the same words, and
    each file format is its module's `FORMAT`, each group of commands `app`.
    """
    places: dict[str, list[str]] = {}
    values: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        is_command = module.startswith("qecnet.cli.")
        if path.name != "__init__.py" and not is_command:
            places.setdefault(f"{path.stem}.py", []).append(module)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in (name for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)):
                    values.setdefault(target.id, set()).add(ast.unparse(node.value))
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            decorators = [*map(ast.unparse, node.decorator_list)]
            if is_command and (node.name == path.stem or any("command" in one for one in decorators)):
                continue
            if "overload" not in decorators:
                places.setdefault(node.name, []).append(module)
    twice = {name: found for name, found in places.items() if len(found) > 1 and not name.startswith("_")}
    assert not twice
    shared = {"FORMAT", "app"}
    assert {name for name, found in values.items() if len(found) > 1 and not name.startswith("_")} <= shared
    assert not {name for name in places.keys() & values.keys() if not name.startswith("_")}


def test_imports_inside_functions_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    (tmp_path / "algebra").mkdir()
    source = tmp_path / "algebra" / "inner.py"
    source.write_text("from ..nn import routing\nimport qecnet.formats.read\ndef f():\n    from .. import training\n")
    assert imported_packages(source) == {"nn", "formats", "training"}


def test_imports_from_inside_a_package_are_found():
    lines = (
        "from ..algebra import _check, rotate",
        "from ..algebra.modes import grad_where",
        "from .votes import _x",
        "import qecnet.geometry.mesh",
        "from qecnet.geometry import prepare",
        "from .fused import routed, route_fused",
    )
    found = inner_imports("qecnet.nn.module", "\n".join(lines))
    assert found == [
        "qecnet.algebra._check",
        "qecnet.algebra.modes grad_where",
        "qecnet.nn.votes _x",
        "qecnet.geometry.mesh",
        "qecnet.nn.fused.routed",
    ]


def test_only_nn_knows_which_networks_there_are():
    """Other packages import no class of a network; they neither compare names of networks nor name one in an error.

    `Network` says what it can do.
    """
    for module, path in MODULES.items():
        names = {name for target, name in imported_modules(module, path.read_text()) if target == "qecnet.nn"}
        assert not {name for name in names if name.endswith("Net")}, module
        if not module.startswith("qecnet.nn"):
            nodes = ast.walk(ast.parse(path.read_text()))
            found = [
                constant.value
                for node in nodes
                if isinstance(node, ast.Raise) or (isinstance(node, ast.Compare) and "config" in ast.unparse(node))
                for constant in ast.walk(node)
                if isinstance(constant, ast.Constant)
            ]
            assert not {*re.findall(r"\w+", " ".join(map(str, found)))} & {*list_networks()}, module


def test_an_exported_name_is_used_by_more_than_tests():
    """By the package itself, a benchmark, an example or a page of the documentation."""
    pages = " ".join(path.read_text() for path in [REPO / "README.md", *(REPO / "docs").glob("*.md")])
    code = re.findall(r"^```\w*\n.*?^```$|`[^`\n]+`", pages, re.MULTILINE | re.DOTALL)  # words of prose are no uses
    used = set(re.findall(r"\w+", " ".join(code)))
    for path in [*PACKAGE.rglob("*.py"), *OUTSIDE]:
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        used |= {node.id for node in nodes if isinstance(node, ast.Name)}
        used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    # `qec evaluate` imports the function of a measurement by its name.
    used |= {
        f"measure_{node.name}"
        for node in ast.parse((PACKAGE / "cli/evaluate.py").read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    unused = {f"{module}.{name}" for module in MODULES for name in exports(module) if name not in used}
    assert not unused


@cache
def exported_definitions(kind: type[Definition]) -> list[tuple[str, Definition]]:
    """Each exported function or class, with its place."""
    found = []
    for module, path in MODULES.items():
        names = exports(".".join(module.split(".")[:2])) if module.count(".") else set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, kind) and node.name in names:
                found.append((f"{module}.{node.name}", node))
    return found


def lacks_sections(node: ast.FunctionDef) -> bool:
    """Whether a docstring does not describe the arguments of a function or method, or its result."""
    text, result = ast.get_docstring(node) or "", ast.unparse(node.returns) if node.returns else "None"
    arguments = re.sub(r"^(self|cls)\b", "", ast.unparse(node.args))
    is_property = any(word in ast.unparse(one) for one in node.decorator_list for word in ("property", "setter"))
    gives = result not in ("None", "Iterator[None]", "AbstractContextManager[Any]") and not is_property
    return (arguments != "" and "Args:" not in text) or (gives and not re.search("Returns:|Yields:", text))


def test_exported_functions_document_arguments_and_result():
    """Commands, whose options have help texts, are left out."""
    functions = exported_definitions(ast.FunctionDef)
    assert not [name for name, node in functions if "typer." not in ast.unparse(node.args) and lacks_sections(node)]


def with_bases(node: ast.ClassDef) -> list[ast.ClassDef]:
    """A class, and its exported base classes, whose docstrings hold for it, too."""
    names = {ast.unparse(base) for base in node.bases}
    bases = [other for _, other in exported_definitions(ast.ClassDef) if other.name in names] if names else []
    return [node, *(above for base in bases for above in with_bases(base))]


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef)]


def test_exported_classes_document_their_fields():
    """In `Attributes:` or `Args:`, or below the field; so are the arguments of the constructor."""
    missing = []
    for name, node in exported_definitions(ast.ClassDef):
        text = "\n".join(ast.get_docstring(one) or "" for one in with_bases(node))
        described = {*re.findall(r"\w+", " ".join(re.findall(r"^    ([\w, ]+):", text, re.MULTILINE)))}
        for field, below in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                continue
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_"):
                missing += [f"{name}.{word}" for word in {ast.unparse(field.target)} - described]
        for method in methods_of(node):
            if method.name == "__init__":
                given = {argument.arg for argument in (*method.args.args[1:], *method.args.kwonlyargs)}
                missing += [f"{name}({word})" for word in given - described]
    assert not missing


def test_public_methods_of_exported_classes_document_arguments_and_result():
    """Or a base class does."""
    missing = []
    for name, node in exported_definitions(ast.ClassDef):
        own, *bases = map(methods_of, with_bases(node))
        above = {method.name for methods in bases for method in methods}
        for method in own:
            is_public = not method.name.startswith("_") and "overload" not in map(ast.unparse, method.decorator_list)
            if is_public and method.name not in above and (not ast.get_docstring(method) or lacks_sections(method)):
                missing.append(f"{name}.{method.name}")
    assert not missing, missing


def code_lines(source: str) -> list[str]:
    """The lines of code, without layout, comments, imports and mere punctuation; a docstring is one empty line."""
    texts: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= {*range(node.lineno, (node.end_lineno or 0) + 1)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts |= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    numbered = enumerate(source.splitlines(), 1)
    lines = ["" if number in texts else line.strip() for number, line in numbered if number not in imports]
    return [line for line in lines if not line or (re.search(r"\w", line) and not line.startswith("#"))]


def repeated_passages(sources: list[str], length: int = 6) -> list[str]:
    """Passages of this many lines of code that occur in the sources more than once."""
    passages: Counter[str] = Counter()
    for source in sources:
        lines = code_lines(re.sub(r"\n\s*\n", "\n", source))
        runs = (lines[i : i + length] for i in range(len(lines) - length + 1))
        passages.update("\n".join(run) for run in runs if all(run))
    return [passage for passage, count in passages.items() if count > 1]


def test_no_passage_of_six_lines_is_repeated():
    assert not repeated_passages([path.read_text() for path in PACKAGE.rglob("*.py")])


def test_repeated_passages_are_found():
    passage = "\n".join(f"line{i} = {i}" for i in range(6))
    inner = f"def f():\n{indent(passage, '    ')}"
    assert repeated_passages([passage, inner]) == [passage]
    assert not repeated_passages([passage, inner.replace("line3", "other")])
    assert not repeated_passages([passage, inner.replace("    line3", '    """A docstring."""\n    line3')])
