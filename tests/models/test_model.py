"""What a trained model says: of anything that holds a shape, in any pose, and of bad files."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import benchmarks.baselines  # noqa: F401  (registers a network without poses)
import numpy as np
import pytest
import torch

import qecnet
from qecnet import DEFAULT_MODEL
from qecnet.algebra import angular_distance, conjugate, multiply, random_quaternion, rotate
from qecnet.datasets import FURNITURE_CLASSES, make_shape
from qecnet.formats import write
from qecnet.geometry import Mesh, PointCloud, PrepareConfig
from qecnet.models import Failure, Model, weights_file
from qecnet.nn import Calibration, FeatureConfig, FeatureNet, QECConfig, QECNet, create_network, save_network

ROOT = Path(__file__).parents[2]
NAME = "modelnet10-paper"


@pytest.fixture(scope="module")
def model():
    return qecnet.load(NAME)


@pytest.fixture(scope="module")
def featured():
    """A network with features that has learned nothing: equivariant all the same."""
    torch.manual_seed(0)
    network = FeatureNet(FeatureConfig(3))
    return Model("untrained", network, ("a", "b", "c"), PrepareConfig(method="centred", points=2000))


@pytest.fixture(scope="module")
def default():
    return qecnet.load(DEFAULT_MODEL)


@pytest.fixture(scope="module")
def chair():
    return make_shape("chair", 3)


def turned(mesh: Mesh, q, by=(0.0, 0.0, 0.0)) -> Mesh:
    return replace(mesh, vertices=rotate(q, mesh.vertices) + torch.tensor(by, dtype=torch.float64))


def test_importing_the_package_does_not_import_torch():
    code = "import sys, qecnet; qecnet.__version__; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        qecnet.nothing  # noqa: B018


def test_models_have_names():
    assert {"modelnet10", "modelnet10-paper", "modelnet40-paper"} <= {*qecnet.list_models()}


@pytest.mark.parametrize("name", qecnet.list_models())
def test_weights_that_ship_are_those_that_were_measured(name):
    shipped = weights_file(name)
    assert shipped.read_bytes() == (ROOT / "results" / shipped.stem / "weights.safetensors").read_bytes()


def test_a_run_is_loaded_by_its_path(model):
    again = qecnet.load(ROOT / "results" / NAME)
    assert again.classes == model.classes
    assert again.config == model.config


def test_unknown_model_gives_a_one_sentence_error(tmp_path):
    with pytest.raises(ValueError, match=r"^nothing: is neither a model in the package \(.*modelnet10-paper"):
        qecnet.load("nothing")
    baseline, bare, damaged = (tmp_path / f"{name}.safetensors" for name in ("baseline", "bare", "damaged"))
    save_network(baseline, create_network("pointnet", 2), ["a", "b"], {})
    with pytest.raises(ValueError, match="its network predicts no poses"):
        qecnet.load(baseline)
    save_network(bare, QECNet(QECConfig(2)), ["a", "b"], {})
    with pytest.raises(ValueError, match="does not record how its network was trained"):
        qecnet.load(bare)
    damaged.write_bytes(b"no weights")
    with pytest.raises(ValueError, match="damaged"):
        qecnet.load(damaged)


def test_an_answer_has_all_fields(model, chair):
    answer = model.predict(chair)
    assert answer.error is None
    assert [*answer.scores][:2] == [answer.label, answer.second]
    assert set(answer.scores) == set(model.classes)
    assert answer.confidence == max(answer.scores.values()) == answer.scores[answer.label]
    assert answer.pose.shape == (4,)
    assert answer.pose.dtype == torch.float64
    assert torch.isclose(answer.pose.norm(), torch.tensor(1.0, dtype=torch.float64))
    assert answer.milliseconds > 0
    assert answer.label in repr(answer)
    answer.activations.requires_grad_()  # users may do anything with what they get


def test_an_answer_is_described_in_json_with_lengths_in_its_own_units(model, chair):
    answer = model.predict(chair)
    near, far = (
        json.loads(json.dumps(replace(answer, radius=radius).describe())) for radius in (0.0123456789, 1234.56789)
    )
    assert (near["radius"], far["radius"]) == (0.0123457, 1234.57)
    assert {name for name in near if near[name] != far[name]} <= {"radius", "centre"}
    assert (near["label"], near["second"], near["symmetry"]) == (answer.label, answer.second, answer.symmetry)
    assert near["pose"] == pytest.approx(answer.pose.tolist(), abs=1e-5)
    without = replace(answer, classes=("shape",), activations=torch.ones(1), poses=answer.poses[:1]).describe()
    assert (without["label"], without["second"], without["scores"]) == (None, None, {})


def test_a_symmetric_class_has_several_poses(model, chair):
    """By the declared symmetry, whatever this shape is: the answers differ in nothing but the label."""
    answer = model.predict(chair)

    def of(label):
        return replace(answer, activations=torch.eye(len(model.classes))[model.classes.index(label)])

    for label, count in (("chair", 1), ("table", 2), ("night_stand", 4)):
        one = of(label)
        assert one.symmetry == count
        between = angular_distance(one.pose, one.equivalents)
        assert torch.allclose(between[0], torch.zeros(1, dtype=torch.float64), atol=1e-6)
        assert len(between) == count
        upright = rotate(one.pose, torch.tensor([0.0, 0, 1], dtype=torch.float64))
        assert torch.allclose(rotate(one.equivalents, upright.new_tensor([0.0, 0, 1])), upright.expand(count, 3))
        quarters = torch.rad2deg(between) * count / 360
        assert torch.allclose(quarters, quarters.round(), atol=1e-6)
    bottle = replace(of("chair"), classes=("bottle",) * len(model.classes))
    assert bottle.symmetry == "any"
    assert len(bottle.equivalents) == 1


def test_poses_are_units_in_double_precision(model, chair):
    lengths = model.predict(chair).poses.norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones(len(model.classes), dtype=torch.float64), rtol=0, atol=1e-14)


def test_temperature_changes_confidence_but_not_class(model, chair):
    plain = model.predict(chair)
    cold = Model(
        "cold", model.network, model.classes, model.config, Calibration(model.calibration.temperature / 2)
    ).predict(chair)
    assert [*cold.scores] == [*plain.scores]
    assert cold.confidence > plain.confidence
    for answer in (plain, cold):
        assert float(answer.activations.sum()) == pytest.approx(1, abs=1e-5)
    assert torch.equal(cold.descriptor, plain.descriptor)


def test_the_temperature_is_read_from_the_file(model, tmp_path):
    settings = {"points": 2000, "frames": 512, "patches": 64, "neighbours": 9, "method": "centred"}
    about = {"settings": settings, "temperature": 0.25}
    save_network(tmp_path / "weights.safetensors", model.network, model.classes, about)
    assert qecnet.load(tmp_path).calibration.temperature == 0.25


def test_the_calibration_is_read_as_it_was_written(model, tmp_path):
    path, calibration = tmp_path / "weights.safetensors", Calibration(0.5, 2.0, 0.25, -1.0)
    about = {"settings": {"points": 500, "frames": 64, "method": "centred"}} | asdict(calibration)
    save_network(path, model.network, list(model.classes), about)
    assert qecnet.load(tmp_path).calibration == calibration
    save_network(path, model.network, list(model.classes), about | {"temperature_slope": 6.0})
    with pytest.raises(ValueError, match=r"weights\.safetensors: .*temperature_slope is 6.0; .* from -5 to 5"):
        qecnet.load(tmp_path)


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf"), True, None, "warm"])
def test_invalid_temperature_gives_a_one_sentence_error(temperature, model, tmp_path):
    settings = {"points": 2000, "frames": 512, "patches": 64, "neighbours": 9, "method": "centred"}
    about = {"settings": settings, "temperature": temperature}
    save_network(tmp_path / "weights.safetensors", model.network, model.classes, about)
    with pytest.raises(ValueError, match=r"weights\.safetensors: .*temperature is .*number"):
        qecnet.load(tmp_path)


def test_every_kind_of_input_gives_the_same_answer(model, chair, tmp_path):
    points = chair.sample(1500, torch.Generator().manual_seed(0)).points
    write(tmp_path / "cloud.npy", PointCloud(points))
    shapes = [points, np.asfortranarray(points.numpy()), PointCloud(points), tmp_path / "cloud.npy"]
    answers = model.predict([*shapes, str(tmp_path / "cloud.npy")])
    assert answers[-1].name == str(tmp_path / "cloud.npy")
    for answer in answers[1:]:
        assert torch.allclose(answer.activations, answers[0].activations, atol=1e-5)
        assert torch.allclose(answer.pose, answers[0].pose, atol=1e-5)


def test_mesh_and_its_file_have_the_same_answer(model, chair, tmp_path):
    write(tmp_path / "chair.ply", chair)
    assert torch.equal(model.predict(chair).poses, model.predict(tmp_path / "chair.ply").poses)


def test_seed_determines_the_points(model, chair):
    first, again, other = (model.predict(chair, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.activations, again.activations)
    assert not torch.equal(first.activations, other.activations)


@pytest.mark.parametrize("count", [1000, 20_000])
def test_default_model_recognises_most_furniture_in_any_pose(default, count):
    turn = random_quaternion((), generator=7, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    answers = default.predict(
        [turned(make_shape(kind, 11), turn).sample(count, generator) for kind in FURNITURE_CLASSES]
    )
    assert sum(answer.label == kind for answer, kind in zip(answers, FURNITURE_CLASSES, strict=True)) >= 7
    up = torch.tensor([0.0, 0, 1], dtype=torch.float64)
    off = torch.stack([torch.dot(rotate(answer.pose, up), rotate(turn, up)) for answer in answers]).arccos()
    assert (off < np.radians(20)).sum() >= 7, "most know which way is up"


@pytest.mark.parametrize("which", ["model", "featured"])
def test_rotation_keeps_the_class_and_rotates_the_pose(which, chair, request):
    model = request.getfixturevalue(which)
    q = random_quaternion(3, generator=5, dtype=torch.float64)
    upright, *others = model.predict([chair, *(turned(chair, one, (5.0, -3.0, 1.0)) for one in q)])
    for one, answer in zip(q, others, strict=True):
        assert answer.label == upright.label
        assert abs(answer.confidence - upright.confidence) < 0.02
        assert angular_distance(answer.pose, multiply(one, upright.pose)) < np.radians(2)
        assert upright.descriptor @ answer.descriptor > 0.999


@pytest.mark.parametrize("which", ["model", "featured"])
def test_a_shape_is_aligned_with_itself_rotated_and_translated(which, chair, request):
    model = request.getfixturevalue(which)
    q, by = random_quaternion((), generator=6, dtype=torch.float64), (2.0, 0.5, -1.0)
    found = model.align(chair, turned(chair, q, by))
    assert angular_distance(found.rotation, q) < np.radians(2)
    assert torch.allclose(found.translation, torch.tensor(by, dtype=torch.float64), atol=0.05)
    assert found.residual < 0.05
    homogeneous = torch.cat((chair.vertices, torch.ones(len(chair.vertices), 1, dtype=torch.float64)), 1)
    assert torch.allclose(homogeneous @ found.matrix.T[:, :3], found.moved(chair.vertices), atol=1e-12)


def test_alignment_and_its_inverse_cancel(model, chair):
    sofa = make_shape("sofa", 1)
    there, back = model.align(chair, sofa), model.align(sofa, chair)
    assert angular_distance(there.rotation, conjugate(back.rotation)) < 1e-6


@pytest.mark.parametrize(("which", "width"), [("model", 10), ("featured", 256)])
def test_descriptors_have_length_one(which, width, chair, request):
    model = request.getfixturevalue(which)
    found = model.embed([chair, make_shape("bed", 1)])
    assert found.shape == (2, width)
    assert torch.allclose(found.norm(dim=-1), torch.ones(2))
    assert torch.allclose(found[0], model.predict(chair).descriptor, atol=1e-5)


def test_a_bad_file_does_not_stop_the_rest(model, chair, tmp_path):
    good, bad = tmp_path / "good.npy", tmp_path / "bad.off"
    write(good, chair.sample(600, torch.Generator().manual_seed(0)))
    bad.write_text("OFF\n3 1 0\n0 0 0\n")
    line = tmp_path / "line.npy"
    np.save(line, np.outer(np.arange(50), [1.0, 2, 3]))
    paths = [bad, good, tmp_path / "none.ply", *[good] * 16, line]
    found = [*model.predict_many(paths)]
    assert [one.name for one in found] == [str(path) for path in paths]
    assert [type(one) is Failure for one in found] == [path != good for path in paths]
    for one in (found[0], found[2], found[-1]):
        assert one.error.startswith(one.name + ": ")
        assert "\n" not in one.error
    assert "no surface" in found[-1].error
    alone = model.predict(good)
    assert all(torch.allclose(one.activations, alone.activations, atol=1e-5) for one in found if not one.error)
    with pytest.raises(ValueError, match=r"none\.ply: cannot be opened"):
        model.predict([good, tmp_path / "none.ply"])


def test_files_are_taken_as_they_are_needed(model, chair, tmp_path):
    good = tmp_path / "good.npy"
    write(good, chair.sample(600, torch.Generator().manual_seed(0)))

    def paths():
        yield from [good] * 16
        raise AssertionError("nobody has asked for the rest")

    answers = model.predict_many(paths())
    assert next(answers).label
    answers.close()


def test_answers_do_not_depend_on_the_number_of_workers(model, chair, tmp_path):
    write(tmp_path / "good.npy", chair.sample(600, torch.Generator().manual_seed(0)))
    paths = [tmp_path / "good.npy", tmp_path / "none.ply"] * 2
    for one, two in zip(model.predict_many(paths), model.predict_many(paths, workers=2), strict=True):
        assert one.error == two.error
        assert one.error or torch.equal(one.activations, two.activations)


@pytest.mark.parametrize("points", [np.zeros((4, 3)), np.zeros((5, 2)), np.full((20, 3), np.nan), np.zeros((0, 3))])
def test_invalid_points_give_a_one_sentence_error(model, points):
    with pytest.raises(ValueError, match=r"^cloud: "):
        model.predict(points)


def sparse_shape(name: str) -> torch.Tensor:
    """Points (N, 3) that do not lie on a line, in float64, around none of which a surface can be fitted."""
    along, axes = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None], torch.eye(3, dtype=torch.float64)
    if name == "crossed wires":
        return torch.cat([along * axis for axis in axes])
    if name == "skew wires":
        return torch.cat((along * axes[0], along * axes[1] + axes[2]))
    if name == "grid":
        return torch.cartesian_prod(*[torch.arange(3, dtype=torch.float64)] * 3)
    if name == "cube":
        corners = torch.cartesian_prod(*[torch.arange(2, dtype=torch.float64)] * 3)
        return torch.cat((corners, corners.mean(0)[None]))
    if name == "line and points":
        line = torch.linspace(0, 1, 400, dtype=torch.float64)[:, None] * torch.tensor([1.0, 2.0, 3.0])
        return torch.cat((line, torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 1]])))
    random = torch.rand(2000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return random * torch.tensor([1e6, 1, 0])  # a ribbon


SPARSE = ("crossed wires", "skew wires", "grid", "cube", "line and points", "ribbon")


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
@pytest.mark.parametrize("name", SPARSE)
def test_a_shape_without_a_surface_has_an_answer_if_the_network_reads_candidates(default, name, scale):
    answer = default.predict(sparse_shape(name) * scale)
    for tensor in (answer.activations, answer.poses, answer.descriptor, answer.centre):
        assert tensor.isfinite().all()
    points = sparse_shape(name) * scale
    middle = (points.amin(0) + points.amax(0)) / 2
    size = float((points - middle).norm(dim=-1).amax())
    assert 0.7 * size < answer.radius < 1.5 * size, "the network sees the positions"
    assert (answer.centre - middle).norm() < 0.3 * size


def test_answers_for_shapes_without_a_surface_differ_and_rotate_with_them(default):
    answers = {name: default.predict(sparse_shape(name)) for name in SPARSE}
    assert len({round(answer.confidence, 3) for answer in answers.values()}) == len(SPARSE)
    q = random_quaternion((), 3, dtype=torch.float64)
    again = default.predict(rotate(q, sparse_shape("line and points")))  # the others look the same in several poses
    before = answers["line and points"]
    assert again.confidence == pytest.approx(before.confidence, abs=0.1)
    assert (rotate(conjugate(q), again.up) - before.up).norm() < 0.1


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("which", ["default", "featured"])
def test_points_on_a_line_give_a_one_sentence_error(which, dtype, scale, request):
    line = torch.rand(400, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    line = scale * (line * torch.tensor([0.3, 0.7, -0.2], dtype=torch.float64) + torch.tensor([5.0, -3.0, 8.0]))
    with pytest.raises(ValueError, match=r"^cloud: has no surface \(its points lie on a line\); give points"):
        request.getfixturevalue(which).predict(line.to(dtype))


@pytest.mark.parametrize("name", SPARSE)
def test_a_network_that_needs_a_surface_says_so(featured, name):
    with pytest.raises(ValueError, match=r"^cloud: has no surface that this model can read \(its points are"):
        featured.predict(sparse_shape(name))


def test_integer_points_are_accepted(model):
    points = torch.randint(0, 50, (400, 3), generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.predict(points).activations, model.predict(points.double()).activations)


@pytest.mark.parametrize("name", ["modelnet10", "modelnet10-features"])
def test_a_known_up_restricts_poses_and_rotates_with_the_shape(name, chair):
    default = qecnet.load(name)
    z = torch.tensor([0.0, 0, 1], dtype=torch.float64)
    tilt = random_quaternion((), 4, dtype=torch.float64)
    up = 3 * rotate(tilt, z)
    about = torch.tensor([0.6, 0, 0, 0.8], dtype=torch.float64)
    shapes = [turned(chair, tilt), turned(chair, multiply(tilt, about))]
    free = default.predict(shapes[0])
    first, second = (default.predict(shape, up=up) for shape in shapes)
    assert torch.allclose(rotate(first.poses, z), rotate(tilt, z).expand(len(first.poses), 3), atol=1e-6)
    assert first.label == free.label
    if name == "modelnet10-features":  # the other one reads the shape from the known up
        assert torch.equal(first.activations, free.activations)
    turn = multiply(multiply(tilt, about), conjugate(tilt))
    assert angular_distance(second.pose, multiply(turn, first.pose)) < 1e-3
    assert angular_distance(first.pose, tilt) <= angular_distance(free.pose, tilt) + 1e-6
    assert torch.allclose(rotate(default.align(*shapes, up=up).rotation, up), up, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"refine": True}, {"scale": True, "refine": True}])
def test_an_alignment_takes_the_known_up_of_the_source_to_that_of_the_target(default, options):
    if options == {"refine": True}:
        pytest.importorskip("small_gicp")
    z = torch.tensor([0.0, 0, 1], dtype=torch.float64)
    mesh = make_shape("toilet", 3)
    scan, whole = (mesh.sample(3000, torch.Generator().manual_seed(seed)).points.double() for seed in (0, 1))
    tilts = random_quaternion(2, 4, dtype=torch.float64)
    up, target_up = rotate(tilts, 3 * z)
    source, target = rotate(tilts[0], scan), rotate(tilts[1], whole)
    found = default.align(source, target, up=up, target_up=target_up, **options)
    assert torch.allclose(rotate(found.rotation, up), target_up, atol=1e-5)
    assert angular_distance(found.rotation, multiply(tilts[1], conjugate(tilts[0]))) < np.radians(3)
    # Whichever is the source, and whatever the pose of the scan.
    back = default.align(target, source, up=target_up, target_up=up, **options)
    assert torch.allclose(rotate(back.rotation, target_up), up, atol=1e-5)
    q = random_quaternion((), 8, dtype=torch.float64)
    again = default.align(rotate(q, source), target, up=rotate(q, up), target_up=target_up, **options)
    assert angular_distance(multiply(again.rotation, q), found.rotation) < 1e-3
    assert again.residual == pytest.approx(found.residual, rel=1e-3)


def test_the_up_of_a_target_is_that_of_the_source_unless_given(default, chair):
    shapes = chair, make_shape("chair", 5)
    plain, given = (default.align(*shapes, up="z", target_up=up) for up in (None, (0, 0, 2)))
    assert torch.equal(plain.rotation, given.rotation)
    assert torch.equal(plain.translation, given.translation)


@pytest.mark.parametrize("up", [(0, 0, 0), (0, 1), (0, 0, float("nan")), "w", "", {}])
def test_a_target_up_without_a_direction_gives_a_one_sentence_error(default, chair, up):
    with pytest.raises(ValueError, match=r"^target_up is .*; give three finite numbers"):
        default.align(chair, chair, up="z", target_up=up)


def test_a_target_up_alone_gives_a_one_sentence_error(default, chair):
    with pytest.raises(ValueError, match=r"^target_up is given without up; give the up direction of the source, too$"):
        default.align(chair, chair, target_up="z")


@pytest.mark.parametrize("up", ["Z", "+z", "0,0,1"])
def test_an_up_may_be_text_as_in_commands(default, chair, up):
    assert torch.equal(default.predict(chair, up=up).pose, default.predict(chair, up=(0, 0, 1)).pose)


@pytest.mark.parametrize("up", [(0, 0, 0), (0, 1), (0, 0, float("nan")), "w", "", {}])
def test_up_without_a_direction_gives_a_one_sentence_error(default, chair, up):
    with pytest.raises(ValueError, match=r"up is .*; give three finite numbers"):
        default.predict(chair, up=up)


def test_other_types_give_a_one_sentence_error(default, chair):
    with pytest.raises(ValueError, match=r"^NoneType is not a shape; give the path"):
        default.predict(None)
    with pytest.raises(
        ValueError, match=r"^a list is read as a list of shapes; give the points of one shape as an array"
    ):
        default.predict(chair.vertices.tolist())
    with pytest.raises(ValueError, match=r"^viewpoint is 0,0; give three finite coordinates"):
        default.predict(chair, viewpoint="0,0")
