"""`qec view`: a page in the browser where a shape is rotated and the prediction follows."""

from pathlib import Path
from typing import Annotated

import typer

from qecnet import DEFAULT_MODEL
from qecnet.cli._options import ModelName
from qecnet.schema import needing_extra


def view(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Mesh or point cloud to show first. Default: a shape from the gallery."),
    ] = None,
    model: ModelName = DEFAULT_MODEL,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on; 0.0.0.0 also serves other machines, without a password."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Port to listen on; 0 chooses a free one.")
    ] = 8321,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Rotate a shape in the browser and watch the prediction.

    Example: qec view chair.ply

    The class stays the same and the predicted axes follow the shape. The page has a list of models; those with capsules
    also show patches and votes. Ctrl-C stops the viewer.
    """
    from qecnet.formats import read
    from qecnet.models import load

    with needing_extra("the viewer needs aiohttp", "viewer"):
        from qecnet.viewer import serve_viewer
    shape = None if file is None else read(file)
    serve_viewer(load(model), shape, host, port, browser=browser, echo=typer.echo)
