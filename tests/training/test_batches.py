"""Batches: each shape once an epoch, the same from wherever one begins, whole or in pieces."""

import time
from dataclasses import fields

import pytest
import torch

from qecnet.algebra import multiply, rotate
from qecnet.geometry import OrientedPoints
from qecnet.training.batches import Batch, TrainingBatches, prefetch, validation_batches
from qecnet.training.validate import held_out

WHOLE = slice(None)


def same(a: Batch, b: Batch) -> bool:
    points = all(torch.equal(getattr(a.points, f.name), getattr(b.points, f.name)) for f in fields(OrientedPoints))
    return points and torch.equal(a.labels, b.labels)


@pytest.fixture
def batches(cache, tiny):
    return lambda **changes: TrainingBatches(cache, torch.arange(len(cache)), tiny(**changes))


def test_each_epoch_has_every_shape_once_in_its_own_order(batches, cache):
    made = batches(epochs=2)
    assert made.steps == len(cache) // 7
    every = list(made.after(0, 0, WHOLE))
    epochs = every[: made.steps], every[made.steps :]
    first, second = (torch.cat([batch.labels for batch in epoch]) for epoch in epochs)
    assert len(first) == len(second) == 7 * made.steps
    assert not torch.equal(first, second)
    for epoch in epochs:  # in which a shape that came twice would be the same subsampling twice
        assert (
            len({tuple(cloud.flatten().tolist()) for batch in epoch for cloud in batch.points.positions})
            == 7 * made.steps
        )


def test_each_epoch_takes_the_next_subsampling_of_a_shape(batches, cache):
    made = batches(batch_size=50, epochs=3)
    seen = {tuple(cloud.flatten().tolist()) for batch in made.after(0, 0, WHOLE) for cloud in batch.points.positions}
    assert len(seen) == 50 * cache.subsamplings


def test_batches_after_a_step_are_the_rest_of_the_run(batches):
    every = list(batches().after(0, 0, WHOLE))
    rest = list(batches().after(1, 3, WHOLE))
    assert len(rest) == len(every) - batches().steps - 3
    assert all(same(a, b) for a, b in zip(every[-len(rest) :], rest, strict=True))


@pytest.mark.parametrize("siamese", [0.0, 0.1])
def test_parts_of_a_batch_make_up_the_batch(batches, siamese):
    made = batches(siamese=siamese, epochs=1, dropped=0.3)
    for whole, left, right in zip(*(made.after(0, 0, s) for s in (WHOLE, slice(0, 4), slice(4, 7))), strict=True):
        views = [
            torch.cat(part)
            for part in zip(left.points.positions.split(4), right.points.positions.split(3), strict=True)
        ]
        assert torch.equal(torch.cat(views), whole.points.positions)
        assert torch.equal(torch.cat([left.labels, right.labels]), whole.labels)
        assert torch.equal(torch.cat([left.points.valid[:4], right.points.valid[:3]]), whole.points.valid[:7])


def test_pairs_are_two_subsamplings_of_one_shape(batches, cache):
    batch = next(batches(siamese=0.1).after(0, 0, WHOLE))
    assert len(batch.points.positions) == 2 * len(batch.labels)
    every = cache.points(torch.arange(len(cache))[:, None], torch.arange(cache.subsamplings)).positions
    at = [(every == cloud).all(-1).all(-1).nonzero()[0].tolist() for cloud in batch.points.positions]
    for (shape, first), (other, second) in zip(at[:7], at[7:], strict=True):
        assert shape == other
        assert first != second


@pytest.mark.parametrize("stretch", [1.0, 1.3])
def test_views_have_the_centre_and_size_of_the_whole(batches, stretch):
    """The cloud's centre and scale, moved by the target, are those of the shape's first subsampling."""
    assert next(batches().after(0, 0, WHOLE)).wholes is None
    made = batches(batch_size=50, epochs=3, views=0.4, stretch=stretch, method="centred")
    first: dict[int, list[tuple[float, ...]]] = {}
    for batch in made.after(0, 0, WHOLE):
        centre = batch.points.centre + batch.wholes.offset * batch.points.scale[:, None]
        scale = batch.points.scale * batch.wholes.growth.exp()
        if stretch > 1:
            assert (batch.wholes.growth != 0).any()
            continue
        for label, where, size in zip(batch.labels.tolist(), centre.tolist(), scale.tolist(), strict=True):
            first.setdefault(label, []).append((*(round(x, 5) for x in where), round(size, 5)))
    # Ten classes of five shapes in three epochs: the same place for each subsampling of a shape.
    assert all(len(set(places)) == 5 for places in first.values())


def test_seed_determines_the_batches(batches):
    one, again, other = (next(batches(seed=seed).after(0, 0, WHOLE)) for seed in (1, 1, 2))
    assert same(one, again)
    assert not same(one, other)


def test_a_batch_larger_than_the_dataset_is_refused(batches):
    with pytest.raises(ValueError, match="batch_size is 51, with 50 training shapes; set a smaller one"):
        batches(batch_size=51)


def test_validation_rotates_frames_with_their_points(cache):
    shapes = torch.arange(0, 50, 5)
    (straight, _), (turned, q) = (next(validation_batches(cache, shapes, 16, rotated=t)) for t in (False, True))
    torch.testing.assert_close(multiply(q[:, None], straight.points.frames), turned.points.frames, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        rotate(q[:, None], straight.points.positions), turned.points.positions, atol=1e-5, rtol=0
    )
    assert len({tuple(r) for r in q.tolist()}) == len(shapes)
    smaller, _ = next(validation_batches(cache, shapes[3:4], 16, rotated=True))
    assert torch.equal(smaller.points.positions[0], turned.points.positions[3])


def test_held_out_shapes_are_a_share_of_each_class(cache):
    kept, held = held_out(cache.labels, 0.2)
    assert sorted(kept.tolist() + held.tolist()) == list(range(50))
    assert cache.labels[held].bincount().tolist() == [1] * 10
    assert len(held_out(cache.labels, 0)[1]) == 0


def test_prefetching_gives_the_same_items():
    assert list(prefetch(iter(range(20)))) == list(range(20))


def test_an_error_in_the_background_is_raised():
    def items():
        yield 1
        raise OSError("the disk is gone")

    ready = prefetch(items())
    assert next(ready) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(ready)


def test_closing_ends_the_thread():
    made = []

    def items():
        while True:
            made.append(1)
            yield 1

    ready = prefetch(items())
    next(ready)
    ready.close()
    count = len(made)
    time.sleep(0.05)
    assert len(made) == count
