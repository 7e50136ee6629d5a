"""Bulk runs as a user starts them: lists, results, resuming, shards, and bad input in one sentence each."""

import csv
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.formats import move_file, read_cloud, write

QEC = Path(sys.executable).with_name("qec")


def share_here(work, take, workers, timeout):
    """As the process pool does, in this process."""
    while (job := take()) is not None:
        yield job, work(job)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr("qecnet.workers.as_done", share_here)
    return lambda *arguments, **options: CliRunner().invoke(app, [str(a) for a in arguments], **options)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Twenty small clouds in two folders."""
    folder = tmp_path_factory.mktemp("shapes")
    (folder / "deep").mkdir()
    for number in range(20):
        cloud = make_shape(FURNITURE_CLASSES[number % 10], number).sample(300, torch.Generator().manual_seed(number))
        write(folder / ("deep" if number % 3 else ".") / f"{number:02d}.npy", cloud)
    return folder


@pytest.fixture
def library(shapes, tmp_path):
    """A copy of them, the working folder and the stamps included, and one file that is bad."""
    shutil.copytree(shapes, tmp_path / "shapes")
    (tmp_path / "shapes" / "bad.ply").write_text("ply\n")
    return tmp_path / "shapes"


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_results_are_written_and_a_second_run_does_nothing(run, library, tmp_path):
    first = run("classify", library, "-o", tmp_path / "r.jsonl")
    assert first.exit_code == 1
    assert first.stderr.startswith(f"qec: {library}/bad.ply: ")
    assert first.stderr.count("\n") == 1
    assert "20 done, 0 unchanged, 1 failed; " in first.stdout
    assert first.stdout.rstrip().endswith("files/s")
    rows = read_rows(tmp_path / "r.jsonl")
    assert [row["file"] for row in rows] == sorted(str(path) for path in library.rglob("*.[np]*"))
    assert ["error" in row for row in rows].count(True) == 1
    before = (tmp_path / "r.jsonl").read_bytes()
    again = run("classify", library, "-o", tmp_path / "r.jsonl")
    assert again.exit_code == 1
    assert "0 done, 20 unchanged, 1 failed" in again.stdout
    assert again.stderr == first.stderr + "note: 1 file failed before and was skipped; try again with --retry-failed\n"
    assert (tmp_path / "r.jsonl").read_bytes() == before


def test_changed_files_are_processed_again_and_failed_ones_on_request(run, library, tmp_path):
    run("classify", library, "-o", tmp_path / "r.jsonl")
    shutil.copy(library / "00.npy", library / "18.npy")
    shutil.copy(library / "00.npy", library / "new.npy")
    result = run("classify", library, "-o", tmp_path / "r.jsonl")
    assert "2 done, 19 unchanged, 1 failed" in result.stdout
    rows = {Path(row["file"]).name: row for row in read_rows(tmp_path / "r.jsonl")}
    assert rows["18.npy"]["scores"] == rows["new.npy"]["scores"] == rows["00.npy"]["scores"]
    retried = run("classify", library, "-o", tmp_path / "r.jsonl", "--retry-failed")
    assert retried.exit_code == 1
    assert "0 done, 21 unchanged, 1 failed" in retried.stdout
    assert "bad.ply" in retried.stderr


def run_process(*arguments, **options):
    """The command in a process of its own."""
    done = subprocess.run([QEC, *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    return Result(done.returncode, done.stdout, done.stderr)


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_files_are_read_from_a_list(run, library, tmp_path, source):
    paths = [library / "00.npy", library / "none.npy", library / "deep"]
    text = "".join(f"{path}\n" for path in paths) + "\n"
    (tmp_path / "list.txt").write_text(text)
    listed, start = (tmp_path / "list.txt", run) if source == "file" else ("-", run_process)
    done = start("classify", "--from", listed, "-o", tmp_path / "r.csv", "--workers", "1", input=text)
    assert done.exit_code == 1
    assert done.stderr == f"qec: {library}/none.npy: cannot be read (no such file or directory); correct the path\n"
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    assert len(rows) == 2 + len([*(library / "deep").iterdir()])
    assert rows[str(library / "none.npy")]["error"]


def test_listed_files_are_printed_without_results(run, library, tmp_path):
    (tmp_path / "list.txt").write_text(f"{library}/00.npy\n")
    result = run("classify", "--from", tmp_path / "list.txt", "--json")
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == [f"{library}/00.npy"]


def test_shards_are_joined_to_the_results_of_one_run(run, library, tmp_path):
    (tmp_path / "one").mkdir()
    run("classify", library, "-o", tmp_path / "one" / "r.csv")
    for number in (1, 2, 3):
        run("classify", library, "-o", tmp_path / "r.csv", "--shard", f"{number}/3")
    joined = run("merge", tmp_path / "r.csv")
    assert joined.exit_code == 0, joined.stderr
    assert "3 shards joined" in joined.stdout
    assert (tmp_path / "r.csv").read_bytes() == (tmp_path / "one" / "r.csv").read_bytes()
    assert "exists already; overwrite it with --force" in run("merge", tmp_path / "r.csv").stderr


def test_parquet_has_the_rows_of_json(run, library, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("r.parquet", "r.jsonl"):
        run("classify", library / "deep", "-o", tmp_path / name)
    table = parquet.read_table(tmp_path / "r.parquet").to_pylist()
    for cells, row in zip(table, read_rows(tmp_path / "r.jsonl"), strict=True):
        assert cells["pose"] == row["pose"]
        assert dict(cells["scores"]) == row["scores"]


def test_orient_writes_shapes_and_results_and_resumes(run, library, tmp_path):
    out, results = tmp_path / "out", tmp_path / "r.csv"
    arguments = ("orient", library, "-o", out, "--results", results, "--force-doubtful")
    first = run(*arguments)
    assert first.exit_code == 1
    assert "20 done, 0 unchanged, 1 failed" in first.stdout
    assert len(read_cloud(out / "deep" / "01.npy")) == 300
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*.npy")}
    os.utime(library / "00.npy", ns=(1, 1))
    (library / "new.npy").write_bytes((library / "03.npy").read_bytes())
    (out / "new.npy").write_text("another program's")
    again = run(*arguments)
    assert "1 done, 19 unchanged, 2 failed" in again.stdout
    assert f"qec: {out}/new.npy: exists already" in again.stderr
    assert (out / "new.npy").read_text() == "another program's"
    changed = {path for path in written if path.stat().st_mtime_ns != written[path]}
    assert changed == {out / "00.npy"}
    with results.open(newline="") as file:
        rows = {Path(row["file"]).name: row for row in csv.DictReader(file)}
    assert rows["01.npy"]["output"] == str(out / "deep" / "01.npy")


def test_full_disk_ends_orient_with_one_sentence_and_it_resumes(run, library, tmp_path, monkeypatch):
    arguments = ("orient", library, "-o", tmp_path / "out", "--results", tmp_path / "r.csv", "--force-doubtful")
    written = 0

    def fill_up(source, target, motion):
        nonlocal written
        if written == 17:
            raise OSError(f"{target}: cannot be written (no space left on device)") from OSError(errno.ENOSPC, "full")
        written += 1
        return move_file(source, target, motion)

    with monkeypatch.context() as patch:
        patch.setattr("qecnet.formats.move_file", fill_up)
        full = run(*arguments)
    assert full.exit_code == 1
    *bad, said = full.stderr.splitlines()
    assert "cannot be written (no space left on device)" in said
    assert all("bad.ply" in line for line in bad)
    again = run(*arguments)
    assert "5 done, 15 unchanged, 1 failed" in again.stdout
    assert len([*(tmp_path / "out").rglob("*.npy")]) == 20


def test_nothing_is_done_where_files_cannot_be_written(run, library, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    results = ("--results", tmp_path / "r.csv")
    for folder, options in ((Path("/proc/self/out"), results), (tmp_path / "file" / "out", results)):
        result = run("orient", library / "deep", "-o", folder, *options)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"qec: {folder}: cannot be written (")
        assert result.stderr.endswith("); name another folder with -o\n")
    monkeypatch.setattr("qecnet.models.Model.predict_points", None)  # nothing is predicted for nothing
    one = library / "deep" / "01.npy"
    for folder, why in (
        (tmp_path / "file" / "out", f"{tmp_path}/file is not a folder"),
        (Path("/proc/self"), "in /proc"),
    ):
        for arguments in (("orient", one), ("align", one, one)) if folder.is_dir() else (("orient", one),):
            refused = run(*arguments, "-o", folder / "a.npy")
            assert refused.exit_code == 1
            assert refused.stderr.startswith(f"qec: {folder}/a.npy: cannot be written (")
            assert why in refused.stderr


def test_doubtful_files_of_a_bulk_run_are_written_when_the_limit_is_lowered(run, library, tmp_path):
    arguments = ("orient", library / "deep", "-o", tmp_path / "out", "--results", tmp_path / "r.csv")
    first = run(*arguments, "--min-confidence", 1)
    assert first.exit_code == 1
    assert "lower --min-confidence or give --force-doubtful" in first.stderr
    again = run(*arguments, "--force-doubtful", "--retry-failed")
    assert again.exit_code == 0, again.stderr
    assert len([*(tmp_path / "out").iterdir()]) == len([*(library / "deep").iterdir()])


def test_oriented_files_of_a_list_keep_their_places(run, library, tmp_path, monkeypatch):
    monkeypatch.chdir(library)
    Path("list.txt").write_text(f"deep/01.npy\n{library}/00.npy\n")
    for options in ((), ("--results", tmp_path / "r.csv")):
        out = tmp_path / f"out{len(options)}"
        result = run("orient", "--from", "list.txt", "-o", out, "--force-doubtful", *options)
        assert result.exit_code == 0, result.stderr
        assert (out / "deep" / "01.npy").exists()
        assert (out / str(library)[1:] / "00.npy").exists()


def test_a_killed_run_resumes_to_the_same_results(run, library, shapes, tmp_path):
    command = [QEC, "classify", library, "-o", tmp_path / "r.csv", "--workers", "2"]
    for name in "abc":
        shutil.copytree(shapes, library / name)
    whole = tmp_path / "whole.csv"
    run("classify", library, "-o", whole)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    journal = tmp_path / "r.csv.journal"
    while not journal.exists() or journal.stat().st_size < 20_000:
        assert process.poll() is None, "it was done before it was killed"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "r.csv").exists()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "r.csv").read_bytes() == whole.read_bytes()


def test_an_interruption_writes_what_is_done(library, tmp_path):
    command = [QEC, "classify", *[library] * 2, "-o", tmp_path / "r.jsonl", "--workers", "1"]
    for number in range(40):
        (library / f"copy{number}").symlink_to(library)
        shutil.copy(library / "00.npy", library / f"copy{number}.npy")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("qec: ")  # the bad file is in the last batch but two
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("stopped: ")
    assert 0 < len(read_rows(tmp_path / "r.jsonl")) < 61


def test_an_index_of_listed_files_by_several_processes(run, library, tmp_path):
    (tmp_path / "list.txt").write_text(f"{library}/deep\n{library}/none.npy\n{tmp_path}/list.txt\n")
    result = run("index", "--from", tmp_path / "list.txt", "--library", library, "--workers", "2")
    assert result.exit_code == 1
    count = len([*(library / "deep").iterdir()])
    assert f"{count} shapes ({count} new or changed, 0 unchanged, 0 removed)" in result.stdout
    assert result.stderr.splitlines() == [
        f"qec: {library}/none.npy: cannot be read (no such file or directory); correct the path",
        f"qec: {tmp_path}/list.txt: is not below {library}; index it with another library",
    ]


def test_an_index_takes_patterns_and_standard_input(run, library):
    found = run("index", library / "deep" / "0*.npy", "--library", library)
    assert found.exit_code == 0, found.stderr
    count = len([*(library / "deep").glob("0*.npy")])
    assert f"{count} shapes ({count} new or changed, 0 unchanged, 0 removed); 0:00:" in found.stdout
    listed = run("index", "--from", "-", "--library", library, input=f"{library}/deep\n")
    total = len([*(library / "deep").iterdir()])
    assert f"{total} shapes ({total - count} new or changed, {count} unchanged, 0 removed)" in listed.stdout


def test_files_that_could_not_be_indexed_are_retried_on_request(run, library):
    for options, lines in (((), 1), ((), 2), (("--retry-failed",), 1)):
        result = run("index", library, *options)
        assert result.exit_code == 1
        assert "0 removed, 1 failed); " in result.stdout
        reason, *note = result.stderr.splitlines()
        assert reason.startswith(f"qec: {library}/bad.ply: ")
        assert note == ["note: 1 file failed before and was skipped; try again with --retry-failed"] * (lines - 1)


def test_shards_of_an_index_are_joined(run, library):
    whole = run("index", library, "--index", library.parent / "whole")
    assert whole.exit_code == 1
    for number in (1, 2):
        refused = run("merge", library / "qec-index")
        assert refused.exit_code == 1
        assert "qec-index" in refused.stderr
        run("index", library, "--shard", f"{number}/2")
    joined = run("merge", library / "qec-index")
    assert joined.exit_code == 0, joined.stderr
    assert joined.stdout == f"{library}/qec-index: 2 shards joined\n"
    search = "search", library / "00.npy", "--library", library, "--json", "-n", 100
    assert sorted(run(*search).stdout.splitlines()) == sorted(
        run(*search, "--index", library.parent / "whole").stdout.splitlines()
    )
    again = run("index", library)
    assert "20 shapes (0 new or changed, 20 unchanged, 0 removed, 1 failed)" in again.stdout
    assert again.stderr.endswith("\nnote: 1 file failed before and was skipped; try again with --retry-failed\n")
    assert "exists already; overwrite it with --force" in run("merge", library / "qec-index").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("{library}", "-o", "r.xlsx"),
            "r.xlsx: is not a supported type of results file; name it *.parquet, *.csv, *.jsonl",
        ),
        (("{library}", "-o", "no/r.csv"), "there is no folder"),
        (("{library}", "-o", "r.csv", "--json"), "give one of them"),
        (("{library}", "-o", "r.csv", "--shard", "4/3"), "4/3: is not a shard"),
        (("{library}", "--shard", "1/3"), "--shard needs a file of results; name it with -o results.csv"),
        (("--from", "none.txt", "-o", "r.csv"), "none.txt: cannot be read (no such file or directory)"),
        (("--from", "none.txt"), "none.txt: cannot be read (no such file or directory)"),
        (("-o", "r.csv"), "no files were given"),
        ((), "no files were given"),
        (("{library}", "-o", "existing.csv"), "existing.csv: exists already, without its journal"),
        (("{library}", "-o", "r.csv", "--ray", "nowhere"), "nowhere: is not the address of a Ray cluster"),
        (("{library}", "-o", "r.csv", "--ray", "127.0.0.1:1"), "127.0.0.1:1: no Ray cluster answers (connection"),
    ],
)
def test_wrong_options_give_a_one_sentence_error(run, library, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", sys)  # any module: the address is looked at first
    (tmp_path / "existing.csv").write_text("precious")
    result = run("classify", *(word.format(library=library) for word in arguments))
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert said in result.stderr
    assert (tmp_path / "existing.csv").read_text() == "precious"


def test_without_ray_one_sentence_names_the_extra(run, library, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run("classify", library, "-o", tmp_path / "r.csv", "--ray", "local")
    assert result.exit_code == 1
    assert result.stderr.startswith("qec: --ray needs ray, which cannot be imported (")
    assert result.stderr.endswith("); pip install 'qecnet[ray]'\n")


def test_results_of_another_model_are_refused_and_kept(run, library, tmp_path):
    run("classify", library / "deep", "-o", tmp_path / "r.csv")
    before = (tmp_path / "r.csv").read_bytes()
    result = run("classify", library, "-o", tmp_path / "r.csv", "--model", "modelnet40-paper")
    assert result.exit_code == 1
    assert "r.csv.journal: was made with other weights (modelnet10); choose another name" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert (tmp_path / "r.csv").read_bytes() == before


def test_folder_that_is_read_only_gives_a_one_sentence_error(run, library, tmp_path):
    place = tmp_path / "read-only"
    place.mkdir()
    place.chmod(0o500)
    if os.geteuid() == 0:  # whom permissions do not stop
        place = Path("/proc/self")
    result = run("classify", library, "-o", place / "r.csv")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"qec: {place / 'r.csv'}: cannot be written (")
    assert result.stderr.endswith(f" in {place}); choose another folder\n")


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit for another process, which Linux alone lets one do")
def test_full_disk_gives_a_one_sentence_error_and_the_run_resumes(run, library, tmp_path):
    command = [QEC, "classify", library, "-o", tmp_path / "r.csv", "--workers", "1"]

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (24_576, resource.RLIM_INFINITY))

    full = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert full.returncode == 1
    (line,) = [line for line in full.stderr.splitlines() if "bad.ply" not in line]
    assert "r.csv.journal: cannot be written (" in line
    assert not (tmp_path / "r.csv").exists()
    done = run(*command[1:])
    assert ", 1 failed" in done.stdout
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 22
