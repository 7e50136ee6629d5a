"""Lets the pages link to the cards of results/, which lie beside docs/, as they do in the repository."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for card in sorted(ROOT.glob("results/*/CARD.md")):
        place = card.relative_to(ROOT).as_posix()
        files.append(File.generated(config, place, abs_src_path=str(card), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    return markdown.replace("](../results/", "](results/") if "/" not in page.file.src_uri else markdown
