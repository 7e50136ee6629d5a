"""The report's page: complete, self-contained, true to the files that it is made from; and every kind of bad input."""

import csv
import io
import json
import re
import shutil
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tests.evaluation.synthetic import make_run, pose_baselines, predictions
from tests.kinds import present

from qecnet.datasets import Dataset, make_furniture
from qecnet.evaluation import NO_SYM, build_report, published_figures, write_result
from qecnet.evaluation.report._gallery import (
    choose_typical,
    choose_worst_classes,
    choose_worst_poses,
    error_interval,
    pair_same_class,
    pair_same_shape,
    pose_directions,
)
from qecnet.evaluation.report._table import CELL_FORMATS, data_table
from qecnet.evaluation.rotation import siamese_errors
from qecnet.files import as_json

SECTIONS = [
    *("classification", "rotation", "robustness", "views", "confusion", "errors"),
    *("spheres", "equivariance", "training", "gallery"),
]
VOID = {"meta", "br", "use", "path"}


class Page(HTMLParser):
    """What a browser would make of a page: sections, tables as texts, links, and whether every element is closed."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.sections: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        if tag == "section":
            self.sections.append(given["id"])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)
        if {"td", "th"} & set(self.open) and "text" not in self.open:
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def damage(path, change):
    path.write_bytes(as_json(change(json.loads(path.read_text()))))


def table(made, name):
    return list(csv.DictReader(io.StringIO(made.tables[name].decode())))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = make_run(tmp_path_factory.mktemp("runs") / "qec-run", siamese=0.1)
    write_result(folder / "evaluation", pose_baselines())
    return folder


@pytest.fixture(scope="module")
def other(run):
    return make_run(
        run.parent / "pointnet-run", ("classification",), ("strict",), config="pointnet", accuracy=0.3, seed=1
    )


@pytest.fixture(scope="module")
def made(run, other):
    return build_report(run, [other])


@pytest.fixture(scope="module")
def page(made):
    return Page(made.page)


@pytest.fixture
def strict(run, tmp_path):
    """A copy of what was measured of the run under one protocol, to be spoiled."""
    names = shutil.ignore_patterns("*-paper.*", "pose-baselines.json")
    return shutil.copytree(run, tmp_path / "run", ignore=names)


@pytest.fixture(scope="module")
def result(run):
    return lambda name: json.loads((run / "evaluation" / f"{name}.json").read_text())


def test_page_is_complete_and_has_every_section(page):
    assert page.open == []
    assert page.sections == SECTIONS


def test_the_page_needs_nothing_from_outside(made, page):
    assert all(link.startswith(("#", "data:")) for link in page.links)
    text = made.page.decode()
    assert not re.search(r"@import|url\((?!#)|<link|<iframe|fetch\(|XMLHttpRequest", text)
    assert len(re.findall(r"https?://", text)) == 0


def test_links_inside_the_page_have_targets(made, page):
    places = set(re.findall(r'\bid="([^"]+)"', made.page.decode()))
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= places
    assert set(re.findall(r"url\(#([^)]+)\)", made.page.decode())) <= places


def test_page_is_small(made):
    assert len(made.page) < 6e6


def test_page_is_deterministic(tmp_path):
    folder = make_run(tmp_path / "run", ("equivariance",))
    assert build_report(folder) == build_report(folder)


def test_table_1_has_published_and_measured_figures(page, result):
    for published in published_figures().classification:
        (row,) = [r for r in page.rows if r and r[0] == published.method and len(r) == 9]
        assert row[3] == f"{100 * published.ar:.2f}"
        assert row[4:] == ["–", *["not measured"] * 4]
    (ours,) = [row for row in page.rows if row and row[0] == "QEC as in the paper, siamese loss [qec-run]"]
    expected = [result(f"classification-{p}")[which]["accuracy"] for p in ("paper", "strict") for which in ("nr", "ar")]
    assert [cell[:4] for cell in ours[5:]] == [f"{100 * value:.1f}" for value in expected]


def test_the_page_says_what_was_not_measured(page):
    (pointnet,) = [row for row in page.rows if row and row[0] == "PointNet [pointnet-run]"]
    assert [cell == "not measured" for cell in pointnet[5:]] == [True, True, False, False]


def test_plain_errors_are_next_to_symmetric_ones(made, result):
    rows = table(made, "table2-rotation.csv")
    published = published_figures().rotation
    assert [row["method"] for row in rows[: len(published)]] == [r.method for r in published]
    measured = [row for row in rows if row["group"].startswith("Measured here")]
    assert len(measured) == 2 * 3 * 2 * 2
    for plain, symmetric in zip(measured[::2], measured[1::2], strict=True):
        assert (plain["error"], symmetric["error"]) == ("plain", "symmetric")
        mode, counted = plain["method"].split(", ")
        counted = "all" if counted == "all" else "correct"
        groups = result(f"rotation-{plain['protocol']}")["modes"][mode][counted]
        assert float(plain["no_sym"]) == groups["no_sym"]["mean"]
        assert float(symmetric["night_stand"]) == groups["per_class"]["night_stand"]["symmetric"]["mean"]
        assert float(symmetric["avg"]) <= float(plain["avg"])


def test_table_3_has_the_papers_levels_next_to_ours(made, result):
    rows = table(made, "table3-robustness.csv")
    published = published_figures().robustness
    assert [float(row["as_published_accuracy"]) for row in rows] == [row.accuracy for row in published]
    levels = {(one["kind"], one["level"]): one for one in result("robustness-strict")["levels"]}
    ours = [float(row["measured_here_strict_all_pairs"]) for row in rows]
    assert ours == [levels[row.kind, row.level]["rae_all"] for row in published]


def test_views_are_shown_beside_whole_shapes_and_by_class(made, page, result):
    found = result("views-strict")
    rows = {(row["group"], row["input"]): row for row in table(made, "views.csv")}
    views = rows["All shapes", "views"]
    for name, column in (("accuracy", "any_pose_accuracy"), ("pose_degrees", "any_pose_median")):
        assert float(views[column]) == found["groups"]["views"][name]
    for name, column in (("set_holds_pose", "holds_the_pose"), ("set_size", "poses")):
        assert float(views[f"90_set_of_candidates_{column}"]) == found["groups"]["views"][name]
    assert float(views["up_direction_known_accuracy"]) == found["groups"]["views"]["accuracy_known_up"]
    assert float(rows["Views, by class", "chair"]["number"]) == found["views_by_kind"]["chair"]["views"]
    assert f"{found['shapes']} shapes, 8,000 points per view (median); without 1 that have no answer" in page.text


def test_pose_baselines_are_two_tables_with_the_network_in_both(made, page, result):
    assert "two samplings of one shape" in page.text
    assert "two shapes of one class" in page.text
    assert "keeps 80% of its points" in page.text
    found = pose_baselines()
    for name, key, mode in (
        ("same-instance", "same_instance", "siamese"),
        ("category-level", "category_level", "category"),
    ):
        rows = table(made, f"pose-baselines-{name}.csv")
        assert [row["method"] for row in rows[:-2:2]] == list(getattr(found, key))
        assert float(rows[0]["no_sym"]) == getattr(found, key)["Mean LRF"].no_sym.mean
        ours = result("rotation-strict")["modes"][mode]["all"]["no_sym"]
        assert (float(rows[-2]["no_sym"]), float(rows[-1]["no_sym"])) == (ours["mean"], ours["symmetric"]["mean"])


def test_every_table_can_be_downloaded_from_the_page(made, page):
    downloads = [link for link in page.links if link.startswith("data:text/csv")]
    assert len(downloads) + len(("failures-classes.csv", "failures-poses.csv")) == len(made.tables)


def test_procedural_shapes_are_drawn_without_data(made):
    text = made.page.decode()
    clouds = json.loads(present(re.search(r'id="clouds"[^>]*>(.*?)</script>', text))[1])
    parts = [json.loads(unescape(found)) for found in re.findall(r'data-parts="([^"]*)"', text)]
    assert {place for picture in parts for place, *_ in picture} == set(range(len(clouds)))
    assert all(np.linalg.norm(part[1:5]) == pytest.approx(1, abs=1e-4) for picture in parts for part in picture)


def test_the_gallery_of_other_datasets_needs_data(strict, tmp_path):
    for path in (strict / "evaluation").glob("*.json"):
        damage(path, lambda found: found | {"dataset": "own"})
    made = build_report(strict)
    assert "qec report run --data PATH --force" in Page(made.page).text
    assert b"<canvas" not in made.page
    assert len(table(made, "failures-poses.csv")) > 0
    with pytest.raises(ValueError, match="there is no such folder"):
        build_report(strict, data=tmp_path / "nowhere")


def test_another_dataset_than_the_measured_one_is_refused(strict):
    damage(strict / "settings.json", lambda settings: settings | {"per_class": 20})
    with pytest.raises(ValueError, match="its test split is not the one that was measured"):
        build_report(strict)


@pytest.mark.parametrize("what", ["classification", "rotation", "robustness", "equivariance", "views"])
def test_one_result_is_enough_and_missing_ones_are_listed(tmp_path, what):
    page = Page(build_report(make_run(tmp_path / "run", (what,), ("strict",))).page)
    assert page.sections == SECTIONS
    for other in {"classification", "rotation", "robustness", "equivariance", "views"} - {what}:
        assert f"qec evaluate {other} run --data PATH" in page.text
    if what not in ("equivariance", "views"):
        assert f"qec evaluate {what} run --data PATH --protocol paper" in page.text
        assert f"qec evaluate {what} run --data PATH --protocol strict" not in page.text


def test_results_without_predictions_count_as_measured(strict):
    for path in (strict / "evaluation").glob("*.npz"):
        path.unlink()
    page = Page(build_report(strict).page)
    assert page.sections == SECTIONS
    assert page.text.count("drawn from predictions of single views, which the run's folder does not have") == 2
    assert "has not been measured under the protocol strict" not in page.text


def test_the_header_gives_the_held_out_share(page):
    assert "the 100 training shapes of procedural shapes (10% of them held out) for 12 epochs" in page.text


def test_the_header_names_the_only_part_that_was_trained(strict):
    damage(strict / "settings.json", lambda settings: settings | {"start": "modelnet40", "only": "invariant"})
    told = "Only the part invariant was trained; the other parts have the weights of modelnet40. Measured on"
    assert told in Page(build_report(strict).page).text


def test_a_baseline_has_no_poses_to_report(other):
    page = Page(build_report(other).page)
    assert page.text.count("it predicts no pose") == 4
    assert "The worst classifications" in page.text
    assert "The worst poses" not in page.text


def test_an_unfinished_run_is_reported_without_its_end(tmp_path):
    folder = make_run(tmp_path / "run", ("classification",))
    (folder / "result.json").unlink()
    (folder / "log.jsonl").unlink()
    page = Page(build_report(folder).page)
    assert "no log (log.jsonl)" in page.text


def test_class_without_correct_views_is_a_dash(strict):
    def without(found):
        for mode in found["modes"].values():
            named = {"chair": None, "bed": None} | {n: e for n, e in mode["correct"]["per_class"].items() if n > "bed"}
            mode["correct"] = {"all_classes": None, "no_sym": None, "per_class": named | {"chair": None}}
        return found

    damage(strict / "evaluation" / "rotation-strict.json", without)
    made = build_report(strict)
    rows = [r for r in table(made, "table2-rotation.csv") if r["method"].endswith("correctly classified")]
    assert [row["chair"] for row in rows] == [""] * 6
    (dashes,) = [row for row in Page(made.page).rows if row and row[0] == "siamese, correctly classified"]
    assert dashes[1:6] == ["plain", "–", "–", "–", "–"]


def test_untrusted_names_are_escaped(tmp_path):
    dataset = make_furniture(2)
    classes = ("<script>alert(1)</script>", *dataset.classes[1:])
    strange = Dataset("a<b>", classes, dataset.splits)
    text = build_report(make_run(tmp_path / "run", protocols=("strict",), dataset=strange, views=2)).page.decode()
    assert "<script>alert" not in text
    assert "a<b>" not in text


DAMAGES = {
    "classification-strict.json": [
        (lambda d: d | {"nr": None}, "nr is None; it must be an object"),
        (lambda d: d | {"nr": d["nr"] | {"confusion": [[1]]}}, "nr.confusion is not a table of 10 × 10 counts"),
        (lambda d: d | {"nr": d["nr"] | {"accuracy": "good"}}, "nr.accuracy is 'good'; it must be a number"),
        (lambda d: {k: v for k, v in d.items() if k != "classes"}, "classes is missing"),
        (lambda d: d | {"protocol": "paper"}, "was measured under the protocol paper"),
    ],
    "rotation-strict.json": [
        (lambda d: d | {"modes": {}}, "modes.canonical is missing"),
        (lambda d: d | {"rotations": 1.5}, "rotations is 1.5; it must be a whole number"),
    ],
    "robustness-strict.json": [(lambda d: d | {"levels": [1]}, r"levels\[0\] is 1; it must be an object")],
    "equivariance-strict.json": [(lambda d: d | {"frames": True}, "frames is True; it must be an object")],
}


@pytest.mark.parametrize(("name", "change", "said"), [(name, *one) for name, cases in DAMAGES.items() for one in cases])
def test_damaged_result_gives_a_one_sentence_error_with_its_name(strict, name, change, said):
    damage(strict / "evaluation" / name, change)
    with pytest.raises(ValueError, match=rf"{name}: .*{said}"):
        build_report(strict)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b'{"a": NaN}', b""])
@pytest.mark.parametrize("name", ["settings.json", "result.json", "evaluation/classification-strict.json"])
def test_file_that_is_no_json_object_gives_a_one_sentence_error(strict, name, content):
    (strict / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}: is damaged"):
        build_report(strict)


def test_damaged_predictions_give_a_one_sentence_error(strict):
    (strict / "evaluation" / "rotation-strict.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"rotation-strict\.npz: holds no predictions, or is damaged"):
        build_report(strict)


def test_csv_keeps_all_digits_and_omits_missing_values():
    written = data_table("a.csv", ["x", "y", "z"], [["one, two", 0.1 + 0.2, None]]).to_csv()
    assert written == b'group,protocol,x,y,z\n,,"one, two",0.30000000000000004,\n'


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0.0, "0"), (0.04, "0.04"), (2e-5, "2.0·10<sup>−5</sup>"), (-3e-7, "−3.0·10<sup>−7</sup>")],
)
def test_small_numbers_are_powers_of_ten(value, said):
    assert str(CELL_FORMATS["power"](value)) == said


@pytest.fixture(scope="module")
def found():
    return predictions(make_furniture(20), np.random.default_rng(0), views=4, accuracy=0.8)


def test_directions_undo_the_rotation(found):
    """Against SciPy; and a network that is exactly equivariant points the same way for every rotation."""
    turned, poses = (Rotation.from_quat(q, scalar_first=True) for q in (found.rotation, found.poses[:, 0]))
    np.testing.assert_allclose(pose_directions(found), (turned.inv() * poses).apply([1, 0, 0]), atol=1e-6)


def test_pairs_are_those_of_table_2(found):
    pairs = pair_same_shape(found)
    groups = present(siamese_errors(found).all.all_classes)
    assert len(pairs.first) == groups.count
    assert pairs.plain.mean() / np.pi == pytest.approx(groups.mean)
    assert pairs.symmetric.mean() / np.pi == pytest.approx(groups.symmetric.mean)


def test_pairs_of_a_class_are_two_correctly_classified_shapes(found):
    pairs = pair_same_class(found)
    assert (found.label[pairs.first] == found.label[pairs.second]).all()
    assert (found.shape[pairs.first] != found.shape[pairs.second]).all()
    assert found.correct[pairs.first].all()
    assert found.correct[pairs.second].all()


def test_the_typical_pair_of_a_class_has_its_median_error(found):
    pairs = pair_same_class(found)
    chosen = choose_typical(found, pairs)
    for first, error in zip(chosen.first, chosen.symmetric, strict=True):
        of_class = np.sort(pairs.symmetric[found.label[pairs.first] == found.label[first]])
        assert error == of_class[(len(of_class) - 1) // 2]


def test_worst_failures_come_first_one_per_shape(found):
    pairs = pair_same_shape(found)
    chosen = choose_worst_poses(found, pairs, 20)
    assert len(chosen.first) == 20
    assert (np.diff(chosen.symmetric) <= 0).all()
    assert len(set(found.shape[chosen.first])) == 20
    named = found.correct[pairs.first] & found.correct[pairs.second]
    assert chosen.symmetric[0] == pairs.symmetric[named].max()
    rows = choose_worst_classes(found, 20)
    assert not found.correct[rows].any()
    assert len(set(found.shape[rows])) == len(rows) == 20


def test_a_perfect_network_has_no_failures_to_show(tmp_path):
    right = predictions(make_furniture(10), np.random.default_rng(0), views=2, accuracy=1.0)
    assert len(choose_worst_classes(right, 20)) == 0
    page = Page(build_report(make_run(tmp_path / "run", protocols=("strict",), accuracy=1.0)).page)
    assert page.sections == SECTIONS


def test_interval_of_errors_contains_the_mean_and_resamples_shapes(found):
    low, high = present(error_interval(found, NO_SYM, only_correct=False))
    mean = present(siamese_errors(found).all.no_sym).mean
    assert low < mean < high
    # Pairs of one shape go together: as if independent, the interval of so many pairs would be much narrower.
    pairs = pair_same_shape(found)
    errors = pairs.plain[np.isin(np.array(found.classes)[found.label[pairs.first]], NO_SYM)] / np.pi
    assert high - low > 1.2 * 2 * 1.96 * errors.std() / np.sqrt(len(errors))
    assert error_interval(found, ("no such class",), only_correct=False) is None


def test_an_aligned_pair_is_drawn_aligned(tmp_path):
    """With exact poses of one orientation, the second shape is drawn upright on the first."""
    folder = make_run(tmp_path / "run", ("rotation",), ("strict",), accuracy=1.0)
    path = folder / "evaluation" / "rotation-strict.npz"
    with np.load(path) as arrays:
        kept = dict(arrays)
    own = Rotation.from_quat([0.5, 0.5, 0.5, -0.5], scalar_first=True)
    exact = Rotation.from_quat(kept["rotation"], scalar_first=True) * own
    kept["poses"] = np.repeat(exact.as_quat(scalar_first=True)[:, None], 2, axis=1).astype(np.float32)
    np.savez(path, **kept)
    text = build_report(folder).page.decode()
    after = [json.loads(unescape(p)) for p in re.findall(r'aligned" data-parts="([^"]*)"', text)]
    assert len(after) > 20
    assert all(abs(part[1]) == pytest.approx(1, abs=1e-5) for picture in after for part in picture)
