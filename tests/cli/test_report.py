"""`qec report` as a user runs it: where files go, what is in the way, and every kind of bad input."""

import shutil

import pytest
from tests.evaluation.synthetic import make_run, pose_baselines
from typer.testing import CliRunner

from qecnet.cli.main import app
from qecnet.evaluation import write_result


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", ("classification", "equivariance"), ("strict",))


@pytest.fixture
def run(evaluated, tmp_path):
    return shutil.copytree(evaluated, tmp_path / "run")


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(tmp_path):
    """The one sentence with which a report is refused; nothing may have been written."""

    def refuse(*arguments):
        before = contents(tmp_path)
        result = report(*arguments)
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith("qec: ")
        assert result.stderr.count("\n") == 1
        assert contents(tmp_path) == before
        return result.stderr.strip()

    return refuse


def test_page_and_tables_go_to_the_evaluation(run):
    before = set(contents(run))
    result = report(run)
    assert result.exit_code == 0, result.output
    new = {path.name for path in set(contents(run)) - before}
    assert {"report.html", "table1-classification.csv", "classes.csv", "equivariance.csv", "training.csv"} <= new
    assert str(run / "evaluation" / "report.html") in result.stdout


def test_the_page_is_written_to_the_given_path(run, tmp_path):
    assert report(run, "-o", tmp_path / "page.html").exit_code == 0
    assert (tmp_path / "page.html").read_bytes().startswith(b"<!doctype html>")
    assert not (run / "evaluation" / "report.html").exists()
    assert (run / "evaluation" / "classes.csv").exists()


def test_files_that_exist_need_force(run, tmp_path, refused):
    assert report(run).exit_code == 0
    assert "exists already; name another file, or overwrite it with --force" in refused(run)
    assert ".csv: exists already" in refused(run, "-o", tmp_path / "page.html")
    assert report(run, "--force").exit_code == 0


def test_other_runs_are_shown_for_comparison(run, tmp_path):
    for name in ("one", "two"):
        make_run(tmp_path / name, ("classification",), ("strict",), config="dgcnn", seed=1)
    (tmp_path / "poses").mkdir()
    write_result(tmp_path / "poses", pose_baselines())
    others = [part for name in ("one", "two", "poses") for part in ("--compare", tmp_path / name)]
    result = report(run, *others)
    assert result.exit_code == 0, result.output
    rows = (run / "evaluation" / "table1-classification.csv").read_text()
    assert "DGCNN [one]" in rows
    assert "DGCNN [two]" in rows
    assert (run / "evaluation" / "pose-baselines-category-level.csv").exists()


def test_folders_that_are_not_runs_are_refused(run, tmp_path, refused):
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path / 'nowhere'}: there is no such folder" in refused(tmp_path / "nowhere")
    assert "is not the folder of a run (no settings.json)" in refused(tmp_path / "empty")
    assert "there is no such folder" in refused(run / "settings.json")
    assert "is not the folder of a run" in refused(run, "--compare", tmp_path / "empty")
    assert "there is no such folder" in refused(run, "--compare", tmp_path / "nowhere")


def test_a_run_that_was_not_evaluated_is_refused(run, refused):
    shutil.rmtree(run / "evaluation")
    said = refused(run)
    assert "nothing has been measured yet" in said
    assert f"qec evaluate classification {run} --data PATH --protocol strict" in said


@pytest.mark.parametrize("name", ["settings.json", "log.jsonl", "evaluation/classification-strict.json"])
def test_a_damaged_file_is_named(run, name, refused):
    (run / name).write_text('{"what": "classi')
    assert f"{run / name}: is damaged" in refused(run)


def test_outputs_of_another_kind_are_refused(run, tmp_path, refused):
    assert "name it *.html" in refused(run, "-o", tmp_path / "page.pdf")
    assert "there is no folder" in refused(run, "-o", tmp_path / "nowhere" / "page.html")
    (tmp_path / "page.html").mkdir()
    assert "is a folder" in refused(run, "-o", tmp_path / "page.html")
