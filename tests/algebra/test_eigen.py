"""The dominant eigenvector against `torch.linalg.eigh` in float64, and its derivative against the formula."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kinds import present
from torch import Tensor

from qecnet.algebra import angular_distance, dominant_eigenvector, from_rotvec, multiply


def symmetric(eigenvalues: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Matrices with those eigenvalues (..., 4), the first one dominant, and its eigenvector; float64."""
    eigenvalues = eigenvalues.double()
    basis, _ = torch.linalg.qr(torch.randn(*eigenvalues.shape, 4, generator=generator, dtype=torch.float64))
    return (basis * eigenvalues[..., None, :]) @ basis.mT, basis[..., 0]


def test_agrees_with_eigh_down_to_a_ratio_of_0_998(dtype, generator):
    """Including two, three and four nearly equal eigenvalues; the bound is 0.01° of rotation, in float32 too."""
    eigenvalues = 0.998 * torch.rand(40_000, 4, generator=generator, dtype=torch.float64)
    eigenvalues[:, 0] = 1
    eigenvalues[:20_000, 1] = 0.998
    eigenvalues[:10_000, 2] = 0.998
    eigenvalues[:5_000, 3] = 0.998
    matrix = symmetric(eigenvalues, generator)[0].to(dtype)
    expected = torch.linalg.eigh(matrix.double())[1][..., -1]
    error = torch.rad2deg(angular_distance(dominant_eigenvector(matrix).double(), expected))
    assert error.max() <= (0.01 if dtype == torch.float32 else 1e-8)


def test_semidefinite_gives_the_same_vector(dtype, generator):
    matrix = symmetric(torch.rand(5_000, 4, generator=generator), generator)[0].to(dtype)
    assert torch.equal(dominant_eigenvector(matrix, semidefinite=True), dominant_eigenvector(matrix))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_small_batches_agree_with_large_ones(dtype, generator, scale):
    """Another order of operations, to the last bits: where eigenvalues nearly tie, of the plane that they span."""
    values = torch.rand(5_000, 4, generator=generator)
    values[0], values[1], values[2] = torch.zeros(4), torch.ones(4), torch.tensor([1.0, 0, 0, 0])
    matrix = scale * symmetric(values, generator)[0].to(dtype)
    many = dominant_eigenvector(matrix, semidefinite=True)[:200]
    few = dominant_eigenvector(matrix[:200], semidefinite=True)
    assert few[0].tolist() == many[0].tolist() == [1, 0, 0, 0]
    torch.testing.assert_close(few.norm(dim=-1), torch.ones(200, dtype=dtype))
    reached = [torch.einsum("ni,nij,nj->n", q, matrix[:200] / scale, q) for q in (few, many)]
    torch.testing.assert_close(*reached)
    top, second = torch.linalg.eigvalsh(matrix[:200].double() / scale)[:, -2:].flip(-1).unbind(-1)
    clear = second < 0.9 * top
    assert clear.sum() > 100
    torch.testing.assert_close(few[clear], many[clear])


def test_agrees_with_eigh_for_indefinite_matrices(dtype, generator):
    matrix = torch.randn(5_000, 4, 4, generator=generator, dtype=dtype)
    matrix = matrix + matrix.mT
    hard = [(1, 1, 0, -1), (1, 0, 0, -1), (1, 0.5, 0, -10), (-1, -2, -3, -4), (1, -10, -10, -10), (0, -1, -1, -1)]
    matrix = torch.cat((matrix, symmetric(torch.tensor(hard)[1:], generator)[0].to(dtype)))
    values, vectors = torch.linalg.eigh(matrix.double())
    clear = (values[:, -1] - values[:, -2]) > 0.01 * values.abs().amax(-1)
    error = angular_distance(dominant_eigenvector(matrix).double(), vectors[..., -1])
    assert clear[-5:].all()
    assert error[clear].max() <= (2e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("eigenvalues", [(1, 1, 0.2, 0.1), (1, 1, 1, 0.1), (1, 1, 1, 1), (1, 1, 1, -1), (2, 2, -3, -3)])
def test_tied_top_eigenvalues_give_a_vector_of_their_eigenspace(eigenvalues, dtype, generator):
    matrix = symmetric(torch.tensor(eigenvalues).expand(200, 4), generator)[0].to(dtype)
    vector = dominant_eigenvector(matrix)
    residual = (matrix @ vector[..., None])[..., 0] - eigenvalues[0] * vector
    assert residual.abs().max() <= (1e-5 if dtype == torch.float32 else 1e-13)
    assert (vector.norm(dim=-1) - 1).abs().max() <= 1e-6


@pytest.mark.parametrize("scale", [1e-37, 1e-20, 1.0, 1e20, 1e37])
def test_eigenvector_is_invariant_to_scale(scale, dtype, generator):
    matrix, expected = symmetric(torch.tensor([1.0, 0.5, 0.2, 0.0]).expand(100, 4), generator)
    found = dominant_eigenvector((matrix * scale).to(dtype))
    assert angular_distance(found.double(), expected).max() <= (1e-5 if dtype == torch.float32 else 1e-12)


def test_zero_matrix_gives_the_identity_and_no_gradient(dtype):
    matrix = torch.zeros(2, 4, 4, dtype=dtype, requires_grad=True)
    vector = dominant_eigenvector(matrix)
    assert torch.equal(vector, torch.tensor([[1.0, 0, 0, 0]] * 2, dtype=dtype))
    vector.sum().backward()
    assert torch.equal(present(matrix.grad), torch.zeros_like(matrix))


def test_is_deterministic_and_does_not_depend_on_the_batch(dtype, generator):
    matrix = symmetric(torch.rand(7, 11, 4, generator=generator), generator)[0].to(dtype)
    all_at_once = dominant_eigenvector(matrix)
    assert torch.equal(all_at_once, dominant_eigenvector(matrix))
    assert torch.equal(all_at_once[3, 5], dominant_eigenvector(matrix[3, 5]))
    assert torch.equal(all_at_once.flatten(0, 1), dominant_eigenvector(matrix.flatten(0, 1)))


def test_only_the_symmetric_part_counts(dtype, generator):
    matrix = symmetric(torch.tensor([4.0, 2, 1, 0]), generator)[0].to(dtype)
    skew = torch.randn(4, 4, generator=generator, dtype=dtype)
    error = angular_distance(dominant_eigenvector(matrix + skew - skew.mT), dominant_eigenvector(matrix))
    assert error <= 1e-5


@pytest.mark.parametrize(
    "eigenvalues",
    [(1, 0.7, 0.3, 0.1), (1, 0.5, 0.5, 0.5), (1, 0, 0, 0), (1, 0.99, 0.99, 0.3), (3, -2, -2, -5), (-1, -2, -2, -2)],
)
def test_gradient_with_ties_below(eigenvalues, generator):
    matrix = symmetric(torch.tensor(eigenvalues).expand(3, 4), generator)[0].requires_grad_()
    assert torch.autograd.gradcheck(dominant_eigenvector, (matrix,))


def test_gradient_is_the_pseudo_inverse_formula(dtype, generator):
    """`dq = (λ₁I − M)⁺ dM q`, for gaps down to a hundredth."""
    eigenvalues = torch.rand(500, 4, generator=generator) * 0.99
    eigenvalues[:, 0] = 1
    eigenvalues[:100, 1:] = 0.99
    matrix, q = symmetric(eigenvalues, generator)
    upstream = torch.randn(500, 4, generator=generator, dtype=torch.float64)
    inverse = torch.linalg.pinv(torch.eye(4) - matrix, rtol=1e-4, hermitian=True)
    outer = (inverse @ upstream[..., None]) * q[:, None, :]
    expected = (outer + outer.mT) / 2
    leaf = matrix.to(dtype).requires_grad_()
    found = dominant_eigenvector(leaf)
    sign = torch.sign((found.detach().double() * q).sum(-1, keepdim=True))
    found.backward((sign * upstream).to(dtype))
    error = (present(leaf.grad).double() - expected).norm(dim=(-1, -2)) / expected.norm(dim=(-1, -2))
    assert error.max() <= (5e-3 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-8, 1e-5, 1e-3])
def test_gradient_is_bounded_where_the_top_two_meet(gap, dtype, generator):
    eigenvalues = torch.tensor([1.0, 1.0, 0.3, 0.0], dtype=torch.float64) - torch.tensor([0, gap, 0, 0])
    matrix = symmetric(eigenvalues.expand(100, 4), generator)[0].to(dtype).requires_grad_()
    dominant_eigenvector(matrix).backward(torch.ones(100, 4, dtype=dtype))
    assert present(matrix.grad).isfinite().all()
    # The forward pass resolves gaps of 2⁻¹¹ (float32) and 2⁻²⁴ (float64); the gradient promises at most 2 over that.
    bound = 2 * 2.0 ** (11 if dtype == torch.float32 else 24)
    assert present(matrix.grad).abs().max() <= 2 * bound


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_compiled_and_eager_agree(generator):
    """One graph, forward and backward."""
    matrix = symmetric(torch.rand(100, 4, generator=generator), generator)[0].float()
    torch._dynamo.reset()
    compiled = torch.compile(dominant_eigenvector, backend="aot_eager", fullgraph=True)
    results = []
    for function in (compiled, dominant_eigenvector):
        leaf = matrix.clone().requires_grad_()
        vector = function(leaf)
        vector[:, 1].sum().backward()
        results.append((vector.detach(), leaf.grad))
    torch.testing.assert_close(*results)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**31), count=st.integers(1, 12), exponent=st.integers(-30, 30))
def test_rotating_the_basis_rotates_the_vector(seed, count, exponent):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(count, 4, generator=generator, dtype=torch.float64) * 10.0**exponent
    turn = from_rotvec(torch.randn(3, generator=generator, dtype=torch.float64))
    moments = vectors.mT @ vectors
    turned = multiply(turn.expand_as(vectors), vectors)
    values = torch.linalg.eigvalsh(moments)
    if values[-1] - values[-2] > 1e-3 * values[-1]:
        found = dominant_eigenvector(turned.mT @ turned)
        assert angular_distance(found, multiply(turn, dominant_eigenvector(moments))) <= 1e-9


@pytest.mark.parametrize("shape", [(4,), (3, 3), (4, 5)])
def test_wrong_shapes_are_named_in_the_error(shape):
    with pytest.raises(ValueError, match=r"matrix has shape .*; its shape must end in \(4, 4\)"):
        dominant_eigenvector(torch.ones(shape))


def test_negative_eigenvalues_near_the_top_cost_no_precision(dtype, generator):
    """A shift that was added after squaring would cancel here."""
    matrix, expected = symmetric(torch.tensor([-1.0, -1.05, -1.05, -1.05]).expand(500, 4), generator)
    error = angular_distance(dominant_eigenvector(matrix.to(dtype)).double(), expected)
    assert error.max() <= (1e-4 if dtype == torch.float32 else 1e-13)


def test_autocast_does_not_change_the_eigenvector(generator):
    matrix = symmetric(torch.tensor([1.0, 0.9, 0.5, 0.1]).expand(50, 4), generator)[0].float()
    with torch.autocast("cpu", torch.bfloat16):
        vector = dominant_eigenvector(matrix)
    assert torch.equal(vector, dominant_eigenvector(matrix))


def test_gradient_of_a_subnormal_matrix_is_finite(dtype, generator):
    matrix = symmetric(torch.tensor([1.0, 0.5, 0.2, 0.0]).expand(20, 4), generator)[0]
    leaf = (matrix * torch.finfo(dtype).tiny / 16).to(dtype).requires_grad_()
    (dominant_eigenvector(leaf)[:, 1] * 1e-6).sum().backward()
    assert present(leaf.grad).isfinite().all()
