"""Every file is answered exactly once, whatever happens to the workers."""

import os
import signal
import time
from collections import Counter
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from qecnet.bulk import Work, answer_files, share_on_ray
from qecnet.bulk.cluster import _LOSSES, _Actors
from qecnet.models import BATCH, Failure
from qecnet.workers import Lost, as_done


def name_lengths(files):
    return [len(file) for file in files]


def killed_by_poison(files):
    if any("poison" in file for file in files):
        os.kill(os.getpid(), signal.SIGKILL)
    return name_lengths(files)


def stopped_by_endless(files):
    if any("endless" in file for file in files):
        time.sleep(1000)
    return name_lengths(files)


def share_here(work, take, lose=lambda job: False):
    """One job after another in this process; `lose` says which jobs a worker dies of."""
    while (job := take()) is not None:
        yield job, Lost.DIED if lose(job) else work(job)


def answer_each(work, files, share):
    """The results of `answer_files` one by one."""
    return chain.from_iterable(answer_files(work, files, share))


def make_names(count):
    return [f"{number}.ply" for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, BATCH, 3 * BATCH + 5])
def test_each_file_is_answered_once(count):
    names = make_names(count)
    found = [*answer_each(name_lengths, names, share_here)]
    assert found == [(name, len(name)) for name in names]


def test_files_are_taken_as_they_are_needed():
    names = iter(make_names(100 * BATCH))
    results = answer_each(name_lengths, names, share_here)
    next(results)
    assert next(names) == f"{BATCH}.ply"


def test_file_that_kills_its_worker_fails_alone():
    names = [*make_names(40), "poison.ply", *make_names(60)[40:]]
    found = dict(answer_each(name_lengths, names, partial(share_here, lose=lambda job: "poison.ply" in job)))
    assert {*found} == {*names}
    failure = found.pop("poison.ply")
    assert isinstance(failure, Failure)
    assert failure.error.startswith("poison.ply: ended the process that read it, 3 times")
    assert all(found[name] == len(name) for name in found)


def test_files_of_a_lost_machine_are_retried():
    """Each job is lost once, in a batch and then alone."""
    lost: Counter[tuple[str, ...]] = Counter()

    def lose(job):
        lost[job] += 1
        return lost[job] == 1

    names = make_names(2 * BATCH)
    found = [*answer_each(name_lengths, names, partial(share_here, lose=lose))]
    assert sorted(found) == sorted((name, len(name)) for name in names)


def test_a_process_that_is_killed_loses_no_other_answer():
    names = [*make_names(2 * BATCH), "poison.ply"]
    found = [*answer_each(killed_by_poison, names, partial(as_done, workers=2))]
    assert sorted(name for name, _ in found) == sorted(names)
    assert [name for name, result in found if isinstance(result, Failure)] == ["poison.ply"]


def test_a_file_that_takes_too_long_loses_no_other_answer():
    names = [*make_names(BATCH), "endless.ply", *make_names(BATCH + 3)[BATCH:]]
    share = partial(as_done, workers=2, timeout=0.5)
    found = [*answer_each(stopped_by_endless, names, share)]
    assert sorted(name for name, _ in found) == sorted(names)
    (failure,) = [result for _, result in found if isinstance(result, Failure)]
    assert failure.error.startswith("endless.ply: takes longer than a file may; allow more with --timeout")


def test_bug_in_a_reader_fails_one_file():
    def predict_batch(files):
        if "odd.ply" in files:
            raise ZeroDivisionError("division by zero")
        return [SimpleNamespace(name=file) for file in files]

    model: Any = SimpleNamespace(predict_batch=predict_batch)
    first, odd, last = Work[str](model, lambda answer: answer.name)(("a.ply", "odd.ply", "b.ply"))
    assert (first, last) == ("a.ply", "b.ply")
    assert isinstance(odd, Failure)
    assert odd.error == "odd.ply: failed (ZeroDivisionError: division by zero); please report this file"


def make_ray(get):
    """What the workers of a cluster use of Ray, with its kinds of errors."""
    base = type("RayError", (Exception,), {})
    kinds = {name: type(name, (base,), {}) for name in ("ActorDiedError", "RayTaskError", *_LOSSES)} | {
        "RayError": base
    }
    return SimpleNamespace(
        put=lambda work: work,
        remote=lambda **options: lambda kind: kind,
        get=get,
        kill=lambda actor: None,
        exceptions=SimpleNamespace(**kinds),
    )


def test_node_of_a_cluster_that_has_another_version_gives_a_one_sentence_error():
    actors = _Actors(make_ray(lambda versions: versions), name_lengths, None)
    actors.starting["qecnet 0.1"] = None
    said = "a node of the Ray cluster has qecnet 0.1, this machine qecnet .* operators; install the same on all nodes"
    with pytest.raises(ValueError, match=said):
        actors._welcome("qecnet 0.1")


@pytest.mark.parametrize("name", ["RayActorError", "OutOfMemoryError", "WorkerCrashedError", "NodeDiedError"])
def test_worker_killed_by_ray_loses_only_its_job(name):
    def get(reference):
        raise getattr(ray.exceptions, name)

    ray = make_ray(get)
    actors = _Actors(ray, name_lengths, None)
    actors.busy["reference"] = "actor", ("a.ply", "b.ply"), 0.0
    assert actors._finish("reference") == (("a.ply", "b.ply"), Lost.DIED)
    actors.starting["reference"] = "actor"
    actors._welcome("reference")
    assert (actors.idle, actors.busy, actors.starting) == ([], {}, {}), "another worker takes its place"


def test_cluster_that_fails_gives_a_one_sentence_error(monkeypatch):
    def fail():
        raise ray.exceptions.RayError("The head does not answer. More about it.")

    ray, left = make_ray(None), []
    ray.cluster_resources, ray.shutdown = fail, lambda: left.append(True)
    monkeypatch.setattr("qecnet.bulk.cluster.connect", lambda address, workers: ray)
    said = (
        r"^head:6379: the Ray cluster failed \(The head does not answer\); finished work is kept; run the same command"
    )
    with pytest.raises(OSError, match=said):
        next(share_on_ray(name_lengths, lambda: None, "head:6379"))
    assert left, "Ray is left in any case"
