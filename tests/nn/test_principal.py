"""The frames of a whole cloud: boxes by hand, NumPy's eigenvectors, and that the four turn together."""

import numpy as np
import pytest
import torch

from qecnet.algebra import angular_distance, from_rotvec, multiply, random_quaternion, rotate, to_matrix
from qecnet.nn.principal import eigenvector_rotation, principal_frames

HALF_TURNS = torch.eye(4, dtype=torch.float64)
"""No turn, and half a turn about each axis: what leaves a box as it is."""
UNEQUAL = torch.tensor([1.0, 0.6, 0.3])


def box(sizes, dtype):
    """The eight corners."""
    signs = torch.tensor([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=dtype)
    return signs * torch.tensor(sizes, dtype=dtype)


def random_points(*shape, dtype, seed=0):
    points = torch.randn(*shape, 3, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return points * UNEQUAL.to(dtype)


def assert_same_set(found, expected, dtype):
    """(..., 4, 4) and (..., 4, 4): each of the one is one of the other."""
    distances = angular_distance(*torch.broadcast_tensors(found[..., :, None, :], expected[..., None, :, :]))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    assert distances.amin(-1).max() <= tolerance
    assert distances.amin(-2).max() <= tolerance


def test_frames_of_a_box_are_its_axes_shortest_first(dtype):
    assert_same_set(principal_frames(box((1, 2, 3), dtype)), HALF_TURNS.to(dtype), dtype)
    third = from_rotvec(torch.tensor([1.0, 1, 1], dtype=dtype) * (2 * torch.pi / 3 / 3**0.5))  # x → y → z → x
    assert_same_set(principal_frames(box((3, 1, 2), dtype)), multiply(third, HALF_TURNS.to(dtype)), dtype)


def test_set_of_frames_rotates_with_the_cloud(dtype):
    points, turn = random_points(5, 40, dtype=dtype), random_quaternion((5, 1), 1, dtype=dtype)
    expected = multiply(turn, principal_frames(points))
    assert_same_set(principal_frames(rotate(turn, points)), expected, dtype)
    assert_same_set(principal_frames(rotate(turn, points) + 0.5), expected, dtype)


def test_frames_are_invariant_to_order_and_duplication_of_points(dtype):
    points = random_points(3, 20, dtype=dtype)
    frames = principal_frames(points)
    assert_same_set(principal_frames(points.flip(1)), frames, dtype)
    assert_same_set(principal_frames(points.repeat(1, 3, 1)), frames, dtype)


def test_frames_are_numpys_eigenvectors_with_all_proper_signs(dtype):
    points = random_points(30, dtype=dtype)
    frames = to_matrix(principal_frames(points)).double().numpy()
    _, axes = np.linalg.eigh(np.cov(points.double().numpy().T))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    signs = np.einsum("fij,ij->fj", frames, axes)
    np.testing.assert_allclose(np.abs(signs), 1, atol=tolerance)
    assert len({tuple(row) for row in signs.round().tolist()}) == 4
    np.testing.assert_allclose(np.linalg.det(frames), 1, atol=tolerance)


@pytest.mark.parametrize("case", ["one point", "all equal", "on a line", "in a plane", "round"])
def test_degenerate_clouds_have_valid_rotations(case, dtype):
    points = random_points(2, 12, dtype=dtype)
    if case == "one point":
        points = points[:, :1]
    if case == "all equal":
        points = points[:, :1].expand(2, 12, 3)
    if case == "on a line":
        points = points[..., :1] * torch.tensor([1.0, 2, 3], dtype=dtype)
    if case == "in a plane":
        points = points * torch.tensor([1.0, 1, 0], dtype=dtype)
    if case == "round":
        points = box((1, 1, 1), dtype).expand(2, 8, 3)
    frames = principal_frames(points)
    torch.testing.assert_close(frames.norm(dim=-1), torch.ones(2, 4, dtype=dtype))
    between = angular_distance(frames[:, :1].expand(2, 3, 4), frames[:, 1:])
    torch.testing.assert_close(between, torch.full_like(between, torch.pi), atol=1e-5, rtol=0)


def test_empty_batch_gives_no_frames(dtype):
    assert principal_frames(torch.zeros(0, 7, 3, dtype=dtype)).shape == (0, 4, 4)


def symmetric(eigenvalues, count=300):
    generator = torch.Generator().manual_seed(0)
    turns = to_matrix(random_quaternion(count, generator, dtype=torch.float64))
    return turns @ torch.diag_embed(eigenvalues(count, generator)) @ turns.mT


def fixed(*values):
    return lambda count, _: torch.tensor(values, dtype=torch.float64).expand(count, 3)


@pytest.mark.parametrize(
    "eigenvalues",
    [
        lambda count, generator: torch.rand(count, 3, generator=generator, dtype=torch.float64),
        lambda count, generator: 10 ** (-12 * torch.rand(count, 3, generator=generator, dtype=torch.float64)),
        fixed(3e12, 1e12, 2e12),
        fixed(1, 0.3, 1),
        fixed(1, 1 + 1e-9, 0.3),
        fixed(1, 1, 1),
        fixed(0, 0, 1),
        fixed(0, 0, 0),
    ],
    ids=["any", "graded", "large", "two equal", "nearly equal", "round", "a line", "nothing"],
)
def test_the_axes_are_as_exact_as_eigh(eigenvalues):
    matrix = symmetric(eigenvalues)
    axes = to_matrix(torch.stack(eigenvector_rotation(matrix), -1))
    torch.testing.assert_close(axes.mT @ axes, torch.eye(3, dtype=torch.float64).expand_as(axes), atol=1e-13, rtol=0)
    scale = matrix.abs().amax((-2, -1), keepdim=True).clamp_min(1e-300)
    found = (axes.mT @ matrix @ axes) / scale
    expected = torch.diag_embed(torch.linalg.eigvalsh(matrix)) / scale
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_diagonal_matrix_is_only_sorted():
    for order in ((1.0, 2, 3), (3.0, 2, 1), (2.0, 3, 1), (3.0, 1, 2)):
        matrix = torch.diag(torch.tensor(order, dtype=torch.float64))
        axes = to_matrix(torch.stack(eigenvector_rotation(matrix), -1))
        torch.testing.assert_close(axes.mT @ matrix @ axes, torch.diag(torch.tensor([1.0, 2, 3], dtype=torch.float64)))
