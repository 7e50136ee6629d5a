"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from qecnet.triples import Triple, parse_direction, parse_point

TIMEOUT = 600.0
"""Seconds that a file may take."""
ORIENTING_MODEL = "upright"
"""What `qec orient` uses by default: it knows no classes, and finds which way is up for anything."""
INDEX = "qec-index"
"""The folder that `qec index` writes into a folder of shapes."""
MAX_POINTS = 10_000_000
_MAX_SEED = 2**63 - 1


def _check_seed(seed: int) -> int:
    if seed > _MAX_SEED:
        raise typer.BadParameter(f"{seed} is larger than {_MAX_SEED}.")
    return seed


def option_parser(parse: Callable[[str], Triple]) -> Callable[[str], Triple]:
    """The parser of an option: Typer would replace the sentence of a ValueError by the text that was given."""

    def parse_option(text: str) -> Triple:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(f"{error}.") from error

    return parse_option


_FILES = typer.Argument(
    metavar="FILE", help="Files, folders (searched with their subfolders) and glob patterns.", show_default=False
)
Files = Annotated[list[str], _FILES]
FilesOrList = Annotated[list[str] | None, _FILES]
"""`Files` of a command that also has `Listed`."""
Listed = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="LIST",
        help="Text file with one path of a file or folder per line; - reads standard input, for example from find.",
        show_default=False,
    ),
]


def results_file(*names: str, writes: str) -> Any:
    """The option of a bulk run that names its file of results; `writes` says what is in it."""
    return typer.Option(
        *names,
        metavar="PATH",
        help=f"Write {writes} to a file: *.parquet (with the extra qecnet[parquet]), *.csv or *.jsonl. Run the same "
        "command again to continue after an interruption, or when files have changed.",
        show_default=False,
    )


ShardOf = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="K/N",
        help="Process only the K-th of N parts of the files, for batch schedulers; join the results with qec merge. "
        "Example: --shard 3/16.",
        show_default=False,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Distribute the work over a Ray cluster: HOST:PORT, auto for the cluster of this machine, or local. Needs "
        "the extra qecnet[ray].",
        show_default=False,
    ),
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Retry files that failed before and have not changed.")
]
Timeout = Annotated[
    float,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="Time limit per file in a run that keeps results. A file that takes longer fails, and its process is "
        "replaced.",
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
Fast = Annotated[bool, typer.Option("--fast", help="Use fewer points and frames: faster, slightly less accurate.")]
Seed = Annotated[
    int, typer.Option(min=0, metavar="INTEGER", callback=_check_seed, help="Seed of the random sampling of points.")
]
KnownUp = Annotated[
    Triple | None,
    typer.Option(
        "--up",
        metavar="DIRECTION",
        parser=option_parser(parse_direction),
        help="Known up direction of the input, in its own coordinates: an axis (z, -y) or three numbers (0.1,0,1). "
        "Predicted orientations then rotate z to this direction.",
        show_default=False,
    ),
]
Viewpoint = Annotated[
    Triple | None,
    typer.Option(
        "--viewpoint",
        metavar="X,Y,Z",
        parser=option_parser(parse_point),
        help="Position of the camera that saw the shape from one side, in the coordinates of the file, e.g. 0,0,1.5. "
        "Default: the viewpoint in the file, if its format (PCD) has one.",
        show_default=False,
    ),
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
        help="Folder of the index, e.g. index/ for shapes on a read-only disk. "
        f"Default: {INDEX} in the folder of the shapes.",
        show_default=False,
    ),
]
