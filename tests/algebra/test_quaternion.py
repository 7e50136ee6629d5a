"""The laws of the rotation group, and agreement with SciPy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from tests.kinds import present
from tests.rotations import from_scipy, to_scipy
from torch import Tensor

from qecnet.algebra import (
    angular_distance,
    canonicalize,
    checking,
    conjugate,
    from_azimuth,
    from_matrix,
    from_rotvec,
    identity_like,
    left_matrix,
    multiply,
    nearest_with_up,
    random_quaternion,
    rotate,
    to_matrix,
)


def assert_same_rotation(p: Tensor, q: Tensor, tolerance: float) -> None:
    assert angular_distance(p, q).max() <= tolerance


@pytest.fixture
def pairs(rotations: Tensor) -> tuple[Tensor, Tensor]:
    """Each rotation with each other one."""
    return torch.broadcast_tensors(rotations[:, None], rotations[None])


def test_identity_changes_nothing(rotations):
    identity = torch.tensor([1.0, 0, 0, 0], dtype=rotations.dtype)
    assert torch.equal(multiply(identity, rotations), rotations)
    assert torch.equal(multiply(rotations, identity), rotations)


def test_conjugate_is_the_inverse(rotations, tolerance):
    identity = torch.tensor([1.0, 0, 0, 0], dtype=rotations.dtype)
    torch.testing.assert_close(
        multiply(rotations, conjugate(rotations)), identity.expand_as(rotations), atol=tolerance, rtol=0
    )


def test_product_is_associative_and_closed(pairs, tolerance):
    p, q = pairs
    r = p.flip(0)
    left, right = multiply(multiply(p, q), r), multiply(p, multiply(q, r))
    torch.testing.assert_close(left, right, atol=tolerance, rtol=0)
    torch.testing.assert_close(left.norm(dim=-1), torch.ones_like(left[..., 0]), atol=tolerance, rtol=0)


def test_product_agrees_with_scipy(pairs, tolerance):
    p, q = (x.reshape(-1, 4) for x in pairs)
    expected = from_scipy(to_scipy(p) * to_scipy(q))
    assert_same_rotation(multiply(p, q).double(), expected, tolerance)


def test_rotate_is_an_action_of_the_group(pairs, tolerance, generator):
    p, q = pairs
    x = torch.randn(3, generator=generator, dtype=p.dtype)
    torch.testing.assert_close(rotate(multiply(p, q), x), rotate(p, rotate(q, x)), atol=4 * tolerance, rtol=0)


def test_rotate_agrees_with_scipy_and_with_the_sandwich_product(rotations, tolerance, generator):
    x = torch.randn(len(rotations), 3, generator=generator, dtype=rotations.dtype)
    turned = rotate(rotations, x)
    expected = torch.from_numpy(to_scipy(rotations).apply(x.double().numpy()))
    torch.testing.assert_close(turned.double(), expected, atol=4 * tolerance, rtol=0)
    pure = torch.nn.functional.pad(x, (1, 0))
    sandwich = multiply(multiply(rotations, pure), conjugate(rotations))
    torch.testing.assert_close(turned, sandwich[..., 1:], atol=4 * tolerance, rtol=0)


def test_left_matrix_is_a_homomorphism_into_rotations_of_r4(pairs, tolerance):
    p, q = pairs
    matrix = left_matrix(p)
    torch.testing.assert_close(left_matrix(multiply(p, q)), matrix @ left_matrix(q), atol=tolerance, rtol=0)
    torch.testing.assert_close((matrix @ q[..., None])[..., 0], multiply(p, q), atol=tolerance, rtol=0)
    torch.testing.assert_close(matrix @ matrix.mT, torch.eye(4).to(p).expand_as(matrix), atol=tolerance, rtol=0)
    torch.testing.assert_close(torch.linalg.det(matrix), torch.ones_like(p[..., 0]), atol=4 * tolerance, rtol=0)
    skew = matrix - p[..., :1, None] * torch.eye(4).to(p)
    assert torch.equal(skew, -skew.mT)


def test_matrix_agrees_with_scipy_and_round_trips(rotations, tolerance):
    matrix = to_matrix(rotations)
    torch.testing.assert_close(
        matrix.double(), torch.from_numpy(to_scipy(rotations).as_matrix()), atol=tolerance, rtol=0
    )
    assert_same_rotation(from_matrix(matrix), rotations, 4 * tolerance)


def test_from_matrix_gives_the_nearest_rotation(dtype, generator):
    noisy = to_matrix(random_quaternion(50, generator, dtype=dtype))
    noisy = noisy + 0.2 * torch.randn(noisy.shape, generator=generator, dtype=dtype)
    u, _, v = torch.linalg.svd(noisy.double())
    flip = torch.diag_embed(torch.stack((torch.ones(50), torch.ones(50), torch.linalg.det(u @ v)), -1)).double()
    nearest = u @ flip @ v
    torch.testing.assert_close(to_matrix(from_matrix(noisy)).double(), nearest, atol=1e-4, rtol=0)


def test_from_rotvec_agrees_with_scipy(rotations, tolerance):
    rotvec = torch.from_numpy(to_scipy(rotations).as_rotvec()).to(rotations.dtype)
    assert_same_rotation(from_rotvec(rotvec), rotations, 4 * tolerance)


def test_the_identity_changes_nothing(rotations):
    assert torch.equal(multiply(identity_like(rotations), rotations), rotations)


def test_an_azimuth_is_a_rotation_about_z(dtype, tolerance):
    angle = torch.linspace(-7, 7, 29, dtype=dtype)
    rotvec = angle[:, None] * torch.tensor([0.0, 0, 1], dtype=dtype)
    assert_same_rotation(from_azimuth(angle), from_rotvec(rotvec), tolerance)


def test_tiny_rotvecs_keep_their_relative_precision(dtype):
    for scale in (1e-30, 1e-12, 1e-5, 0.9e-3, 1.1e-3, 2e-3):
        rotvec = torch.tensor([1.0, -2.0, 3.0], dtype=dtype) * scale
        expected = rotvec.double() / 2 * torch.sinc(rotvec.double().norm() / (2 * torch.pi))
        precision = 4e-6 if dtype == torch.float32 else 1e-13
        torch.testing.assert_close(from_rotvec(rotvec)[1:].double(), expected, rtol=precision, atol=0)


def test_canonical_form_is_the_same_for_both_signs(rotations):
    canonical = canonicalize(rotations)
    assert torch.equal(canonical, canonicalize(-rotations))
    assert torch.equal(canonical, canonicalize(canonical))
    assert (canonical[:, 0] >= 0).all()
    assert torch.equal(canonical.abs(), rotations.abs())


def test_canonical_form_on_the_equator_makes_the_first_component_positive(dtype):
    q = torch.tensor(
        [[0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -1], [-0.0, -0.6, 0.8, 0], [0, 0, -0.6, 0.8]], dtype=dtype
    )
    assert torch.equal(canonicalize(q), -q)


def test_results_are_invariant_to_sign(pairs, tolerance):
    p, q = pairs
    x = torch.tensor([0.3, -2.0, 0.7], dtype=p.dtype)
    assert torch.equal(rotate(-p, x), rotate(p, x))
    assert torch.equal(to_matrix(-p), to_matrix(p))
    distance = angular_distance(p, q)
    torch.testing.assert_close(angular_distance(-p, q), distance, atol=tolerance, rtol=0)
    torch.testing.assert_close(angular_distance(p, -q), distance, atol=tolerance, rtol=0)


def test_distance_is_the_angle_of_the_relative_rotation(pairs, tolerance):
    p, q = (x.reshape(-1, 4) for x in pairs)
    expected = torch.from_numpy((to_scipy(p).inv() * to_scipy(q)).magnitude())
    distance = angular_distance(p, q)
    torch.testing.assert_close(distance.double(), expected, atol=4 * tolerance, rtol=0)
    torch.testing.assert_close(distance, angular_distance(q, p), atol=tolerance, rtol=0)


def test_distance_keeps_small_angles(dtype, generator):
    p = random_quaternion(100, generator, dtype=dtype)
    axis = torch.nn.functional.normalize(torch.randn(100, 3, generator=generator, dtype=dtype), dim=-1)
    resolution = 4 * torch.finfo(dtype).eps
    for angle in (1e-6, 1e-5, 1e-4, 1e-2):
        distance = angular_distance(p, multiply(p, from_rotvec(axis * angle)))
        assert (distance - angle).abs().max() <= resolution


def test_distance_is_invariant_under_rotation(pairs, generator, tolerance):
    """Theorem 1, third statement."""
    p, q = pairs
    g = random_quaternion((), generator, dtype=p.dtype)
    torch.testing.assert_close(
        angular_distance(multiply(g, p), multiply(g, q)), angular_distance(p, q), atol=4 * tolerance, rtol=0
    )


@pytest.mark.parametrize("angle", [1e-6, 1e-3, 1.0, torch.pi - 1e-3, torch.pi])
def test_gradient_of_the_distance_points_along_the_geodesic_with_length_two(angle, dtype, generator):
    p = random_quaternion(100, generator, dtype=torch.float64)
    axis = torch.nn.functional.normalize(torch.randn(100, 3, generator=generator, dtype=torch.float64), dim=-1)
    q = multiply(p, from_rotvec(axis * angle))
    away = torch.nn.functional.normalize(p - (p * q).sum(-1, keepdim=True) * q, dim=-1)
    p, q = p.to(dtype).requires_grad_(), q.to(dtype)
    angular_distance(p, q).sum().backward()
    torch.testing.assert_close(present(p.grad).norm(dim=-1), torch.full((100,), 2.0, dtype=dtype), rtol=1e-4, atol=0)
    tolerance = 0.2 if dtype == torch.float32 and angle == 1e-6 else 2e-3
    if angle < torch.pi:
        assert (present(p.grad) / 2 - away.to(dtype)).norm(dim=-1).max() < tolerance + angle


def test_gradient_of_the_distance_is_zero_at_zero(rotations):
    for sign in (1, -1):
        p = rotations.clone().requires_grad_()
        distance = angular_distance(p, sign * rotations)
        distance.sum().backward()
        assert torch.equal(distance, torch.zeros_like(distance))
        assert torch.equal(p.grad, torch.zeros_like(p))


def test_random_rotations_are_uniform():
    """On SO(3) the angle has density (1 − cos θ)/π, and each column of the matrix is uniform on the sphere."""
    q = random_quaternion(200_000, 1, dtype=torch.float64)
    angles = 2 * q[:, 0].abs().clamp(max=1).acos().sort().values
    cumulative = (angles - angles.sin()) / torch.pi
    empirical = torch.arange(1, len(q) + 1) / len(q)
    assert (cumulative - empirical).abs().max() < 1.63 / len(q) ** 0.5  # Kolmogorov–Smirnov at 1%
    assert to_matrix(q).mean(0).abs().max() < 4 / len(q) ** 0.5


def test_random_rotations_come_from_the_generator_alone():
    torch.manual_seed(3)
    first = random_quaternion((2, 5), 7)
    torch.manual_seed(4)
    assert torch.equal(first, random_quaternion((2, 5), torch.Generator().manual_seed(7)))
    assert first.shape == (2, 5, 4)


UNARY = [conjugate, left_matrix, to_matrix, canonicalize, lambda q: from_matrix(to_matrix(q))]
PLACES = {
    "identity": (1.0, 0.0, 0.0, 0.0),
    "tiny": (1.0, 1e-5, 0.0, -2e-5),
    "quarter": (0.5**0.5, 0.5**0.5, 0.0, 0.0),
    "nearly half": (0.01, 0.6, -0.8, 0.0),
    "general": (0.5, -0.1, 0.7, 0.5),
}


@pytest.mark.parametrize("function", UNARY)
@pytest.mark.parametrize("place", PLACES)
def test_gradients(function, place):
    q = torch.nn.functional.normalize(torch.tensor([PLACES[place]], dtype=torch.float64), dim=-1).requires_grad_()
    assert torch.autograd.gradcheck(function, (q,))


@pytest.mark.parametrize("function", [conjugate, left_matrix, to_matrix])
def test_gradients_at_a_half_turn(function):
    q = torch.tensor([[0.0, 0.6, -0.8, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (q,))


@pytest.mark.parametrize("place", [*PLACES, "half"])
def test_gradients_of_two_arguments(place):
    q = torch.tensor([PLACES.get(place, (0.0, 0.6, -0.8, 0.0))], dtype=torch.float64)
    q = torch.nn.functional.normalize(q, dim=-1).requires_grad_()
    p = random_quaternion(1, 5, dtype=torch.float64).requires_grad_()
    x = torch.tensor([[0.3, -2.0, 0.7]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(multiply, (p, q))
    assert torch.autograd.gradcheck(rotate, (q, x))
    assert torch.autograd.gradcheck(angular_distance, (p, q))
    assert torch.autograd.gradcheck(from_matrix, (to_matrix(q).detach().requires_grad_(),))


@pytest.mark.parametrize("rotvec", [(0.0, 0, 0), (1e-8, 0, 0), (torch.pi, 0, 0), (0, 2 * torch.pi, 0), (1.0, 2.0, 3.0)])
def test_gradient_of_from_rotvec(rotvec):
    assert torch.autograd.gradcheck(from_rotvec, (torch.tensor([rotvec], dtype=torch.float64, requires_grad=True),))


@settings(deadline=None, max_examples=50)
@given(shape=st.lists(st.integers(0, 3), max_size=3), seed=st.integers(0, 2**31))
def test_any_batch_shape(shape, seed):
    q = random_quaternion(shape, seed, dtype=torch.float64)
    batch = tuple(shape)
    assert q.shape == (*batch, 4)
    assert multiply(q, q).shape == conjugate(q).shape == canonicalize(q).shape == (*batch, 4)
    assert left_matrix(q).shape == (*batch, 4, 4)
    assert to_matrix(q).shape == (*batch, 3, 3)
    assert angular_distance(q, q).shape == batch
    assert from_rotvec(q[..., 1:]).shape == (*batch, 4)
    np.testing.assert_allclose(angular_distance(from_matrix(to_matrix(q)), q), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: multiply(torch.ones(3), torch.ones(4)), r"p has shape \(3,\); its shape must end in \(4\)"),
        (lambda: rotate(torch.ones(4), torch.ones(2, 4)), r"x has shape \(2, 4\); its shape must end in \(3\)"),
        (lambda: from_matrix(torch.eye(4)), r"matrix has shape \(4, 4\); its shape must end in \(3, 3\)"),
        (lambda: from_rotvec(torch.tensor(1.0)), r"rotvec has shape \(\)"),
        (lambda: conjugate(torch.ones(4, dtype=torch.int64)), r"q of shape \(4,\) has dtype torch.int64"),
    ],
)
def test_wrong_shapes_are_named_in_the_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: conjugate(torch.tensor([float("nan"), 0, 0, 1])), r"q of shape \(4,\) has values that are not finite"),
        (lambda: to_matrix(torch.tensor([2.0, 0, 0, 0])), "away from unit length"),
        (lambda: from_matrix(-torch.eye(3)), "not a rotation"),
    ],
)
def test_values_are_checked_inside_checking_only(call, sentence):
    call()
    with checking(), pytest.raises(ValueError, match=sentence):
        call()
    call()


def test_matrices_that_are_rotations_need_no_eigenvector():
    """Also next to half turns about each axis, where one of the four components has nothing to divide by."""
    half = torch.cat((torch.eye(4), torch.tensor([[0, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 1.0]]))).double()
    near = half + 1e-9 * torch.randn(half.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turns = torch.cat((half, near, random_quaternion((100,), 0, dtype=torch.float64)))
    matrices = to_scipy(turns).as_matrix()
    found = from_matrix(torch.from_numpy(matrices), orthonormal=True).numpy()
    expected = from_scipy(Rotation.from_matrix(matrices)).numpy()
    assert abs(abs((found * expected).sum(1)) - 1).max() < 1e-15
    assert abs(abs(found) - abs(expected)).max() < 1e-15


Z = torch.tensor([0.0, 0, 1], dtype=torch.float64)


@pytest.fixture
def ups(dtype, generator) -> Tensor:
    """Directions of many lengths: random ones, axes, and ones almost opposite to z."""
    drawn = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    hard = torch.cat((torch.eye(3), -torch.eye(3), torch.tensor([[1e-7, 0, -1], [0, 3e-4, -2.0], [0, 1e-9, 5.0]])))
    return torch.cat((drawn, hard)).to(dtype)[:, None]


def test_nearest_with_up_takes_z_to_up(rotations, ups, tolerance):
    found = nearest_with_up(rotations, ups)
    wanted = (ups / ups.norm(dim=-1, keepdim=True)).expand(*found.shape[:-1], 3)
    torch.testing.assert_close(rotate(found, Z.to(rotations)), wanted, atol=tolerance, rtol=0)
    assert (found.norm(dim=-1) - 1).abs().max() < tolerance


def test_nearest_with_up_moves_by_the_angle_between_both_directions(rotations, ups, dtype):
    axis, up = rotate(rotations, Z.to(rotations)).double(), (ups / ups.norm(dim=-1, keepdim=True)).double()
    least = 2 * torch.atan2((axis - up).norm(dim=-1), (axis + up).norm(dim=-1))
    found = angular_distance(nearest_with_up(rotations, ups), rotations.expand(len(ups), -1, 4)).double()
    torch.testing.assert_close(found, least, atol={torch.float32: 2e-3, torch.float64: 1e-7}[dtype], rtol=0)


def test_nearest_with_up_rotates_with_both_and_about_up(dtype, tolerance, generator):
    q, g = random_quaternion((2, 50), generator, dtype=dtype)
    up = torch.randn(50, 3, generator=generator, dtype=dtype)
    assert_same_rotation(nearest_with_up(multiply(g, q), rotate(g, up)), multiply(g, nearest_with_up(q, up)), 1e-3)
    about = from_rotvec(up)
    assert_same_rotation(nearest_with_up(multiply(about, q), up), multiply(about, nearest_with_up(q, up)), 1e-3)


def test_nearest_with_up_of_an_opposite_direction_is_half_a_turn_about_x(dtype, tolerance):
    half = torch.tensor([0.0, 1, 0, 0], dtype=dtype)
    identity = torch.tensor([1.0, 0, 0, 0], dtype=dtype)
    assert_same_rotation(nearest_with_up(identity, -Z.to(dtype)), half, tolerance)
