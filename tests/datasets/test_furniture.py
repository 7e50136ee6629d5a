"""The procedural set: closed surfaces of furniture, repeatable, various, upright and facing one way."""

import numpy as np
import pytest
import torch

from qecnet.datasets import FURNITURE_CLASSES, make_furniture, make_shape

SEEDS = range(12)


def closed(mesh):
    """Whether each edge is run through once in each direction, as on a closed surface that looks outwards."""
    faces = mesh.faces.numpy()
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    _, there = np.unique(edges, axis=0, return_counts=True)
    ordered, both = np.unique(np.sort(edges, axis=1), axis=0, return_counts=True)
    return there.max() == 1 and (both == 2).all() and len(ordered) * 2 == len(edges)


def volumes(mesh):
    """The signed volume of each connected part: positive where it looks outwards."""
    vertices, faces = mesh.vertices.numpy(), mesh.faces.numpy()
    part = np.arange(len(vertices))
    while True:
        lowest = part[faces].min(1)
        after = part.copy()
        for corner in faces.T:
            np.minimum.at(after, corner, lowest)
        if np.array_equal(after, part):
            break
        part = after
    a, b, c = (vertices[corner] for corner in faces.T)
    each = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    return [each[part[faces[:, 0]] == p].sum() for p in np.unique(part[faces[:, 0]])]


@pytest.mark.parametrize("kind", FURNITURE_CLASSES)
def test_every_part_is_closed_with_outward_normals(kind):
    for seed in SEEDS:
        mesh = make_shape(kind, seed)
        assert closed(mesh), seed
        assert min(volumes(mesh)) > 0, seed


@pytest.mark.parametrize("kind", FURNITURE_CLASSES)
def test_a_shape_stands_on_the_floor_in_the_middle_and_is_left_right_centred(kind):
    for seed in SEEDS:
        vertices = make_shape(kind, seed).vertices
        assert vertices.isfinite().all()
        assert -0.02 < vertices[:, 2].amin() < 0.06
        low, high = vertices.amin(0), vertices.amax(0)
        assert abs(low[0] + high[0]) < 0.35 * (high[0] - low[0])
        assert 0.2 < (high - low).amax() < 3.5


def lying_behind(kind, seed, height):
    """Of the points above a share of the height, how far the mean of y is behind; the front looks to −y."""
    points = make_shape(kind, seed).sample(4000, torch.Generator().manual_seed(0)).points
    points = points[points[:, 2] < 1.4]  # a canopy is over all of a bed
    z = points[:, 2]
    return (points[z > height * z.amax(), 1].mean() - points[:, 1].mean()).item()


@pytest.mark.parametrize(("kind", "height"), [("chair", 0.75), ("sofa", 0.85), ("bed", 0.6), ("toilet", 0.8)])
def test_backs_headboards_and_tanks_are_behind(kind, height):
    assert all(lying_behind(kind, seed, height) > 0 for seed in SEEDS)


def test_seed_determines_the_shape():
    for kind in FURNITURE_CLASSES:
        shape, again = make_shape(kind, 3), make_shape(kind, 3)
        assert torch.equal(shape.vertices, again.vertices)
        assert torch.equal(shape.faces, again.faces)
        sizes = {tuple(np.round(np.ptp(make_shape(kind, seed).vertices.numpy(), axis=0), 3)) for seed in SEEDS}
        parts = {len(make_shape(kind, seed).faces) for seed in SEEDS}
        assert len(sizes) == len(SEEDS)
        assert len(parts) >= 3, kind


def test_make_furniture_is_a_dataset():
    dataset = make_furniture(10, seed=1)
    assert dataset.name == "shapes"
    assert dataset.counts("train") == dict.fromkeys(FURNITURE_CLASSES, 8)
    assert dataset.counts("test") == dict.fromkeys(FURNITURE_CLASSES, 2)
    item = dataset.items("train")[8]
    assert (dataset.classes[item.label], item.name) == ("bed", "bed_0000")
    assert len(item.load_cloud(100)) == 100
    assert make_furniture(10, seed=1) == dataset
    assert make_furniture(10, seed=1).fingerprint("train") == dataset.fingerprint("train")
    assert make_furniture(10, seed=2).fingerprint("train") != dataset.fingerprint("train")


def test_larger_dataset_begins_with_the_same_shapes():
    few, many = make_furniture(5), make_furniture(20)
    assert set(few.items("train")) <= set(many.items("train"))


def test_unknown_class_and_too_few_shapes_are_rejected():
    with pytest.raises(ValueError, match="lamp is not a class of procedural furniture; use one of bathtub"):
        make_shape("lamp", 0)
    with pytest.raises(ValueError, match="need at least 2"):
        make_furniture(1)
