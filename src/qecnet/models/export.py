"""A model as an ONNX file for other runtimes, and as a module for `torch.export`.

Its input is the output of `qecnet.geometry.prepare`; reading files, sampling and estimating frames are not exported.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qecnet import __version__
from qecnet.algebra import canonicalize
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.geometry import OrientedPoints
from qecnet.models.inputs import prepare_shape
from qecnet.models.model import Model
from qecnet.schema import needing_extra

INPUTS = ("positions", "frames", "valid")
"""Positions (B, N, 3) float32, their frames (B, N, 4) float32 WXYZ, and whether each frame is valid (B, N) bool."""
CANDIDATES = "candidates"
"""A further input of networks that verify candidate poses: (B, 24, 4) float32, WXYZ, with zeros for padding."""
OUTPUTS = ("confidence", "class_poses")
"""Calibrated probabilities (B, C) float32 of the classes, and the pose of each (B, C, 4) float32, WXYZ, w ≥ 0."""

CLOSE = 1e-4
"""Largest allowed difference between another runtime and PyTorch."""

_OPSET = 18


class ExportModule(nn.Module):
    """A network between plain tensors, for `torch.export`; the batch may have any size.

    Args:
        model: the model whose network and calibration are used.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.network = model.network
        self.calibration = model.calibration

    def forward(
        self, positions: Tensor, frames: Tensor, valid: Tensor, candidates: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Classify prepared points, as `qecnet.geometry.prepare` returns them.

        Args:
            positions: (B, N, 3) positions of the points.
            frames: (B, N, 4) their local reference frames, quaternions, WXYZ.
            valid: (B, N) whether each frame is valid.
            candidates: (B, 24, 4) candidate poses with zeros for padding, for networks that verify candidates.

        Returns:
            Calibrated probabilities (B, C) of the classes, and a pose (B, C, 4) for each, WXYZ, w ≥ 0.
        """
        points = OrientedPoints.from_frames(positions, frames, valid)
        if candidates is not None:
            points = replace(points, candidates=candidates)
        said = self.calibration.apply(self.network(points))
        return said.activations, canonicalize(said.poses)

    def dynamic_shapes(self) -> tuple[dict[int, Any], ...]:
        """Get the dynamic shapes for `torch.export.export`.

        Returns:
            For each input, its dynamic axes; the first is the batch.
        """
        count = len(INPUTS) + self.network.reads_candidates
        return ({0: torch.export.Dim("batch", min=1)},) * count


def list_inputs(model: Model) -> tuple[str, ...]:
    """List the inputs of an exported model.

    Args:
        model: the model.

    Returns:
        Names of fields of `qecnet.geometry.OrientedPoints`, in the order in which `ExportModule` takes them.
    """
    return (*INPUTS, CANDIDATES) if model.network.reads_candidates else INPUTS


def example_inputs(model: Model, count: int) -> tuple[Tensor, ...]:
    """Prepare procedural shapes as input of an exported model; every second one lacks a quarter of its frames.

    Args:
        model: the model.
        count: B, how many shapes.

    Returns:
        The tensors of `list_inputs`, each with B rows.
    """
    shapes = (make_shape(FURNITURE_CLASSES[number % len(FURNITURE_CLASSES)], number) for number in range(count))
    points = OrientedPoints.stack([prepare_shape(shape, model.config, seed=0)[1] for shape in shapes])
    points.valid[1::2, ::4] = False
    return tuple(getattr(points, name) for name in list_inputs(model))


def export_onnx(model: Model, path: Path) -> float:
    """Write a model as an ONNX file, and compare its output under onnxruntime with PyTorch.

    The file's metadata has the classes, how shapes are prepared and the temperature, each as JSON.

    Args:
        model: the model.
        path: the file to write.

    Returns:
        The largest difference between the two runtimes.

    Raises:
        ValueError: if the extra `qecnet[export]` is missing, or the two runtimes differ by more than 1e-4.
    """
    with needing_extra("exporting needs onnx and onnxruntime", "export"):
        import onnx
    module, inputs = ExportModule(model).eval(), list_inputs(model)
    with warnings.catch_warnings(), _custom_operators(), torch.no_grad():
        warnings.simplefilter("ignore")
        # By tracing: the exporter that follows torch.export takes minutes for what this does in seconds.
        torch.onnx.export(
            module,
            example_inputs(model, 2),
            path,
            dynamo=False,
            opset_version=_OPSET,
            input_names=list(inputs),
            output_names=list(OUTPUTS),
            dynamic_axes={name: {0: "batch"} for name in (*inputs, *OUTPUTS)},
        )
    proto = onnx.load(path)
    about = {"classes": model.classes, "prepare": asdict(model.config), "temperature": model.calibration.temperature}
    onnx.helper.set_model_props(proto, {name: json.dumps(value) for name, value in about.items()})
    proto.producer_name, proto.producer_version = "qecnet", __version__
    path.write_bytes(proto.SerializeToString())
    difference = largest_difference(model, path, [example_inputs(model, size) for size in (1, 3)])
    if not difference <= CLOSE:
        raise ValueError(
            f"{path}: onnxruntime differs from PyTorch by {difference:.1e}, more than {CLOSE:.0e}; install another "
            "version of onnxruntime"
        )
    return difference


def largest_difference(model: Model, path: Path, batches: Iterable[tuple[Tensor, ...]]) -> float:
    """Compute the largest difference between onnxruntime and PyTorch over batches; `q` and `−q` are the same pose."""
    with needing_extra("exporting needs onnx and onnxruntime", "export"):
        import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    module, differences = ExportModule(model).eval(), []
    for batch in batches:
        with torch.inference_mode():
            sure, poses = module(*batch)
        named = {name: tensor.numpy() for name, tensor in zip(list_inputs(model), batch, strict=True)}
        their_sure, their_poses = map(torch.from_numpy, session.run(list(OUTPUTS), named))
        apart = torch.minimum((poses - their_poses).norm(dim=-1), (poses + their_poses).norm(dim=-1))
        differences += [(sure - their_sure).abs().max(), apart.max()]
    return float(torch.stack(differences).max())


@contextmanager
def _custom_operators() -> Iterator[None]:
    """Let the exporter write `x.mT`, which it does not support, and the maximum of `scatter_reduce` as one operator."""

    def transpose(graph: Any, x: Any) -> Any:
        *batch, row, column = range(x.type().dim())
        return graph.op("Transpose", x, perm_i=[*batch, column, row])

    # The exporter's own version branches on the rank, with a shape that onnxruntime then warns about.
    @torch.onnx.symbolic_helper.parse_args("v", "i", "v", "v", "s", "b")
    def scatter(graph: Any, x: Any, axis: int, index: Any, source: Any, reduce: str, _: bool) -> Any:
        assert reduce == "amax"
        return graph.op("ScatterElements", x, index, source, axis_i=axis, reduction_s="max")

    custom: dict[str, Callable[..., Any]] = {"aten::mT": transpose, "aten::scatter_reduce": scatter}
    for name, symbolic in custom.items():
        torch.onnx.register_custom_op_symbolic(name, symbolic, _OPSET)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name in custom:
            torch.onnx.unregister_custom_op_symbolic(name, _OPSET)  # type: ignore[attr-defined]
