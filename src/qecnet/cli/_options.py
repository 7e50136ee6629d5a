"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet import DEFAULT_MODEL

__all__ = ["DEFAULT_MODEL", "INDEX", "MAX_POINTS", "Files", "Force", "IndexPath", "ModelName", "Seed", "Workers"]

INDEX = "qec-index.safetensors"
"""The file that `qec index` writes into a folder."""
MAX_POINTS = 10_000_000
_MAX_SEED = 2**63 - 1


def _check_seed(seed: int) -> int:
    if seed > _MAX_SEED:
        raise typer.BadParameter(f"{seed} is larger than {_MAX_SEED}.")
    return seed


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="Files, folders (searched with their subfolders) and glob patterns.", show_default=False
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Name of a model in the package (see qec models), a weights file, or the folder of a run.",
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, metavar="INTEGER", callback=_check_seed, help="Seed of the random sampling of points.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="INTEGER",
        help="Number of processes. Default: 1 for up to 32 files, otherwise one per core.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
IndexPath = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="PATH",
        help=f"Index file, for example for a library on a read-only disk. Default: {INDEX} in the library's folder.",
        show_default=False,
    ),
]
