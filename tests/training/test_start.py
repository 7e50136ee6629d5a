"""Runs that begin with weights: what is taken over, what is drawn anew, and what is refused."""

import json
import re
from dataclasses import replace

import pytest
import torch
from tests.kinds import present
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.nn import create_network, load_network, parts_left_out, save_network, start_from
from qecnet.training.settings import make_settings
from qecnet.training.step import initial_network, new_state

CLASSES = ["chair", "table", "bed"]
FLARE = "flare"
PAPER, FEATURES = {"config": "paper"}, {"config": "features", "method": "flare"}


def written(tmp_path, tiny, changes, classes):
    torch.manual_seed(1)
    network = tiny(**changes).create_network(len(classes))
    save_network(tmp_path / "w.safetensors", network, classes, {"settings": {"method": FLARE}})
    return network.state_dict(), tmp_path / "w.safetensors"


def differing(one, other):
    return {name for name in one if not torch.equal(one[name], other[name])}


@pytest.mark.parametrize("changes", [PAPER, FEATURES], ids=["paper", "features"])
def test_same_classes_copy_all_weights(tmp_path, tiny, changes):
    there, path = written(tmp_path, tiny, changes, CLASSES)
    network = tiny(**changes).create_network(3)
    assert differing(network.state_dict(), there)
    start_from(network, CLASSES, path, FLARE)
    assert not differing(network.state_dict(), there)


@pytest.mark.parametrize("classes", [["cup", "jug", "pan"], ["cup", "jug"], CLASSES[::-1]], ids=len)
def test_other_classes_copy_only_layers_without_classes(tmp_path, tiny, classes):
    """Also as many others, and the same in another order: a class's weights are never those of another."""
    there, path = written(tmp_path, tiny, FEATURES, CLASSES)
    network = tiny(**FEATURES).create_network(len(classes))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    start_from(network, classes, path, FLARE)
    after = network.state_dict()
    drawn = {name for name in after if after[name].dim() > 1}
    kept = {name for name in drawn if torch.equal(after[name], before[name])}
    assert {name.rpartition("looks.")[2][2:] for name in kept} == {
        "scores.1.weight",
        "patch_voters.last.weight",
        "whole_voters.last.weight",
    }
    assert not differing({name: after[name] for name in drawn - kept}, there)


@pytest.mark.parametrize("classes", [CLASSES[::-1], ["bed", "cup"], ["cup", "table", "jug", "chair"]], ids=len)
def test_rows_of_classes_follow_their_names(tmp_path, classes):
    torch.manual_seed(1)
    there = create_network("upright", 3, projections=True)
    save_network(tmp_path / "w.safetensors", there, CLASSES, {"settings": {"method": "centred"}})
    network = create_network("upright", len(classes), projections=True)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert not start_from(network, classes, tmp_path / "w.safetensors", "centred")
    after, stored = network.state_dict(), there.state_dict()
    rows = {name for name in after if re.search(r"classes\.(weight|bias)$", name)}
    assert len(rows) == 6
    assert not differing({name: after[name] for name in after.keys() - rows}, stored)
    for name in rows:
        for row, label in enumerate(classes):
            expected = stored[name][CLASSES.index(label)] if label in CLASSES else before[name][row]
            assert torch.equal(after[name][row], expected)


def test_a_part_starts_from_other_weights(tmp_path):
    def make(name, seed, classes, **parts):
        torch.manual_seed(seed)
        network = create_network("upright", len(classes), **parts)
        save_network(tmp_path / name, network, classes, {"settings": {"method": "centred"}})
        return network.state_dict(), tmp_path / name

    readers, path = make("readers.safetensors", 1, CLASSES)
    projections, further = make("projections.safetensors", 2, ["bed", "cup", "table", "chair"], projections=True)
    settings = make_settings(
        {
            "config": "upright",
            "projections": True,
            "only": "projections",
            "start": str(path),
            "start_part": str(further),
        }
    )
    found = initial_network(settings, CLASSES).state_dict()
    assert not differing(readers, found)
    names = found.keys() - readers.keys()
    assert all(name.startswith("projections.") for name in names)
    assert differing({n: found[n] for n in names}, projections) == {
        "projections.classes.weight",
        "projections.classes.bias",
    }
    assert torch.equal(found["projections.classes.bias"], projections["projections.classes.bias"][[3, 2, 0]])
    with pytest.raises(ValueError, match=r"readers\.safetensors: has no part projections to start from"):
        initial_network(replace(settings, start_part=str(path)), CLASSES)


def test_start_part_needs_a_part(tiny):
    with pytest.raises(ValueError, match="start_part is 'modelnet40'; set only to the part that starts from it"):
        tiny(**PAPER, start_part="modelnet40")


def test_parts_that_the_settings_lack_are_left_out(tmp_path):
    torch.manual_seed(1)
    there = create_network("upright", 3, projections=True, invariant=True)
    save_network(tmp_path / "w.safetensors", there, CLASSES, {"settings": {"method": "centred"}})
    network = create_network("upright", 3, projections=True)
    assert start_from(network, CLASSES, tmp_path / "w.safetensors", "centred")
    kept = {name: tensor for name, tensor in there.state_dict().items() if not name.startswith("invariant.")}
    assert kept.keys() == network.state_dict().keys()
    assert not differing(network.state_dict(), kept)
    assert parts_left_out(network, tmp_path / "w.safetensors") == ["invariant"]
    assert parts_left_out(there, tmp_path / "w.safetensors") == []


def test_part_missing_in_the_weights_keeps_its_initialisation(tmp_path):
    torch.manual_seed(1)
    there = create_network("upright", 3)
    save_network(tmp_path / "w.safetensors", there, CLASSES, {"settings": {"method": "centred"}})
    network = create_network("upright", 3, invariant=True)
    drawn = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert start_from(network, CLASSES, tmp_path / "w.safetensors", "centred")
    after = network.state_dict()
    assert not differing(there.state_dict(), after)
    assert {name.partition(".")[0] for name in after.keys() - there.state_dict().keys()} == {"invariant"}
    assert all(torch.equal(after[name], drawn[name]) for name in after if name.startswith("invariant."))


def test_a_part_that_cannot_be_trained_alone_is_refused(tiny):
    with pytest.raises(
        ValueError, match="only is 'reader'; parts of the network paper that can be trained alone: none"
    ):
        tiny(**PAPER, only="reader")


@pytest.mark.parametrize(
    "changes",
    [
        PAPER | {"capsules": 5},
        PAPER | {"frames": 256, "patches": 200},
        FEATURES,
        {"config": "upright", "method": FLARE},
    ],
    ids=["size", "more patches than the other has frames", "kind", "parts"],
)
def test_another_network_is_refused(tmp_path, tiny, changes):
    _, path = written(tmp_path, tiny, PAPER, CLASSES)
    with pytest.raises(ValueError, match="is a different network from the one in the settings"):
        start_from(tiny(**changes).create_network(3), CLASSES, path, FLARE)


def test_number_of_patches_may_differ(tmp_path, tiny):
    there, path = written(tmp_path, tiny, PAPER, CLASSES)
    network = tiny(**PAPER, patches=16).create_network(3)
    start_from(network, CLASSES, path, FLARE)
    assert network.config.patches == 16
    assert not differing(network.state_dict(), there)


def test_further_blocks_change_nothing_before_they_are_trained(tmp_path):
    there = create_network("upright", 3, projections=True).eval()
    save_network(tmp_path / "w.safetensors", there, CLASSES, {"settings": {"method": "centred"}})
    network = create_network("upright", 3, projections=True, projection_blocks=3).eval()
    assert start_from(network, CLASSES, tmp_path / "w.safetensors", "centred")
    assert not differing(there.state_dict(), network.state_dict())
    assert network.state_dict().keys() > there.state_dict().keys()
    positions, normals, poses = torch.rand(2, 50, 3), torch.zeros(2, 50, 3), torch.eye(4)[:2]
    readers = [net.get_submodule("projections") for net in (there, network)]
    before, after = (reader(positions, normals, poses) for reader in readers)
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    after.scores.sum().backward()
    assert present(readers[1].get_parameter("further.1.1.normalised_again.weight").grad).any()


def test_weights_with_more_blocks_are_refused(tmp_path):
    there = create_network("upright", 3, projections=True, projection_blocks=2)
    save_network(tmp_path / "w.safetensors", there, CLASSES, {"settings": {"method": "centred"}})
    with pytest.raises(ValueError, match="is a different network from the one in the settings"):
        start_from(create_network("upright", 3, projections=True), CLASSES, tmp_path / "w.safetensors", "centred")


def test_other_frames_are_refused(tmp_path, tiny):
    _, path = written(tmp_path, tiny, PAPER, CLASSES)
    with pytest.raises(ValueError, match="was trained on flare frames, not on centred; start with --set method=flare"):
        start_from(tiny(**PAPER).create_network(3), CLASSES, path, "centred")
    with pytest.raises(ValueError, match="with the sign inward, not camera; start with --set sign=inward"):
        start_from(tiny(**PAPER).create_network(3), CLASSES, path, FLARE, "camera")


def test_global_generator_is_left_unchanged(tmp_path, tiny):
    _, path = written(tmp_path, tiny, PAPER, CLASSES)
    before = torch.get_rng_state()
    new_state(tiny(**PAPER, start=str(path)), CLASSES, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_run_that_started_from_another_resumes_without_it(tmp_path, options):
    def train(name, *more, code=0, **changes):
        result = CliRunner().invoke(app, ["train", *options(tmp_path / name, **changes), *more])
        assert result.exit_code == code, result.output
        return tmp_path / name

    first = train("first", epochs=1)
    second = train("second", "--start", str(first), epochs=1, learning_rate=1e-30)
    one, other = (load_network(folder / "weights.safetensors")[0] for folder in (first, second))
    for (name, tensor), same in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(tensor, same), name
    assert json.loads((second / "settings.json").read_text())["start"] == str(first)
    (first / "weights.safetensors").unlink()
    train("second", "--resume", epochs=1, learning_rate=1e-30)
    train("third", "--start", "nobody", code=1)
    assert not (tmp_path / "third" / "settings.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"method": "centred"}, "was trained on flare frames"), ({"capsules": 5}, "is a different network")],
)
def test_unsuitable_weights_are_refused_before_frames_are_computed(tmp_path, tiny, options, changes, message):
    _, path = written(tmp_path, tiny, PAPER, CLASSES)
    given = options(tmp_path / "run", **changes)
    given[given.index("--cache") + 1] = str(tmp_path / "frames")
    result = CliRunner().invoke(app, ["train", *given, "--start", str(path)])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "frames").exists()
    assert not (tmp_path / "run").exists()
