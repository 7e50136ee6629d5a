"""Output of a run: a progress bar in a terminal, one plain line per epoch, and the curves."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from qecnet.files import write_whole
from qecnet.outcome import Epoch
from qecnet.training.checkpoint import State
from qecnet.training.loop import Watcher


def line(row: Epoch, epochs: int) -> str:
    """Format a row of the log."""
    shares = {"NR": row.validation_nr, "AR": row.validation_ar, "class mean": row.validation_class_mean}
    shares |= {"views": row.validation_views}
    held = [f"{name} {share:.1%}" for name, share in shares.items() if share is not None]
    if row.validation_pose is not None:
        held.append(f"pose {row.validation_pose:.3f}")
    return (
        f"epoch {row.epoch}/{epochs}  loss {row.loss:.4f}  train {row.train_accuracy:.1%}"
        + (f"  validation {' '.join(held)}" if held else "")
        + f"  {row.shapes_per_second:.1f} shapes/s  {row.seconds:.0f} s  waiting {row.waiting:.1%}"
    )


@contextmanager
def display(console: Console, epochs: int) -> Iterator[Watcher]:
    """Show the progress of a run."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("training", figures="", total=None)

        def step(state: State, steps: int) -> None:
            totals = state.totals
            bar.update(
                shown,
                total=epochs * steps,
                completed=state.epoch * steps + state.step,
                description=f"epoch {state.epoch + 1}/{epochs}",
                figures=f"loss {totals['total'] / totals['shapes']:.4f}  "
                f"accuracy {totals['correct'] / max(totals['labelled'], 1):.1%}  "
                f"{totals['shapes'] / totals['seconds']:.1f} shapes/s",
            )

        yield Watcher(step, lambda row: console.print(line(row, epochs), highlight=False, soft_wrap=True))


def draw_curves(rows: Sequence[Epoch], path: Path) -> bool:
    """Draw loss and accuracy over epochs as a PNG; False if matplotlib, the extra "plot", is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [row.epoch for row in rows]
    left.plot(epochs, [row.loss for row in rows], "-", color="black")
    left.set(xlabel="epoch", ylabel="loss", title="training loss")
    for name, label in (
        ("train_accuracy", "train"),
        ("validation_nr", "validation, NR"),
        ("validation_ar", "validation, AR (paper protocol)"),
    ):
        points = [(row.epoch, 100 * share) for row in rows if (share := getattr(row, name)) is not None]
        if points:
            right.plot(*zip(*points, strict=True), label=label)
    right.set(xlabel="epoch", ylabel="%", title="accuracy")
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_whole(path, picture.getvalue())
    return True
