"""Runs that train one part of a network: the others stay as they are, to the last bit."""

import copy
import json
from dataclasses import asdict

import pytest
import torch
from tests.kinds import present
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.datasets import make_shape
from qecnet.geometry import OrientedPoints, PrepareConfig, prepare
from qecnet.nn import count_parameters, create_network, load_network, save_network
from qecnet.nn.edge_reader import ReaderSize
from qecnet.nn.projection_reader import ProjectionReaderSize
from qecnet.training.averaging import recalibrate, update_average
from qecnet.training.batches import Batch
from qecnet.training.settings import make_settings
from qecnet.training.step import create_optimizers, initial_network

SMALL = ReaderSize(64, (16, 8), (4, 4, 4, 4), (16, 16, 16, 16, 16, 16))
CLASSES = ["chair", "table", "bed"]


@pytest.fixture(scope="module")
def batch():
    config = PrepareConfig(points=300, frames=64, method="centred", candidates=True)
    clouds = [
        prepare(make_shape(name, 0).sample(300, torch.Generator().manual_seed(0)), config)
        for name in ("chair", "table", "bed", "sofa")
    ]
    return Batch(OrientedPoints.stack(clouds), torch.tensor([0, 1, 2, 0]))


@pytest.mark.parametrize(("part", "mixed"), [("invariant", False), ("projections", False), ("projections", True)])
def test_only_the_chosen_part_changes(batch, part, mixed):
    torch.manual_seed(0)
    network = create_network(
        "upright",
        3,
        frames=64,
        scorer=SMALL,
        reader=SMALL,
        invariant=True,
        invariant_reader=SMALL,
        projections=True,
        projection_reader=ProjectionReaderSize(64, 16, (8, 8)),
    )
    network.train_only(part)
    if mixed:
        network.use_mixed_precision()
    average = copy.deepcopy(network).requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    settings = make_settings({"config": "upright", "learning_rate": 0.01})
    (optimizer,) = create_optimizers(network, settings).values()
    for _ in range(3):
        network(batch.points).activations[:, 0].log().sum().backward()
        optimizer.step()
        update_average(average, network, 0.5)
    recalibrate(average, iter([batch, batch]), torch.device("cpu"))
    for state in (network.state_dict(), average.state_dict()):
        changed = {name for name in before if not torch.equal(state[name], before[name])}
        assert {name.partition(".")[0] for name in changed} == {part}
        assert f"{part}.summary_normalised.running_mean" in changed
        assert f"{part}.first_normalised.running_mean" in changed


def test_mixed_precision_gives_nearly_the_same_loss_and_float32_gradients(batch):
    losses = []
    for mixed in (False, True):
        torch.manual_seed(0)
        network = create_network("upright", 3, frames=64, scorer=SMALL, reader=SMALL, projections=True, dropout=0.0)
        network.train_only("projections")
        network.use_mixed_precision(mixed)
        found = network(batch.points)
        loss = found.pose_loss.mean() - found.activations[:, 0].log().mean()
        loss.backward()
        losses.append(loss.item())
        grads = [present(p.grad) for p in network.get_submodule("projections").parameters()]
        assert {found.activations.dtype, *(grad.dtype for grad in grads)} == {torch.float32}
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0] != losses[1]


def test_mixed_precision_is_only_for_projections():
    make_settings({"config": "upright", "projections": True, "only": "projections", "precision": "bfloat16"})
    with pytest.raises(ValueError, match=r"precision is bfloat16; set only to a part of .* supports it: projections"):
        make_settings({"config": "upright", "projections": True, "precision": "bfloat16"})


def test_the_other_parts_need_weights_of_the_same_classes(tmp_path):
    network = create_network("upright", 3, invariant=True)
    save_network(tmp_path / "w.safetensors", network, CLASSES, {"settings": {"method": "centred"}})
    given = {"config": "upright", "invariant": True, "only": "invariant", "start": str(tmp_path / "w.safetensors")}
    assert initial_network(make_settings(given), CLASSES).only == "invariant"
    with pytest.raises(ValueError, match="has different classes, so all parts have to be trained"):
        initial_network(make_settings(given), ["cup", "jug", "pan"])


def test_training_one_part_with_random_others_is_refused(tmp_path):
    given = ["--config", "upright", "--dataset", "shapes", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, ["train", *given, "--set", "invariant=true", "--set", "only=invariant"])
    assert result.exit_code == 1
    assert "only is 'invariant'; give the weights of the other parts with --start" in " ".join(result.output.split())
    assert not (tmp_path / "run").exists()


def test_unlabelled_shapes_are_refused_for_the_invariant_reader():
    with pytest.raises(ValueError, match="it learns nothing from the unlabelled shapes"):
        make_settings({"config": "upright", "invariant": True, "only": "invariant", "unlabelled": "scanned_objects"})
    make_settings({"config": "upright", "projections": True, "only": "projections", "unlabelled": "scanned_objects"})


def test_a_part_that_is_switched_off_cannot_be_trained():
    with pytest.raises(ValueError, match="a part that this network does not have; set invariant to true"):
        make_settings({"config": "upright", "only": "invariant"})


def test_the_final_rank_is_that_of_the_weights(tmp_path):
    """Also those of a run that is resumed after its last epoch."""
    settings = {"per_class": 2, "points": 300, "frames": 1024, "subsamplings": 1, "epochs": 1, "batch_size": 4}
    changes = [f"--set={name}={value}" for name, value in (settings | {"final_rank": 5, "validation": 0}).items()]
    out = ["--dataset", "shapes", "--out", str(tmp_path / "run"), "--cache", str(tmp_path), "--workers", "1"]
    result = CliRunner().invoke(app, ["train", "--config", "upright", *changes, *out])
    assert result.exit_code == 0, result.output
    weights = tmp_path / "run" / "weights.safetensors"
    network, _, _ = load_network(weights)
    assert asdict(network.config)["summary_rank"] == 5
    assert network.state_dict()["reader.summary.0.weight"].shape[0] == 5
    assert json.loads((tmp_path / "run" / "result.json").read_text())["parameters"] == count_parameters(network)
    written = weights.read_bytes()
    weights.unlink()
    assert CliRunner().invoke(app, ["train", "--resume", *out]).exit_code == 0
    assert weights.read_bytes() == written


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"config": "paper", "final_rank": 8}, "final_rank is 8; set it to 0, as the network has no summaries"),
        ({"config": "upright", "final_rank": 8, "summary_rank": 9}, "final_rank is 8; set it to 0"),
        ({"config": "upright", "final_rank": 257}, "final_rank is 257; it must be from 0 to 256"),
    ],
)
def test_a_final_rank_that_does_not_fit_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        make_settings(given)
