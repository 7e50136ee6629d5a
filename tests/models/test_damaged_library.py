"""Libraries that were killed, damaged or made by an attacker: they open, or are refused with one sentence."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.kinds import present
from tests.models.libraries import make_answers, make_entries

from qecnet.models import edit_library, read_library
from qecnet.models.library import graph

COUNT = 300


@pytest.fixture
def index(small_model, tmp_path, monkeypatch) -> Path:
    """A library with 300 shapes in its graph, and 5 that are not in it."""
    monkeypatch.setattr(graph, "EXACT_ROWS", COUNT)
    answers = make_answers(small_model, COUNT + 5)
    with edit_library(tmp_path / "index", small_model) as library:
        library.add(make_entries(answers[:COUNT]))
        library.add(make_entries(answers[COUNT:], COUNT))
    assert {file.name for file in library.path.iterdir()} == {"rows.sqlite", "vectors-1.usearch"}
    return library.path


@pytest.fixture
def query(small_model):
    return make_answers(small_model, 1, seed=1)[0]


def search(index, query) -> str | None:
    """Search the library; what it is refused with, if it is."""
    try:
        with read_library(index) as library:
            for label in (None, *library.classes):
                for count in (5, 1000):  # by the graph, and all
                    assert all(one.similarity <= 1 for one in library.nearest(query, count, label=label))
    except (ValueError, OSError) as error:
        said = str(error)
        assert said.startswith(f"{index}/"), said
        assert said.isprintable()
        assert len(said) < 600
        return said
    return None


def change(index, statement, *values) -> None:
    database = sqlite3.connect(index / "rows.sqlite")
    with database:
        database.execute(statement, values)
    database.close()


def test_a_sound_library_is_searched(index, query):
    assert search(index, query) is None


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON shapes BEGIN DELETE FROM shapes; END", "tables are not those of an index"),
        ("CREATE VIEW v AS SELECT * FROM shapes", "tables are not those of an index"),
        ("DROP TABLE descriptors", "tables are not those of an index"),
        ("DELETE FROM about", "does not record what it was made with"),
        ("UPDATE about SET version = 99", "was written by another version of qecnet"),
        ("UPDATE about SET text = x'00'", "does not record what it was made with"),
        ("UPDATE about SET text = '[]'", "not a JSON object"),
        ("UPDATE about SET text = '{}'", "model is missing"),
        ("UPDATE about SET text = replace(text, '\"chair\"', '\"bed\"')", "a name twice"),
        ("UPDATE about SET generation = -1", "is negative"),
        ("UPDATE about SET generation = 7", "vectors-7.usearch: is missing"),
        ("UPDATE about SET generation = '../../x'", "is negative"),
        ("UPDATE about SET codes = NULL", "how its vectors are encoded"),
        ("UPDATE about SET codes = x'00'", "codes have the wrong width"),
        ("UPDATE about SET codes = CAST(x'0000807f' || substr(codes, 5) AS BLOB)", "codes are not finite"),
        ("UPDATE descriptors SET descriptor = x'0000'", "wrong size"),
        ("UPDATE descriptors SET descriptor = zeroblob(6)", "not of length 1"),
        ("UPDATE descriptors SET descriptor = 7", "wrong size"),
        ("DELETE FROM descriptors", "a shape has no descriptor"),
        ("UPDATE shapes SET path = '../' || path", "outside the folder"),
        ("UPDATE shapes SET path = '/' || path", "outside the folder"),
        ("UPDATE shapes SET path = CAST(id AS BLOB)", "outside the folder"),
        ("UPDATE shapes SET class = 'spoon'", "a class that the model does not know"),
        ("UPDATE shapes SET confidence = 5", "a confidence is not between 0 and 1"),
        ("UPDATE shapes SET confidence = 'high'", "a confidence is not between 0 and 1"),
        ("UPDATE shapes SET w = 3", "a pose is not of length 1"),
        ("UPDATE shapes SET x = 'left'", "a pose is not of length 1"),
    ],
)
def test_altered_rows_give_a_one_sentence_error(index, query, statement, said):
    change(index, statement)
    assert said in present(search(index, query))


@pytest.mark.parametrize("content", [b"", b"nothing", b"SQLite format 3\0" + b"\xff" * 5000])
def test_file_that_is_not_a_database_gives_a_one_sentence_error(index, query, content):
    (index / "rows.sqlite").write_bytes(content)
    assert "is damaged" in present(search(index, query))


def test_a_journal_that_names_another_file_is_refused(index, query, tmp_path):
    """SQLite would delete that file."""
    victim = tmp_path / "victim"
    victim.touch()
    name = os.fsencode(victim)
    end = b"\0\0\0\0" + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big")
    (index / "rows.sqlite-journal").write_bytes(end + bytes.fromhex("d9d505f920a163d7"))
    assert "its journal names another file" in present(search(index, query))
    assert victim.exists()


def test_missing_or_truncated_vectors_give_a_one_sentence_error(index, query):
    vectors = index / "vectors-1.usearch"
    data = vectors.read_bytes()
    for length in (0, 5, 1000, len(data) - 1000, len(data) - 1):
        vectors.write_bytes(data[:length])
        assert "vectors-1.usearch: is damaged" in present(search(index, query))
    vectors.write_bytes(data + b"x")
    assert "it has data after its end" in present(search(index, query))
    vectors.unlink()
    assert "vectors-1.usearch: is missing" in present(search(index, query))


def test_edges_that_lead_out_of_the_graph_are_refused(index, query):
    """usearch follows them without a check."""
    vectors, random = index / "vectors-1.usearch", Random(0)
    data = np.frombuffer(vectors.read_bytes(), np.uint8)
    graph = 8 + COUNT * 3 + 64
    refused = 0
    for _ in range(200):
        changed = data.copy()
        place = random.randrange(graph, len(data) - 4)
        changed[place : place + 4] = [random.randrange(256) for _ in range(4)]
        vectors.write_bytes(changed.tobytes())
        refused += search(index, query) is not None
    assert refused > 100


ADD_FOREVER = """
import sys
from pathlib import Path
import qecnet
from qecnet.models import edit_library
from qecnet.models.library import graph
from tests.models.libraries import make_answers, make_entries

graph.EXACT_ROWS = graph._UNSEALED_ROWS = 90
model = qecnet.load(sys.argv[1])
answers = make_answers(model, 30)
with edit_library(Path(sys.argv[2]), model) as library:
    for start in range(len(library), 10**9, 30):
        library.add(make_entries(answers, start))
        print(start + 30, flush=True)
"""


def test_a_killed_writer_leaves_all_that_was_committed(small_model, tmp_path, query):
    """Killed at random moments, also while descriptors go into the graph."""
    random, index, committed = Random(0), tmp_path / "index", 0
    root = Path(__file__).parents[2]
    for _ in range(5):
        command = [sys.executable, "-c", ADD_FOREVER, small_model.name, str(index)]
        environment = os.environ | {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{root}"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        with process:
            for _ in range(random.randint(3, 12)):
                committed = int(present(process.stdout).readline())
            process.send_signal(signal.SIGKILL)
            rest = present(process.stdout).read().splitlines()
        committed = int(rest[-1]) if rest and rest[-1] else committed
        with read_library(index) as library:
            assert committed <= len(library) <= committed + 30
            assert len(library) % 30 == 0, "a transaction is kept whole or not at all"
            assert len(library.nearest(query, 10**6)) == len(library)
            committed = len(library)


def test_folder_that_cannot_be_written_gives_a_one_sentence_error(small_model, tmp_path, index):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(OSError, match=r"closed/index: cannot be written \(permission denied\)"):
        edit_library(closed / "index", small_model)


def test_a_full_disk_keeps_what_was_added(small_model, index, query, monkeypatch):
    """SQLite limits the size of a file as a disk would."""
    with edit_library(index, small_model) as library:
        before = len(library)
        library._rows._db.execute("PRAGMA max_page_count = 1")  # at most what it has
        with pytest.raises(OSError, match=r"rows.sqlite: cannot be used \(database or disk is full\); what was added"):
            library.add(make_entries(make_answers(small_model, 5000), 1000))
        assert len(library) == before
    assert search(index, query) is None


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits")
def test_disk_errors_damage_nothing(small_model, index, query):
    """A limit of a process has no error of its own in SQLite, as a quota and a failing disk do not."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (index / "rows.sqlite").stat().st_size
    with edit_library(index, small_model) as library:
        before = len(library)
        entries = make_entries(make_answers(small_model, 2000), 1000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            with pytest.raises(OSError, match=r"rows.sqlite: cannot be used \(disk I/O error\); what was added before"):
                library.add(entries)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(library) == before
    assert search(index, query) is None


def test_an_unfinished_save_is_removed(small_model, index, query):
    for name in ("vectors-2.usearch", ".vectors-2-abc.usearch"):
        (index / name).write_bytes(b"unfinished")
    assert search(index, query) is None
    edit_library(index, small_model).close()
    assert {file.name for file in index.iterdir()} == {"rows.sqlite", "vectors-1.usearch"}
