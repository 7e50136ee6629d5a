"""Classify shapes in random poses, rotate them upright and align them: tables, a picture and a page.

    python examples/demo [FILE] [--out build/demo] [--seed 0]

The shapes are procedural, and no network was trained on them; FILE adds a shape of yours. Wrong predictions are marked.
Needs matplotlib.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from page import page
from picture import picture
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from trial import LIMIT, Pair, Seen, trial, words

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.files import write_whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    console = Console()
    drawing, site = given.out / "demo.png", given.out / "index.html"
    try:
        seen, pairs = trial(qecnet.load(DEFAULT_MODEL), given.file, given.seed)
        counts = count_right(seen, pairs)
        told = summary(counts)
        console.print(shapes_table(seen), pairs_table(pairs))
        console.print(told, soft_wrap=True)
        given.out.mkdir(parents=True, exist_ok=True)
        drawn = BytesIO()
        picture(seen, [pair for pair in pairs if pair.differ], told).savefig(drawn, dpi=130)
        write_whole(drawing, drawn.getvalue())
        write_whole(site, page(seen, pairs, told).encode())
        rows = [f"{what},{right},{total}" for what, (right, total) in counts.items()]
        write_whole(given.out / "demo.csv", "\n".join(("what,right,of", *rows, "")).encode())
    except (ValueError, OSError) as error:
        sys.exit(f"demo: {error}")
    console.print(f"\nPicture: {drawing}\nPage with shapes to rotate: {site}", highlight=False)


def count_right(seen: Sequence[Seen], pairs: Sequence[Pair]) -> dict[str, tuple[int, int]]:
    """How many classes, poses and alignments are right, and of how many."""
    known = [one for one in seen if one.scan.kind is not None]
    measured = [pair for pair in pairs if pair.error is not None]
    return {
        "classes": (sum(not one.label_is_wrong for one in known), len(known)),
        "poses": (sum(not one.pose_is_wrong for one in seen), len(seen)),
        "alignments": (sum(not pair.is_wrong for pair in measured), len(measured)),
    }


def summary(counts: Mapping[str, tuple[int, int]]) -> str:
    """The results in one sentence."""
    classes, poses, alignments = ("{} of {}".format(*counts[what]) for what in ("classes", "poses", "alignments"))
    return (
        f"{counts['poses'][1]} shapes in random poses: {classes} classified correctly, "
        f"{poses} poses and {alignments} alignments within {LIMIT:.0f}°."
    )


def shapes_table(seen: Sequence[Seen]) -> Table:
    table = Table(title="Shapes in random poses")
    for heading in ("shape", "class", "confidence", "pose error", "tilt", ""):
        table.add_column(heading, justify="left" if heading in ("shape", "class", "") else "right")
    for one in seen:
        wrong = [what for what, bad in (("class", one.label_is_wrong), ("pose", one.pose_is_wrong)) if bad]
        tilt = "–" if one.tilt is None else f"{one.tilt:.1f}°"
        cells = words(one.answer.label), f"{one.answer.confidence:.0%}", f"{one.error:.1f}°", tilt
        mark = f"[red]✗ wrong {' and '.join(wrong)}[/red]" if wrong else "[green]✓[/green]"
        table.add_row(escape(one.scan.name), *cells, mark)
    return table


def pairs_table(pairs: Sequence[Pair]) -> Table:
    table = Table(title="Pairs, each shape in a pose of its own")
    for heading in ("pair", "rotation error", ""):
        table.add_column(heading, justify="right" if heading == "rotation error" else "left")
    for pair in pairs:
        error = "–" if pair.error is None else f"{pair.error:.1f}°"
        mark = "" if pair.error is None else "[red]✗ wrong[/red]" if pair.is_wrong else "[green]✓[/green]"
        table.add_row(escape(pair.what), error, mark)
    return table


if __name__ == "__main__":
    main()
