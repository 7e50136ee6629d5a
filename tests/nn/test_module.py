"""The transform kernel and Algorithm 2."""

import pytest
import torch
from tests.kinds import present
from tests.nn import naive
from tests.nn.clouds import random_cloud

from qecnet.algebra import angular_distance, checking, multiply, random_quaternion
from qecnet.compiled import use_compiled_operators
from qecnet.nn import Capsules, Pooling, QECModule, route
from qecnet.nn.kernel import TransformKernel
from qecnet.nn.votes import cast_votes
from qecnet.testing import Kind, assert_equivariant, equivariance_error


def as_function(module, patches):
    """The module as a function of positions, poses and activations, its patches cut from the positions it is given."""

    def function(positions, poses, activations):
        first = patches.neighbours.shape[1]
        graph = Pooling(positions[:, :first], patches.neighbours, patches.present)
        out = module(Capsules(positions, poses, activations), graph)
        return out.positions, out.poses, out.activations

    return function


def make_module(dtype, **options):
    torch.manual_seed(0)
    return QECModule(3, 4, **options).to(dtype)


def make_inputs(dtype):
    capsules, patches = random_cloud(2, 20, 5, 6, dtype)
    poses = random_quaternion((2, 20, 3), 4, dtype=dtype)
    activations = capsules.activations * torch.rand(2, 20, 3, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return (capsules.positions, poses, activations), patches


KINDS: tuple[Kind, ...] = ("points", "poses", "features")


@pytest.mark.parametrize("weighting", ["sigmoid", "linear", "lq"])
def test_module_is_equivariant(weighting, dtype):
    inputs, patches = make_inputs(dtype)
    function = as_function(make_module(dtype, weighting=weighting), patches)
    assert_equivariant(function, inputs, KINDS, KINDS, under=("rotation", "translation"))


def test_without_canonicalisation_the_module_is_not_equivariant(dtype):
    inputs, patches = make_inputs(dtype)
    function = as_function(make_module(dtype, canonicalize=False), patches)
    assert equivariance_error(function, inputs, KINDS, KINDS) > 0.05


@pytest.mark.parametrize("options", [{}, {"weighting": "linear", "nonlinearity": "relu"}, {"canonicalize": False}])
def test_agrees_with_the_pseudo_code(options):
    (positions, poses, activations), patches = make_inputs(torch.float64)
    module = make_module(torch.float64, **options)
    found = module(Capsules(positions, poses, activations), patches)
    for cloud in range(2):
        for patch in range(5):
            index, present = patches.neighbours[cloud, patch], patches.present[cloud, patch]
            expected, activation = naive.qec_module(
                module,
                positions[cloud, index],
                poses[cloud, index],
                activations[cloud, index] * present[:, None],
                patches.centres[cloud, patch],
            )
            assert angular_distance(found.poses[cloud, patch], expected).max() <= 1e-6
            torch.testing.assert_close(found.activations[cloud, patch], activation, atol=1e-6, rtol=0)


@pytest.mark.parametrize("points", [5, 40])
def test_kernel_is_that_of_plain_layers_for_few_and_many_points(points, dtype):
    torch.manual_seed(0)
    kernel = TransformKernel(3, 4, nonlinearity="gelu").to(dtype)
    canonical = torch.randn(2, 6, points, 3, 3, dtype=dtype)
    transforms = kernel(canonical)
    assert transforms.shape == (2, 6, 4, 3 * points, 4)
    plain = kernel.second(torch.nn.functional.gelu(kernel.first(canonical.flatten(-2))))
    expected = plain.view(2, 6, points, 4, 4, 3).permute(0, 1, 3, 5, 2, 4).flatten(3, 4)
    torch.testing.assert_close(transforms, expected, atol=1e-5, rtol=1e-4)


def test_zero_transform_counts_as_the_identity(dtype):
    poses = random_quaternion((2, 7), 0, dtype=dtype)
    transforms = torch.zeros(2, 3, 7, 4, dtype=dtype, requires_grad=True)
    votes = cast_votes(poses, transforms)
    assert torch.equal(votes, poses[:, None].expand_as(votes))
    votes.sum().backward()
    assert torch.equal(present(transforms.grad), torch.zeros_like(transforms))


@pytest.mark.parametrize("points", [3, 33])
def test_gradients_of_the_kernel(points):
    torch.manual_seed(0)
    kernel = TransformKernel(1, 2).double()
    canonical = torch.randn(1, points, 1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(kernel, (canonical,))


def test_votes_are_products_with_unit_transforms(dtype):
    poses, unit = random_quaternion((2, 7), 0, dtype=dtype), random_quaternion((2, 3, 7), 1, dtype=dtype)
    length = 0.5 + torch.rand(2, 3, 7, 1, generator=torch.Generator().manual_seed(2), dtype=dtype)
    torch.testing.assert_close(cast_votes(poses, length * unit), multiply(poses[:, None], unit))


def test_gradients_of_the_votes():
    """Along the sphere: a pose stays a unit quaternion, so it enters through a normalisation here."""
    poses = random_quaternion((2, 4), 0, dtype=torch.float64).requires_grad_()
    transforms = (1.7 * random_quaternion((2, 3, 4), 1, dtype=torch.float64)).requires_grad_()

    def function(poses, transforms):
        return cast_votes(torch.nn.functional.normalize(poses, dim=-1), transforms)

    assert torch.autograd.gradcheck(function, (poses, transforms))


def test_gradients_of_a_tiny_module():
    capsules, patches = random_cloud(1, 6, 2, 3, torch.float64, missing=0)
    torch.manual_seed(0)
    module = QECModule(1, 2, gradients="all").double()
    names = [name for name, _ in module.named_parameters()]

    def function(*parameters):
        out = torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (capsules, patches))
        return out.poses, out.activations

    assert torch.autograd.gradcheck(function, tuple(module.parameters()))


def test_route_returns_the_weights_of_the_votes(dtype):
    inputs, patches = make_inputs(dtype)
    routed = route(*make_module(dtype).votes(Capsules(*inputs), patches))
    assert routed.weights.shape == (2, 5, 4, 18)
    masked = (Capsules(*inputs).group(patches).activations == 0).mT.flatten(-2)
    assert ((routed.weights == 0) == masked[:, :, None]).all()


def test_votes_are_those_that_are_routed(dtype):
    inputs, patches = make_inputs(dtype)
    module = make_module(dtype)
    votes, activations = module.votes(Capsules(*inputs), patches)
    assert votes.shape == (2, 5, 4, 18, 4)
    again = route(votes, activations, scale=module.scale, shift=module.shift)
    use_compiled_operators(False)
    torch.testing.assert_close(again.poses, module(Capsules(*inputs), patches).poses, atol=0, rtol=0)
    use_compiled_operators()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: QECModule(0, 4), "in_capsules is 0; a transform kernel needs at least 1"),
        (lambda: QECModule(3, 0), "out_capsules is 0"),
        (lambda: QECModule(3, 4, weighting="huber"), "weighting is 'huber'"),  # type: ignore[arg-type]
        (
            lambda: TransformKernel(1, 1, nonlinearity="tanh"),  # type: ignore[arg-type]
            "nonlinearity is 'tanh'; it must be one of none, relu, gelu",
        ),
        (
            lambda: make_module(torch.float32)(*random_cloud(2, 20, 5, 6, torch.float32)),
            "have 1 poses per point; .* expects 3",
        ),
    ],
)
def test_bad_arguments_are_named_in_the_error(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_mismatched_patches_and_capsules_are_refused():
    inputs, patches = make_inputs(torch.float32)
    with pytest.raises(ValueError, match=r"poses has shape \(2, 19, 3, 4\)"):
        Capsules(inputs[0], inputs[1][:, 1:], inputs[2])
    with pytest.raises(ValueError, match=r"activations has shape \(2, 20, 2\)"):
        Capsules(inputs[0], inputs[1], inputs[2][..., 1:])
    with pytest.raises(ValueError, match=r"centres has shape \(2, 3, 3\)"):
        Pooling(patches.centres[:, :3], patches.neighbours, patches.present)


def test_checking_refuses_frames_that_are_not_unit_quaternions():
    (positions, poses, activations), patches = make_inputs(torch.float32)
    with checking(), pytest.raises(ValueError, match="away from unit length"):
        make_module(torch.float32)(Capsules(positions, 1.1 * poses, activations), patches)
