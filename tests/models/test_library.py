"""A library of shapes: what a search finds, which files are processed again, and who may add to it."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.libraries import make_answers, make_entries

import qecnet
from qecnet.algebra import angular_distance, multiply, random_quaternion, rotate
from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.models import Failure, Hashed, Library, edit_library, hash_answer, hash_model, merge_libraries, read_library
from qecnet.models.library import changes, graph, records, shape_library
from qecnet.nn import Calibration

ROTATION = random_quaternion((), generator=3, dtype=torch.float64)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "shapes"
    folder.mkdir()
    for kind in ("bed", "chair", "toilet"):
        save_cloud(folder / f"{kind}.npy", kind, 1)
    return folder


@pytest.fixture
def small_graph(monkeypatch):
    """Libraries have a graph from 400 shapes on."""
    monkeypatch.setattr(graph, "EXACT_ROWS", 400)
    monkeypatch.setattr(graph, "_UNSEALED_ROWS", 100)


def save_cloud(path, kind, seed):
    write(path, make_shape(kind, seed).sample(500, torch.Generator().manual_seed(0)))


def bring_up_to_date(model, folder, *, retry=False) -> tuple[list[str], tuple[int, int, int]]:
    """Names of the files that were processed, and counts of unchanged, renamed and removed ones."""
    with edit_library(folder / "index", model) as library:
        changes = library.update(folder, sorted(folder.glob("*.npy")), retry=retry)
        results = [*add_missing(library, model, folder)]
        assert len(results) == changes.missing
    return [result.name.split("/")[-1] for result in results], changes[1:4]


def add_missing(library, model, folder):
    """Predict the files that a library is missing, and add them one by one."""
    answers = model.predict_many(map(str, library.missing(folder)))
    results = ([Hashed(one) if isinstance(one, Failure) else hash_answer(one)] for one in answers)
    return library.extend(folder, results)


def names(folder, query) -> set[str]:
    with read_library(folder / "index") as library:
        return {one.file for one in library.nearest(query, 100)}


def test_a_rotated_shape_finds_itself(folder):
    model = qecnet.load("modelnet10-paper")
    bring_up_to_date(model, folder)
    cloud = make_shape("chair", 1).sample(500, torch.Generator().manual_seed(0))
    query = model.predict(rotate(ROTATION, cloud.points) + 4)
    with read_library(folder / "index") as library:
        first, *others = library.nearest(query)
        assert len(library.nearest(query, 1)) == 1
    assert first.file == "chair.npy"
    assert 0.999 < first.similarity <= 1
    assert angular_distance(first.rotation, ROTATION) < np.radians(2)
    assert [one.similarity for one in others] == sorted((one.similarity for one in others), reverse=True)
    assert len(others) == 2


def test_only_changed_files_are_processed(small_model, folder):
    query = small_model.predict(folder / "bed.npy")
    assert bring_up_to_date(small_model, folder) == (["bed.npy", "chair.npy", "toilet.npy"], (0, 0, 0))
    assert bring_up_to_date(small_model, folder) == ([], (3, 0, 0))
    (folder / "bed.npy").unlink()
    save_cloud(folder / "chair.npy", "chair", 2)
    save_cloud(folder / "desk.npy", "desk", 2)
    assert bring_up_to_date(small_model, folder) == (["chair.npy", "desk.npy"], (1, 0, 1))
    assert names(folder, query) == {"chair.npy", "desk.npy", "toilet.npy"}


def test_renamed_and_touched_files_are_not_processed(small_model, folder):
    query = small_model.predict(folder / "bed.npy")
    bring_up_to_date(small_model, folder)
    (folder / "bed.npy").rename(folder / "couch.npy")
    os.utime(folder / "chair.npy", ns=(1, 1))
    assert bring_up_to_date(small_model, folder) == ([], (2, 1, 0))
    assert names(folder, query) == {"couch.npy", "chair.npy", "toilet.npy"}
    assert bring_up_to_date(small_model, folder) == ([], (3, 0, 0))


def test_a_new_file_of_the_size_of_a_removed_one_is_processed(small_model, folder):
    bring_up_to_date(small_model, folder)
    size = (folder / "bed.npy").stat().st_size
    (folder / "bed.npy").unlink()
    save_cloud(folder / "desk.npy", "desk", 2)
    assert (folder / "desk.npy").stat().st_size == size
    assert bring_up_to_date(small_model, folder) == (["desk.npy"], (2, 0, 1))


def test_rows_recognised_by_content_are_committed_in_steps(small_model, folder, monkeypatch):
    """An update of many touched and renamed files that is killed does not begin anew."""
    bring_up_to_date(small_model, folder)
    for name in ("bed", "chair"):
        os.utime(folder / f"{name}.npy", ns=(1, 1))
    (folder / "toilet.npy").rename(folder / "wc.npy")
    monkeypatch.setattr(changes, "_SECONDS", -1.0)
    shown = []

    def show(done, total):
        shown.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with edit_library(folder / "index", small_model) as library:
        with pytest.raises(KeyboardInterrupt):
            library.update(folder, sorted(folder.glob("*.npy")), show=show)
        assert not library.finished
    assert shown == [(1, 3), (2, 3)]
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")), show=lambda *counts: shown.append(counts))
    assert shown[2:] == [(1, 2), (2, 2)], "the first was kept"
    assert bring_up_to_date(small_model, folder) == ([], (3, 0, 0))


def test_the_process_that_adds_does_not_read_the_files(small_model, folder, monkeypatch):
    """On a cluster, those who predict files read them; one process could not read all of them again."""
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        results = [hash_answer(small_model.predict(file)) for file in library.missing(folder)]
        with monkeypatch.context() as patch:
            patch.setattr(records, "hash_file", lambda path: pytest.fail(f"{path} was read"))
            assert len([*library.extend(folder, [results])]) == 3
    (folder / "bed.npy").rename(folder / "couch.npy")
    assert bring_up_to_date(small_model, folder) == ([], (2, 1, 0))


def test_two_copies_of_one_file_may_be_renamed(small_model, folder):
    shutil.copy(folder / "bed.npy", folder / "copy.npy")
    bring_up_to_date(small_model, folder)
    (folder / "bed.npy").rename(folder / "x.npy")
    (folder / "copy.npy").rename(folder / "y.npy")
    assert bring_up_to_date(small_model, folder) == ([], (2, 2, 0))


def test_unreadable_files_are_left_out_until_they_change_or_are_retried(small_model, folder):
    (folder / "bad.npy").write_bytes(b"nothing")
    assert "bad.npy" in bring_up_to_date(small_model, folder)[0]
    assert bring_up_to_date(small_model, folder)[0] == []
    assert bring_up_to_date(small_model, folder, retry=True)[0] == ["bad.npy"]
    assert "bad.npy" not in names(folder, small_model.predict(folder / "bed.npy"))
    save_cloud(folder / "bad.npy", "desk", 2)
    assert bring_up_to_date(small_model, folder) == (["bad.npy"], (3, 0, 0))
    assert "bad.npy" in names(folder, small_model.predict(folder / "bed.npy"))


def test_failures_are_counted_until_their_files_are_gone(small_model, folder):
    (folder / "bad.npy").write_bytes(b"nothing")
    bring_up_to_date(small_model, folder)
    files = sorted(folder.glob("*.npy"))
    told: list[Failure] = []
    with edit_library(folder / "index", small_model) as library:
        assert library.update(folder, files, fail_before=told.append).failed_before == 1
        assert [one.name for one in told] == [str(folder / "bad.npy")]
        assert told[0].error.startswith(f"{folder}/bad.npy: ")
        assert library.update(folder, files[1:]).failed_before == 0
        assert library.update(folder, files) == (1, 3, 0, 0, 0), "it is tried as if it were new"


def test_missing_files_and_those_outside_the_folder_are_reported(small_model, folder, tmp_path):
    told: list[Failure] = []
    with edit_library(folder / "index", small_model) as library:
        files = [folder / "bed.npy", folder / "none.npy", tmp_path / "far.npy", folder / "bed.npy"]
        assert library.update(folder, files, told.append).missing == 1
    assert [one.name for one in told] == [str(folder / "none.npy"), str(tmp_path / "far.npy")]
    assert "cannot be read (no such file or directory); correct the path" in told[0].error
    assert f"is not below {folder}" in told[1].error


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_text_are_kept(small_model, folder):
    name = os.fsdecode(b"\xff\xfebed.npy")
    (folder / "bed.npy").rename(folder / name)
    bring_up_to_date(small_model, folder)
    assert bring_up_to_date(small_model, folder) == ([], (3, 0, 0))
    assert name in names(folder, small_model.predict(folder / name))


def test_an_interruption_keeps_what_was_done(small_model, folder):
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        results = add_missing(library, small_model, folder)
        next(results)
        next(results)
        results.close()
    assert bring_up_to_date(small_model, folder)[0] == ["toilet.npy"]


def test_rows_of_inaccessible_files_are_kept(small_model, folder, monkeypatch):
    """A disk that gives errors, or a folder that may not be opened for a while."""
    query = small_model.predict(folder / "bed.npy")
    bring_up_to_date(small_model, folder)
    stat, away = Path.stat, folder.rename(folder.with_name("away"))
    folder.mkdir()
    (away / "index").rename(folder / "index")

    def fail(path, **options):
        if path.suffix == ".npy":
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", fail)
        assert bring_up_to_date(small_model, folder) == ([], (0, 0, 0))
        assert names(folder, query) == {"bed.npy", "chair.npy", "toilet.npy"}
    save_cloud(folder / "sofa.npy", "sofa", 1)
    assert bring_up_to_date(small_model, folder) == (["sofa.npy"], (0, 0, 3))


def test_folder_without_files_does_not_empty_the_library(small_model, folder, tmp_path):
    """Such as one whose disk is not mounted."""
    bring_up_to_date(small_model, folder)
    with edit_library(folder / "index", small_model) as library:
        with pytest.raises(ValueError, match="none of the files to index exists, so no shape was removed"):
            library.update(folder, [folder / "none.npy"])
        assert len(library) == 3
        assert library.finished
    with edit_library(tmp_path / "new", small_model) as empty:
        assert empty.update(folder, []).missing == 0


def test_a_file_that_changes_after_its_prediction_is_processed_again(small_model, folder):
    """Otherwise the content would be known by its hash, with the descriptor of what it was before."""
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        results = [hash_answer(small_model.predict(file)) for file in library.missing(folder)]
        save_cloud(folder / "chair.npy", "chair", 2)
        assert len([*library.extend(folder, [results])]) == 3
    assert bring_up_to_date(small_model, folder) == (["chair.npy"], (2, 0, 0))


def test_a_library_is_finished_when_all_files_are_done(small_model, folder, tmp_path):
    """A shard that is killed while it lists its files is not taken for one without files."""
    edit_library(folder / "index", small_model).close()
    with pytest.raises(ValueError, match="is not finished; run this shard again, or merge with --partial"):
        merge_libraries(tmp_path / "whole", [folder / "index"])
    bring_up_to_date(small_model, folder)
    merge_libraries(tmp_path / "whole", [folder / "index"])
    merge_libraries(tmp_path / "again", [tmp_path / "whole"])
    with read_library(tmp_path / "again") as library:
        assert len(library) == 3


def test_results_are_committed_while_others_are_made(small_model, folder, monkeypatch):
    monkeypatch.setattr(shape_library, "_SECONDS", -1.0)
    query = small_model.predict(folder / "bed.npy")
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        results = add_missing(library, small_model, folder)
        next(results)
        next(results)
        assert names(folder, query) == {"bed.npy"}
        results.close()


def test_results_that_come_together_are_committed_before_the_next_are_made(small_model, folder, monkeypatch):
    """A batch takes longer than the time between two commits; nothing of the one before it waits for its end."""
    query = small_model.predict(folder / "bed.npy")
    now = 0.0
    monkeypatch.setattr(shape_library, "monotonic", lambda: now)

    def predict(files):
        nonlocal now
        for batch in ([files[0]], files[1:]):
            now += 10.0
            yield [hash_answer(small_model.predict(file)) for file in batch]
            assert names(folder, query) == {"bed.npy", *(file.name for file in batch), *committed}
            committed.update(file.name for file in batch)

    committed: set[str] = set()
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        assert len([*library.extend(folder, predict([*library.missing(folder)]))]) == 3


def test_results_that_cannot_be_added_are_tried_once(small_model, folder, monkeypatch):
    """A full disk is one error, not an error while another one is handled."""
    calls = []

    def fail(entries):
        calls.append(entries)
        raise OSError("full")

    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        monkeypatch.setattr(library, "add", fail)
        with pytest.raises(OSError, match="full"):
            [*add_missing(library, small_model, folder)]
    assert [len(entries) for entries in calls] == [3]


def test_an_empty_library_finds_nothing(small_model, tmp_path):
    (query,) = make_answers(small_model, 1)
    with edit_library(tmp_path / "index", small_model) as library:
        assert len(library) == 0
        assert library.nearest(query) == []


def nearest_by_definition(answers, query, count, chosen=lambda answer: True):
    similarity = {n: float(one.descriptor @ query.descriptor) for n, one in enumerate(answers) if chosen(one)}
    return sorted(similarity, key=lambda n: -similarity[n])[:count]


def found_numbers(library: Library, query, count, **options) -> list[int]:
    return [int(one.file.removesuffix(".off")) for one in library.nearest(query, count, **options)]


def test_exact_search_compares_all_shapes(small_model, tmp_path):
    answers, (query,) = make_answers(small_model, 3000), make_answers(small_model, 1, seed=1)
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(answers))
        assert len(library) == 3000
        assert found_numbers(library, query, 7) == nearest_by_definition(answers, query, 7)
        for one in library.nearest(query, 5):
            answer = answers[int(one.file.removesuffix(".off"))]
            pose = query.poses[small_model.classes.index(answer.label)]
            assert one.label == answer.label
            assert angular_distance(multiply(one.rotation, answer.pose), pose) < 1e-6, "rotates the neighbour"


@pytest.mark.parametrize("graph", [False, True])
def test_filters_keep_the_most_similar_that_match(small_model, tmp_path, graph, request):
    if graph:
        request.getfixturevalue("small_graph")
    answers, (query,) = make_answers(small_model, 1000), make_answers(small_model, 1, seed=1)
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(answers))
        assert bool([*library.path.glob("*.usearch")]) is graph
        for label, confidence in (("chair", 0.0), (None, 0.9), ("bed", 0.97), ("desk", 0.8)):
            expected = nearest_by_definition(
                answers,
                query,
                10,
                lambda a, label=label, limit=confidence: a.label == (label or a.label) and a.confidence >= limit,
            )
            assert found_numbers(library, query, 10, label=label, min_confidence=confidence) == expected
        assert library.nearest(query, label="bed", min_confidence=1.0) == []
        with pytest.raises(ValueError, match=r"sofa: is not a class of .*; it has bed, chair, desk"):
            library.nearest(query, label="sofa")


def test_a_graph_finds_what_exact_search_finds(small_model, tmp_path, small_graph):
    answers, queries = make_answers(small_model, 2000), make_answers(small_model, 20, seed=1)
    with edit_library(tmp_path / "index", small_model) as library:
        for start in range(0, 2000, 250):  # at 500, 1000, ... they go into the graph
            library.add(make_entries(answers[start : start + 250], start))
        library.finish()
        assert [file.name for file in library.path.glob("*.usearch")] == ["vectors-4.usearch"]
        library.add(make_entries(answers[:3], 5000))
        found = [found_numbers(library, query, 10) for query in queries]
    expected = [nearest_by_definition(answers, query, 10) for query in queries]
    hits = [len({n % 5000 for n in one} & {*two}) for one, two in zip(found, expected, strict=True)]
    assert np.mean(hits) >= 9.8
    with read_library(tmp_path / "index") as library:
        assert [found_numbers(library, query, 10) for query in queries] == found


def test_removed_shapes_are_not_found_in_a_graph(small_model, tmp_path, small_graph):
    answers = make_answers(small_model, 600)
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(answers))
        assert found_numbers(library, answers[0], 1) == [0]
        size = (library.path / "vectors-1.usearch").stat().st_size
        keep(library, 0)
        assert len(library) == 0
        assert library.nearest(answers[0]) == []
        library.add(make_entries(answers[:450]))
        assert found_numbers(library, answers[449], 1) == [449]
        assert (library.path / "vectors-2.usearch").stat().st_size < size, "removed shapes are dropped"


@pytest.mark.parametrize(("left", "graphs"), [(590, ["vectors-1.usearch"]), (450, ["vectors-2.usearch"]), (300, [])])
def test_a_library_that_only_shrinks_gets_a_smaller_graph_or_none(small_model, tmp_path, small_graph, left, graphs):
    answers = make_answers(small_model, 700)
    with edit_library(tmp_path / "index", small_model) as library, read_library(tmp_path / "index") as reader:
        library.add(make_entries(answers))
        assert found_numbers(reader, answers[0], 1) == [0]
        keep(library, left)
        library.finish()
        assert [file.name for file in library.path.glob("*.usearch")] == graphs
        expected = nearest_by_definition(answers[:left], answers[699], 10)
        assert found_numbers(reader, answers[699], 10) == found_numbers(library, answers[699], 10) == expected
        library.add(make_entries(answers[left:], left))
        library.finish()
        assert found_numbers(reader, answers[699], 1) == [699]


def keep(library: Library, count: int) -> None:
    """Remove the shapes of a library of `make_entries` from one number on."""
    with library._rows.transaction():
        for number in range(count, len(library)):
            library._rows.remove(f"{number}.off")


def test_space_of_removed_shapes_is_released(small_model, tmp_path):
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(make_answers(small_model, 3000)))
        size = (library.path / "rows.sqlite").stat().st_size
        keep(library, 0)
        library.finish()
        assert (library.path / "rows.sqlite").stat().st_size < size / 10


def test_a_damaged_graph_is_built_again(small_model, tmp_path, small_graph):
    answers = make_answers(small_model, 500)
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(answers))
    for content in (b"nothing", None):
        (graph,) = library.path.glob("*.usearch")
        graph.unlink()
        if content:
            graph.write_bytes(content)
        with read_library(library.path) as reader, pytest.raises(ValueError, match="repair the index with qec index"):
            reader.nearest(answers[0])
        with edit_library(tmp_path / "index", small_model) as library:
            library.finish()
        with read_library(library.path) as reader:
            assert found_numbers(reader, answers[3], 1) == [3]


def test_reader_sees_concurrent_additions(small_model, tmp_path, small_graph):
    answers = make_answers(small_model, 1000)
    with edit_library(tmp_path / "index", small_model) as library, read_library(tmp_path / "index") as reader:
        for start in range(0, 1000, 100):
            library.add(make_entries(answers[start : start + 100], start))
            assert found_numbers(reader, answers[start + 99], 1) == [start + 99]
            assert found_numbers(reader, answers[0], 1) == [0]
        assert len(reader) == 1000


def test_a_second_writer_is_refused_with_one_sentence(small_model, tmp_path):
    with edit_library(tmp_path / "index", small_model), pytest.raises(OSError, match="another process is adding to"):
        edit_library(tmp_path / "index", small_model)
    edit_library(tmp_path / "index", small_model).close()


def test_a_library_of_other_weights_is_refused_or_replaced(small_model, tmp_path):
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(make_answers(small_model, 3)))
    other = qecnet.load(small_model.name)
    other.calibration = Calibration(small_model.calibration.temperature, temperature_slope=1.0)
    with pytest.raises(ValueError, match=r"was made with other weights .*; replace it with --force"):
        edit_library(tmp_path / "index", other)
    with edit_library(tmp_path / "index", other, replace=True) as library:
        assert len(library) == 0
    with read_library(tmp_path / "index") as library:
        assert library.fits(other)
        assert not library.fits(small_model)


def test_other_weights_have_another_hash():
    model, other = (qecnet.load("modelnet10-paper") for _ in range(2))
    assert hash_model(other) == hash_model(model)
    with torch.no_grad():
        next(other.network.parameters()).add_(1e-3)
    assert hash_model(other) != hash_model(model)
    other = qecnet.load("modelnet10-paper")
    other.config = replace(other.config, points=500)
    assert hash_model(other) != hash_model(model)


def test_graph_without_usearch_names_the_extra(small_model, tmp_path, small_graph, monkeypatch):
    answers = make_answers(small_model, 500)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with edit_library(tmp_path / "index", small_model) as library:
        with pytest.raises(ValueError, match=r"needs usearch.*pip install 'qecnet\[search\]'"):
            library.add(make_entries(answers))
        assert len(library) == 500, "what was added is kept"
        assert found_numbers(library, answers[3], 1) == [3]


def test_a_failed_prediction_is_not_added(small_model, folder):
    (folder / "bad.npy").write_bytes(b"nothing")
    with edit_library(folder / "index", small_model) as library:
        library.update(folder, sorted(folder.glob("*.npy")))
        results = [*add_missing(library, small_model, folder)]
        assert sum(isinstance(one, Failure) for one in results) == 1
        assert len(library) == 3
