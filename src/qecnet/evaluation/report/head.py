"""What stands at the top: which model, trained on what, and the figures that matter most."""

from __future__ import annotations

from collections.abc import Sequence

from qecnet.evaluation.metrics import NO_SYM
from qecnet.evaluation.protocol import Protocol
from qecnet.evaluation.report.page import DASH, between, chip, dataset_name, number, percent, two_digits, words
from qecnet.evaluation.report.pairing import mean_interval
from qecnet.evaluation.report.results import PROTOCOLS, Accuracy, Errors, Run

_INTERVAL = "95% interval "


def title(run: Run) -> str:
    """Plain text."""
    return f"{run.name}: {run.model.name}"


def top(run: Run) -> str:
    """A heading, two paragraphs and the headline figures."""
    return (
        f"<h1>{words(run.model.name).replace(' (ours)', '')}, on {dataset_name(run.measured[0].dataset)}</h1>"
        f"<p>{_trained(run)}</p><p>{_protocols()}</p>"
        f'<dl class="cards">{"".join(_cards(run))}</dl>'
    )


def _trained(run: Run) -> str:
    model, about = run.model, run.measured[0]
    shapes = "" if run.training is None else f"the {run.training.shapes:,} training shapes of "
    held = f" ({100 * model.validation:g}% of them held out)" if run.training and model.validation else ""
    took = "" if run.training is None else f", in {_duration(run.training.seconds)}"
    last = run.log[-1].epoch if run.log else model.epochs
    epochs = f"{last} of {model.epochs} epochs" if last < model.epochs else f"{model.epochs} epochs"
    frames = f"{model.frames:,} {words(model.method)} frames from {model.points:,} points a shape"
    loss = f"{words(model.loss)} loss" + (f" + {model.siamese:g} × relative pose" if model.siamese else "")
    if model.aligned:
        loss += f" + {model.aligned:g} × pose to upright, up to the class's symmetry"
    return (
        f"The run <b>{words(run.name)}</b>: configuration <b>{words(model.config)}</b> with "
        f"<b>{about.parameters:,}</b> parameters, trained on {shapes}{dataset_name(model.dataset)}{held} for "
        f"{epochs}{took}, with seed {model.seed}, {frames}, batches of {model.batch_size}, {loss}, learning rate "
        f"{model.learning_rate:g}, and not one rotation. Measured on {about.shapes:,} test shapes of "
        f"{len(about.classes)} classes."
    )


def _protocols() -> str:
    return (
        f"Each figure names its protocol. {chip('strict')}: each view is sampled on its own, turned uniformly over "
        "SO(3), its frames are estimated after the rotation, and every view and pair counts; this is what users live "
        f"with. {chip('paper')}: as the authors' release has it, frames are turned along with the points, and poses "
        "are counted where names are right."
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "under a minute"
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"


def _cards(run: Run) -> list[str]:
    accuracies: list[tuple[str, str]] = [("Accuracy, turned (NR/AR)", "ar"), ("Accuracy, upright (NR/NR)", "nr")]
    cards = [_card(name, [_accuracy(p, _of(run, p, which)) for p in PROTOCOLS]) for name, which in accuracies]
    if run.model.has_poses:
        cards.append(_card("Rotation error, siamese, no-sym", [_error(run, p) for p in PROTOCOLS]))
        cards.append(_card("The same up to symmetry, all classes", [_symmetric(run, p) for p in PROTOCOLS]))
    return cards


def _card(name: str, figures: Sequence[str]) -> str:
    return f"<div><dt>{name}</dt>{''.join(f'<dd>{figure}</dd>' for figure in figures)}</div>"


def _of(run: Run, protocol: Protocol, which: str) -> Accuracy | None:
    found = run.classification.get(protocol)
    return None if found is None else found.nr if which == "nr" else found.ar


def _accuracy(protocol: Protocol, found: Accuracy | None) -> str:
    if found is None:
        return f"<b>{DASH}</b> {chip(protocol)}"
    return f"<b>{percent(found.accuracy)}%</b> {chip(protocol)}{between(found.interval, told=_INTERVAL)}"


def _counted(protocol: Protocol) -> str:
    return "correct" if protocol == "paper" else "all"


def _pairs(run: Run, protocol: Protocol, classes: str) -> Errors | None:
    """Of the pairs that the protocol counts."""
    found = run.rotation.get(protocol)
    return None if found is None else getattr(found.modes["siamese"][_counted(protocol)], classes)


def _error(run: Run, protocol: Protocol) -> str:
    errors = _pairs(run, protocol, "no_sym")
    if errors is None:
        return f"<b>{DASH}</b> {chip(protocol)}"
    predictions = run.predictions("rotation", protocol)
    interval = predictions and mean_interval(predictions, NO_SYM, only_correct=protocol == "paper")
    degrees = number(180 * errors.plain.mean, ".0f")
    over = "pairs named right" if protocol == "paper" else "every pair"
    return (
        f"<b>{two_digits(errors.plain.mean)}</b> {chip(protocol)} {degrees}°, {over}"
        f"{between(interval, '.3f', 1, _INTERVAL) if interval else ''}"
    )


def _symmetric(run: Run, protocol: Protocol) -> str:
    errors = _pairs(run, protocol, "all_classes")
    if errors is None:
        return f"<b>{DASH}</b> {chip(protocol)}"
    return (
        f"<b>{two_digits(errors.symmetric.mean)}</b> {chip(protocol)} plain: {two_digits(errors.plain.mean)}; "
        f"median {number(180 * errors.symmetric.median, '.1f')}°"
    )
