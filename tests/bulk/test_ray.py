"""On a real Ray cluster: every file is answered once, whatever dies, and as one process answers it."""

import socket
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from qecnet.bulk import CannotWrite, answer_files, connection, share_on_ray
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.formats import write
from qecnet.models import Failure

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
QEC = Path(sys.executable).with_name("qec")


@pytest.fixture
def cluster():
    """A cluster whose head has one core, on this machine."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def add_node(cluster):
    """A second node on this machine. A client that connects now may choose either."""
    return cluster.add_node(num_cpus=1, object_store_memory=100_000_000)


def make_work(seconds):
    """Where each file was done; one that is called poison kills its process."""

    def work(files):
        import os
        import time

        import ray

        time.sleep(seconds * len(files))
        if any("poison" in file for file in files):
            os._exit(139)
        return [ray.get_runtime_context().get_node_id() for _ in files]

    return work


def test_a_node_joins_and_is_killed_and_every_file_is_answered_once(cluster):
    given: list[str] = []
    found: list[tuple[str, str | Failure]] = []
    nodes: dict[str, Any] = {}

    def names():
        """A few hundred files, and more until the second node has worked and was killed."""
        while len(given) < (nodes.get("killed") or 0) + 400 or not nodes.get("killed"):
            assert len(given) < 20_000, "the second node was never used"
            given.append("poison.ply" if len(given) == 123 else f"{len(given)}.ply")
            yield given[-1]

    share = partial(share_on_ray, address=cluster.address)
    for file, result in chain.from_iterable(answer_files(make_work(0.01), names(), share)):
        found.append((file, result))
        if not nodes:
            nodes["second"] = add_node(cluster)
        elif result == nodes["second"].node_id and not nodes.get("killed"):
            cluster.remove_node(nodes["second"], allow_graceful=False)
            nodes["killed"] = len(found)
    assert len(found) > nodes["killed"] + 100, "it went on without the node"
    assert Counter(file for file, _ in found) == Counter(given)
    assert [file for file, result in found if isinstance(result, Failure)] == ["poison.ply"]


def test_another_server_at_the_address_gives_a_one_sentence_error(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ValueError, match=rf"{address}: no Ray cluster answers .*; start one with ray start --head"):
            next(share_on_ray(make_work(0.01), lambda: None, address))


def test_a_file_that_takes_too_long_fails_alone(cluster):
    def work(files):
        import time

        time.sleep(1000 if "endless.ply" in files else 0.01)
        return [len(file) for file in files]

    names = [*(f"{number}.ply" for number in range(40)), "endless.ply"]
    share = partial(share_on_ray, address=cluster.address, timeout=3.0)
    found = dict(chain.from_iterable(answer_files(work, names, share)))
    assert [name for name, result in found.items() if isinstance(result, Failure)] == ["endless.ply"]
    assert {*found} == {*names}


def test_full_disk_ends_the_run_with_one_sentence(cluster):
    def work(files):
        raise CannotWrite("out/a.ply: cannot be written (no space left on device)")

    with pytest.raises(OSError, match=r"^out/a.ply: cannot be written \(no space left on device\)$"):
        [*answer_files(work, ["a.ply"], partial(share_on_ray, address=cluster.address))]


def test_the_answers_of_a_cluster_are_those_of_one_process_bit_for_bit(cluster, tmp_path):
    add_node(cluster)
    (tmp_path / "shapes").mkdir()
    for number in range(40):
        cloud = make_shape(FURNITURE_CLASSES[number % 10], number).sample(400, torch.Generator().manual_seed(number))
        write(tmp_path / "shapes" / f"{number:02d}.npy", cloud)
    (tmp_path / "shapes" / "bad.ply").write_text("ply\n")
    results = {}
    for name, options in (
        ("one", ["--workers", "1"]),
        ("ray", ["--ray", cluster.address]),
        ("local", ["--ray", "local"]),
    ):
        path = tmp_path / f"{name}.jsonl"
        command = [
            QEC,
            "classify",
            "shapes",
            "-o",
            path,
            *options,
        ]  # a path that is relative, and not to where Ray began
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        assert "40 done, 0 unchanged, 1 failed" in done.stdout
        assert "RAY_" not in done.stderr, "Ray's own messages"
        results[name] = path.read_bytes()
    assert results["ray"] == results["one"]
    assert results["local"] == results["one"]
