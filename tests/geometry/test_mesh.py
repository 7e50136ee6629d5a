"""Points drawn from a mesh lie on it, evenly, and by the generator alone."""

import pytest
import torch
from tests.kinds import present

from qecnet.geometry import Mesh


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_squares(dtype: torch.dtype = torch.float64) -> Mesh:
    """A unit square at z = 0, and one of three times its side at z = 1, each of two triangles."""
    square = torch.tensor([[0.0, 0], [1, 0], [1, 1], [0, 1]], dtype=dtype)
    low, high = (torch.cat([side * square, torch.full((4, 1), z, dtype=dtype)], 1) for side, z in ((1, 0.0), (3, 1.0)))
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    return Mesh(torch.cat([low, high]), torch.cat([faces, faces + 4]))


def test_points_are_sampled_by_area():
    drawn = two_squares().sample(40_000, generator()).points
    share = (drawn[:, 2] == 0).double().mean()
    assert share == pytest.approx(0.1, abs=5 * (0.1 * 0.9 / 40_000) ** 0.5)


def test_points_are_spread_evenly_over_a_triangle():
    triangle = Mesh(torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), torch.tensor([[0, 1, 2]]))
    x, y, z = triangle.sample(40_000, generator()).points.T
    assert (z == 0).all()
    assert x.min() >= 0
    assert y.min() >= 0
    assert (x + y).max() <= 1 + 1e-6
    # The triangle cut into four equal ones, the middle one upside down.
    quarters = torch.stack([x > 0.5, y > 0.5, x + y < 0.5]).double().mean(1)
    assert quarters == pytest.approx([0.25] * 3, abs=0.012)


def test_seed_determines_the_points():
    first, again, other = (two_squares().sample(100, generator(s)).points for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_global_generator_is_neither_used_nor_changed():
    before = torch.get_rng_state()
    two_squares().sample(10, generator())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normals_are_unit_and_follow_the_corners(dtype):
    sampled = two_squares(dtype).sample(50, generator())
    assert present(sampled.normals).dtype == sampled.points.dtype == dtype
    assert torch.equal(present(sampled.normals), torch.tensor([[0.0, 0, 1]], dtype=dtype).expand(50, 3))


@pytest.mark.parametrize(("size", "shift"), [(1e-200, 0), (1e-12, 0), (1e12, 0), (1e200, 0), (1.0, 1e12)])
def test_tiny_huge_and_distant_meshes_are_sampled(size, shift):
    mesh = two_squares()
    drawn = Mesh(mesh.vertices * size + shift, mesh.faces).sample(1000, generator()).points
    assert ((drawn - shift) / size - mesh.sample(1000, generator()).points).abs().max() < 1e-3


def test_faces_without_area_get_no_points():
    mesh = two_squares()
    flat = torch.tensor([[0, 0, 1], [2, 2, 2]])
    both = Mesh(mesh.vertices, torch.cat([flat, mesh.faces[:2], flat]))
    assert (present(both.sample(1000, generator()).normals).norm(dim=-1) == 1).all()


@pytest.mark.parametrize("corners", [[0, 0, 0], [0, 1, 1], [0, 2, 0]])
def test_a_mesh_without_area_is_refused_by_name(corners):
    with pytest.raises(ValueError, match=r"^plank: .*zero area"):
        Mesh(two_squares().vertices, torch.tensor([corners]), "plank").sample(10, generator())


def test_clean_drops_bad_vertices_with_their_faces():
    mesh = two_squares()
    mesh.vertices[1, 0] = float("nan")
    cleaned = mesh.clean()
    assert cleaned.non_finite == 1
    assert len(cleaned.vertices) == 7
    assert torch.equal(cleaned.vertices[cleaned.faces], mesh.vertices[mesh.faces[1:]])


def test_clean_refuses_a_mesh_with_no_face_left():
    mesh = two_squares()
    with pytest.raises(ValueError, match="no face"):
        Mesh(mesh.vertices * float("inf"), mesh.faces).clean()


@pytest.mark.parametrize("corner", [-1, 8])
def test_face_indices_out_of_range_are_refused(corner):
    with pytest.raises(ValueError, match=f"vertex {corner}.* 8 vertices"):
        Mesh(two_squares().vertices, torch.tensor([[0, 1, corner]]))


@pytest.mark.parametrize(
    ("vertices", "faces"),
    [
        (torch.zeros(3, 3), torch.zeros(0, 3, dtype=torch.int64)),
        (torch.zeros(3, 3), torch.zeros(1, 4, dtype=torch.int64)),
        (torch.zeros(3, 3), torch.zeros(1, 3, dtype=torch.int32)),
        (torch.zeros(3, 2), torch.zeros(1, 3, dtype=torch.int64)),
        (torch.zeros(3, 3, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.int64)),
    ],
)
def test_invalid_arrays_are_refused(vertices, faces):
    with pytest.raises(ValueError, match="a mesh needs"):
        Mesh(vertices, faces)


def test_asking_for_no_points_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        two_squares().sample(0, generator())
