"""A model outside of Python: `torch.export` and ONNX under onnxruntime say what PyTorch says, for any batch."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import qecnet
from qecnet.algebra import canonicalize
from qecnet.cli.main import app
from qecnet.compiled import use_compiled_operators
from qecnet.datasets import make_shape
from qecnet.geometry import PrepareConfig
from qecnet.models import ExportModule, Model, example_inputs, export_onnx, list_inputs
from qecnet.models.export import largest_difference
from qecnet.nn import (
    Calibration,
    FeatureConfig,
    FeatureNet,
    Neighbourhood,
    Network,
    NetworkConfig,
    QECConfig,
    QECNet,
    UprightConfig,
    UprightNet,
)
from qecnet.nn.edge_reader import ReaderSize
from qecnet.nn.projection_reader import ProjectionReaderSize

onnx = pytest.importorskip("onnx")

PAPER = QECConfig(3, frames=64, patches=16, capsules=4, iterations=1)
FEATURES = FeatureConfig(
    3,
    frames=64,
    iterations=1,
    neighbourhoods=(Neighbourhood(32, 8, 8, 8, 0.3), Neighbourhood(8, 8, 8, 8, 0.5)),
    whole=(8, 16),
    summary=16,
)
SMALL = ReaderSize(64, (16, 8), (4, 4, 4, 4), (8, 8, 8, 8, 8, 16))
UPRIGHT = UprightConfig(
    3,
    frames=64,
    scorer=SMALL,
    reader=SMALL,
    invariant=True,
    invariant_reader=SMALL,
    projections=True,
    projection_reader=ProjectionReaderSize(64, 16, (8, 8)),
)
CONFIG = PrepareConfig(points=500, frames=64, method="centred")


@pytest.fixture(scope="module", params=["features", "upright", pytest.param("paper", marks=pytest.mark.slow)])
def model(request):
    """Weights that have learned nothing tell the runtimes apart as well as others do."""
    torch.manual_seed(0)
    networks: dict[str, tuple[type[Network], NetworkConfig]]
    networks = {"features": (FeatureNet, FEATURES), "upright": (UprightNet, UPRIGHT), "paper": (QECNet, PAPER)}
    kind, config = networks[request.param]
    prepared = replace(CONFIG, candidates=kind.reads_candidates)
    return Model(
        "untrained", kind(config), ("a", "b", "c"), prepared, calibration=Calibration(0.5, temperature_slope=2.0)
    )


def batches(model):
    """Of several sizes; the largest has a cloud without any frame or candidate."""
    given = example_inputs(model, 7)
    for tensor in given[2:]:
        tensor[-1] = 0
    return [tuple(tensor[:size] for tensor in given) for size in (1, 3, 7)]


def check_torch_export(model):
    """Compare with the plain operators, which are exported; other tests compare those with the compiled ones."""
    module = ExportModule(model).eval()
    use_compiled_operators(False)
    try:
        with torch.no_grad():
            given = example_inputs(model, 2)
            program = torch.export.export(module, given, dynamic_shapes=module.dynamic_shapes()).module()
            for batch in batches(model):
                (sure, poses), (expected_sure, expected_poses) = program(*batch), module(*batch)
                torch.testing.assert_close(sure, expected_sure, atol=1e-4, rtol=0)
                assert ((poses * expected_poses).sum(-1).abs() > 1 - 1e-6).all()
    finally:
        use_compiled_operators()


@pytest.mark.slow
def test_torch_export_takes_a_batch_of_any_size(model):
    check_torch_export(model)


def test_onnxruntime_agrees_with_pytorch(model, tmp_path):
    path = tmp_path / "model.onnx"
    assert export_onnx(model, path) <= 1e-4
    assert largest_difference(model, path, batches(model)) <= 1e-4
    written = onnx.load(path)
    about = {entry.key: json.loads(entry.value) for entry in written.metadata_props}
    assert about["classes"] == ["a", "b", "c"]
    assert PrepareConfig(**about["prepare"]) == model.config
    assert about["temperature"] == 0.5
    assert tuple(entry.name for entry in written.graph.input) == list_inputs(model)
    assert {entry.type.tensor_type.shape.dim[0].dim_param for entry in written.graph.input} == {"batch"}
    torch.manual_seed(1)
    other = Model("other", type(model.network)(model.network.config), model.classes, model.config)
    assert largest_difference(other, path, batches(model)) > 1e-2


def test_the_exported_module_agrees_with_the_model(model):
    module, shape = ExportModule(model).eval(), make_shape("bathtub", 0)
    with torch.no_grad():
        sure, poses = module(*example_inputs(model, 1))
    answer = model.predict(shape)
    torch.testing.assert_close(sure[0], answer.activations)
    torch.testing.assert_close(poses[0].double(), canonicalize(answer.poses), atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["modelnet10", "modelnet10-features", "modelnet10-paper"])
def test_onnxruntime_agrees_with_pytorch_for_shipped_weights(name, tmp_path):
    path = tmp_path / "model.onnx"
    result = CliRunner().invoke(app, ["export", str(path), "--model", name])
    assert result.exit_code == 0, result.stderr
    assert "differs from PyTorch by" in result.stdout
    shipped = qecnet.load(name)
    assert largest_difference(shipped, path, batches(shipped)) <= 1e-4
    check_torch_export(shipped)


def test_wrong_arguments_give_a_one_sentence_error(tmp_path, monkeypatch):
    def run(*arguments):
        result = CliRunner().invoke(app, ["export", *(str(a) for a in arguments)])
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        return result.stderr

    there = tmp_path / "there.onnx"
    there.write_bytes(b"mine")
    assert "--force" in run(there)
    assert "*.onnx" in run(tmp_path / "model.pt")
    assert "neither a model in the package" in run(tmp_path / "new.onnx", "--model", "nothing")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'qecnet[export]'" in run(there, "--force", "--model", "modelnet10-paper")
    assert there.read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["there.onnx"]
