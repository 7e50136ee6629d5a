"""Networks whose frames' normals look toward the camera: trained on views, loaded, and given a viewpoint."""

import torch
from typer.testing import CliRunner

from qecnet.algebra import rotate
from qecnet.cli.main import app
from qecnet.datasets import TRAINING_CAMERA, derive_seed, frame_cache, make_furniture, make_shape, sample_view
from qecnet.models import load


def test_frames_of_views_look_toward_the_camera_and_those_of_whole_shapes_outward(tiny, tmp_path):
    dataset = make_furniture(2)
    camera, outward = (
        frame_cache(
            dataset,
            "train",
            tmp_path,
            tiny(sign=sign, method="centred").prepare_config(),
            subsamplings=3,
            views=0.4,
            workers=1,
            progress=False,
        )
        for sign in ("camera", "outward")
    )
    for number, item in enumerate(dataset.items("train")):
        view = sample_view(item.load(), torch.Generator().manual_seed(derive_seed(0, number, 2)), TRAINING_CAMERA)
        points = camera.points(number, 2)
        normals = rotate(points.frames, torch.tensor([0.0, 0, 1])).double()
        to_camera = view.cameras[0] - points.restore(points.positions)
        assert ((normals * to_camera).sum(-1)[points.valid] >= -1e-6).all()
        assert torch.equal(camera.points(number, 0).frames, outward.points(number, 0).frames)
    every = torch.arange(len(camera))
    assert not torch.equal(camera.points(every, 2).frames, outward.points(every, 2).frames)


def test_a_trained_network_reads_the_viewpoint(options, tmp_path):
    given = options(tmp_path / "run", sign="camera", views=0.4, epochs=1)
    result = CliRunner().invoke(app, ["train", "--config", "paper", *given])
    assert result.exit_code == 0, result.output
    model = load(tmp_path / "run")
    assert model.config.sign == "camera"
    cloud = sample_view(make_shape("chair", 0), torch.Generator().manual_seed(0)).cloud
    seen, unseen = model.predict(cloud), model.predict(cloud.seen_from(None))
    assert not torch.equal(seen.activations, unseen.activations)
