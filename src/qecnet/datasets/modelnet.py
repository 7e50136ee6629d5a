"""ModelNet10 and ModelNet40 (Wu et al. 2015): how many shapes the official splits have, and what differs from them.

They are read in any form in which they are distributed: folders or a zip of `<class>/<split>/<file>` with meshes or
clouds in any format (`class_folders.py`), packed zips of Draco clouds (`_sources.py`), and lists of resampled clouds
or HDF5 files (`_lists.py`).
"""

from __future__ import annotations

from pathlib import Path

from qecnet.datasets.dataset import Dataset

_FORTY = """
airplane 626 100, bathtub 106 50, bed 515 100, bench 173 20, bookshelf 572 100, bottle 335 100, bowl 64 20,
car 197 100, chair 889 100, cone 167 20, cup 79 20, curtain 138 20, desk 200 86, door 109 20, dresser 200 86,
flower_pot 149 20, glass_box 171 100, guitar 155 100, keyboard 145 20, lamp 124 20, laptop 149 20, mantel 284 100,
monitor 465 100, night_stand 200 86, person 88 20, piano 231 100, plant 240 100, radio 104 20, range_hood 115 100,
sink 128 20, sofa 680 100, stairs 124 20, stool 90 20, table 392 100, tent 163 20, toilet 344 100, tv_stand 267 100,
vase 475 100, wardrobe 87 20, xbox 103 20
"""
TEN = ("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet")

_forty = {name: {"train": int(train), "test": int(test)} for name, train, test in map(str.split, _FORTY.split(","))}

OFFICIAL = {"modelnet10": {name: _forty[name] for name in TEN}, "modelnet40": _forty}
"""Dataset → class → split → number of shapes."""


def compare_with_official(dataset: Dataset, path: Path) -> tuple[str, ...]:
    """A note for each split of ModelNet10 or ModelNet40 whose counts are not the official ones.

    Raises:
        ValueError: If it has classes that the official dataset does not have, or none of some class.
    """
    name, counts = dataset.name, OFFICIAL[dataset.name]
    present = {c for split in dataset.splits for c, count in dataset.counts(split).items() if count}
    if not present:
        raise ValueError(f"{path}: lists shapes but contains none of them; unpack the dataset again")
    other = next((other for other in OFFICIAL if other != name and OFFICIAL[other].keys() == present), None)
    if other is not None:
        raise ValueError(f"{path}: is {other}, not {name}; give the path of {name}, or the right name")
    if unexpected := sorted(present - counts.keys()):
        raise ValueError(
            f"{path}: is not {name}, which has no class {_shorten(unexpected)}; give the right path, or another name"
        )
    if missing := sorted(counts.keys() - present):
        raise ValueError(f"{path}: has no shapes of {_shorten(missing)}, as {name} should; unpack the dataset again")
    notes = (_compare_split(dataset.counts(split), split, name, path) for split in ("train", "test"))
    return tuple(note for note in notes if note)


def _compare_split(found: dict[str, int], split: str, name: str, path: Path) -> str | None:
    official = {c: both[split] for c, both in OFFICIAL[name].items()}
    short = [f"{n - found[c]:,} of {c}" for c, n in official.items() if found[c] < n]
    extra = [f"{found[c] - n:,} of {c}" for c, n in official.items() if found[c] > n]
    if not short and not extra:
        return None
    missing = f"; missing: {_shorten(short)}" if any(found.values()) and short else ""
    too_many = f"; too many: {_shorten(extra)}" if extra else ""
    return (
        f"{path}: has {sum(found.values()):,} of the {sum(official.values()):,} {split} shapes of {name}"
        f"{missing}{too_many}"
    )


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
