"""Results come in order, however many processes make them, and stopping leaves nobody behind."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch

from qecnet import workers
from qecnet.workers import Lost, as_done, in_order

PRIVATE: dict[str, int] = {}


def start(word):
    PRIVATE["word"] = word


def told(number, seconds=0.0):
    time.sleep(seconds)
    return PRIVATE["word"] * number, torch.get_num_threads(), os.getpid()


def failing(number):
    raise ValueError(f"job {number} is bad")


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_order_on_one_thread_with_given_arguments(workers):
    jobs = [(3, 0.2), (0,), (2,), (1,)]
    found = list(in_order(told, jobs, workers, start, ("ab",)))
    assert [word for word, *_ in found] == ["ababab", "", "abab", "ab"]
    assert {threads for _, threads, _ in found} == {1}
    assert (os.getpid() in {pid for *_, pid in found}) == (workers == 1)


def test_one_worker_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    with closing(in_order(told, [(1,), (2,)], 1, start, ("a",))) as results:
        next(results)
    assert torch.get_num_threads() == before


def test_error_is_raised_in_the_parent_and_jobs_are_taken_lazily():
    taken = []

    def jobs():
        for number in range(1000):
            taken.append(number)
            yield (number,)

    with pytest.raises(ValueError, match="job 0 is bad"):
        list(in_order(failing, jobs(), 2))
    assert len(taken) < 100


def doubled(number):
    if number == 3:
        os._exit(1)
    return 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_of_dead_processes_have_no_result(workers):
    jobs = iter(range(8))
    found = dict(as_done(doubled, lambda: next(jobs, None), workers))
    assert found == {number: Lost.DIED if number == 3 else 2 * number for number in range(8)}


def test_slow_consumer_loses_no_waiting_result():
    """The other worker has answered long ago; only a job without a result is late."""
    jobs, found = iter(range(5)), []
    for number, result in as_done(slowly, lambda: next(jobs, None), 2, timeout=1.0):
        found.append((number, result))
        time.sleep(1.5)
    assert sorted(found) == [(number, number) for number in range(5)]


def slowly(number):
    time.sleep(0.2)
    return number


def serve_or_die(pipe, function, serve=workers._serve):
    """Begin as a worker does; the starts whose numbers DYING has end before they are ready."""
    with Path(os.environ["STARTS"]).open("a") as file:
        file.write("x")
        number = file.tell()
    if str(number) in os.environ["DYING"]:
        os._exit(1)
    serve(pipe, function)


@pytest.mark.parametrize("dying", ["2", "23"])
def test_process_that_dies_before_it_is_ready_loses_no_job(monkeypatch, tmp_path, dying):
    """Job 3 ends the first process; those that take its place are killed, as for want of memory."""
    monkeypatch.setattr(workers, "_serve", serve_or_die)
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv("DYING", dying)
    jobs = iter(range(8))
    found = dict(as_done(doubled, lambda: next(jobs, None), 1))
    assert found == {number: Lost.DIED if number == 3 else 2 * number for number in range(8)}


@pytest.mark.parametrize("dying", ["1", "234"])
def test_processes_that_cannot_start_end_the_run_with_one_sentence(monkeypatch, tmp_path, dying):
    monkeypatch.setattr(workers, "_serve", serve_or_die)
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv("DYING", dying)
    jobs = iter(range(8))
    with pytest.raises(ChildProcessError, match="no worker process could start"):
        list(as_done(doubled, lambda: next(jobs, None), 1))
    assert (tmp_path / "starts").stat().st_size == len(dying) + (dying != "1")


def test_a_job_may_be_given_again_when_its_result_is_known():
    jobs, found = [1], []
    for number, result in as_done(doubled, lambda: jobs.pop() if jobs else None, 2):
        found.append(result)
        if number < 3:
            jobs.append(number + 1)
    assert found == [2, 4, Lost.DIED]


def test_process_of_a_pool_that_dies_gives_a_one_sentence_error():
    with pytest.raises(ChildProcessError, match="a worker process died; there may be too little memory"):
        list(in_order(doubled, [(number,) for number in range(8)], 2))


def test_error_in_a_process_is_raised_in_the_parent():
    jobs = iter(range(1000))
    with pytest.raises(ValueError, match=r"job . is bad"):
        list(as_done(failing, lambda: next(jobs, None), 2))
    assert next(jobs) < 10


SCRIPT = """
import threading
import torch
from qecnet.workers import in_order

KNOWN = []

def worked(size):
    return len(KNOWN), float((torch.ones(size, size) @ torch.ones(size, size)).sort().values.sum())

if __name__ == "__main__":
    torch.set_num_threads(2)
    KNOWN.append(worked(500))  # torch's threads are there, and wait
    print({known for known, _ in in_order(worked, [(500,)] * 8, 2)})
    end = threading.Event()
    threading.Thread(target=end.wait).start()
    print({known for known, _ in in_order(worked, [(500,)] * 8, 2)})
    end.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a worker is always a new process")
def test_workers_are_forks_of_a_parent_that_has_no_other_thread(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["{1}", "{0}"], ran.stderr


UNGUARDED = """
import sys
from qecnet import workers
from qecnet.datasets import frame_cache, make_furniture
from qecnet.geometry import PrepareConfig

workers._way_to_start = lambda: "spawn"  # as on every system but Linux
frame_cache(make_furniture(2), "train", sys.argv[1], PrepareConfig(points=100, frames=16), workers=2, progress=False)
"""


def test_script_without_a_main_guard_gets_an_error_and_does_not_hang(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    run = [sys.executable, "script.py", str(tmp_path / "frames")]
    ran = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"OSError: {tmp_path}")
    assert "no worker process could start; in a script, put the code" in last
    assert "bootstrapping" not in ran.stderr
