"""Groups are groups, the error up to one is the least over it, and the table says what the shapes say."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation

from qecnet.datasets import SymmetryGroup, open_dataset, symmetry_of
from qecnet.datasets.modelnet import OFFICIAL, TEN
from qecnet.datasets.symmetry import CONTINUOUS, FOURFOLD, NO_SYMMETRY, SYMMETRIES, TWOFOLD
from qecnet.evaluation import (
    IDENTITY,
    NO_SYM,
    relative_rotation,
    rotation_angles,
    symmetric_angles,
    symmetric_distance,
)
from qecnet.evaluation.metrics import EXPECTED_RANDOM_RAE

FINITE = [NO_SYMMETRY, TWOFOLD, FOURFOLD, SymmetryGroup(5)]
GROUPS = [*FINITE, CONTINUOUS]


def wxyz(rotation):
    return rotation.as_quat()[..., [3, 0, 1, 2]]


def rotation_of(q):
    return Rotation.from_quat(np.asarray(q)[..., [1, 2, 3, 0]])


def random_wxyz(count, seed):
    return wxyz(Rotation.random(count, random_state=seed))


def about_z(radians):
    return wxyz(Rotation.from_euler("z", np.reshape(radians, (-1, 1))))


def of_group(group, count, seed):
    """Random elements of a group. → (count, 4)"""
    rng = np.random.default_rng(seed)
    if group.order is None:
        return about_z(rng.uniform(-np.pi, np.pi, count))
    return group.elements()[rng.integers(group.order, size=count)]


@pytest.mark.parametrize("group", FINITE, ids=lambda g: f"order {g.order}")
def test_closure_identity_and_inverses(group):
    """With the identity, `b ∘ a⁻¹` being an element for each two is closure and inverses at once."""
    elements = group.elements()
    assert elements.shape == (group.order, 4)
    assert np.array_equal(elements[0], IDENTITY)
    products = relative_rotation(elements[:, None], elements[None]).reshape(-1, 1, 4)
    assert rotation_angles(products, elements).min(1).max() < 1e-14
    apart = rotation_angles(elements[:, None], elements[None]) + 7 * np.eye(group.order)
    assert apart.min() == pytest.approx(2 * np.pi / group.order if group.order > 1 else 7)


@pytest.mark.parametrize("group", FINITE, ids=lambda g: f"order {g.order}")
def test_every_element_keeps_the_up_axis(group):
    np.testing.assert_allclose(rotation_of(group.elements()).apply([0, 0, 1]), [[0, 0, 1]] * group.order, atol=1e-15)


def test_continuous_group_has_no_list_of_elements():
    with pytest.raises(ValueError, match="infinitely many elements"):
        CONTINUOUS.elements()


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"order {g.order}")
def test_symmetric_angle_is_at_most_the_plain_angle(group):
    near = wxyz(Rotation.random(2000, random_state=2) * Rotation.from_rotvec([1e-9, 0, 1e-9]))
    second = np.concatenate((random_wxyz(4000, 1), random_wxyz(2000, 2)))
    predicted = np.concatenate((random_wxyz(4000, 3), near))
    for first in (random_wxyz(6000, 4), IDENTITY):
        plain = rotation_angles(predicted, relative_rotation(first, second))
        symmetric = symmetric_distance(predicted, first, second, group)
        assert (symmetric <= plain).all()
        assert (symmetric >= 0).all()
        assert np.array_equal(symmetric_distance(predicted, first, second, NO_SYMMETRY), plain)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"order {g.order}")
def test_symmetric_angle_is_the_minimum_over_the_group(group):
    """Against SciPy, every element tried; every quarter of a degree for any turn, which is at most 1/8° off."""
    predicted, first, second = random_wxyz(60, 0), random_wxyz(60, 1), random_wxyz(60, 2)
    turns = about_z(np.deg2rad(np.arange(0, 360, 0.25))) if group.order is None else group.elements()
    each = np.stack(
        [
            (
                rotation_of(predicted).inv() * (rotation_of(second) * rotation_of(s) * rotation_of(first).inv())
            ).magnitude()
            for s in turns
        ]
    )
    found = symmetric_distance(predicted, first, second, group)
    if group.order is None:
        assert (found <= each.min(0) + 1e-12).all()
        np.testing.assert_allclose(found, each.min(0), atol=np.deg2rad(1 / 8))
    else:
        np.testing.assert_allclose(found, each.min(0), atol=1e-12)


def test_continuous_symmetry_leaves_the_angle_between_up_axes():
    predicted, first, second = random_wxyz(500, 0), random_wxyz(500, 1), random_wxyz(500, 2)
    claimed = (rotation_of(predicted) * rotation_of(first)).apply([0, 0, 1])
    true = rotation_of(second).apply([0, 0, 1])
    between = np.arctan2(np.linalg.norm(np.cross(claimed, true), axis=1), (claimed * true).sum(1))
    np.testing.assert_allclose(symmetric_distance(predicted, first, second, CONTINUOUS), between, atol=1e-12)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"order {g.order}")
def test_error_of_a_group_element_is_zero_up_to_symmetry(group):
    first, second, s = random_wxyz(200, 0), random_wxyz(200, 1), of_group(group, 200, 2)
    off = wxyz(rotation_of(second) * rotation_of(s) * rotation_of(first).inv())
    np.testing.assert_allclose(symmetric_distance(off, first, second, group), 0, atol=1e-14)
    plain = rotation_angles(off, relative_rotation(first, second))
    np.testing.assert_allclose(plain, rotation_of(s).magnitude(), atol=1e-12)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"order {g.order}")
def test_symmetric_error_ignores_group_elements_of_the_views(group):
    """What looks the same scores the same: R and R ∘ s are one view."""
    predicted, first, second = random_wxyz(200, 0), random_wxyz(200, 1), random_wxyz(200, 2)
    also_first = wxyz(rotation_of(first) * rotation_of(of_group(group, 200, 3)))
    also_second = wxyz(rotation_of(second) * rotation_of(of_group(group, 200, 4)))
    np.testing.assert_allclose(
        symmetric_distance(predicted, also_first, also_second, group),
        symmetric_distance(predicted, first, second, group),
        atol=1e-12,
    )


def test_symmetry_applies_on_the_right_of_the_rotation():
    """A night stand that lies on its side is not the same after a quarter turn about the world's z."""
    lying = wxyz(Rotation.from_euler("x", 90, degrees=True))
    world = wxyz(Rotation.from_euler("z", 90, degrees=True) * rotation_of(lying))
    own = wxyz(rotation_of(lying) * Rotation.from_euler("z", 90, degrees=True))
    assert symmetric_distance(own, IDENTITY, lying, FOURFOLD) == pytest.approx(0, abs=1e-15)
    assert symmetric_distance(world, IDENTITY, lying, FOURFOLD) == pytest.approx(np.pi / 2)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"order {g.order}")
def test_perfect_predictor_has_zero_error(group):
    first, second = random_wxyz(100, 0), random_wxyz(100, 1)
    for dtype, close in ((np.float64, 1e-15 * 4), (np.float32, 3e-7)):
        perfect = np.negative(relative_rotation(first, second)).astype(dtype)
        np.testing.assert_allclose(symmetric_distance(perfect, first, second, group), 0, atol=close)


def test_error_of_a_guess_falls_with_the_group_order():
    guess, second = random_wxyz(40_000, 0), random_wxyz(40_000, 1)
    mean = [(symmetric_distance(guess, IDENTITY, second, group) / np.pi).mean() for group in GROUPS]
    assert mean[0] == pytest.approx(EXPECTED_RANDOM_RAE, abs=0.004)
    assert mean[-1] == pytest.approx(0.5, abs=0.004)
    assert mean == sorted(mean, reverse=True)


def test_each_view_has_its_classes_group():
    classes = ("chair", "night_stand", "vase", "table", "something else")
    truth = np.array([0, 1, 2, 3, 4, 1, 2, 2])
    second = random_wxyz(8, 0)
    predicted = wxyz(rotation_of(second) * Rotation.from_euler("z", 90, degrees=True))
    found = symmetric_angles(predicted, IDENTITY, second, truth, classes)
    np.testing.assert_allclose(found, np.pi / 2 * np.array([1, 0, 0, 1, 1, 0, 0, 0]), atol=1e-12)
    assert symmetric_angles(np.empty((0, 4)), IDENTITY, np.empty((0, 4)), [], classes).shape == (0,)


def test_the_table_covers_modelnet10_and_invents_no_class():
    assert set(TEN) <= set(SYMMETRIES) <= set(OFFICIAL["modelnet40"])
    assert {name for name in TEN if symmetry_of(name) == NO_SYMMETRY} == set(NO_SYM)
    assert symmetry_of("no such class") == NO_SYMMETRY


@pytest.fixture(scope="module")
def modelnet40():
    path = (
        Path(os.environ.get("QECNET_SHARED", Path(__file__).parents[2].parent / "shared")) / "modelnet/modelnet40.zip"
    )
    if not path.is_file():
        pytest.skip(f"no shared ModelNet at {path}; set QECNET_SHARED to the folder that has it")
    pytest.importorskip("DracoPy", reason="the packs need DracoPy; pip install 'qecnet[modelnet]'")
    return open_dataset("modelnet40", path)


def gap(a, b):
    return KDTree(a).query(b)[0].mean() + KDTree(b).query(a)[0].mean()


@pytest.mark.parametrize("name", sorted(set(SYMMETRIES) - set(TEN)))
def test_two_of_three_training_shapes_have_the_declared_symmetry(modelnet40, name):
    """Half of a shape's points, turned, are hardly farther from the other half than unturned."""
    items = [item for item in modelnet40.items("train") if modelnet40.classes[item.label] == name]
    rng = np.random.default_rng(0)
    turns = [45, 90, 120, 180] if symmetry_of(name) == CONTINUOUS else [180]
    back = 0
    for index in rng.permutation(len(items))[:24]:
        points = items[index].load_cloud().points.double().numpy()
        a, b = rng.permutation(points - points.mean(0))[:1400].reshape(2, -1, 3)
        turned = [Rotation.from_euler("z", degrees, degrees=True).apply(a) for degrees in turns]
        back += max(gap(t, b) for t in turned) < 1.25 * gap(a, b)
    assert back >= 16
