"""Files are written whole or not at all, and a folder is one process's alone."""

import os
import stat
import subprocess
import sys
from collections import Counter

import pytest
import torch

from qecnet.files import alone_in, read_tensors, replace_when_done, write_tensors, write_whole


@pytest.mark.parametrize("parent", ["absent", "file"])
def test_missing_folder_gives_a_one_sentence_error(tmp_path, parent):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=rf"{parent}/c: cannot be written \(no.* directory\); the previous file"):
        write_whole(tmp_path / parent / "c", b"")


def test_missing_folder_is_detected_before_the_block_runs(tmp_path):
    path = tmp_path / "absent" / "c"
    with (
        pytest.raises(OSError, match=r"absent/c: cannot be written \(no such file or directory\)"),
        replace_when_done(path),
    ):
        pytest.fail("the block must not run")


def test_failed_write_keeps_the_old_content(tmp_path, monkeypatch):
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


def test_tensors_are_read_back_with_their_metadata(tmp_path):
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


def test_read_is_consistent_while_the_file_is_replaced(tmp_path):
    path, versions = tmp_path / "t", [tmp_path / str(number) for number in range(3)]
    for number, version in enumerate(versions):
        tensors = {"a": torch.full((1000,), float(number)), "b": torch.tensor(float(number))}
        write_tensors(version, tensors, {"number": number, "filling": "x" * 100 * number})
    write_whole(path, versions[0].read_bytes())
    writer = subprocess.Popen([sys.executable, "-c", REPLACING, path, *versions])
    try:
        seen: Counter[int] = Counter()
        while len(seen) < len(versions) or sum(seen.values()) < 3000:
            assert writer.poll() is None
            tensors, about = read_tensors(path)
            assert all((tensor == about["number"]).all() for tensor in tensors.values())
            seen[about["number"]] += 1
    finally:
        writer.kill()
        writer.wait()


def test_folder_lock_is_exclusive(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    with alone_in(tmp_path, wait=False):
        with pytest.raises(BlockingIOError), alone_in(tmp_path, wait=False):
            pass
        with alone_in(tmp_path.parent, wait=False):
            pass
    with alone_in(tmp_path, wait=False):
        pass


def test_a_planted_link_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr("qecnet.files.secrets.token_hex", lambda size: "guessed")
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    planted = tmp_path / ".c-guessed.txt"
    planted.symlink_to(other)
    with pytest.raises(OSError, match=r"c\.txt: cannot be written \(file exists\)"):
        write_whole(tmp_path / "c.txt", b"new")
    assert other.read_bytes() == b"kept"
    assert planted.is_symlink(), "what this call did not create it does not remove"
    assert not (tmp_path / "c.txt").exists()


def test_an_existing_file_at_the_temporary_name_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr("qecnet.files.secrets.token_hex", lambda size: "guessed")
    (tmp_path / ".c-guessed.txt").write_bytes(b"kept")
    with (
        pytest.raises(OSError, match=r"c\.txt: cannot be written \(file exists\)"),
        replace_when_done(tmp_path / "c.txt"),
    ):
        pytest.fail("the block must not run")
    assert (tmp_path / ".c-guessed.txt").read_bytes() == b"kept"


def test_a_link_is_replaced_and_its_target_is_kept(tmp_path):
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "c").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "c", b"new")
    assert not (tmp_path / "c").is_symlink()
    assert (tmp_path / "c").read_bytes() == b"new"
    assert (tmp_path / "target").read_bytes() == b"kept"


@pytest.mark.skipif(os.name != "posix", reason="this system has no such permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_replaced_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "c"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="this system has no such permissions")
def test_a_new_file_has_the_permissions_that_the_umask_allows(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "c", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="this system has no such permissions")
def test_a_private_file_is_never_readable_by_others(tmp_path):
    with replace_when_done(tmp_path / "c", 0o600) as aside:
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o600


def test_failed_block_leaves_no_file(tmp_path):
    def fail():
        with replace_when_done(tmp_path / "c.txt") as aside:
            aside.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not [*tmp_path.iterdir()]


def test_a_file_whose_metadata_is_null_is_refused(tmp_path):
    header = b'{"__metadata__": null}'
    path = tmp_path / "weights.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match=r"weights\.safetensors: is damaged, or was not written by qecnet"):
        read_tensors(path)
