"""Users' own folders and zips: classes, given splits and random splits."""

import zipfile
from collections import Counter

import pytest
import torch
from tests.kinds import as_cloud, as_mesh

from qecnet.datasets import open_dataset, stratified_split
from qecnet.formats import read, write
from qecnet.geometry import Mesh, PointCloud


def cloud(seed):
    return PointCloud(torch.rand(20, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def fill(root, paths):
    for seed, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        write(root / path, cloud(seed))


MUGS = [f"{kind}/{number}.npy" for kind in ("mug", "cup", "jar") for number in range(10)]


def test_splits_are_kept_and_every_format_is_read(tmp_path):
    fill(tmp_path, ["mug/train/a.ply", "mug/test/b.pcd", "cup/train/c.xyz", "cup/test/d.npz", "cup/val/e.csv"])
    dataset = open_dataset("mugs", tmp_path)
    assert dataset.name == "mugs"
    assert dataset.classes == ("cup", "mug")
    assert {s: [(i.label, i.name) for i in items] for s, items in dataset.splits.items()} == {
        "train": [(0, "c"), (1, "a")],
        "test": [(0, "d"), (1, "b")],
        "val": [(0, "e")],
    }
    assert dataset.notes == ()
    for items in dataset.splits.values():
        assert all(len(as_cloud(item.load())) == 20 for item in items)


def test_random_split_is_stratified_repeatable_and_noted(tmp_path):
    fill(tmp_path, MUGS)
    first = open_dataset("mugs", tmp_path)
    assert first == open_dataset("mugs", tmp_path)
    assert first.counts("test") == {"cup": 2, "jar": 2, "mug": 2}
    everything = Counter((i.label, i.name) for items in first.splits.values() for i in items)
    assert len(everything) == 30
    assert set(everything.values()) == {1}
    assert "6 random shapes are the test split" in first.notes[0]


def test_zip_and_wrapping_folders_hold_the_same_dataset(tmp_path):
    fill(tmp_path / "plain", MUGS)
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        for path in MUGS:
            archive.write(tmp_path / "plain" / path, f"around/all/{path}")
            archive.writestr(f"__MACOSX/around/all/{path}", b"resource fork")
        archive.writestr("around/README.txt", b"1 2 3")
    plain, zipped = open_dataset("mugs", tmp_path / "plain"), open_dataset("mugs", tmp_path / "plain.zip")
    assert plain.classes == zipped.classes
    for split in ("train", "test"):
        assert [(i.label, i.name) for i in plain.items(split)] == [(i.label, i.name) for i in zipped.items(split)]
        for a, b in zip(plain.items(split), zipped.items(split), strict=True):
            assert torch.equal(as_cloud(a.load()).points, as_cloud(b.load()).points)


def test_mesh_in_a_zip_is_what_read_gives(tmp_path):
    corners = torch.rand(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mesh = Mesh(corners, torch.tensor([[0, 1, 2], [3, 4, 5]]))
    write(tmp_path / "a.off", mesh)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "a.off", "thing/train/a.off")
    item = open_dataset("mugs", tmp_path / "all.zip").items("train")[0]
    direct, zipped = as_mesh(read(tmp_path / "a.off")), as_mesh(item.load())
    assert torch.equal(direct.vertices, zipped.vertices)
    assert torch.equal(direct.faces, zipped.faces)
    assert torch.equal(item.load_cloud(50).points, item.load_cloud(50).points)
    assert len(item.load_cloud(50, generator=3)) == 50


def test_fingerprint_depends_on_content_and_not_on_location(tmp_path):
    fill(tmp_path / "a", ["mug/train/x.npy", "mug/test/y.npy"])
    before = open_dataset("mugs", tmp_path / "a").fingerprint("train")
    (tmp_path / "a").rename(tmp_path / "b")
    assert open_dataset("mugs", tmp_path / "b").fingerprint("train") == before
    write(tmp_path / "b/mug/train/x.npy", PointCloud(torch.ones(5, 3)))
    assert open_dataset("mugs", tmp_path / "b").fingerprint("train") != before


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["train/mug/a.npy", "test/mug/b.npy"], "train or test where classes should be"),
        (["a.npy", "b.npy"], "no shapes in folders by class"),
        (["mug/a.npy", "cup/deep/b.npy"], "deeper than the rest"),
    ],
)
def test_other_layouts_are_refused_in_one_sentence(tmp_path, paths, says):
    fill(tmp_path, paths)
    with pytest.raises(ValueError, match=says) as caught:
        open_dataset("mugs", tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_file_is_named_when_it_is_loaded(tmp_path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("mug/train/cut.off", b"OFF\n3 1 0\n0 0 0\n")
    with pytest.raises(ValueError, match=r"all\.zip: its member mug/train/cut\.off .*truncated"):
        open_dataset("mugs", tmp_path / "all.zip").items("train")[0].load()


def test_member_that_cannot_be_unpacked_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("mug/train/a.off", b"OFF\n0 0 0\n")
    data = bytearray((tmp_path / "all.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 10] = 9  # the method Deflate64, which Windows uses for large files
    (tmp_path / "all.zip").write_bytes(data)
    with pytest.raises(ValueError, match=r"all\.zip: its member mug/train/a\.off cannot be unpacked"):
        open_dataset("mugs", tmp_path / "all.zip").items("train")[0].load()


def test_missing_split_is_refused_in_one_sentence(tmp_path):
    fill(tmp_path, ["mug/train/a.npy"])
    with pytest.raises(ValueError, match="no shapes in the split test; it has train"):
        open_dataset("mugs", tmp_path).items("test")


def test_stratified_split_holds_out_a_share_of_each_class_and_never_all_of_it():
    labels = [0] * 100 + [1] * 10 + [2] * 2 + [3]
    kept, held = stratified_split(labels, 0.3, seed=5)
    assert sorted(kept + held) == list(range(113))
    assert Counter(labels[i] for i in held) == {0: 30, 1: 3, 2: 1}
    assert stratified_split(labels, 0.3, seed=5) == (kept, held)
    assert stratified_split(labels, 0.3, seed=6) != (kept, held)
