"""`qec export`: a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qecnet.cli._options import DEFAULT_MODEL, ModelName
from qecnet.cli._output import check_writable, one_sentence
from qecnet.files import replace_when_done
from qecnet.models import export_onnx, load


def export(
    out: Annotated[Path, typer.Argument(help="The file to write, *.onnx.")],
    model: ModelName = DEFAULT_MODEL,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a model as ONNX, from prepared points to class and pose. Example: qec export model.onnx

    Inputs, for a batch of any size B, as qecnet.geometry.prepare gives them: positions (B, N, 3) float32; frames
    (B, N, 4) float32, their local reference frames, WXYZ; valid (B, N) bool.

    Outputs, for C classes: confidence (B, C) float32, calibrated, adds up to 1; class_poses (B, C, 4) float32, WXYZ.

    The metadata has classes, prepare and temperature, each as JSON. What was written is compared with PyTorch under
    onnxruntime. Takes the extra qecnet[export].
    """
    with one_sentence():
        check_writable(out, force, (".onnx",))
        with replace_when_done(out) as aside:
            difference = export_onnx(load(model), aside)
        typer.echo(f"{out}: written; under onnxruntime it differs from PyTorch by {difference:.1e} at most")
