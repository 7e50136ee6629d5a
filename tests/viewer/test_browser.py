"""The page in a real Chromium, with screenshots in build/screenshots."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("selenium")

from benchmarks.browser import Page, chromium, resize, viewer

from qecnet import DEFAULT_MODEL
from qecnet.algebra import angular_distance, conjugate, multiply
from qecnet.datasets import make_shape
from qecnet.formats import write
from qecnet.viewer.session import VOTING_MODEL

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
LAYERS = ("frames", "patches", "capsules", "votes", "voters")


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def address():
    with viewer() as (address, _):
        yield address


@pytest.fixture(scope="module")
def driver(downloads):
    with chromium(downloads=downloads) as driver:
        yield driver


@pytest.fixture
def page(driver, address):
    resize(driver, 1400, 900)
    page = Page(driver, address)
    yield page
    assert page.console() == []
    host = address.removeprefix("http://")
    assert {request.split("/")[2] for request in page.requests()} == {host}, "no other host is contacted"


def quaternion(values):
    return torch.tensor(values, dtype=torch.float64)


def difference(a, b):
    """The share of pixels that are clearly another colour."""
    return (np.abs(a - b).max(-1) > 24).mean()


def test_random_rotations_keep_the_class_and_rotate_the_pose(page):
    before, seen = page.state, page.pixels()
    assert before["answer"]["label"] == page["label"].text.lower() == "chair"
    assert seen.std() > 10, "not blank"
    assert page["bars"].text.count("%") == 10
    page.screenshot(SHOTS / "upright.png")
    for number in range(3):
        page.press("random")
        after, shown = page.state, page.pixels()
        rotation = multiply(quaternion(after["rotation"]), conjugate(quaternion(before["rotation"])))
        expected = multiply(rotation, quaternion(before["answer"]["pose"]))
        assert after["answer"]["label"] == "chair"
        assert after["rotation"] != before["rotation"]
        assert angular_distance(quaternion(after["answer"]["pose"]), expected) < np.radians(2)
        assert difference(seen, shown) > 0.02, "the picture changes"
        assert after["equivariance_error_degrees"] < 2
        before, seen = after, shown
        page.screenshot(SHOTS / f"random_{number}.png")
    page.press("reset")
    assert page.state["rotation"] == pytest.approx([1, 0, 0, 0])


def test_dragging_the_rings_rotates_the_shape_and_the_pose(page):
    before = page.state
    page.drag((60, 10), (60, 10), (60, 10))
    page.wait(lambda: page.state["rotation"] != before["rotation"])
    page.screenshot(SHOTS / "dragging.png")
    page.drop()
    after = page.state
    rotation = multiply(quaternion(after["rotation"]), conjugate(quaternion(before["rotation"])))
    assert angular_distance(rotation, quaternion([1, 0, 0, 0])) > np.radians(10)
    expected = multiply(rotation, quaternion(before["answer"]["pose"]))
    assert angular_distance(quaternion(after["answer"]["pose"]), expected) < np.radians(2)
    assert after["answer"]["label"] == "chair"


def test_dragging_the_background_moves_only_the_camera(page):
    before, seen = page.state, page.pixels()
    page.drag((90, 10), (90, 10), name="hint")  # which lies over the background, below the shape
    page.drop()
    assert difference(seen, page.pixels()) > 0.02
    assert page.state["rotation"] == before["rotation"]


@pytest.mark.parametrize("layer", LAYERS[1:])
def test_layers_of_capsules_offer_a_model_that_has_them(page, layer):
    assert page.state["model"] == DEFAULT_MODEL
    page.press(f"layer-{layer}")
    assert "This model has no patches, capsules or votes." in page["legend"].text
    assert not page["votes"].is_displayed()
    page.screenshot(SHOTS / f"offer_{layer}.png")
    page.press("offer")
    assert page.state["model"] == page["model"].get_attribute("value") == VOTING_MODEL
    assert page["votes" if layer == "votes" else "legend"].is_displayed()
    assert not page.driver.find_elements("id", "offer")


def test_each_layer_is_shown_and_hidden(page):
    page.select("model", VOTING_MODEL)
    plain = page.pixels()
    for layer in LAYERS:
        page.press(f"layer-{layer}")
        shown = page.pixels()
        page.screenshot(SHOTS / f"layer_{layer}.png")
        assert difference(plain, shown) > 0.01, layer
        assert page["votes" if layer == "votes" else "legend"].is_displayed(), layer
        page.press(f"layer-{layer}")
        assert difference(plain, page.pixels()) < 0.002, f"{layer} is hidden again"


def test_routing_is_shown_step_by_step(page):
    page.select("model", VOTING_MODEL)
    page.press("layer-votes")
    seen = []
    for button in page["rounds"].find_elements("tag name", "button"):
        button.click()
        for step in (0, 3):
            page.slide("step", step)
            seen.append(page.pixels("sphere"))
            assert seen[-1].std() > 5, "not blank"
            page.screenshot(SHOTS / f"votes_{len(seen)}.png")
    assert len(seen) == 4
    assert difference(seen[0], seen[2]) > 0.002, "rounds differ"
    assert difference(seen[2], seen[3]) > 0, "routing changes weights"


def test_sliders_corrupt_the_input(page):
    whole = page.state
    page.slide("points", 40)
    page.slide("noise", 45)
    page.slide("outliers", 30)
    page.slide("occlusion", 30)
    corrupted = page.state
    page.screenshot(SHOTS / "corrupted.png")
    assert corrupted["answer"]["points"] < 1_000
    assert corrupted["answer"]["scores"] != whole["answer"]["scores"]
    page.press("undo")
    assert page.state["answer"]["scores"] == pytest.approx(whole["answer"]["scores"])
    page.press("resample")
    assert page.state["corruption"]["seed"] == 1
    assert page.state["answer"]["label"] == "chair"


def test_uploads_are_shown_or_refused(page, tmp_path):
    write(tmp_path / "my sofa.ply", make_shape("sofa", 3))
    (tmp_path / "broken.off").write_text("OFF\n3 1 0\n0 0 0\n")
    (tmp_path / "line.xyz").write_text("\n".join(f"{i} 0 0" for i in range(100)))
    page.upload(tmp_path / "my sofa.ply")
    assert page.state["shape"] == "my sofa.ply"
    assert page.state["answer"]["label"] == "sofa"
    page.screenshot(SHOTS / "upload.png")
    for name in ("broken.off", "line.xyz"):
        page.upload(tmp_path / name)
        assert page.error.startswith(name)
        page.screenshot(SHOTS / f"refused_{name}.png")
        page.press("random")
        assert page.state["shape"] == "my sofa.ply", "the page keeps what it had"
        assert page.state["answer"]["label"] == "sofa"
        page.press("error-close")
        assert page.error == ""
    page.press("next")
    assert page.state["source"]["kind"] in page["kind"].get_attribute("value")


def test_a_refused_upload_is_replaced_also_after_a_late_response(page, tmp_path):
    write(tmp_path / "sofa.ply", make_shape("sofa", 3))
    (tmp_path / "line.xyz").write_text("\n".join(f"{i} 0 0" for i in range(100)))
    page.upload(tmp_path / "sofa.ply")
    # A request that takes three seconds, during which the upload is read.
    page.driver.execute_script("""
      const send = window.send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (data) { setTimeout(() => send.call(this, data), 3000); };
      document.getElementById("resample").click();
    """)
    page["file"].send_keys(str(tmp_path / "line.xyz"))
    page.wait(lambda: page.error.startswith("line.xyz"))
    page.driver.execute_script("WebSocket.prototype.send = window.send")
    page.settle()
    page.press("error-close")
    page.press("random")
    assert page.error == ""
    assert page.state["shape"] == "sofa.ply"


def test_baseline_is_shown_next_to_the_model(page):
    page.press("compare")
    upright = page.state["comparison"]
    assert upright["label"] == "chair"
    labels = set()
    for _ in range(4):
        page.press("random")
        assert page.state["answer"]["label"] == "chair"
        labels.add(page.state["comparison"]["label"])
    page.screenshot(SHOTS / "compare.png")
    assert labels != {"chair"}
    assert page["baseline"].is_displayed()
    note = "Predicts chair" if page.state["comparison"]["label"] == "chair" else "Predicted chair"
    assert note in page["baseline-note"].text


def test_a_second_shape_is_aligned(page):
    alone = page.pixels()
    page.press("align-summary")
    page.wait(lambda: "alignment" in page.state)
    page.settle()
    before = page.pixels()
    assert difference(alone, before) > 0.02
    page.screenshot(SHOTS / "align_before.png")
    page.press("after")
    assert difference(before, page.pixels()) > 0.005
    page.screenshot(SHOTS / "align_after.png")
    found = page.state["alignment"]
    assert found["after"] < found["before"]
    assert f"{found['after']:.3f}" in page["residual"].text
    rotation = quaternion(found["rotation"])
    page.press("second-random")
    assert angular_distance(rotation, quaternion(page.state["alignment"]["rotation"])) > np.radians(1)
    page.press("align-summary")
    page.wait(lambda: "alignment" not in page.state)


def test_candidates_are_shown_and_rotate_the_shape_upright(page):
    assert page["candidates"].is_displayed()
    page.select("model", VOTING_MODEL)
    assert not page["candidates"].is_displayed(), "this model compares none"
    page.select("kind", "table")
    page.select("model", "upright")
    page.press("random")
    state = page.state
    assert state["model"] == "upright"
    assert page["label"].text.endswith("%")
    assert not page["bars"].is_displayed()
    buttons = page["strip"].find_elements("tag name", "button")
    candidates = state["answer"]["candidates"]
    assert [button.text for button in buttons] == [f"{100 * one['probability']:.0f}%" for one in candidates]
    first, second = candidates[:2]  # the table looks the same from both ends
    assert first["probability"] + second["probability"] > 0.9
    assert angular_distance(quaternion(first["pose"]), quaternion(second["pose"])) > np.radians(177)
    page.screenshot(SHOTS / "candidates.png")
    for button, candidate in zip(buttons, candidates, strict=True):
        expected = multiply(conjugate(quaternion(candidate["pose"])), quaternion(state["rotation"]))
        button.click()
        page.settle()
        assert angular_distance(quaternion(page.state["rotation"]), expected) < np.radians(3)
        assert button.get_attribute("aria-pressed") == "true"
    page.screenshot(SHOTS / "candidate_chosen.png")


def test_a_camera_sees_the_shape_from_here(page):
    whole, seen = page.state, page.pixels()
    page.press("see")
    view = page.state
    assert view["answer"]["label"] == "chair"
    assert 0.2 < view["camera"]["visible"] < 0.7
    assert view["answer"]["points"] < whole["answer"]["points"]
    assert "of the surface" in page["confidence"].text
    assert "whole shapes only" not in page["confidence"].text
    assert difference(seen, page.pixels()) > 0.005
    page.screenshot(SHOTS / "camera.png")
    page.press("whole")
    assert "camera" not in page.state
    assert page.state["answer"] == whole["answer"]
    assert difference(seen, page.pixels()) < 0.002


def test_pages_are_independent(page, address):
    first = page.driver.current_window_handle
    state = page.state
    page.driver.switch_to.new_window("tab")
    try:
        other = Page(page.driver, address)
        other.press("next")
        other.press("random")
        assert other.state["shape"] == "desk"
    finally:
        page.driver.close()
        page.driver.switch_to.window(first)
    assert page.state == state
    page.press("random")
    assert page.state["shape"] == "chair"


def test_the_image_and_the_result_are_saved(page, downloads):
    page.press("save-json")
    page.press("save-png")
    page.wait(lambda: (downloads / "chair.json").exists() and (downloads / "chair.png").exists())
    assert json.loads((downloads / "chair.json").read_text()) == page.state
    page.wait(lambda: (downloads / "chair.png").stat().st_size > 1000)
    assert (downloads / "chair.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_narrow_window_shows_everything(page):
    resize(page.driver, 420, 800)
    page.press("random")
    width = page.driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= 420, "nothing overflows"
    assert page.pixels().std() > 10
    page.driver.execute_script("scrollTo(0, 0)")
    page.screenshot(SHOTS / "narrow.png")
    page.select("model", VOTING_MODEL)
    page.press("layer-voters")
    page.press("layer-votes")
    page.screenshot(SHOTS / "narrow_votes.png")
    page.press("save-json")


def test_the_page_reconnects_after_a_restart(driver, tmp_path):
    write(tmp_path / "sofa.ply", make_shape("sofa", 3))
    with viewer() as (address, _):
        page = Page(driver, address)
        page.upload(tmp_path / "sofa.ply")
    page.wait(lambda: "the viewer was stopped" in page.error)
    page.screenshot(SHOTS / "closed.png")
    with viewer(int(address.rpartition(":")[2])):
        page.wait(lambda: "upload them again" in page.error)
        page.settle()
        page.press("error-close")
        page.press("random")
        assert page.error == ""
        assert page.state["shape"] == page.state["answer"]["label"] == "chair"
