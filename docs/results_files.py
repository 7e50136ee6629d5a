"""Lets the pages link to the cards and curves of results/, which lies beside docs/, as they do in the repository."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_SHOWN = ("CARD.md", "curves.png")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in _SHOWN:
        for path in sorted(ROOT.glob(f"results/**/{name}")):
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    if "/" in page.file.src_uri:
        return markdown
    return re.sub(r"\[([^]]+)\]\(\.\./(results[^)]*)\)", _link, markdown)


def _link(found: re.Match[str]) -> str:
    """A link to a card or to curves; the text alone of a link to anything else, which the site does not have."""
    text, place = found.groups()
    return f"[{text}]({place})" if Path(place).name in _SHOWN and (ROOT / place).is_file() else text
