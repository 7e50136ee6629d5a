"""The folder of a run: its files, each replaced in one step, and the lock that keeps other runs out."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qecnet.files import alone_in, as_json, write_whole
from qecnet.nn import Calibration, Network, save_network
from qecnet.outcome import Epoch, TrainingOutcome
from qecnet.schema import system_reason
from qecnet.training.settings import Settings, check_setting, make_settings, parse_run_settings


class RunFolder:
    """The files of a run, by what they hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.checkpoint = path / "checkpoint.safetensors"
        self.log = path / "log.jsonl"
        self.weights = path / "weights.safetensors"
        self.result = path / "result.json"
        self.curves = path / "curves.png"

    def check_unused(self) -> None:
        """Raise a ValueError if the folder holds a run, or any file that a run would overwrite."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path}: is a file; choose a folder for --out")
        files = self.settings, self.checkpoint, self.log, self.weights, self.result, self.curves
        if there := [file.name for file in files if file.exists()]:
            raise ValueError(
                f"{self.path}: already holds a run ({there[0]}); continue it with --resume, or give another --out"
            )

    def resumed_settings(self, given: Mapping[str, Any]) -> Settings:
        """Read the settings of the run in the folder.

        Raises:
            ValueError: if there is no run, its settings are damaged, or one that is given differs.
        """
        try:
            settings = make_settings(parse_run_settings(self.settings.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise ValueError(f"{self.path}: holds no run to resume; omit --resume to start one") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.settings}: is damaged ({error}); start a new run in another --out") from error
        for name, value in given.items():
            now, then = check_setting(name, value), getattr(settings, name)
            if now != then:
                raise ValueError(
                    f"{self.path}: was started with {name} = {then}, not {now}; "
                    "resume it without changing that, or start a new run in another --out"
                )
        return settings

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Create the folder and lock it against other runs."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(f"{self.path}: cannot be created ({system_reason(error)})") from error
        with ExitStack() as stack:
            try:
                stack.enter_context(alone_in(self.path, wait=False))
            except BlockingIOError as error:
                raise ValueError(
                    f"{self.path}: is in use by another run; wait for it, or choose another --out"
                ) from error
            yield

    def write_settings(self, settings: Settings) -> None:
        """Write the settings, unless a run that is resumed has written them."""
        if not self.settings.exists():
            write_whole(self.settings, as_json(asdict(settings)))

    def write_log(self, rows: Sequence[Epoch]) -> None:
        """Write the whole log of the checkpoint, one line per epoch, so that a resumed run repeats none."""
        write_whole(self.log, "".join(json.dumps(asdict(row)) + "\n" for row in rows).encode())

    def write_weights(
        self,
        network: Network,
        classes: Sequence[str],
        settings: Settings,
        calibration: Calibration | None = None,
    ) -> None:
        """Write the weights with the network's configuration, class names and, if it is known, calibration."""
        about = {"settings": asdict(settings)} | (asdict(calibration) if calibration else {})
        save_network(self.weights, network, classes, about)

    def write_result(self, result: TrainingOutcome) -> None:
        write_whole(self.result, as_json(asdict(result)))
