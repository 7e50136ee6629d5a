"""Adds to the API reference the functions that live in a module of the same name, such as `qecnet.formats.read`.

mkdocstrings takes such a name for the module and leaves the function out.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.structure.pages import Page

SOURCE = Path(__file__).parents[1] / "src"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    if page.file.src_uri != "api.md":
        return markdown
    return re.sub(r"^::: ([\w.]+)$", lambda found: found[0] + _hidden_functions(found[1]), markdown, flags=re.MULTILINE)


def _hidden_functions(package: str) -> str:
    init = SOURCE.joinpath(*package.split("."), "__init__.py")
    if not init.exists():
        return ""
    imports = [node for node in ast.parse(init.read_text()).body if isinstance(node, ast.ImportFrom) and node.module]
    names = [str(node.module).rpartition(".")[2] for node in imports]
    hidden = [name for name, node in zip(names, imports, strict=True) if name in {alias.name for alias in node.names}]
    options = "options: {show_root_heading: true, heading: %s}"
    return "".join(f"\n\n::: {package}.{name}.{name}\n    {options % name}" for name in hidden)
