"""Files are written whole or not at all, and a folder is one process's alone."""

import os
import subprocess
import sys
from collections import Counter

import pytest
import torch

from qecnet.files import alone_in, read_tensors, write_tensors, write_whole


@pytest.mark.parametrize("parent", ["absent", "file"])
def test_a_folder_that_is_not_there_is_one_sentence(tmp_path, parent):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=rf"{parent}/c: cannot be written \(no.* directory\); the previous file"):
        write_whole(tmp_path / parent / "c", b"")


def test_what_fails_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    write_whole(tmp_path / "c", b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"c: cannot be written \(no space left on device\)"):
            write_whole(tmp_path / "c", b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("c", b"old")]


def test_a_system_that_cannot_sync_folders_can_write(tmp_path, monkeypatch):
    open_file = os.open

    def refused(path, *rest, **more):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied")
        return open_file(path, *rest, **more)

    monkeypatch.setattr(os, "open", refused)
    write_whole(tmp_path / "c", b"new")
    assert (tmp_path / "c").read_bytes() == b"new"


def test_tensors_come_back_with_what_was_said_of_them(tmp_path):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor(7)}
    write_tensors(tmp_path / "t", tensors, {"classes": ["cup", "mug"]})
    found, about = read_tensors(tmp_path / "t")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert about == {"classes": ["cup", "mug"]}
    with pytest.raises(FileNotFoundError, match="absent: does not exist"):
        read_tensors(tmp_path / "absent")


REPLACING = """
import itertools, os, sys
contents = [open(path, "rb").read() for path in sys.argv[2:]]
for content in itertools.cycle(contents):
    with open(sys.argv[1] + ".part", "wb") as file:
        file.write(content)
    os.replace(sys.argv[1] + ".part", sys.argv[1])
"""


def test_what_is_read_is_of_one_file_while_others_take_its_place(tmp_path):
    path, versions = tmp_path / "t", [tmp_path / str(number) for number in range(3)]
    for number, version in enumerate(versions):
        tensors = {"a": torch.full((1000,), float(number)), "b": torch.tensor(float(number))}
        write_tensors(version, tensors, {"number": number, "filling": "x" * 100 * number})
    write_whole(path, versions[0].read_bytes())
    writer = subprocess.Popen([sys.executable, "-c", REPLACING, path, *versions])
    try:
        seen = Counter()
        while len(seen) < len(versions) or sum(seen.values()) < 3000:
            assert writer.poll() is None
            tensors, about = read_tensors(path)
            assert all((tensor == about["number"]).all() for tensor in tensors.values())
            seen[about["number"]] += 1
    finally:
        writer.kill()
        writer.wait()


def test_a_folder_is_one_holders_alone_until_it_leaves(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    with alone_in(tmp_path, wait=False):
        with pytest.raises(BlockingIOError), alone_in(tmp_path, wait=False):
            pass
        with alone_in(tmp_path.parent, wait=False):
            pass
    with alone_in(tmp_path, wait=False):
        pass
