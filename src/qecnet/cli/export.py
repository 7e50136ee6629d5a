"""`qec export`: a model as an ONNX file."""

from pathlib import Path
from typing import Annotated

import typer

from qecnet import DEFAULT_MODEL
from qecnet.cli._interrupts import import_models
from qecnet.cli._options import Force, ModelName
from qecnet.cli._output import check_writable


def export(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, *.onnx.")],
    model: ModelName = DEFAULT_MODEL,
    force: Force = False,
) -> None:
    """Export a model to ONNX.

    Example: qec export model.onnx

    Inputs, for any batch size B, as computed by qecnet.geometry.prepare: positions (B, N, 3) float32; frames (B, N, 4)
    float32, the local reference frames, WXYZ; valid (B, N) bool; for models that compare candidates, such as the
    default, also candidates (B, 24, 4) float32, candidate poses, WXYZ, with zeros for padding.

    Outputs, for C classes: confidence (B, C) float32, calibrated probabilities; class_poses (B, C, 4) float32, WXYZ.

    The metadata contains classes, prepare and temperature, each as JSON. The output under onnxruntime is compared with
    PyTorch. Needs the extra qecnet[export].
    """
    check_writable(out, force, (".onnx",))
    import_models()
    from qecnet.files import replace_when_done
    from qecnet.models import export_onnx, load

    with replace_when_done(out) as aside:
        difference = export_onnx(load(model), aside)
    typer.echo(f"{out}: written; under onnxruntime it differs from PyTorch by {difference:.1e} at most")
