"""Retrieval: how well descriptors of rotated shapes find shapes of the same class, and two without learning."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qecnet.algebra import rotate
from qecnet.datasets import Item
from qecnet.evaluation.measurement import CountedViews, Measurement
from qecnet.evaluation.protocols import TestView, ViewSampler
from qecnet.evaluation.results import RetrievalResult, RetrievalScores
from qecnet.evaluation.rows import hash_inputs
from qecnet.fingerprint import code_hash
from qecnet.geometry import OrientedPoints
from qecnet.nn import Network

_VIEW = TestView(1, 1)
"""Each shape is seen once, resampled and rotated."""

_CELLS = 6
"""Cells along each principal axis."""
_BINS = 5
"""Of each of the four point pair features."""

_METHODS = ("model", "PCA-normalised occupancy", "point pair features")


def measure_retrieval(measurement: Measurement) -> RetrievalResult:
    """Measure how well each test shape, in a random pose, finds the others of its class among all, in random poses.

    Two descriptors without learning are measured on the same oriented points: occupied cells along the principal axes,
    and a histogram of point pair features (Drost et al., CVPR 2010).

    Args:
        measurement: what is measured, and how.

    Returns:
        The result, for `write_result`.
    """
    model, dataset = measurement.model, measurement.dataset
    classes, numbers = measurement.choose_common("test", measurement.shapes)
    if not numbers:
        raise ValueError(f"{dataset.name}: has no test shape of a class of {model.name}; measure more shapes")
    items = [dataset.items("test")[n] for n in numbers]
    sampler = ViewSampler(measurement.protocol, model.config, model.setting("keep"), measurement.seed)
    jobs = [(sampler, n, item) for n, item in zip(numbers, items, strict=True)]
    code = code_hash("qecnet.evaluation", "retrieval.py", "protocols.py")
    key = hash_inputs(model, dataset, "test", numbers, [asdict(sampler), code])
    name, row = f"retrieval-{measurement.protocol}", _row_type(model.network)
    rows = measurement.compute_rows(name, key, row, 1, _describe_shape, model.network, jobs)
    label = np.array([item.label for item in items])
    scores = {name: score_retrieval(label, np.ascontiguousarray(rows[name])) for name in _METHODS}
    seen = CountedViews(classes, np.array(numbers), rows["points"])
    return RetrievalResult(**measurement.describe(seen), methods=scores)


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


def _row_type(network: Network) -> np.dtype[np.void]:
    """A shape's number of points, and its descriptors by each method."""
    sizes = (network.descriptor_size, _CELLS**3, _BINS**4)
    fields: list[Any] = [(name, "<f4", size) for name, size in zip(_METHODS, sizes, strict=True)]
    return np.dtype([("points", "<i8"), *fields])


def _describe_shape(network: Network, sampler: ViewSampler, number: int, item: Item) -> bytes:
    (view,), (count,) = sampler.prepare(item.load(), number, [_VIEW])
    descriptor = network(OrientedPoints.stack([view])).descriptor[0].numpy()
    vectors = (descriptor, count_principal_cells(view), count_pair_features(view))
    row = np.zeros(1, _row_type(network))
    row["points"] = count
    for name, vector in zip(_METHODS, vectors, strict=True):
        row[name] = vector / np.linalg.norm(vector)
    return row.tobytes()


def count_principal_cells(points: OrientedPoints) -> NDArray[np.float64]:
    """Count the points in the cells of a grid along a shape's principal axes.

    Axes are ordered by variance; each points to the side where the third moment is positive.

    Returns:
        (216,), square roots of shares, of length 1.
    """
    positions = points.positions[points.valid].double().numpy()
    centred = positions - positions.mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1]
    rotated = centred @ axes
    rotated *= np.where((rotated**3).sum(0) < 0, -1, 1)
    scaled = rotated / np.abs(rotated).max()
    edges = np.linspace(-1, 1, _CELLS + 1)
    return _roots(np.histogramdd(scaled, [edges] * 3)[0])


def count_pair_features(points: OrientedPoints) -> NDArray[np.float64]:
    """Count the point pair features of all pairs: the distance, both angles to it, the angle between the normals.

    Normals are the z axes of the local reference frames. Distances are relative to the largest.

    Returns:
        (625,), square roots of shares, of length 1.
    """
    positions = points.positions[points.valid].double()
    normals = rotate(points.frames[points.valid].double(), torch.tensor([0.0, 0, 1], dtype=torch.float64))
    first, second = torch.triu_indices(len(positions), len(positions), 1)
    apart = positions[second] - positions[first]
    distance = apart.norm(dim=-1).clamp(min=1e-12)
    direction = apart / distance[:, None]
    cosines = [
        (normals[first] * direction).sum(-1),
        (normals[second] * direction).sum(-1),
        (normals[first] * normals[second]).sum(-1),
    ]
    angles = [cosine.clamp(-1, 1).acos() / torch.pi for cosine in cosines]
    # The order of a pair is arbitrary: of its two readings, take the one whose first angle is smaller.
    swapped = 1 - angles[1] < angles[0]
    one = torch.where(swapped, 1 - angles[1], angles[0])
    two = torch.where(swapped, 1 - angles[0], angles[1])
    features = torch.stack([distance / distance.max(), one, two, angles[2]], -1).numpy()
    return _roots(np.histogramdd(features, _BINS, [(0, 1)] * 4)[0])


def _roots(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(counts.ravel() / counts.sum()))
