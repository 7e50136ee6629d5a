"""The most similar shapes of a library: a graph's candidates, what is not in the graph, and filters."""

from collections.abc import Sequence

import numpy as np

from qecnet.models.library.catalogue import Catalogue
from qecnet.models.library.graph import Graph
from qecnet.models.library.records import Floats, Keys, ShapeRow
from qecnet.models.library.vectors import Vectors

_CANDIDATES = (16, 128)
"""How many times more shapes the graph is asked for than are wanted, and again if too few of them match: its distances
are coarse, and some shapes may be removed or filtered out."""
_SLACK = 4
"""How many times more of a graph's candidates have to match a filter than are wanted: where barely enough match, coarse
distances would choose among them."""


class Ranking:
    """Finds the shapes that are nearest to a descriptor, in the library as it is now."""

    def __init__(self, rows: Catalogue, graph: Graph) -> None:
        self._rows, self._graph = rows, graph
        self._recent: tuple[Keys, Floats]
        self._read: tuple[int, int] | None = None

    def find(
        self, descriptor: Floats, count: int, label: str | None, confidence: float
    ) -> list[tuple[ShapeRow, float]]:
        """At most `count` shapes that match, and the cosines of their descriptors and that one, (D,); best first."""
        descriptor = descriptor / np.linalg.norm(descriptor)
        with self._rows.transaction("DEFERRED"):
            self._refresh()
            parts = [self._compare_recent(descriptor, label, confidence)]
            if self._graph.vectors is not None:
                parts.append(self._search_graph(self._graph.vectors, descriptor, count, label, confidence))
            keys, similarity = _best(parts, count)
            rows = map(self._rows.row, keys.tolist())
            return [*zip(rows, similarity.clip(max=1).tolist(), strict=True)]

    def _refresh(self) -> None:
        """Read what another process may have changed. Within a transaction."""
        if self._read == self._rows.version:
            return
        self._graph.refresh()
        self._recent = self._read_recent(self._graph.last)
        self._read = self._rows.version

    def _read_recent(self, last: int) -> tuple[Keys, Floats]:
        """The ids (P,) and descriptors (P, D), float32, of the shapes that are not in the graph."""
        count, start = self._rows.count(after=last), 0
        keys, descriptors = np.empty(count, np.int64), np.empty((count, self._rows.about.width), np.float32)
        for some, values in self._rows.blocks(after=last):
            end = start + len(some)
            keys[start:end] = some
            descriptors[start:end] = values / np.linalg.norm(values, axis=-1, keepdims=True)
            start = end
        return keys[:start], descriptors[:start]

    def _compare_recent(self, descriptor: Floats, label: str | None, confidence: float) -> tuple[Keys, Floats]:
        """The ids and similarities of the shapes that match and are not in the graph."""
        keys, descriptors = self._recent
        similarity = descriptors @ descriptor
        if label is None and confidence <= 0:
            return keys, similarity
        kept = np.isin(keys, self._rows.matching(label, confidence, self._graph.last))
        return keys[kept], similarity[kept]

    def _search_graph(
        self, graph: Vectors, descriptor: Floats, count: int, label: str | None, confidence: float
    ) -> tuple[Keys, Floats]:
        """The ids and similarities of shapes that match, are in the graph, and include the most similar ones."""
        for times in _CANDIDATES:
            if times * count < graph.count:
                keys, descriptors = self._rows.take(graph.search(descriptor, times * count), label, confidence)
                if len(keys) >= _SLACK * count:
                    return keys, _cosines(descriptors, descriptor)
        blocks = self._rows.blocks(label, confidence, up_to=graph.last)
        found = [(keys, _cosines(descriptors, descriptor)) for keys, descriptors in blocks]
        return _best(found, count) if found else (np.empty(0, np.int64), np.empty(0, np.float32))


def _cosines(descriptors: Floats, descriptor: Floats) -> Floats:
    """The similarities of (N, D) and (D,), which has length 1. → (N,)"""
    return np.asarray(descriptors @ descriptor / np.linalg.norm(descriptors, axis=-1))


def _best(parts: Sequence[tuple[Keys, Floats]], count: int) -> tuple[Keys, Floats]:
    """The ids of the largest similarities, in order, and these; of equal ones, the smaller id first."""
    keys = np.concatenate([keys for keys, _ in parts])
    similarity = np.concatenate([similarity for _, similarity in parts])
    if len(keys) > count:
        kept = similarity >= np.partition(similarity, -count)[-count]
        keys, similarity = keys[kept], similarity[kept]
    order = np.lexsort((keys, -similarity))[:count]
    return keys[order], similarity[order]
