"""Lets the pages link to files of results/, which is next to docs/, as they do in the repository."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^]]+)\]\(\.\./(results[^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = [page.content_string for page in files.documentation_pages()]
    for place in sorted({link[2] for text in pages for link in _LINK.finditer(text)}):
        if (path := ROOT / place).is_file():
            files.append(File.generated(config, place, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    return markdown if "/" in page.file.src_uri else _LINK.sub(_link, markdown)


def _link(found: re.Match[str]) -> str:
    """A link to a file; the text alone of a link to a folder, which the site does not have."""
    text, place = found.groups()
    return f"[{text}]({place})" if (ROOT / place).is_file() else text
