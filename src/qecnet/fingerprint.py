"""A hash of the code that makes a result, as a version that changes by itself."""

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def code_hash(package: str, *patterns: str) -> str:
    """Hash the sources of a package that match; Python without its layout, comments and docstrings.

    Args:
        package: the package's dotted name.
        patterns: file-name globs within it; each has to match at least one file.

    Returns:
        16 hexadecimal digits.

    Raises:
        FileNotFoundError: for a pattern that matches nothing, as after a module was renamed.
    """
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (folder,) = map(Path, spec.submodule_search_locations)
    paths: set[Path] = set()
    for pattern in patterns:
        if not (matches := set(folder.glob(pattern))):
            raise FileNotFoundError(f"{package}: no file matches {pattern}; correct the pattern")
        paths |= matches
    digest = hashlib.sha256()
    for path in sorted(paths):
        code = path.read_bytes()
        if path.suffix == ".py":
            code = ast.dump(_without_docstrings(ast.parse(code))).encode()
        digest.update(path.name.encode() + code)
    return digest.hexdigest()[:16]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree
