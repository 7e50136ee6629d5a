"""The folder of a training run, with everything that has been measured of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from qecnet.evaluation.predict import Predictions, read_predictions
from qecnet.evaluation.published import published_figures
from qecnet.evaluation.results import PROTOCOLS, ModelResult, PoseBaselinesResult, ProtocolName, R, read_result
from qecnet.models import RunSettings, read_run_settings
from qecnet.nn import find_network, list_networks
from qecnet.outcome import Epoch, TrainingOutcome
from qecnet.schema import decode_file, decode_lines


def network_title(config: str) -> str:
    """Get what tables call a network.

    Args:
        config: the name of its configuration, as in the settings of a run.

    Returns:
        Its name in published.json if it is a method that we compare with, otherwise its title.
    """
    if (method := published_figures().methods.get(config)) is not None:
        return method
    return find_network(config).network.title if config in list_networks() else config


@dataclass(frozen=True)
class EvaluatedRun:
    """A folder that `qec train` wrote, with results of `qec evaluate` in its folder `evaluation`.

    Files are read on first use, and only once.

    Attributes:
        folder: of the run.

    Raises:
        ValueError: from any attribute whose file is damaged; one sentence that names the file.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise ValueError(f"{self.folder}: there is no such folder; give the folder of a run of qec train")
        if not (self.folder / "settings.json").exists():
            raise ValueError(
                f"{self.folder}: is not the folder of a run (no settings.json); give one that qec train wrote"
            )

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def network(self) -> str:
        """What the network is called in tables of all runs."""
        return f"{self.title}, siamese loss" if self.settings.siamese > 0 else self.title

    @property
    def title(self) -> str:
        """What the network is called, whatever its loss was."""
        return ", ".join([network_title(self.settings.config), *(suffix for _, suffix in self._variants)])

    @property
    def kind(self) -> str:
        """The name of the configuration, or of the variant of the network that the run is of, such as "var"."""
        return next((name for name, _ in self._variants), self.settings.config)

    @property
    def _variants(self) -> list[tuple[str, str]]:
        """Names of the network's variants that the run is of, and how they end the title."""
        config = self.settings.config
        variants = find_network(config).network.variants if config in list_networks() else {}
        return [names for field, names in variants.items() if not getattr(self.settings, field)]

    @property
    def has_poses(self) -> bool:
        """Whether the network predicts poses; some baselines only classify."""
        return all(result.model.poses for result in self)

    @cached_property
    def settings(self) -> RunSettings:
        """How it was trained."""
        return read_run_settings(self.folder / "settings.json")

    @cached_property
    def outcome(self) -> TrainingOutcome | None:
        """What came of the training, if it has finished."""
        path = self.folder / "result.json"
        return decode_file(path, TrainingOutcome) if path.exists() else None

    @cached_property
    def log(self) -> tuple[Epoch, ...]:
        """The training's epochs."""
        path = self.folder / "log.jsonl"
        return decode_lines(path, Epoch) if path.exists() else ()

    @cached_property
    def _results(self) -> dict[tuple[type, ProtocolName], ModelResult]:
        kinds = ((kind, p) for kind in ModelResult.__subclasses__() for p in PROTOCOLS)
        found = {(kind, p): read_result(self.folder / "evaluation", kind, p) for kind, p in kinds}
        return {(kind, p): result for (kind, p), result in found.items() if result is not None and result.protocol == p}

    @cached_property
    def pose_baselines(self) -> PoseBaselinesResult | None:
        """Methods without learning, measured on the same dataset."""
        return read_result(self.folder / "evaluation", PoseBaselinesResult)

    def result(self, kind: type[R], protocol: ProtocolName = "strict") -> R | None:
        """Get a result.

        Args:
            kind: the class of the result, for example `RotationResult`.
            protocol: the protocol of the measurement.

        Returns:
            The result, or None if it has not been measured.
        """
        return self._results.get((kind, protocol))  # type: ignore[return-value]

    def results(self, kind: type[R]) -> dict[ProtocolName, R]:
        """Get the results of a measurement under all protocols.

        Args:
            kind: the class of the result, for example `RotationResult`.

        Returns:
            The results by protocol, strict first.
        """
        return {p: found for p in PROTOCOLS if (found := self.result(kind, p)) is not None}

    def __iter__(self) -> Iterator[ModelResult]:
        """Iterate over all results of the model."""
        return iter(self._results.values())

    def predictions(self, measurement: str, protocol: ProtocolName) -> Predictions | None:
        """Read the predictions behind a result.

        Args:
            measurement: its name, for example "rotation".
            protocol: the protocol of the measurement.

        Returns:
            The predictions, or None if they were not kept.
        """
        path = self.folder / "evaluation" / f"{measurement}-{protocol}.npz"
        return read_predictions(path)[1] if path.exists() else None
