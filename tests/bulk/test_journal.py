"""A journal keeps what was committed, knows what has changed, and belongs to one run."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from qecnet.bulk import Journal, Origin, Progress, do_pending
from qecnet.models import Failure

ORIGIN = Origin("classify", "modelnet10", "abc", '{"seed": 0}', {"label": "text"})


@pytest.fixture
def files(tmp_path):
    """Three files, by path."""
    for name in "abc":
        (tmp_path / name).write_text(name)
    return [str(tmp_path / name) for name in "abc"]


@pytest.fixture
def open_journal(tmp_path):
    """Open the journal; what was open before is closed without a commit, as by a kill."""
    opened: list[Journal] = []

    def open_it(origin=ORIGIN):
        for journal in opened:
            journal.close()
        opened.append(Journal(tmp_path / "results.csv.journal", origin))
        return opened[-1]

    yield open_it
    opened[-1].close()


def fail(failure):
    pytest.fail(failure.error)


def plan(journal, files, fail=fail, **options):
    counts = journal.plan(files, fail, **options)
    return counts.unchanged, counts.failed_before, counts.missing, counts.pending


def test_run_resumes_after_the_last_commit(open_journal, files):
    journal = open_journal()
    assert plan(journal, files) == (0, 0, 0, 3)
    journal.record(files[0], {"label": "chair"})
    journal.commit()
    journal.record(files[1], {"label": "lost"})
    journal = open_journal()
    assert plan(journal, files) == (1, 0, 0, 2)
    assert [*journal.pending()] == files[1:]
    assert [row for _, _, row in journal.rows()] == [{"file": files[0], "label": "chair"}]


def test_changed_files_are_processed_again(open_journal, files):
    journal = open_journal()
    plan(journal, files)
    for file in files:
        journal.record(file, {"label": "chair"})
    os.utime(files[1], ns=(1, 1))
    assert plan(journal, files) == (2, 0, 0, 1)
    assert [*journal.pending()] == [files[1]]


def test_failed_files_are_retried_on_request(open_journal, files):
    journal = open_journal()
    plan(journal, files)
    for file in files:
        journal.record(file, Failure(file, f"{file}: is bad") if file == files[2] else {"label": "chair"})
    assert plan(journal, files) == (2, 1, 0, 0)
    assert journal.count_failed() == 1
    assert [row for _, _, row in journal.rows()][2] == {"file": files[2], "error": f"{files[2]}: is bad"}
    assert plan(journal, files, retry=True) == (2, 0, 0, 1)


def test_duplicate_files_are_processed_once(open_journal, files):
    journal = open_journal()
    assert plan(journal, [*files, *files]) == (0, 0, 0, 3)


def test_missing_files_fail_and_are_processed_once_they_exist(open_journal, files, tmp_path):
    missing = str(tmp_path / "none")
    failures: list[Failure] = []
    journal = open_journal()
    assert plan(journal, [*files, missing], failures.append) == (0, 0, 1, 3)
    assert [failure.error for failure in failures] == [
        f"{missing}: cannot be read (no such file or directory); correct the path"
    ]
    assert plan(journal, [*files, missing]) == (0, 1, 0, 3)
    (tmp_path / "none").write_text("now")
    assert plan(journal, [*files, missing]) == (0, 0, 0, 4)


def test_result_of_a_missing_file_is_kept(open_journal, files, tmp_path):
    journal = open_journal()
    plan(journal, files)
    journal.record(files[0], {"label": "chair"})
    (tmp_path / "a").rename(tmp_path / "away")
    assert plan(journal, files, lambda failure: None)[2] == 1
    (tmp_path / "away").rename(tmp_path / "a")
    assert plan(journal, files) == (1, 0, 0, 2)


def test_names_that_are_not_unicode_are_kept(open_journal, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.ply"
    with open(name, "w"):
        pass
    journal = open_journal()
    plan(journal, [os.fsdecode(name)])
    (file,) = journal.pending()
    journal.record(file, {"label": "chair"})
    ((key, _, row),) = journal.rows()
    assert key == name
    assert os.fsencode(row["file"]) == name


def test_errors_and_outputs_may_have_names_that_are_not_unicode(open_journal, tmp_path):
    names = [os.fsencode(tmp_path) + b"/%c.ply" % letter for letter in (0xFD, 0xFE)]
    for name in names:
        with open(name, "w"):
            pass
    bad, shared, missing = (*map(os.fsdecode, names), str(tmp_path / "no\udcff.ply"))
    failures: list[Failure] = []
    journal = open_journal()
    plan(journal, [bad, shared, missing], failures.append, output_of=lambda file: str(tmp_path / "out\udcff"))
    journal.record(bad, Failure(bad, f"{bad}: is bad"))
    journal.commit()
    journal = open_journal()
    told: list[Failure] = []
    plan(journal, [bad, shared, missing], fail_before=told.append)
    assert told == [Failure(bad, f"{bad}: is bad"), *failures]
    assert {row["file"]: row["error"] for _, _, row in journal.rows()} == {one.name: one.error for one in told}


def test_outputs_are_neither_shared_nor_overwritten(open_journal, files, tmp_path):
    failures: list[Failure] = []
    journal = open_journal()
    plan(journal, files, failures.append, output_of=lambda file: str(tmp_path / "one"))
    assert len([*journal.pending()]) == 1
    assert all("as another file is" in failure.error for failure in failures)
    failures.clear()
    plan(journal, files, failures.append, retry=True, output_of=lambda file: f"{file}.out")
    (tmp_path / "b.out").write_text("another program's")
    journal = open_journal()
    plan(journal, files, failures.append, retry=True, output_of=lambda file: f"{file}.out")
    assert not failures, "what a killed run has begun may be there already"


def test_an_output_that_exists_is_refused_or_overwritten(open_journal, files, tmp_path):
    failures: list[Failure] = []
    (tmp_path / "b.out").write_text("another program's")
    journal = open_journal()
    plan(journal, files, failures.append, output_of=lambda file: f"{file}.out")
    assert [failure.error.partition(";")[0] for failure in failures] == [f"{tmp_path / 'b.out'}: exists already"]
    assert plan(journal, files, retry=True, overwrite=True, output_of=lambda file: f"{file}.out")[3] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": "other", "model": "modelnet40"}, r"was made with other weights \(modelnet10\)"),
        ({"command": "orient"}, "was written by qec classify"),
        ({"options": '{"seed": 1, "up": null}'}, "was made with --seed 0, and now 1"),
        ({"options": '{"seed": 0, "min_confidence": 0.5}'}, "was made with --min-confidence not given, and now 0.5"),
        ({"version": 2}, "was written by another version of qecnet"),
        ({"columns": {"label": "text", "up": "vector"}}, "was written by another version of qecnet"),
    ],
)
def test_journal_of_another_run_is_refused_and_kept(open_journal, files, change, said):
    journal = open_journal()
    plan(journal, files)
    journal.close()
    remedy = "choose another name, or delete the results and their journal"
    with pytest.raises(ValueError, match=f"^.*results.csv.journal: {said}; {remedy}$"):
        open_journal(replace(ORIGIN, **change))
    assert plan(open_journal(), files) == (0, 0, 0, 3)


def test_an_option_that_is_off_may_be_missing_in_the_journal(open_journal):
    open_journal()
    open_journal(replace(ORIGIN, options='{"seed": 0, "fast": false}'))
    with pytest.raises(ValueError, match="was made with --fast not given, and now given"):
        open_journal(replace(ORIGIN, options='{"seed": 0, "fast": true}'))


def test_same_weights_under_another_name_are_the_same_run(open_journal):
    open_journal()
    open_journal(replace(ORIGIN, model="a copy"))


def test_two_runs_never_write_one_journal(open_journal, tmp_path, files):
    plan(open_journal(), files)
    with pytest.raises(OSError, match="is in use by another run; wait for it"):
        Journal(tmp_path / "results.csv.journal", ORIGIN)


def test_damaged_journal_gives_a_one_sentence_error(tmp_path):
    (tmp_path / "bad.journal").write_bytes(b"no database at all" * 100)
    with pytest.raises(ValueError, match="is damaged"):
        Journal(tmp_path / "bad.journal", ORIGIN)
    with closing(sqlite3.connect(tmp_path / "other.journal")) as other:
        other.execute("CREATE TABLE other (id INTEGER)")
    with pytest.raises(ValueError, match=r"is damaged \(no such table: about\); choose another name"):
        Journal(tmp_path / "other.journal", ORIGIN)


def test_journal_that_cannot_be_opened_is_refused(tmp_path):
    (tmp_path / "results.csv.journal").mkdir()
    with pytest.raises(OSError, match=r"cannot be opened \(unable to open database file\); change its permissions"):
        Journal(tmp_path / "results.csv.journal", ORIGIN)


def test_a_full_disk_keeps_what_was_committed(open_journal, files):
    journal = open_journal()
    plan(journal, files)
    pages = journal._base.execute("PRAGMA page_count").fetchone()[0]
    journal._base.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match=r"cannot be written \(database or disk is full\); finished work is kept"):
        journal.record(files[0], {"label": "chair" * 10_000})
    assert plan(open_journal(), files) == (0, 0, 0, 3)


def test_progress_and_failures_are_reported_and_an_interruption_commits(open_journal, files):
    journal, progress = open_journal(), Progress(3)
    shown: list[int] = []
    failures: list[Failure] = []
    plan(journal, files)

    def work(job):
        return []

    def share(work, take):
        yield (files[0],), [{"label": "chair"}]
        yield (files[1],), [Failure(files[1], "bad")]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do_pending(journal, work, share, progress, lambda p: shown.append(p.done), failures.append)
    assert (progress.done, progress.failed, shown) == (2, 1, [1, 2])
    assert progress.seconds_left == pytest.approx(1 / progress.rate)
    assert [failure.name for failure in failures] == [files[1]]
    journal = open_journal()
    assert plan(journal, files) == (1, 1, 0, 1)
    assert not journal.finished


def test_results_of_a_job_are_committed_before_the_next_job_is_done(open_journal, files, monkeypatch):
    """A job takes longer than the time between two commits."""
    journal, now = open_journal(), 0.0
    monkeypatch.setattr("qecnet.bulk.work.monotonic", lambda: now)
    plan(journal, files)

    def share(work, take):
        nonlocal now
        for job in (files[:1], files[1:]):
            now += 10.0
            yield tuple(job), [{"label": "chair"}] * len(job)
            assert not journal._base.in_transaction

    do_pending(journal, lambda job: [], share, Progress(3), lambda progress: None, fail)
    assert journal.count_failed() == 0
    assert [*journal.pending()] == []
