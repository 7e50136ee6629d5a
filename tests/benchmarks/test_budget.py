"""Training for a number of minutes: what is written, that it goes on where it was, and equal budgets."""

import csv
import subprocess
import sys

import pytest
from benchmarks.baselines import budget
from typer.testing import CliRunner

from qecnet.evaluation import EvaluatedRun

TINY = ("per_class=5", "points=200", "frames=32", "batch_size=8", "validation=0.2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("budget")


def run(folder, *names):
    given = [text for name in names for text in ("--only", name)]
    given += [text for setting in TINY for text in ("--set", setting)]
    given += ["--dataset", "shapes", "--minutes", "0.02", "--per-class", "1", "--workers", "1"]
    given += [text for name in ("out", "results", "cache") for text in (f"--{name}", str(folder / name))]
    return CliRunner().invoke(budget.app, given)


@pytest.fixture(scope="module")
def done(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "PROBE", 0.1)
        found = run(folder, "kd_network", "it_net", "pointnetlk")
    assert found.exit_code == 0, found.output
    return found.output


def test_every_budget_is_printed_and_kept(folder, done):
    with (folder / "results" / "baselines.csv").open() as file:
        rows = {row["network"]: row for row in csv.DictReader(file)}
    assert [*rows] == ["it_net", "kd_network", "pointnetlk"]
    for name, row in rows.items():
        assert f"{name}: {int(row['parameters']):,} parameters, {float(row['minutes']):.1f} of 0.02 minutes" in done
        assert float(row["milliseconds"]) > 0
        taken, epochs = float(row["minutes"]), int(row["epochs"])
        assert epochs == 1 or taken <= 0.02 + 0.005  # as printed
        assert epochs + 1 > int(0.02 / (taken / epochs + 0.005))  # no fewer than fit


def test_results_are_what_tables_read(folder, done):
    for name in ("kd-network", "it-net", "pointnetlk"):
        kept = EvaluatedRun(folder / "results" / f"shapes-{name}")
        assert kept.outcome is not None
        assert len(kept.log) == kept.outcome.epoch
        assert {result.protocol for result in kept} == {"paper", "strict"}
        assert (kept.pose_baselines is not None) is (name == "pointnetlk")
        assert not [*kept.folder.glob("*.safetensors")]
        assert kept.network in ("KDTreeNet", "IT-Net", "PointNetLK")


def test_what_is_finished_is_not_trained_again(folder, done):
    weights = folder / "out" / "shapes-kd-network" / "weights.safetensors"
    before = weights.stat().st_mtime_ns
    assert run(folder, "kd_network").exit_code == 0
    assert weights.stat().st_mtime_ns == before


def test_the_command_of_the_docs_runs_it():
    command = [sys.executable, "-m", "benchmarks.baselines.budget", "--only", "nonsense"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "nonsense is not a baseline" in " ".join(found.stderr.split())


def test_a_network_without_data_is_skipped_and_an_unknown_one_is_named(folder):
    found = CliRunner().invoke(budget.app, ["--only", "riconv", "--out", str(folder / "none")])
    assert found.exit_code == 0
    assert "riconv: skipped; give --modelnet40" in found.output
    found = CliRunner().invoke(budget.app, ["--only", "nonsense"])
    assert found.exit_code == 2
    assert "nonsense is not a baseline" in found.output.replace("\n", " ")
