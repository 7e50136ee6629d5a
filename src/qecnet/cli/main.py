"""The command `qec`. The module of a subcommand is imported only when that subcommand is used."""

import importlib
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from qecnet.cli._interrupts import import_models, quiet_interrupts

with quiet_interrupts():
    import typer
    from typer.core import TyperCommand, TyperGroup

    from qecnet import __version__
    from qecnet.cli._output import discard_output, one_sentence, use_plain_characters

COMMANDS = {
    "classify": "Classify shapes and estimate their orientation.",
    "orient": "Rotate shapes upright.",
    "merge": "Join the results of shards.",
    "align": "Align one shape with another.",
    "index": "Index a folder of shapes for qec search.",
    "search": "Find similar shapes in an indexed folder.",
    "view": "Rotate a shape in the browser and watch the prediction.",
    "info": "Print what shape files contain.",
    "models": "List the trained models in the package.",
    "export": "Export a model to ONNX.",
    "train": "Train a network.",
    "evaluate": "Measure a trained model.",
    "report": "Write the results of a run as one HTML page.",
    "card": "Write the model card of a run.",
    "frames": "Estimate the local reference frames of a shape.",
    "repeatability": "Measure the repeatability of local reference frames.",
}
"""Each command, which is a function of the same name in the module of the same name, and how its help text begins."""


def load_command(name: str) -> Any:
    """Import a command's module and return its parsed command (or group of commands)."""
    with quiet_interrupts():
        module = importlib.import_module(f"qecnet.cli.{name}")
    if hasattr(module, "app"):
        return typer.main.get_command(module.app)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    checks_first = hasattr(module, "import_models")  # and calls it once its options are known to be valid
    function = getattr(module, name)
    single.command(name)(function if checks_first else _after_imports(function))
    return typer.main.get_command(single)


def _after_imports(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def command(**options: Any) -> None:
        import_models()
        function(**options)

    return command


class LazyGroup(TyperGroup):
    """Lists commands by their summaries, and imports the one that is used."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, summary in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, summary, rest = super().resolve_command(ctx, args)
        return name, None if summary is None or name is None else load_command(name), rest

    def invoke(self, ctx: Any) -> Any:
        with one_sentence():
            return super().invoke(ctx)

    def main(self, *args: Any, **options: Any) -> Any:
        use_plain_characters(sys.stdout, sys.stderr)
        try:
            try:
                return super().main(*args, **options)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has closed it
            discard_output()
            sys.exit(1)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # [v2] in a help text or an error message is text
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qecnet {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Classify 3D shapes in any pose and estimate their orientation.

    Example: qec classify scan.ply
    """
