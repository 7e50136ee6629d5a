"""Pose baselines: laws of the equivariant ones, what the others can and cannot do, and how they are measured."""

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from benchmarks.pose_baselines import (
    METHODS,
    AlignedPair,
    NoPoseError,
    align_pairs,
    gicp,
    mean_lrf,
    mean_pose,
    measure,
    measure_pose_baselines,
    pca,
    principal_axes,
    refine,
    score,
)
from benchmarks.pose_baselines.__main__ import app
from benchmarks.pose_baselines._shared import import_package
from scipy.spatial.transform import Rotation
from tests.kinds import present, recording
from typer.testing import CliRunner

from qecnet.algebra import angular_distance, conjugate, from_rotvec, multiply, random_quaternion, rotate
from qecnet.datasets import make_shape, open_dataset
from qecnet.evaluation import PoseBaselinesResult, read_result, write_result
from qecnet.formats import write
from qecnet.geometry import PointCloud, prepare

TWOFOLD = torch.tensor([0.0, 0, 1, 0], dtype=torch.float64)
TURNS = [*random_quaternion(2, 5, dtype=torch.float64), TWOFOLD]
CLASSES = ("table", "chair", "bed")
EQUIVARIANT = {"mean LRF": 1e-5, "PCA": 1e-11}
"""Radians that answers may be off where the cloud is float64; frames are estimated in float32."""


@pytest.fixture(autouse=True)
def there(request):
    """Skip what needs a package that is not there."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("method")
    needed = METHODS[name].package if name in METHODS else None
    if needed:
        try:
            import_package(needed)
        except ValueError as error:
            pytest.skip(str(error))


def sampled(kind="desk", seed=1, draw=0, count=1500, dtype=torch.float64):
    cloud = make_shape(kind, seed).sample(count, torch.Generator().manual_seed(draw))
    return dataclasses.replace(cloud, points=cloud.points.to(dtype))


def turned(q, cloud):
    return dataclasses.replace(cloud, points=rotate(q.to(cloud.points), cloud.points))


def degrees(p, q):
    return float(torch.rad2deg(angular_distance(p, q)))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "GICP"])
def test_rotation_is_recovered_at_any_position(method):
    cloud = sampled()
    for q in TURNS:
        moved = PointCloud(3 * rotate(q, cloud.points) + 7)
        answer = METHODS[method].align(cloud, moved, 0)
        assert answer.shape == (4,)
        assert answer.dtype == torch.float64
        assert degrees(answer, q) < 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", EQUIVARIANT)
def test_rotating_a_cloud_rotates_the_prediction(method, dtype):
    """So that clouds that are only resampled (PCA-S) have the errors of clouds that are rotated too (PCA-SR)."""
    align, tight = METHODS[method].align, EQUIVARIANT[method] if dtype == torch.float64 else 1e-4
    source, target = sampled(draw=0, dtype=dtype), sampled("desk", 2, draw=1, dtype=dtype)
    answer = align(source, target, 0)
    for g in TURNS:
        assert angular_distance(align(source, turned(g, target), 0), multiply(g, answer)) < tight
        assert angular_distance(align(turned(g, source), target, 0), multiply(answer, conjugate(g))) < tight
    assert angular_distance(align(target, source, 0), conjugate(answer)) < tight


@pytest.mark.parametrize("method", EQUIVARIANT)
def test_order_duplicates_and_non_finite_points_change_nothing(method):
    align, (source, target) = METHODS[method].align, (sampled(draw=0), sampled(draw=1))
    shuffled = target.points[torch.randperm(len(target), generator=torch.Generator().manual_seed(0))]
    dirty = PointCloud(torch.cat([shuffled, shuffled[:10], torch.full((1, 3), torch.nan)]))
    assert angular_distance(align(source, target, 0), align(source, dirty, 0)) < EQUIVARIANT[method]


def test_mean_frame_agrees_with_scipy():
    prepared = prepare(sampled())
    frames = prepared.frames[prepared.valid].double().numpy()
    w, *xyz = mean_pose(prepared).tolist()
    assert (Rotation.from_quat(frames[:, [1, 2, 3, 0]]).mean().inv() * Rotation.from_quat([*xyz, w])).magnitude() < 1e-6


def test_principal_axes_are_right_handed_longest_first_and_point_to_the_long_tail():
    for kind in ("bed", "chair", "desk", "toilet"):
        points = sampled(kind).points.numpy()
        points = points - points.mean(0)
        axes = principal_axes(points)
        along = points @ axes
        assert np.linalg.det(axes) == pytest.approx(1)
        assert np.allclose(np.cov(along.T), np.diag(np.sort(np.linalg.eigvalsh(np.cov(points.T)))[::-1]), atol=1e-12)
        assert (scipy.stats.skew(along) > 0).sum() >= 2


def test_the_mirror_plane_of_a_shape_does_not_confuse_its_axes():
    """Two samples of a mirrored cloud, whose third moment across the plane is noise: handedness decides there."""
    half = sampled("chair", 1, count=4000).points
    first, second = (torch.cat([part, part * torch.tensor([-1, 1, 1])]) for part in (half[::2], half[1::2]))
    q = TURNS[0]
    assert degrees(pca(PointCloud(first), PointCloud(rotate(q, second))), q) < 5


@pytest.mark.parametrize("method", ["GICP"])
def test_gicp_finds_a_small_rotation_and_not_a_large_one(method):
    source, target = sampled("chair", draw=0), sampled("chair", draw=1)
    axis = torch.tensor([0.6, 0.0, 0.8], dtype=torch.float64)
    small, large = from_rotvec(0.3 * axis), from_rotvec(2.5 * axis)
    assert degrees(gicp(source, turned(small, target)), small) < 2
    assert degrees(gicp(source, turned(large, target)), large) > 30
    near = multiply(small, large)
    assert degrees(refine(source, turned(large, target), near), large) < 2


@pytest.mark.parametrize("method", ["FPFH + RANSAC + ICP", "FPFH + FGR + ICP"])
def test_registration_repeats_bit_for_bit_and_leaves_open3d_its_threads(method):
    align, (source, target) = METHODS[method].align, (sampled(draw=0), turned(TURNS[0], sampled(draw=1)))
    threads = import_package("open3d").utility.get_max_threads()
    first = align(source, target, 2**32 - 1)
    align(source, target, 1)
    assert torch.equal(align(source, target, 2**32 - 1), first)
    assert degrees(first, TURNS[0]) < 3
    assert import_package("open3d").utility.get_max_threads() == threads


LINE = torch.linspace(0, 1, 40)[:, None] * torch.ones(3)
PLANE = torch.rand(200, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 0.7, 0.0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("points", [torch.ones(1, 3), torch.ones(20, 3), LINE], ids=["a point", "one point", "a line"])
def test_cloud_without_orientation_gives_a_one_sentence_error(method, points):
    lamp = PointCloud(rotate(TURNS[0].float(), points), name="lamp")
    with pytest.raises(NoPoseError, match=r"^lamp: "):
        METHODS[method].align(sampled(), lamp, 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("points", [PLANE, torch.eye(3), sampled(count=12).points], ids=["plane", "three", "twelve"])
def test_degenerate_clouds_have_a_rotation_or_a_one_sentence_error(method, points):
    try:
        answer = METHODS[method].align(PointCloud(points), PointCloud(rotate(TURNS[1].to(points), points)), 0)
    except NoPoseError:
        assert method == "mean LRF"
    else:
        assert answer.isfinite().all()
        assert answer.norm().item() == pytest.approx(1)


@pytest.mark.parametrize(("name", "module"), [("FPFH + RANSAC + ICP", "open3d"), ("GICP", "small_gicp")])
def test_missing_package_is_named_with_its_extra(monkeypatch, tmp_path, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"{module} cannot be imported .*; pip install 'qecnet\[baselines\]'"):
        METHODS[name].align(sampled(), sampled())
    with pytest.raises(ValueError, match="qecnet"):
        align_pairs(small_set(tmp_path), methods=[name], progress=False)


def small_set(folder):
    """Clouds of three desks and a sofa, and a sheet of paper."""
    clouds = {f"desk/test/desk_{i}": sampled("desk", i, draw=i) for i in range(3)}
    clouds |= {"sofa/test/sofa_0": sampled("sofa"), "sheet/test/sheet_0": PointCloud(PLANE)}
    for name, cloud in clouds.items():
        for split in ("test", "train"):
            file = folder / f"{name.replace('test', split)}.ply"
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file, cloud)
    return open_dataset("small", folder)


@pytest.mark.slow
def test_rows_do_not_depend_on_the_number_of_workers(tmp_path):
    dataset = small_set(tmp_path)
    methods = ["mean LRF", "PCA", "GICP"]
    alone, together = (
        [
            dataclasses.replace(row, seconds=0.0)
            for row in align_pairs(dataset, "test", methods, 2, seed=3, workers=workers, progress=False)
        ]
        for workers in (1, 2)
    )
    assert alone == together
    other = align_pairs(dataset, "test", ["PCA"], 2, seed=4, workers=1, progress=False)
    assert {row.first for row in other}.isdisjoint(row.first for row in alone)


def test_an_interrupted_run_resumes_after_the_last_whole_pair(tmp_path, monkeypatch):
    dataset, part = small_set(tmp_path), tmp_path / "rows.part"

    def rows(seed=3):
        found = align_pairs(dataset, "test", ["mean LRF", "PCA"], 2, seed=seed, workers=1, progress=False, part=part)
        return [dataclasses.replace(row, seconds=0.0) for row in found]

    whole = rows()
    part.unlink()
    aligned = measure._align_pair
    seen: list[Any] = []

    def interrupted(*given):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(given[0])
        return aligned(*given)

    monkeypatch.setattr(measure, "_align_pair", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rows()
    with part.open("ab") as file:  # a row that was being written
        file.write(b'[{"table": "same_')
    later: list[Any] = []
    monkeypatch.setattr(measure, "_align_pair", recording(aligned, later))
    assert rows() == whole
    assert len(later) == len(whole) // 2 - 3
    assert rows() == whole
    assert len(later) == len(whole) // 2 - 3
    assert rows(seed=4) != whole, "what was kept for another seed is of no use"


def test_pairs_are_of_one_or_two_shapes_in_different_views(tmp_path):
    rows = align_pairs(small_set(tmp_path), "test", ["PCA"], 7, workers=1, progress=False)
    desks = {table: [row for row in rows if (row.table, row.label) == (table, 0)] for table in {r.table for r in rows}}
    assert [len(of_table) for of_table in (desks["same_instance"], desks["category_level"])] == [7, 6]
    assert all(a == b for a, b in (row.shapes for row in desks["same_instance"]))
    assert len({row.shapes for row in desks["category_level"]}) == 6
    assert all(a != b for a, b in (row.shapes for row in desks["category_level"]))
    turns = [q for row in desks["same_instance"] for q in (row.first, row.second)]
    assert len(set(turns)) == len(turns) == 14


def test_measurement_has_all_figures(tmp_path):
    dataset = small_set(tmp_path)
    found = measure_pose_baselines(dataset, "test", ["mean LRF", "PCA"], 2, seed=1, workers=1, progress=False)
    write_result(tmp_path, found)
    assert read_result(tmp_path, PoseBaselinesResult) == found
    assert (found.protocol, found.classes) == ("strict", tuple(dataset.classes))
    same, other = found.same_instance, found.category_level
    assert all(table.keys() == {"mean LRF", "PCA"} for table in (same, other))

    assert present(same["PCA"].per_class["desk"]).mean < 0.05, "the truth is R₂ ∘ R₁⁻¹"
    assert present(same["PCA"].per_class["sofa"]).count == 2
    assert other["PCA"].per_class["sofa"] is None, "there is no second sofa"
    assert present(same["PCA"].seconds) > 0

    assert (same["mean LRF"].no_answer, same["PCA"].no_answer) == (0, 0), "a sheet has frames, too"


def test_views_have_different_points(tmp_path):
    rows = align_pairs(small_set(tmp_path), "test", ["PCA"], 3, workers=1, progress=False)
    errors = [
        degrees(torch.tensor(row.predicted), multiply(torch.tensor(row.second), conjugate(torch.tensor(row.first))))
        for row in rows
        if (row.table, row.label) == ("same_instance", 0)
    ]
    assert 0.01 < min(errors) < max(errors) < 10


def test_scores_of_rows_made_by_hand():
    """Half a turn about its own up axis is nothing to a table, a half turn to a chair; no answer is the identity."""
    about_z = torch.tensor([0.0, 0, 0, 1], dtype=torch.float64)
    first, second = random_quaternion(2, 0, dtype=torch.float64)
    round_it = multiply(multiply(second, about_z), conjugate(first)).tolist()

    def row(label, predicted, seconds):
        said = None if predicted is None else tuple(predicted)
        turned = tuple(first.tolist()), tuple(second.tolist())
        return AlignedPair("same_instance", "by hand", label, ("a", "a"), *turned, said, seconds)

    exact = multiply(second, conjugate(first)).tolist()
    found = score([row(0, round_it, 1.0), row(1, round_it, 2.0), row(1, exact, 3.0), row(2, None, 4.0)], CLASSES)
    table, chair, bed = (present(found.per_class[name]) for name in CLASSES)
    assert (table.mean, table.symmetric.mean) == pytest.approx((1, 0), abs=1e-7)
    assert (chair.mean, chair.symmetric.mean, chair.count) == pytest.approx((0.5, 0.5, 2), abs=1e-7)
    assert bed.mean == pytest.approx(degrees(first, second) / 180)
    assert present(found.no_sym).count == 3
    assert (found.seconds, found.no_answer) == (2.5, 1)
    nothing = score([], CLASSES)
    assert (nothing.all_classes, nothing.seconds, nothing.no_answer) == (None, None, 0)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"methods": ["magic"]}, "magic is not a pose baseline; these are mean LRF"),
        ({"pairs_per_class": 0}, "pairs_per_class is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"split": "dev"}, "no shapes in the split dev"),
    ],
)
def test_bad_requests_give_a_one_sentence_error(tmp_path, asked, sentence):
    with pytest.raises(ValueError, match=sentence):
        align_pairs(small_set(tmp_path), **{"methods": ["PCA"], "progress": False} | asked)


def test_mean_lrf_thins_large_clouds_by_its_seed():
    large, other = sampled(count=10_200), sampled(draw=1)
    answer = mean_lrf(large, other, 3)
    assert torch.equal(mean_lrf(large, other, 3), answer)
    assert not torch.equal(mean_lrf(large, other, 4), answer)


def test_the_command_writes_a_result_and_refuses_what_is_not_a_method(tmp_path):
    found = CliRunner().invoke(
        app, [str(tmp_path / "new"), *["--dataset", "shapes", "--method", "PCA", "--pairs", "1", "--workers", "1"]]
    )
    assert found.exit_code == 0, found.output
    assert "PCA" in found.output
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pose-baselines.json"]
    result = present(read_result(tmp_path / "new", PoseBaselinesResult))
    assert present(result.category_level["PCA"].all_classes).count == 10
    bad = CliRunner().invoke(app, [str(tmp_path), "--dataset", "shapes", "--method", "magic"])
    assert bad.exit_code == 1
    assert "magic is not a pose baseline" in bad.output
