"""Answers for libraries that need no network."""

import torch

from qecnet.algebra import random_quaternion
from qecnet.models import Answer, Model, Stamp


def make_answers(model: Model, count: int, seed: int = 0) -> list[Answer]:
    """Answers with random descriptors, poses and confidences."""
    generator = torch.Generator().manual_seed(seed)
    descriptors = torch.nn.functional.normalize(torch.randn(count, model.width, generator=generator), dim=-1)
    poses = random_quaternion((count, len(model.classes)), generator=generator, dtype=torch.float64)
    activations = torch.rand(count, len(model.classes), generator=generator)
    return [
        Answer(str(n), model.classes, activations[n], poses[n], descriptors[n], torch.zeros(3), 1.0, 0.0)
        for n in range(count)
    ]


def make_entries(answers: list[Answer], start: int = 0) -> list[tuple[str, Stamp, Answer]]:
    """What `Library.add` takes: files that are named by their number."""
    return [(f"{start + n}.off", Stamp(n, n, b""), answer) for n, answer in enumerate(answers)]
