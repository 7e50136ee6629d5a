"""Results as Parquet, CSV or JSON lines: one row for each file, with its values or its error."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TextIO

from qecnet.files import find_write_obstacle, name_write_errors, replace_when_done
from qecnet.schema import needing_extra

Row = dict[str, Any]
"""The result for a file: `file` and either `error` or the values of all columns."""
Columns = Mapping[str, Literal["text", "number", "quaternion", "scores", "vector", "length"]]
"""Names and kinds of the values in a row, without `file` and `error`."""
_LAST = ("vector", "length")
"""Kinds that come after `error` in CSV: they were added later, and the other columns keep their place."""
_GROUP = 10_000
"""Rows of a Parquet file that are in memory at once."""


def write_results(path: Path, rows: Iterable[Row], columns: Columns) -> None:
    """Write a table in the format of its suffix, whole or not at all.

    Args:
        path: the file.
        rows: one for each shape.
        columns: their names and types.

    Raises:
        ValueError: a suffix that is not known, or Parquet without the library for it.
        OSError: the file cannot be written; one sentence.
    """
    write = check_results_path(path)
    with replace_when_done(path) as aside, name_write_errors(path):
        write(aside, rows, columns)


def check_results_path(path: Path) -> Callable[[Path, Iterable[Row], Columns], None]:
    """Find the function that writes a file of results.

    Args:
        path: the file, whose suffix determines the format.

    Returns:
        The function, which is given the path, the rows and the columns.

    Raises:
        ValueError: there is none, or no folder for the file; one sentence that says what to do.
        OSError: no file can be created in its folder; one sentence.
    """
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        names = ", ".join(f"*{name}" for name in RESULT_SUFFIXES)
        raise ValueError(f"{path}: is not a supported type of results file; name it {names}")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; create it first")
    if obstacle := find_write_obstacle(path.parent):
        raise OSError(f"{path}: cannot be written ({obstacle}); choose another folder")
    if suffix == ".parquet":
        with needing_extra(f"{path}: Parquet, unlike CSV and JSON lines, needs pyarrow", "parquet"):
            import pyarrow.parquet  # noqa: F401
    return _WRITERS[suffix]


def print_json(rows: Iterable[Row], stream: TextIO, *, flush: bool = False) -> None:
    """Write one JSON object per line.

    Args:
        rows: the objects.
        stream: where they are written.
        flush: whether to flush the stream after each line.
    """
    for row in rows:
        print(json.dumps(row, allow_nan=False), file=stream, flush=flush)


def print_csv(rows: Iterable[Row], columns: Columns, stream: TextIO, *, flush: bool = False) -> None:
    """Write a header, then one line per row.

    A quaternion is written as `w`, `x`, `y` and `z`, a vector `up` as `up_x`, `up_y` and `up_z`, and scores not at all.

    Args:
        rows: values by the names of columns.
        columns: their names and types.
        stream: where they are written.
        flush: whether to flush the stream after each line.
    """
    first, last = (
        [flat for name, kind in columns.items() if (kind in _LAST) == is_last for flat in _flat_names(name, kind)]
        for is_last in (False, True)
    )
    table = csv.DictWriter(stream, ["file", *first, "error", *last], extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows:
        lists = [(name, kind) for name, kind in columns.items() if kind in ("quaternion", "vector") and name in row]
        flat = {k: v for name, kind in lists for k, v in zip(_flat_names(name, kind), row[name], strict=True)}
        table.writerow(row | flat | _names(row))
        if flush:
            stream.flush()


def _flat_names(column: str, kind: str) -> list[str]:
    names = {"quaternion": [*"wxyz"], "vector": [f"{column}_{axis}" for axis in "xyz"], "scores": []}
    return names.get(kind, [column])


def _names(row: Row) -> dict[str, str]:
    """The texts that come from names of files, which need not be Unicode."""
    texts = {name: row[name] for name in ("file", "output", "error") if name in row}
    return {name: text.encode(errors="backslashreplace").decode() for name, text in texts.items()}


def _write_json(path: Path, rows: Iterable[Row], columns: Columns) -> None:
    with path.open("w", encoding="utf-8") as file:
        print_json(rows, file)


def _write_csv(path: Path, rows: Iterable[Row], columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        print_csv(rows, columns, file)


def _write_parquet(path: Path, rows: Iterable[Row], columns: Columns) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {
        "text": pyarrow.string(),
        "number": pyarrow.float64(),
        "length": pyarrow.float64(),
        "quaternion": pyarrow.list_(pyarrow.float64()),
        "vector": pyarrow.list_(pyarrow.float64()),
        "scores": pyarrow.map_(pyarrow.string(), pyarrow.float64()),
    }
    types = {"file": pyarrow.string(), **{name: kinds[kind] for name, kind in columns.items()}}
    schema = pyarrow.schema([*types.items(), ("error", pyarrow.string())])
    cells = (_cells(row, columns) for row in rows)
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as table:
        while group := list(islice(cells, _GROUP)):
            table.write_table(pyarrow.Table.from_pylist(group, schema))


def _cells(row: Row, columns: Columns) -> Row:
    cells = row | _names(row)
    for name, kind in columns.items():
        if name in row and kind == "scores":
            cells[name] = [*row[name].items()]
        elif name in row and kind == "text" and row[name] is not None:
            cells[name] = str(cells[name])
    return cells


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_json}
RESULT_SUFFIXES = (*_WRITERS,)
