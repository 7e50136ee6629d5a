"""`Mesh`: triangles, and points sampled from their surface."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qecnet.geometry._pickling import PickledAsArrays
from qecnet.geometry.cloud import PointCloud


@dataclass(frozen=True, eq=False)
class Mesh(PickledAsArrays):
    """Triangles over shared vertices.

    Attributes:
        vertices: (V, 3), V ≥ 1, float32 or float64 (readers give float64).
        faces: (F, 3) int64, F ≥ 1, each an index into `vertices`.
        name: used in error messages; for a file, the file's name.
        non_finite: how many vertices `clean` has dropped, with the faces that touch them.
    """

    vertices: Tensor
    faces: Tensor
    name: str = "mesh"
    non_finite: int = 0

    def __post_init__(self) -> None:
        for what, array, types in (
            ("vertices", self.vertices, (torch.float32, torch.float64)),
            ("faces", self.faces, (torch.int64,)),
        ):
            shape = tuple(array.shape)
            if len(shape) != 2 or shape[1] != 3 or shape[0] == 0:
                raise ValueError(f"{self.name}: {what} have the shape {shape}; a mesh needs (N, 3) with N at least 1")
            if array.dtype not in types:
                wanted = " or ".join(str(t).removeprefix("torch.") for t in types)
                raise ValueError(f"{self.name}: {what} are {array.dtype}; a mesh needs {wanted}")
        # With NumPy, on one thread: on a busy machine, waking torch's other threads took longer than reading a file.
        faces = self.faces.numpy(force=True)
        low, high = int(faces.min()), int(faces.max())
        if low < 0 or high >= len(self.vertices):
            raise ValueError(
                f"{self.name}: a face refers to vertex {low if low < 0 else high}, but the mesh has "
                f"{len(self.vertices):,} vertices, counted from 0; the file is damaged or truncated"
            )

    def __repr__(self) -> str:
        return f"Mesh({self.name}: {len(self.vertices):,} vertices, {len(self.faces):,} faces)"

    def clean(self) -> Mesh:
        """Drop vertices that are not finite and every face that touches one; the rest keep their order.

        Returns:
            The cleaned mesh; this one if there is nothing to drop.

        Raises:
            ValueError: where no face is left.
        """
        finite = self.vertices.isfinite().all(-1)
        if finite.all():
            return self
        faces = self.faces[finite[self.faces].all(-1)]
        if len(faces) == 0:
            raise ValueError(f"{self.name}: no face has three vertices with finite coordinates")
        moved = finite.cumsum(0) - 1
        return replace(
            self,
            vertices=self.vertices[finite],
            faces=moved[faces],
            non_finite=self.non_finite + int((~finite).sum()),
        )

    def sample(self, count: int, generator: torch.Generator) -> PointCloud:
        """Sample points uniformly by area, each with the unit normal of its face.

        Normals follow the order of a face's corners (right hand), which in many meshes, such as ModelNet's, is not
        consistent from face to face.

        Args:
            count: number of points.
            generator: decides which points.

        Returns:
            The cloud of these points.

        Raises:
            ValueError: where no face has an area.
        """
        if count < 1:
            raise ValueError(f"{self.name}: {count} points were requested; request at least 1")
        corner, *others = self.vertices.double()[self.faces].unbind(1)
        edges = torch.stack([other - corner for other in others], dim=1)
        # Areas are only compared with each other, and at size 1 they neither overflow nor vanish.
        size = edges.abs().amax()
        crosses = torch.linalg.cross(*(edges / size).unbind(1))
        areas = crosses.norm(dim=-1)
        total = areas.sum()
        if not (total > 0 and total.isfinite()):
            raise ValueError(f"{self.name}: every face has zero area, so there is nothing to sample; repair the mesh")
        drawn = torch.rand(count, 3, dtype=torch.float64, generator=generator, device=generator.device)
        drawn = drawn.to(corner.device)
        which = _by_weight(areas, drawn[:, 0])
        # Folding the unit square along its diagonal spreads points evenly over the triangle.
        along = torch.where(drawn[:, 1:].sum(-1, keepdim=True) > 1, 1 - drawn[:, 1:], drawn[:, 1:])
        points = corner[which] + (edges[which] * along[..., None]).sum(1)
        normals = crosses[which] / areas[which, None]
        dtype = self.vertices.dtype
        return PointCloud(points.to(dtype), normals.to(dtype), self.name)


def _by_weight(weights: Tensor, uniform: Tensor) -> Tensor:
    """Sample indices into (F,) weights in proportion to them, by (N,) uniform numbers in [0, 1).

    `torch.multinomial` accepts at most 2²⁴ weights; this has no limit. An index of weight 0 is never sampled.
    """
    up_to = weights.cumsum(0)
    at = torch.searchsorted(up_to, uniform * up_to[-1], right=True)
    # Rounding may carry the product up to the total itself, past the last weight that is not 0.
    return at.clamp(max=int(weights.nonzero()[-1]))
