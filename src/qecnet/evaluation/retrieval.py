"""Retrieval: how well descriptors of rotated shapes find shapes of the same class, beside two without learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qecnet.datasets import Item
from qecnet.evaluation.measurement import Measurement
from qecnet.evaluation.predict import map_shapes
from qecnet.evaluation.results import RetrievalResult, RetrievalScores
from qecnet.evaluation.shape_histograms import count_pair_features, count_principal_cells
from qecnet.evaluation.views import TestView, ViewSampler
from qecnet.geometry import OrientedPoints
from qecnet.nn import Network

_VIEW = TestView(1, 1)
"""Each shape is seen once, resampled and rotated."""

_METHODS = ("model", "PCA-normalised occupancy", "point pair features")


@dataclass(frozen=True)
class Described:
    """Descriptors of V views.

    Attributes:
        classes: names.
        shape: (V,), the shape's number in its split, and points: (V,), of its view.
        label: (V,), indices into `classes`.
        descriptors: by method, (V, D), of length 1.
    """

    classes: tuple[str, ...]
    shape: NDArray[np.int64]
    points: NDArray[np.int64]
    label: NDArray[np.int64]
    descriptors: Mapping[str, NDArray[np.float32]]


def measure_retrieval(measurement: Measurement) -> RetrievalResult:
    """Measure how well each test shape, in a random pose, finds the others of its class among all, in random poses.

    Beside the model's descriptors are two without learning, of the same oriented points: occupied cells along the
    principal axes, and a histogram of point pair features (Drost et al., CVPR 2010).

    Args:
        measurement: what is measured, and how.

    Returns:
        The result, for `write_result`.
    """
    found = _describe_shapes(measurement)
    scores = {name: score_retrieval(found.label, vectors) for name, vectors in found.descriptors.items()}
    return RetrievalResult(**measurement.describe(found), methods=scores)


def score_retrieval(label: NDArray[np.int64], descriptors: NDArray[np.float32]) -> RetrievalScores:
    """Rank, for each shape, all others by similarity, and score the ranks of those of its class.

    Args:
        label: (V,), classes.
        descriptors: (V, D), of length 1.

    Returns:
        Micro averages are over shapes, macro averages over classes. A shape that is alone in its class is not a query.
    """
    similarity = descriptors @ descriptors.T
    np.fill_diagonal(similarity, -np.inf)
    precision, nearest = np.full(len(label), np.nan), np.full(len(label), np.nan)
    for row in range(len(label)):
        order = np.argsort(-similarity[row], kind="stable")[:-1]
        places = np.flatnonzero(label[order] == label[row])
        if len(places):
            precision[row] = np.mean(np.arange(1, len(places) + 1) / (places + 1))
            nearest[row] = places[0] == 0
    queries = np.isfinite(precision)
    if not queries.any():
        raise ValueError("no two test shapes share a class; measure more shapes")
    classes = np.unique(label[queries])

    def macro(values: NDArray[np.float64]) -> float:
        return float(np.mean([values[queries & (label == one)].mean() for one in classes]))

    return RetrievalScores(
        queries=int(queries.sum()),
        map_micro=float(precision[queries].mean()),
        map_macro=macro(precision),
        nearest_micro=float(nearest[queries].mean()),
        nearest_macro=macro(nearest),
    )


def _describe_shapes(measurement: Measurement) -> Described:
    model, dataset = measurement.model, measurement.dataset
    classes = tuple(name for name in dataset.classes if name in model.classes)
    items = dataset.items("test")
    numbers = range(len(items)) if measurement.shapes is None else measurement.shapes
    kept = [n for n in numbers if dataset.classes[items[n].label] in classes]
    if not kept:
        raise ValueError(f"{dataset.name}: shares no class with the weights {model.name} ({model.classes[0]}, …)")
    sampler = ViewSampler(measurement.protocol, model.config, model.setting("keep"), measurement.seed)
    jobs = [(sampler, n, items[n]) for n in kept]
    label = "retrieval: shapes" if measurement.progress else None
    rows = list(map_shapes(_describe_shape, jobs, model.network, measurement.workers, label))
    return Described(
        classes,
        np.array(kept),
        np.array([count for count, _ in rows]),
        np.array([classes.index(dataset.classes[items[n].label]) for n in kept]),
        {name: np.stack([vectors[place] for _, vectors in rows]) for place, name in enumerate(_METHODS)},
    )


def _describe_shape(
    network: Network, sampler: ViewSampler, number: int, item: Item
) -> tuple[int, list[NDArray[np.float32]]]:
    """One shape's number of points, and its descriptors by each method."""
    (view,), (count,) = sampler.prepare(item.load(), number, [_VIEW])
    vectors = (
        network(OrientedPoints.stack([view])).descriptor[0].numpy(),
        count_principal_cells(view),
        count_pair_features(view),
    )
    return count, [np.asarray(one / np.linalg.norm(one), np.float32) for one in vectors]
