"""What results depend on besides the files: those of one run never mix with those of another."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qecnet.bulk.sinks import Columns
from qecnet.schema import parse_object

_VERSION = 1
"""Of the format of journals."""


@dataclass(frozen=True)
class Origin:
    """What the rows of a journal depend on besides the files.

    Attributes:
        command: the name of the command.
        model: the name of the model, for messages.
        key: a hash of its weights.
        options: the options that change rows, as JSON.
        columns: names and kinds of the values in a row.
        version: of the format of journals.
    """

    command: str
    model: str
    key: str
    options: str
    columns: Columns
    version: int = _VERSION

    def fits(self, other: Origin) -> bool:
        """Check whether rows of both may be in one table; of the model, only the weights matter, not the name.

        Args:
            other: the origin to compare with.

        Returns:
            True if they may.
        """
        return replace(self, model="") == replace(other, model="")

    def check_journal(self, path: Path, theirs: Origin) -> None:
        """Check that a journal belongs to this run.

        Args:
            path: of the journal, for the message.
            theirs: its origin.

        Raises:
            ValueError: if it does not; one sentence.
        """
        remedy = "choose another name, or delete the results and their journal"
        if theirs.version != self.version or (theirs.command == self.command and theirs.columns != self.columns):
            raise ValueError(f"{path}: was written by another version of qecnet; {remedy}")
        if theirs.command != self.command:
            raise ValueError(f"{path}: was written by qec {theirs.command}; {remedy}")
        before, now = (parse_object(text, path) for text in (theirs.options, self.options))
        for name in sorted({*before, *now}):
            shown = [_show(options.get(name)) for options in (before, now)]
            if shown[0] != shown[1]:
                values = ", and now ".join(shown)
                raise ValueError(f"{path}: was made with --{name.replace('_', '-')} {values}; {remedy}")
        if theirs.key != self.key:
            raise ValueError(f"{path}: was made with other weights ({theirs.model}); {remedy}")


def _show(value: Any) -> str:
    """An option that is off is the same as one that did not exist yet."""
    if value is None or isinstance(value, bool):
        return "given" if value else "not given"
    return json.dumps(value).strip('"')
