"""The frame cache: what `prepare` gives, kept; resumed after a kill; never used when damaged."""

import functools
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import pytest
import torch
from tests.kinds import as_mesh, recording

from qecnet.datasets import FrameCache, dataset, frame_cache, make_furniture, open_dataset
from qecnet.datasets import cache as cache_module
from qecnet.datasets._cache_file import read_layout
from qecnet.files import alone_in
from qecnet.formats import write
from qecnet.geometry import OrientedPoints, PointCloud, PrepareConfig, prepare

SMALL = PrepareConfig(points=400, frames=32)


def build(folder, seed=0, workers=1, per_class=2, config=SMALL, **kwargs):
    return frame_cache(
        make_furniture(per_class, seed=4),
        "train",
        folder,
        config,
        subsamplings=2,
        seed=seed,
        workers=workers,
        progress=False,
        **kwargs,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a cache that was built without any trouble, and its name."""
    cache = build(tmp_path_factory.mktemp("whole"))
    return cache.path.name, cache.path.read_bytes()


def same(a, b):
    return all(torch.equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(OrientedPoints))


def test_cached_points_equal_prepare_bit_for_bit(tmp_path):
    cache, items = build(tmp_path), make_furniture(2, seed=4).items("train")
    assert len(cache) == len(items) == 10
    assert cache.names == tuple(item.name for item in items)
    assert cache.labels.tolist() == [item.label for item in items]
    assert cache.classes == make_furniture(2).classes
    for i, s in ((0, 0), (7, 1), (9, 1)):
        generator = torch.Generator().manual_seed(dataset.derive_seed(0, i, s))
        expected = prepare(as_mesh(items[i].load()).sample(SMALL.points, generator), SMALL, generator)
        found = cache.points(i, s)
        assert same(found, expected)
        assert all(getattr(found, f.name).dtype == getattr(expected, f.name).dtype for f in fields(OrientedPoints))
    assert not same(cache.points(0, 0), cache.points(0, 1))


def test_batch_equals_its_stacked_members(tmp_path):
    cache = build(tmp_path)
    batch = cache.points(torch.tensor([3, 8, 3]), torch.tensor([0, 1, 1]))
    for row, (i, s) in enumerate(((3, 0), (8, 1), (3, 1))):
        for f in fields(OrientedPoints):
            assert torch.equal(getattr(batch, f.name)[row], getattr(cache.points(i, s), f.name))
    assert cache.points([1, 2]).positions.shape == (2, 32, 3)
    with pytest.raises(IndexError):
        cache.points(10)


def test_points_are_copies_of_the_cache(tmp_path):
    cache = build(tmp_path)
    cache.points(0).positions.zero_()
    assert cache.points(0).positions.abs().sum() > 0


def test_cache_does_not_depend_on_the_number_of_workers(tmp_path, whole):
    assert build(tmp_path, workers=2).path.read_bytes() == whole[1]


def test_cache_is_pickled_as_a_path(tmp_path):
    cache = build(tmp_path)
    data = pickle.dumps(cache)
    assert len(data) < 1000
    assert same(pickle.loads(data).points(4, 1), cache.points(4, 1))


def test_cache_is_built_once(tmp_path, monkeypatch):
    first = build(tmp_path)
    monkeypatch.setattr("qecnet.datasets.cache._build", lambda *_: pytest.fail("built again"))
    assert build(tmp_path).path == first.path


def test_concurrent_build_waits_and_uses_the_finished_cache(tmp_path, whole, monkeypatch):
    built: list[tuple] = []
    real = cache_module._build
    monkeypatch.setattr(cache_module, "_build", recording(real, built))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: build(tmp_path), range(2))
    assert len(built) == 1
    assert first.path.read_bytes() == second.path.read_bytes() == whole[1]


def test_complete_cache_is_used_while_another_is_built(tmp_path):
    first = build(tmp_path)
    with ThreadPoolExecutor(1) as pool, alone_in(tmp_path, wait=True):
        assert pool.submit(build, tmp_path).result(timeout=300).path == first.path


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"per_class": 3},
        {"keep": 0.5},
        {"config": replace(SMALL, points=300)},
        {"config": replace(SMALL, sign="outward")},
        {"config": replace(SMALL, method="shot")},
    ],
    ids=str,
)
def test_every_setting_changes_the_file(tmp_path, whole, other):
    assert build(tmp_path, **other).path.name != whole[0]


def test_changed_code_changes_the_file(tmp_path, whole, monkeypatch):
    monkeypatch.setattr("qecnet.datasets.cache.code_hash", lambda *_: "other")
    assert build(tmp_path).path.name != whole[0]


def test_the_finished_file_is_put_in_place_for_good(tmp_path, monkeypatch):
    synced: list[list[str]] = []
    monkeypatch.setattr(
        cache_module, "sync_folder", lambda folder: synced.append([path.suffix for path in folder.iterdir()])
    )
    build(tmp_path)
    assert synced == [[".frames"]]


DAMAGE = {
    "a flipped bit": lambda b: b[:-5000] + bytes([b[-5000] ^ 1]) + b[-4999:],
    "a flipped bit in the header": lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:],
    "truncated": lambda b: b[: len(b) // 2],
    "zeros at the end": lambda b: b[:-4000] + bytes(4000),
    "too long": lambda b: b + b"x",
    "empty": lambda b: b"",
    "two records changed places": lambda b: _swapped(b),
}


def _swapped(data):
    size = (len(data) - 4096) // 10
    return data[: -2 * size] + data[-size:] + data[-2 * size : -size]


@pytest.mark.parametrize("where", ["", ".part"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_cache_is_rebuilt(tmp_path, whole, damage, where):
    name, data = whole
    assert DAMAGE[damage](data) != data
    (tmp_path / (name + where)).write_bytes(DAMAGE[damage](data))
    assert build(tmp_path).path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_partial_cache_is_resumed(tmp_path, whole, monkeypatch):
    name, data = whole
    size = (len(data) - 4096) // 10
    (tmp_path / f"{name}.part").write_bytes(data[: 4096 + 6 * size + 100])
    loaded = []
    load = dataset.Item.load

    def load_and_note(item):
        loaded.append(item.name)
        return load(item)

    monkeypatch.setattr(dataset.Item, "load", load_and_note)
    assert build(tmp_path).path.read_bytes() == data
    assert loaded == [item.name for item in make_furniture(2, seed=4).items("train")[6:]]


SCRIPT = """
import sys
from tests.datasets.test_cache import build
if __name__ == "__main__":
    build(sys.argv[1], workers=int(sys.argv[2]), per_class=12)
"""


@pytest.mark.parametrize(
    ("sent", "workers"), [(signal.SIGKILL, 2), pytest.param(signal.SIGINT, 2, marks=pytest.mark.slow)]
)
def test_a_killed_build_resumes_to_the_same_bytes(tmp_path, sent, workers):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("tests.datasets.test_cache", "test_cache"))
    folder = tmp_path / "frames"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    run = [sys.executable, str(script), str(folder), str(workers)]
    process = subprocess.Popen(run, env=env, stderr=subprocess.PIPE, start_new_session=True)
    while process.poll() is None and not any(p.stat().st_size > 20_000 for p in folder.glob("*.part")):
        time.sleep(0.02)
    children = _children(process.pid)
    process.send_signal(sent)
    process.communicate(timeout=300)
    assert process.returncode != 0
    (part,) = folder.iterdir()
    assert part.suffix == ".part"
    _wait_until(lambda: not any(_alive(child) for child in children))
    before = part.read_bytes()
    cache = build(folder, per_class=12)
    assert cache.path.read_bytes()[: len(before) // 2] == before[: len(before) // 2]
    assert cache.path.read_bytes() == build(tmp_path / "other", per_class=12).path.read_bytes()


def _children(process):
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def _alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_until(holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_disk_that_fills_up_gives_a_one_sentence_error_and_loses_nothing(tmp_path, whole):
    name, data = whole
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) * 2 // 3, limits[1]))
    try:
        with pytest.raises(OSError, match=r"cannot be written .*give another folder") as caught:
            build(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == [f"{name}.part"]
    assert build(tmp_path).path.read_bytes() == data


def test_insufficient_disk_space_is_detected_before_work(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    monkeypatch.setattr("qecnet.datasets.cache.records", lambda *_: pytest.fail("worked"))
    with pytest.raises(OSError, match="no room for 0 MB"):
        build(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_impossible_folder_gives_a_one_sentence_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot be written"):
        build(tmp_path / "file" / "below")


def test_a_shape_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "data" / "mug" / "train").mkdir(parents=True)
    write(tmp_path / "data" / "mug" / "train" / "small.npy", PointCloud(torch.rand(3, 3)))
    with pytest.raises(ValueError, match=r"small\.npy: has 3 distinct points"):
        frame_cache(
            open_dataset("mugs", tmp_path / "data"), "train", tmp_path / "cache", SMALL, workers=1, progress=False
        )


def test_subsamplings_of_a_cloud_differ_and_have_the_share_that_is_kept(tmp_path):
    (tmp_path / "data" / "mug" / "train").mkdir(parents=True)
    points = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    write(tmp_path / "data" / "mug" / "train" / "cloud.npy", PointCloud(points))
    every = open_dataset("mugs", tmp_path / "data")
    config = replace(SMALL, frames=200)
    for keep, left in ((0.8, 160), (1.0, 200)):
        cache = frame_cache(every, "train", tmp_path, config, subsamplings=2, keep=keep, workers=1, progress=False)
        both = cache.points(0, 0), cache.points(0, 1)
        # Of 200 places for frames, those beyond the cloud's own points are left at the origin.
        assert [int((p.positions != 0).any(-1).sum()) for p in both] == [left, left]
        assert same(*both) == (keep == 1)


def test_other_file_gives_a_one_sentence_error(tmp_path, whole):
    for content in (b"", b"hello", whole[1][:300]):
        (tmp_path / "x.frames").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.frames: is not a frame cache"):
            FrameCache(tmp_path / "x.frames")
    (tmp_path / "x.frames").write_bytes(whole[1][:-1])
    with pytest.raises(ValueError, match="is truncated"):
        read_layout(tmp_path / "x.frames")


def test_subsamplings_thin_out_to_the_thinnest(tmp_path):
    (tmp_path / "data" / "mug" / "train").mkdir(parents=True)
    points = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    write(tmp_path / "data" / "mug" / "train" / "cloud.npy", PointCloud(points))
    every = open_dataset("mugs", tmp_path / "data")
    for largest, left in ((600, [160, 80, 40]), (100, [100, 50, 25])):  # a share of the cloud, or of what is drawn
        config = replace(SMALL, points=largest, frames=200)
        cache = frame_cache(every, "train", tmp_path, config, subsamplings=3, thinnest=0.25, workers=1, progress=False)
        assert [int((cache.points(0, s).positions != 0).any(-1).sum()) for s in range(3)] == left


def test_the_last_subsamplings_are_views(tmp_path):
    """Of a ball, one camera sees less than a half: its centre is far from the ball's."""
    (tmp_path / "data" / "ball" / "train").mkdir(parents=True)
    points = torch.nn.functional.normalize(torch.randn(5000, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    write(tmp_path / "data" / "ball" / "train" / "cloud.npy", PointCloud(points))
    every = open_dataset("balls", tmp_path / "data")
    build = functools.partial(frame_cache, every, "train", tmp_path, SMALL, thinnest=0.25, workers=1, progress=False)
    cache = build(subsamplings=5, views=0.4)
    found = cache.points([0] * 5, range(5))
    assert [bool(far) for far in found.centre.norm(dim=-1) > 0.4] == [False, False, False, True, True]
    assert not torch.equal(found.centre[3], found.centre[4])
    none = build(subsamplings=3)
    assert same(none.points([0] * 3, range(3)), cache.points([0] * 3, range(3)))


def test_shapes_that_cameras_hardly_see_are_kept_whole(tmp_path):
    (tmp_path / "data" / "dust" / "train").mkdir(parents=True)
    write(tmp_path / "data" / "dust" / "train" / "cloud.npy", PointCloud(torch.eye(3).repeat(4, 1).cumsum(0)))
    every = open_dataset("dust", tmp_path / "data")
    cache = frame_cache(every, "train", tmp_path, SMALL, subsamplings=2, views=0.5, workers=1, progress=False)
    assert len(cache) == 1


def test_implausible_viewpoints_of_files_are_ignored(tmp_path):
    (tmp_path / "cap" / "train").mkdir(parents=True)
    points = torch.nn.functional.normalize(torch.randn(600, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    cap = PointCloud(points[points[:, 2] > 0.5])
    below, inside = (torch.tensor([0.0, 0.0, height], dtype=torch.float64) for height in (-5, 0.8))
    file = tmp_path / "cap" / "train" / "cap.pcd"
    found = {}
    for name, viewpoint in (("below", below), ("inside", inside), ("none", None)):
        write(file, cap.seen_from(viewpoint))
        every, config = open_dataset("caps", tmp_path), replace(SMALL, sign="camera")
        found[name] = frame_cache(every, "train", tmp_path / name, config, workers=1, progress=False).points(0)
    assert same(found["inside"], found["none"])
    assert not same(found["below"], found["none"])


def test_at_least_one_subsampling_is_whole(tmp_path):
    with pytest.raises(ValueError, match=r"views is 0\.9; at least one of 2 subsamplings must be of the whole shape"):
        frame_cache(make_furniture(2), "train", tmp_path, subsamplings=2, views=0.9)


WRONG = [{"subsamplings": 0}, {"workers": 0}, {"keep": 0.0}, {"keep": 1.5}, {"thinnest": 0.0}, {"thinnest": 2.0}]


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_settings_are_rejected(tmp_path, wrong):
    with pytest.raises(ValueError, match="at least 1, the others above 0 and at most 1"):
        frame_cache(make_furniture(2), "train", tmp_path, **wrong)
