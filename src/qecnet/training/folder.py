"""A run's folder: what is in it, who may write there, and how its files are written, each one whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qecnet.files import alone_in, as_json, write_whole
from qecnet.nn import Network, save_network
from qecnet.training.settings import Settings, checked, json_of, make_settings


@dataclass(frozen=True)
class RunFolder:
    """`settings.json`, `checkpoint.safetensors`, `log.jsonl`, `weights.safetensors`, `result.json`, `curves.png`."""

    path: Path

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def weights(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def curves(self) -> Path:
        return self.path / "curves.png"

    def check_unused(self) -> None:
        """Refuses a folder that holds a run, or anything that a run would overwrite."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path}: is a file; give --out a folder for the run")
        files = self.settings, self.checkpoint, self.log, self.weights, self.result, self.curves
        if there := [file.name for file in files if file.exists()]:
            raise ValueError(
                f"{self.path}: holds a run already ({there[0]}); continue it with --resume, or give another --out"
            )

    def resumed_settings(self, given: Mapping[str, Any]) -> Settings:
        """The settings of the run in the folder; refused where one that is given now is another."""
        try:
            settings = make_settings(dict(json.loads(self.settings.read_text(encoding="utf-8"))))
        except FileNotFoundError as error:
            raise ValueError(f"{self.path}: holds no run to resume; leave out --resume to begin one") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.settings}: is damaged ({error}); give another --out and begin anew") from error
        for name, value in given.items():
            now, then = checked(name, value), getattr(settings, name)
            if now != then:
                raise ValueError(
                    f"{self.path}: was begun with {name} = {then}, not {now}; "
                    "resume it without that, or begin another run in another --out"
                )
        return settings

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Makes the folder and keeps every other run out of it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(f"{self.path}: cannot be made ({(error.strerror or str(error)).lower()})") from error
        with ExitStack() as stack:
            try:
                stack.enter_context(alone_in(self.path, wait=False))
            except BlockingIOError as error:
                raise ValueError(
                    f"{self.path}: another process trains into it; wait for it, or give another --out"
                ) from error
            yield

    def write_settings(self, settings: Settings) -> None:
        """From here on the folder holds a run; one that goes on has them already."""
        if not self.settings.exists():
            write_whole(self.settings, as_json(json_of(settings)))

    def write_log(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """One line an epoch; always the whole log as the checkpoint has it, so that a run that goes on repeats none."""
        write_whole(self.log, b"".join(_line(row) for row in rows))

    def write_weights(
        self, network: Network, classes: Sequence[str], settings: Settings, temperature: float = 1.0
    ) -> None:
        """The weights, with what is needed to build the network, to name what it says and how sure it is."""
        save_network(self.weights, network, classes, {"settings": json_of(settings), "temperature": temperature})

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_whole(self.result, as_json(result))


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row) + "\n").encode()
