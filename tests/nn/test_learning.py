"""The network learns: a tiny one takes in forty shapes, and knows them in any pose as well as upright."""

import torch

from qecnet.algebra import multiply, random_quaternion, rotate
from qecnet.datasets import make_shape
from qecnet.geometry import PrepareConfig, prepare
from qecnet.nn import Capsules, Level, Pooling, QECConfig, QECNet, spread_loss

KINDS, EACH = ("bed", "chair", "monitor", "toilet"), 10
FRAMES = PrepareConfig(points=2000, frames=128, patches=16, method="centred")


def load_shapes() -> tuple[torch.Tensor, ...]:
    prepared = []
    for kind in KINDS:
        for number in range(EACH):
            generator = torch.Generator().manual_seed(number)
            prepared.append(prepare(make_shape(kind, number).sample(FRAMES.points, generator), FRAMES, generator))
    names = ("points", "poses", "valid", "centres", "neighbours", "mask")
    return tuple(torch.stack([getattr(p, name) for p in prepared]) for name in names)


def batch(tensors, index):
    points, poses, valid, *graph = (t[index] for t in tensors)
    return Capsules.primary(points, poses, valid), [Pooling.at(points, *graph)]


def test_a_tiny_network_overfits_and_knows_the_shapes_in_any_pose():
    tensors = load_shapes()
    labels = torch.arange(len(KINDS)).repeat_interleave(EACH)
    everything = torch.arange(len(labels))
    torch.manual_seed(0)
    network = QECNet(QECConfig(classes=len(KINDS), points=128, levels=(Level(16, 9, 16),)))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        for index in torch.randperm(len(labels), generator=generator).split(8):
            optimizer.zero_grad()
            spread_loss(network(*batch(tensors, index)).activations, labels[index], margin=0.5).backward()
            optimizer.step()
        with torch.inference_mode():
            upright = network(*batch(tensors, everything))
        if (upright.label == labels).all():
            break
    assert (upright.label == labels).all()

    turn = random_quaternion((len(labels), 1), generator)
    points, poses, *rest = tensors
    turned = (rotate(turn, points), multiply(turn, poses), *rest)
    with torch.inference_mode():
        anyhow = network(*batch(turned, everything))
    assert (anyhow.label == labels).all()
    torch.testing.assert_close(anyhow.activations, upright.activations, atol=1e-4, rtol=0)
