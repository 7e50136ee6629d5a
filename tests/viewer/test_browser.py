"""The page in a real Chromium: what a person does with it, and what there is to see. Kept in build/screenshots."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("selenium")

from tests.viewer.browser import Page, chromium, resize, viewer

from qecnet.algebra import angular_distance, conjugate, multiply
from qecnet.datasets import make_shape
from qecnet.formats import write

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
    assert {request.split("/")[2] for request in page.requests()} == {host}, "no other host is asked"


def quaternion(values):
    return torch.tensor(values, dtype=torch.float64)


def difference(a, b):
    """The share of pixels that are clearly another colour."""
    return (np.abs(a - b).max(-1) > 24).mean()


def test_random_rotations_leave_the_name_and_turn_the_pose(page):
    before, seen = page.state, page.pixels()
    assert before["answer"]["label"] == page["label"].text.lower() == "chair"
    assert seen.std() > 10, "not blank"
    assert page["bars"].text.count("%") == 10
    page.shot(SHOTS / "upright.png")
    for number in range(3):
        page.press("random")
        after, looks = page.state, page.pixels()
        turn = multiply(quaternion(after["turn"]), conjugate(quaternion(before["turn"])))
        expected = multiply(turn, quaternion(before["answer"]["pose"]))
        assert after["answer"]["label"] == "chair"
        assert after["turn"] != before["turn"]
        assert angular_distance(quaternion(after["answer"]["pose"]), expected) < np.radians(2)
        assert difference(seen, looks) > 0.02, "the picture turned"
        assert after["followed_degrees"] < 2
        before, seen = after, looks
        page.shot(SHOTS / f"random_{number}.png")
    page.press("reset")
    assert page.state["turn"] == pytest.approx([1, 0, 0, 0])


def test_the_rings_turn_the_shape_and_the_prediction_comes_along(page):
    before = page.state
    page.drag((60, 10), (60, 10), (60, 10))
    page.wait(lambda: page.state["turn"] != before["turn"])
    page.shot(SHOTS / "dragging.png")
    page.drop()
    after = page.state
    turn = multiply(quaternion(after["turn"]), conjugate(quaternion(before["turn"])))
    assert angular_distance(turn, quaternion([1, 0, 0, 0])) > np.radians(10)
    expected = multiply(turn, quaternion(before["answer"]["pose"]))
    assert angular_distance(quaternion(after["answer"]["pose"]), expected) < np.radians(2)
    assert after["answer"]["label"] == "chair"


def test_the_background_moves_the_eye_and_not_the_shape(page):
    before, seen = page.state, page.pixels()
    page.drag((90, 10), (90, 10), name="hint")  # which lies over the background, below the shape
    page.drop()
    assert difference(seen, page.pixels()) > 0.02
    assert page.state["turn"] == before["turn"]


def test_each_layer_is_shown(page):
    plain = page.pixels()
    for layer in LAYERS:
        page.press(f"layer-{layer}")
        shown = page.pixels()
        page.shot(SHOTS / f"layer_{layer}.png")
        assert difference(plain, shown) > 0.01, layer
        assert page["votes" if layer == "votes" else "legend"].is_displayed(), layer
        page.press(f"layer-{layer}")
        assert difference(plain, page.pixels()) < 0.002, f"{layer} is gone again"


def test_routing_is_seen_step_by_step(page):
    page.press("layer-votes")
    seen = []
    for look in page["looks"].find_elements("tag name", "button"):
        look.click()
        for step in (0, 3):
            page.slide("step", step)
            seen.append(page.pixels("sphere"))
            assert seen[-1].std() > 5, "not blank"
            page.shot(SHOTS / f"votes_{len(seen)}.png")
    assert len(seen) == 4
    assert difference(seen[0], seen[2]) > 0.002, "looks differ"
    assert difference(seen[2], seen[3]) > 0, "routing changes weights"


def test_sliders_spoil_the_input(page):
    whole = page.state
    page.slide("points", 40)
    page.slide("noise", 45)
    page.slide("outliers", 30)
    page.slide("occlusion", 30)
    spoiled = page.state
    page.shot(SHOTS / "spoiled.png")
    assert spoiled["answer"]["points"] < 1_000
    assert spoiled["answer"]["scores"] != whole["answer"]["scores"]
    page.press("mend")
    assert page.state["answer"]["scores"] == pytest.approx(whole["answer"]["scores"])
    page.press("redraw")
    assert page.state["spoil"]["seed"] == 1
    assert page.state["answer"]["label"] == "chair"


def test_uploads_good_and_bad(page, tmp_path):
    write(tmp_path / "my sofa.ply", make_shape("sofa", 3))
    (tmp_path / "broken.off").write_text("OFF\n3 1 0\n0 0 0\n")
    (tmp_path / "line.xyz").write_text("\n".join(f"{i} 0 0" for i in range(100)))
    page.upload(tmp_path / "my sofa.ply")
    assert page.state["shape"] == "my sofa.ply"
    assert page.state["answer"]["label"] == "sofa"
    page.shot(SHOTS / "upload.png")
    for name in ("broken.off", "line.xyz"):
        page.upload(tmp_path / name)
        assert page.trouble.startswith(name)
        page.shot(SHOTS / f"refused_{name}.png")
        page.press("random")
        assert page.state["shape"] == "my sofa.ply", "the page goes on with what it had"
        assert page.state["answer"]["label"] == "sofa"
        page.press("trouble-close")
        assert page.trouble == ""
    page.press("next")
    assert page.state["source"]["kind"] in page["kind"].get_attribute("value")


def test_a_refused_upload_gives_way_also_when_an_older_answer_comes_late(page, tmp_path):
    write(tmp_path / "sofa.ply", make_shape("sofa", 3))
    (tmp_path / "line.xyz").write_text("\n".join(f"{i} 0 0" for i in range(100)))
    page.upload(tmp_path / "sofa.ply")
    # A wish that is three seconds on its way, in which the upload is read.
    page.driver.execute_script("""
      const send = window.send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (data) { setTimeout(() => send.call(this, data), 3000); };
      document.getElementById("redraw").click();
    """)
    page["file"].send_keys(str(tmp_path / "line.xyz"))
    page.wait(lambda: page.trouble.startswith("line.xyz"))
    page.driver.execute_script("WebSocket.prototype.send = window.send")
    page.settle()
    page.press("trouble-close")
    page.press("random")
    assert page.trouble == ""
    assert page.state["shape"] == "sofa.ply"


def test_a_network_that_is_not_equivariant_stands_beside(page):
    page.press("compare")
    upright = page.state["comparison"]
    assert upright["label"] == "chair"
    said = set()
    for _ in range(4):
        page.press("random")
        assert page.state["answer"]["label"] == "chair"
        said.add(page.state["comparison"]["label"])
    page.shot(SHOTS / "compare.png")
    assert said != {"chair"}
    assert page["other"].is_displayed()
    says = "Says chair" if page.state["comparison"]["label"] == "chair" else "Said chair"
    assert says in page["other-note"].text


def test_a_second_shape_is_aligned(page):
    alone = page.pixels()
    page.press("align-summary")
    page.wait(lambda: "alignment" in page.state)
    page.settle()
    before = page.pixels()
    assert difference(alone, before) > 0.02
    page.shot(SHOTS / "align_before.png")
    page.press("after")
    assert difference(before, page.pixels()) > 0.005
    page.shot(SHOTS / "align_after.png")
    found = page.state["alignment"]
    assert found["after"] < found["before"]
    assert f"{found['after']:.3f}" in page["residual"].text
    rotation = quaternion(found["rotation"])
    page.press("second-random")
    assert angular_distance(rotation, quaternion(page.state["alignment"]["rotation"])) > np.radians(1)
    page.press("align-summary")
    page.wait(lambda: "alignment" not in page.state)


def test_tabs_do_not_disturb_each_other(page, address):
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


def test_a_picture_and_the_result_are_saved(page, downloads):
    page.press("save-json")
    page.press("save-png")
    page.wait(lambda: (downloads / "chair.json").exists() and (downloads / "chair.png").exists())
    assert json.loads((downloads / "chair.json").read_text()) == page.state
    page.wait(lambda: (downloads / "chair.png").stat().st_size > 1000)
    assert (downloads / "chair.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_narrow_window_has_everything(page):
    resize(page.driver, 420, 800)
    page.press("random")
    width = page.driver.execute_script("return document.documentElement.scrollWidth")
    assert width <= 420, "nothing sticks out"
    assert page.pixels().std() > 10
    page.driver.execute_script("scrollTo(0, 0)")
    page.shot(SHOTS / "narrow.png")
    page.press("layer-voters")
    page.press("layer-votes")
    page.shot(SHOTS / "narrow_votes.png")
    page.press("save-json")


def test_closing_the_viewer_is_said_on_the_page_which_goes_on_with_the_next(driver, tmp_path):
    write(tmp_path / "sofa.ply", make_shape("sofa", 3))
    with viewer() as (address, _):
        page = Page(driver, address)
        page.upload(tmp_path / "sofa.ply")
    page.wait(lambda: "The viewer was closed" in page.trouble)
    page.shot(SHOTS / "closed.png")
    with viewer(int(address.rpartition(":")[2])):
        page.wait(lambda: "upload them again" in page.trouble)
        page.settle()
        page.press("trouble-close")
        page.press("random")
        assert page.trouble == ""
        assert page.state["shape"] == page.state["answer"]["label"] == "chair"
