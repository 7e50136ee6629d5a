"""ModelNet in each form in which it is distributed; incomplete copies and other datasets under its name."""

import os
import pickle
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.kinds import as_cloud, present

from qecnet.datasets import make_furniture, open_dataset
from qecnet.datasets.modelnet import OFFICIAL, TEN
from qecnet.formats import write
from qecnet.geometry import Mesh, PointCloud

OFF = b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"


@pytest.fixture(scope="module")
def packs() -> Path:
    folder = Path(os.environ.get("QECNET_SHARED", Path(__file__).parents[2].parent / "shared")) / "modelnet"
    if not folder.is_dir():
        pytest.skip(f"no shared ModelNet at {folder}; set QECNET_SHARED to the folder that has it")
    return folder


def names(split, count_of=lambda n: n, classes=TEN):
    """The official names of a split: train is numbered first."""
    for kind in classes:
        counts = OFFICIAL["modelnet40"][kind]
        start = 1 if split == "train" else counts["train"] + 1
        yield from ((kind, f"{kind}_{start + i:04d}") for i in range(count_of(counts[split])))


def write_zip(path, count_of=lambda n: n, classes=TEN):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ModelNet10/README.txt", b"0 0 0\n")
        for split in ("train", "test"):
            for kind, name in names(split, count_of, classes):
                archive.writestr(f"ModelNet10/{kind}/{split}/{name}.off", OFF)
        archive.writestr(f"__MACOSX/ModelNet10/{classes[0]}/train/._x.off", b"junk")
        archive.writestr(f"ModelNet10/{classes[0]}/.DS_Store", b"junk")
    return path


def write_tree(root, kinds=TEN, splits=("train", "test"), content=OFF):
    for kind in kinds:
        for split in splits:
            (root / kind / split).mkdir(parents=True)
            (root / kind / split / f"{kind}_0001.off").write_bytes(content)
    return root


def test_the_official_totals():
    totals = {
        name: [sum(c[s] for c in counts.values()) for s in ("train", "test")] for name, counts in OFFICIAL.items()
    }
    assert totals == {"modelnet10": [3991, 908], "modelnet40": [9843, 2468]}
    assert make_furniture(2).classes == TEN


def test_official_zip_is_recognised_and_complete(tmp_path):
    dataset = open_dataset("modelnet10", write_zip(tmp_path / "whatever.zip"))
    assert dataset.name == "modelnet10"
    assert dataset.classes == TEN
    assert dataset.notes == ()
    assert [(dataset.classes[i.label], i.name) for i in dataset.items("test")] == list(names("test"))
    assert len(dataset.items("train")[0].load_cloud(10)) == 10


def test_unzipped_dataset_is_the_same_for_any_enclosing_folder(tmp_path):
    path = write_zip(tmp_path / "z.zip", lambda n: 2)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "out")
    zipped = open_dataset("modelnet10", path)
    for folder in (tmp_path / "out", tmp_path / "out" / "ModelNet10"):
        dataset = open_dataset("modelnet10", folder)
        assert [i.name for i in dataset.items("train")] == [i.name for i in zipped.items("train")]


def test_missing_shapes_are_noted_and_the_others_are_usable(tmp_path):
    dataset = open_dataset("modelnet10", write_zip(tmp_path / "z.zip", lambda n: n - (n == 889)))
    (note,) = dataset.notes
    assert note.endswith("has 3,990 of the 3,991 train shapes of modelnet10; missing: 1 of chair")


def test_a_folder_under_another_name_is_not_compared_with_the_official_counts(tmp_path):
    dataset = open_dataset("some", write_tree(tmp_path, TEN[:4]))
    assert (dataset.name, dataset.notes) == ("some", ())


def test_any_format_in_the_official_layout_and_sparse_clouds_are_counted(tmp_path):
    corners = torch.rand(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mesh, cloud = Mesh(corners, torch.tensor([[0, 1, 2], [3, 4, 5]])), PointCloud(corners)
    for kind in TEN:
        for number, split in enumerate(("train", "train", "test")):
            path = tmp_path / kind / split / f"{kind}_{number:04d}.ply"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, cloud if number == 1 or (kind, split) == ("bed", "test") else mesh)
    dataset = open_dataset("modelnet10", tmp_path)
    assert isinstance(dataset.items("train")[0].load(), Mesh)
    assert isinstance(dataset.items("train")[1].load(), PointCloud)
    assert dataset.notes[0] == (
        f"{tmp_path}: 10 train and 1 test shapes are clouds (the sparsest has 9 points); the others are meshes"
    )
    assert "has 20 of the 3,991 train shapes" in dataset.notes[1]


def test_resampled_clouds_follow_the_lists_of_either_dataset(tmp_path):
    forty = tuple(OFFICIAL["modelnet40"])
    for which, classes in (("modelnet10", TEN), ("modelnet40", forty)):
        (tmp_path / f"{which}_shape_names.txt").write_text("\n".join(classes) + "\n")
        for split in ("train", "test"):
            listed = [name for _, name in names(split, lambda n: 1, classes)]
            (tmp_path / f"{which}_{split}.txt").write_text("\n".join(listed) + "\n")
    for split in ("train", "test"):
        for kind, name in names(split, lambda n: 1, forty):
            (tmp_path / kind).mkdir(exist_ok=True)
            (tmp_path / kind / f"{name}.txt").write_text("0.1,0.2,0.3,0,0,1\n0.4,0.5,0.6,1,0,0\n")
    for name, size in (("modelnet40", 40), ("modelnet10", 10)):
        dataset = open_dataset(name, tmp_path)
        assert (dataset.name, len(dataset.classes), len(dataset.items("test"))) == (name, size, size)
        assert present(as_cloud(dataset.items("train")[-1].load()).normals).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert {i.name for i in dataset.items("train")} == {name for _, name in names("train", lambda n: 1)}
    (tmp_path / "bathtub" / "bathtub_0001.txt").write_text("")
    with pytest.raises(
        ValueError, match=r"bathtub/bathtub_0001\.txt is empty, so the dataset was not unpacked completely"
    ):
        open_dataset("modelnet40", tmp_path)


@pytest.fixture
def hdf5(tmp_path):
    """Two files for training in PointNet's way, one for testing in the way of the packs' `unpack.py`."""
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py; pip install 'qecnet[modelnet]'")
    rng = np.random.default_rng(0)
    (tmp_path / "shape_names.txt").write_text("\n".join(TEN) + "\n")
    (tmp_path / "train_files.txt").write_text("data/far/away/ply_data_train0.h5\ndata/far/away/ply_data_train1.h5\n")
    (tmp_path / "test_files.txt").write_text("test0.h5\n")
    for name, real in (("ply_data_train0", None), ("ply_data_train1", None), ("test0", 7)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["data"] = rng.normal(size=(10, 16, 3)).astype(np.float32)
            file["label"] = np.arange(10, dtype=np.uint8)[:, None]
            if real is None:
                file["normal"] = np.tile(np.array([0, 0, 1], np.float32), (10, 16, 1))
            else:
                file["name"] = np.array([f"{c}_0500" for c in TEN], dtype=h5py.string_dtype())
                file["points"] = np.full(10, real, np.int32)
                file["data"][:, real:] = file["data"][:, : 16 - real] if real > 8 else 0
    return tmp_path


def test_both_kinds_of_hdf5_are_read(hdf5):
    dataset = open_dataset("modelnet10", hdf5)
    assert dataset.name == "modelnet10"
    assert (len(dataset.items("train")), len(dataset.items("test"))) == (20, 10)
    assert dataset.items("train")[11].name == "ply_data_train1_0001"
    assert as_cloud(dataset.items("train")[11].load()).normals is not None
    assert dataset.items("test")[2].name == "chair_0500"
    assert len(as_cloud(dataset.items("test")[2].load())) == 7
    sent = pickle.loads(pickle.dumps(dataset.items("test")[2]))
    assert torch.equal(as_cloud(sent.load()).points, as_cloud(dataset.items("test")[2].load()).points)


def test_lists_are_found_in_a_single_subfolder(hdf5, tmp_path_factory):
    around = tmp_path_factory.mktemp("around")
    hdf5.rename(around / "modelnet10_hdf5")
    (around / "__MACOSX").mkdir()
    assert len(open_dataset("modelnet10", around).items("train")) == 20


def test_hdf5_that_is_damaged_gives_a_one_sentence_error(hdf5):
    (hdf5 / "ply_data_train1.h5").write_bytes((hdf5 / "ply_data_train1.h5").read_bytes()[:500])
    with pytest.raises(ValueError, match=r"ply_data_train1\.h5: cannot be opened as HDF5"):
        open_dataset("modelnet10", hdf5)
    (hdf5 / "ply_data_train1.h5").unlink()
    with pytest.raises(ValueError, match=r"ply_data_train1\.h5"):
        open_dataset("modelnet10", hdf5)
    (hdf5 / "shape_names.txt").write_text("cup mug")
    with pytest.raises(ValueError, match=r"has the label 2, but shape_names\.txt has 2 classes"):
        open_dataset("modelnet10", hdf5)


def test_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    (tmp_path / "shape_names.txt").write_text("mug")
    (tmp_path / "train_files.txt").write_text("a.h5")
    with pytest.raises(ValueError, match=r"a\.h5: is an HDF5 file, which needs h5py; pip install"):
        open_dataset("mugs", tmp_path)
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as archive:
        archive.writestr("mug/train/a.drc", b"DRACO")
    with pytest.raises(ValueError, match=r"member mug/train/a\.drc .*, which needs DracoPy; pip install"):
        open_dataset("mugs", tmp_path / "pack.zip").items("train")[0].load()


def bad_paths(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.zip").write_text("not a zip")
    whole = write_zip(tmp_path / "whole.zip", lambda n: 1).read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "list.zip").write_bytes(whole.replace(b"PK\x01\x02", b"lost", 1))
    with zipfile.ZipFile(tmp_path / "h5.zip", "w") as archive:
        archive.writestr("modelnet40_ply_hdf5_2048/ply_data_train0.h5", b"x")
    with zipfile.ZipFile(tmp_path / "nothing.zip", "w") as archive:
        archive.writestr("README", b"x")
    write_tree(tmp_path / "five", TEN[:5])
    write_tree(tmp_path / "zero", content=b"")
    write_tree(tmp_path / "mugs", ("cup", "mug"))
    (tmp_path / "unsplit" / "chair").mkdir(parents=True)
    (tmp_path / "unsplit" / "chair" / "a.off").write_bytes(OFF)
    return {
        "not there": ("nowhere", "mugs", "there is no such folder or zip"),
        "empty": ("empty", "mugs", "is an empty folder"),
        "no zip": ("text.zip", "mugs", "is not a complete zip"),
        "half a zip": ("half.zip", "mugs", "is not a complete zip"),
        "zip with a damaged list": ("list.zip", "mugs", "is not a complete zip"),
        "zip of hdf5": ("h5.zip", "mugs", "unzip it and give the folder"),
        "zip of nothing": ("nothing.zip", "mugs", "holds no shapes"),
        "half unzipped": ("five", "modelnet10", "has no shapes of monitor, night_stand, sofa, table, toilet"),
        "empty files": ("zero", "mugs", "is empty, so the dataset was not unpacked completely"),
        "another dataset": ("mugs", "modelnet10", "is not modelnet10, which has no class cup, mug"),
        "the other modelnet": ("whole.zip", "modelnet40", "is modelnet10, not modelnet40"),
        "no official split": ("unsplit", "modelnet10", "no official split"),
    }


def test_wrong_path_is_named_in_one_sentence(tmp_path):
    for case, (path, name, says) in bad_paths(tmp_path).items():
        with pytest.raises(ValueError, match=says) as caught:
            open_dataset(name, tmp_path / path)
        assert str(tmp_path / path) in str(caught.value), case
        assert "\n" not in str(caught.value), case


@pytest.mark.parametrize("name", ["modelnet10", "modelnet40"])
def test_packs_are_complete_and_their_points_shuffled(packs, name):
    draco = pytest.importorskip("DracoPy", reason="the packs need DracoPy; pip install 'qecnet[modelnet]'")
    dataset = open_dataset(name, packs / f"{name}.zip")
    assert dataset.notes == ()
    item = next(i for i in dataset.items("train") if i.name == "chair_0007")
    points = as_cloud(item.load()).points
    assert points.norm(dim=-1).amax() == pytest.approx(1, abs=1e-3)
    with zipfile.ZipFile(packs / f"{name}.zip") as archive:
        member = "chair/train/chair_0007.drc"
        plain = np.asarray(draco.decode(archive.read(member)).points, np.float32)
    shuffled = np.random.default_rng(zlib.crc32(member.encode())).permutation(plain)
    assert torch.equal(points, PointCloud(torch.from_numpy(shuffled)).clean().points)
    # A leading tenth has the whole's spread, which a tenth of sorted points has not.
    tenth = len(points) // 10
    assert (points[:tenth].std(0) / points.std(0)).numpy() == pytest.approx(1, abs=0.15)


def test_the_shared_meshes_are_part_of_modelnet10(packs):
    dataset = open_dataset("modelnet10", packs / "meshes" / "ModelNet10")
    assert len(dataset.items("test")) == 50
    assert [note.split(": ")[1].split(";")[0] for note in dataset.notes] == [
        "has 0 of the 3,991 train shapes of modelnet10",
        "has 50 of the 908 test shapes of modelnet10",
    ]
    assert all(len(item.load_cloud(100)) == 100 for item in dataset.items("test")[::10])


def test_folder_of_packs_is_refused(packs):
    with pytest.raises(ValueError, match=r"modelnet10\.zip, modelnet40\.zip.*give the path of the one"):
        open_dataset("modelnet10", packs)
