"""A trained network that aligns pairs of clouds, measured on the same pairs as the methods without learning."""

from __future__ import annotations

import time
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from qecnet.algebra import canonicalize
from qecnet.datasets import Dataset
from qecnet.evaluation import PoseBaselinesResult
from qecnet.geometry import PointCloud, PrepareConfig, prepare
from qecnet.models import Model

from .measure import KEEP, TABLES, AlignedPair, list_pairs, sample_rotated, score


@runtime_checkable
class PairNetwork(Protocol):
    """A network that estimates the rotations (B, 4) from sources (B, N, 3) to templates (B, M, 3), and has a name."""

    title: str

    def align(self, source: Tensor, there: Tensor, template: Tensor, present: Tensor) -> Tensor: ...


def measure_learned(model: Model, dataset: Dataset, pairs_per_class: int = 20, seed: int = 0) -> PoseBaselinesResult:
    """Align pairs of test shapes: two samplings of one shape, and two shapes of a class, each rotated at random.

    Args:
        model: whose network aligns pairs.
        dataset: where the shapes come from.
        pairs_per_class: pairs of each class, in each of the two tables.
        seed: of pairs, resampling and rotations.

    Raises:
        ValueError: for a network that does not align pairs.
    """
    network = model.network
    if not isinstance(network, PairNetwork):
        raise ValueError(f"{model.name}: its network does not align pairs of clouds; measure its rotation instead")
    tables = {}
    for table in TABLES:
        rows = []
        for pair in list_pairs(dataset, "test", table, pairs_per_class, seed):
            (source, first), (target, second) = (sample_rotated(view, seed) for view in (pair.source, pair.target))
            began = time.process_time()
            predicted = tuple(align_clouds(network, source, target, model.config).tolist())
            seconds = time.process_time() - began
            shapes = pair.source.item.name, pair.target.item.name
            turned = tuple(first.tolist()), tuple(second.tolist())
            rows.append(AlignedPair(table, network.title, pair.source.item.label, shapes, *turned, predicted, seconds))
        tables[table] = {network.title: score(rows, dataset.classes)}
    return PoseBaselinesResult(
        protocol="strict",
        dataset=dataset.name,
        split="test",
        classes=tuple(dataset.classes),
        pairs_per_class=pairs_per_class,
        keep=KEEP,
        seed=seed,
        **tables,
    )


@torch.inference_mode()
def align_clouds(network: PairNetwork, source: PointCloud, target: PointCloud, config: PrepareConfig) -> Tensor:
    """Estimate the rotation from one cloud to another, each prepared as in training. → (4,) WXYZ, float64"""
    first, second = (prepare(cloud, config, torch.Generator().manual_seed(0)) for cloud in (source, target))
    found = network.align(first.positions[None], first.valid[None], second.positions[None], second.valid[None])
    return canonicalize(found[0].double())
