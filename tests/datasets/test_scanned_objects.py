"""Google Scanned Objects: classes are categories, and the split follows from the hash of the name."""

import hashlib

import pytest
from tests.kinds import as_mesh

from qecnet.datasets import open_dataset

NAMES = [f"Thing_{number}" for number in range(20)]


def make_folder(root):
    for name in NAMES:
        (root / name).mkdir(parents=True)
        (root / name / "model.obj").write_text(
            "mtllib material.mtl\nv 0 0 0\nv 1 0 0\nv 0 0 1\nvt 0 0\nusemtl texture\nf 1/1 2/1 3/1\n"
        )
        (root / name / "model_collision_0.obj").write_text("v 0 0 0\n")
        (root / name / "texture.png").write_bytes(b"\x89PNG")
    return root


def test_objects_are_split_by_the_hash_of_their_names(tmp_path):
    dataset = open_dataset("scanned_objects", make_folder(tmp_path))
    assert dataset.name == "scanned_objects"
    train, test = ([item.name for item in dataset.items(split)] for split in ("train", "test"))
    assert sorted(train + test) == sorted(NAMES)
    assert all(int(hashlib.sha256(name.encode()).hexdigest()[0], 16) < 8 for name in train)
    assert all(int(hashlib.sha256(name.encode()).hexdigest()[0], 16) >= 8 for name in test)


def test_classes_are_categories_and_small_ones_are_merged(tmp_path):
    folder = make_folder(tmp_path)
    known = {"ASICS_GEL1140V_WhiteBlackSilver": "Shoe", "Android_Lego": "others"}
    for name in known:
        (folder / name).mkdir()
        (folder / name / "model.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 0 1\nf 1 2 3\n")
    dataset = open_dataset("scanned_objects", folder)
    items = [item for split in ("train", "test") for item in dataset.items(split)]
    assert {item.name: dataset.classes[item.label] for item in items} == known | dict.fromkeys(NAMES, "no category")


def test_only_the_geometry_is_read(tmp_path):
    mesh = as_mesh(open_dataset("scanned_objects", make_folder(tmp_path)).items("train")[0].load())
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert mesh.faces.tolist() == [[0, 1, 2]]


def test_another_folder_is_refused(tmp_path):
    (tmp_path / "mug").mkdir()
    with pytest.raises(ValueError, match=r"holds no <name>/model\.obj"):
        open_dataset("scanned_objects", tmp_path)
