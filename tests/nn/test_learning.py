"""The network learns: a tiny one takes in forty shapes, and knows them in any pose as well as upright."""

import torch

from qecnet.algebra import random_quaternion
from qecnet.datasets import make_shape
from qecnet.geometry import OrientedPoints, PrepareConfig, prepare
from qecnet.nn import QECConfig, QECNet, spread_loss

KINDS, EACH = ("bed", "chair", "monitor", "toilet"), 10
FRAMES = PrepareConfig(points=2000, frames=128, method="centred")


def load_shapes() -> OrientedPoints:
    prepared = []
    for kind in KINDS:
        for number in range(EACH):
            generator = torch.Generator().manual_seed(number)
            prepared.append(prepare(make_shape(kind, number).sample(FRAMES.points, generator), FRAMES, generator))
    return OrientedPoints.stack(prepared)


def test_a_tiny_network_overfits_and_knows_the_shapes_in_any_pose():
    points = load_shapes()
    labels = torch.arange(len(KINDS)).repeat_interleave(EACH)
    torch.manual_seed(0)
    network = QECNet(QECConfig(classes=len(KINDS), frames=128, patches=16, capsules=16)).eval()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        for index in torch.randperm(len(labels), generator=generator).split(8):
            optimizer.zero_grad()
            spread_loss(network(points.select(index)).activations, labels[index], margin=0.5).backward()
            optimizer.step()
        with torch.inference_mode():
            upright = network(points)
        if (upright.label == labels).all():
            break
    assert (upright.label == labels).all()

    with torch.inference_mode():
        rotated = network(points.rotated(random_quaternion((len(labels),), generator)))
    assert (rotated.label == labels).all()
    torch.testing.assert_close(rotated.activations, upright.activations, atol=1e-4, rtol=0)
