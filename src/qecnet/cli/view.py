"""`qec view`: a page in the browser where one turns a shape and watches what the network says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._options import DEFAULT_MODEL, ModelName
from qecnet.cli._output import one_sentence
from qecnet.formats import read
from qecnet.models import load


def view(
    file: Annotated[
        Path | None,
        typer.Argument(help="A shape to begin with; without it, one of our own.", show_default=False),
    ] = None,
    model: ModelName = DEFAULT_MODEL,
    host: Annotated[str, typer.Option(help="The address to serve; by default nobody but this machine.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8321,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Turn a shape with the mouse and watch its name stay and its axes follow. Example: qec view chair.ply"""
    with one_sentence():
        try:
            from qecnet.viewer.serve import serve
        except ImportError as error:
            raise ValueError(
                f"the page takes aiohttp, which cannot be imported ({error}); pip install 'qecnet[viewer]'"
            ) from error
        first = None if file is None else read(file)
        serve(load(model), first, host, port, browser=browser, say=typer.echo)
