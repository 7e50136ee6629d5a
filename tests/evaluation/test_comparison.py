"""Tables 1 and 2: which run is which method, and which of its figures are in the cells."""

import json
from dataclasses import replace

from tests.evaluation.synthetic import make_run, pose_baselines
from tests.kinds import present

from qecnet.evaluation import (
    PROTOCOLS,
    ClassificationResult,
    EvaluatedRun,
    RotationResult,
    compare_accuracy,
    compare_errors,
    published_figures,
    write_result,
)


def run_of(folder, kind, dataset, *measured, **changes):
    """A run of a network, as if on ModelNet."""
    made = make_run(folder, measured, config=kind, **changes)
    settings = json.loads((made / "settings.json").read_text())
    (made / "settings.json").write_text(json.dumps(settings | {"dataset": dataset}))
    return EvaluatedRun(made)


def test_each_method_of_table_1_has_its_run(tmp_path):
    kinds = {"DGCNN": "dgcnn", "KDTreeNet": "kd_network", "QEC": "paper", "RIConv++": "riconv"}
    runs = {
        method: run_of(tmp_path / kind, kind, "modelnet40", "classification", seed=n)
        for n, (method, kind) in enumerate(kinds.items())
    }
    elsewhere = run_of(tmp_path / "ten", "prin", "modelnet10", "classification")
    rows = {row.method: row for row in compare_accuracy([*runs.values(), elsewhere])}
    assert {method for method, row in rows.items() if row.run} == set(kinds)
    assert len(rows) == len(published_figures().classification) + 3
    for method, run in runs.items():
        for protocol in PROTOCOLS:
            assert rows[method].measured(protocol) == run.result(ClassificationResult, protocol)
    assert rows["PRIN"].measured("strict") is None
    assert (rows["DGCNN"].published_ar, rows["Vector Neurons"].published_ar) == (0.2974, 0.9)
    assert (rows["RIConv++"].published, rows["RIConv++"].published_ar) == (None, None)


def test_only_the_network_that_canonicalises_has_a_variant_without(tmp_path):
    kinds = {}
    for kind in ("paper", "features", "upright", "dgcnn"):
        run = run_of(tmp_path / kind, kind, "modelnet10", "classification")
        assert run.kind == kind
        settings = json.loads((run.folder / "settings.json").read_text())
        (run.folder / "settings.json").write_text(json.dumps(settings | {"canonicalize": False}))
        kinds[kind] = EvaluatedRun(run.folder).kind
    assert kinds == {"paper": "var", "features": "features", "upright": "upright", "dgcnn": "dgcnn"}


def test_each_method_of_table_2_has_its_errors(tmp_path):
    upright = run_of(tmp_path / "it_net", "it_net", "modelnet10", "rotation")
    aligned, ours = (
        run_of(tmp_path / kind, kind, "modelnet10", "classification") for kind in ("pointnetlk", "upright")
    )
    pairs = pose_baselines()
    named = {"mean LRF": pairs.same_instance["Mean LRF"], "PCA": pairs.same_instance["PCA"]}
    write_result(ours.folder / "evaluation", replace(pairs, same_instance=named))
    learned = {"PointNetLK": pairs.same_instance["FPFH + RANSAC + ICP"]}
    write_result(aligned.folder / "evaluation", replace(pairs, same_instance=learned))
    rows = {row.method: row.measured for row in compare_errors([upright, aligned, ours])}

    canonical = {protocol: present(upright.result(RotationResult, protocol)).modes.canonical for protocol in PROTOCOLS}
    assert rows["IT-Net"] == {"paper": canonical["paper"].correct, "strict": canonical["strict"].all}
    assert rows["PointNetLK"] == dict.fromkeys(PROTOCOLS, learned["PointNetLK"])
    assert rows["PCA, resampled"] == rows["PCA, resampled and rotated"] == dict.fromkeys(PROTOCOLS, named["PCA"])
    assert rows["Mean LRF"] == dict.fromkeys(PROTOCOLS, named["mean LRF"])
    assert rows["QEC, siamese"] == dict.fromkeys(PROTOCOLS)
