"""Whatever a page sends is understood, or refused in a sentence."""

import json

import pytest

from qecnet.viewer.wish import Given, Made, Spoil, Turned, Wish, read_wish

SPOIL = {"points": 900, "noise": 0.01, "outliers": 0, "occlusion": 0.5, "seed": 3}
GOOD = {
    "number": 7,
    "shape": {"kind": "sofa", "seed": 2, "turn": [0.6, 0, 0.8, 0]},
    "spoil": SPOIL,
    "second": {"upload": 4, "turn": [1, 0, 0, 0]},
    "layers": ["votes", "frames"],
    "compare": True,
}


def test_a_wish_is_read():
    assert read_wish(json.dumps(GOOD)) == Wish(
        number=7,
        shape=Turned(Made("sofa", 2), (0.6, 0.0, 0.8, 0.0)),
        spoil=Spoil(900, 0.01, 0.0, 0.5, 3),
        second=Turned(Given(4), (1.0, 0.0, 0.0, 0.0)),
        layers=frozenset(("frames", "votes")),
        compare=True,
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"number": -1}, "number is -1"),
        ({"number": True}, "number is True"),
        ({"shape": {"kind": "sofa", "seed": 2, "turn": [1, 1, 0, 0]}}, "turn has the length 1.41"),
        ({"shape": {"kind": "sofa", "seed": 2, "turn": [float("nan"), 0, 0, 1]}}, "turn is nan"),
        ({"shape": {"kind": "sofa", "seed": 2, "turn": [1, 0, 0]}}, "not enough values"),
        ({"shape": {"kind": "whale", "seed": 2, "turn": [1, 0, 0, 0]}}, "whale is no class of shapes"),
        ({"shape": {"kind": ["sofa"], "seed": 2, "turn": [1, 0, 0, 0]}}, "is no class of shapes"),
        ({"shape": {"kind": "sofa", "seed": 1e300, "turn": [1, 0, 0, 0]}}, r"seed is 1e\+300"),
        ({"shape": {"upload": "../../etc/passwd", "turn": [1, 0, 0, 0]}}, "upload is '../../etc/passwd'"),
        ({"shape": None}, "not understood"),
        ({"spoil": SPOIL | {"points": 0}}, "points is 0"),
        ({"spoil": SPOIL | {"occlusion": 1}}, "occlusion is 1"),
        ({"spoil": {}}, "not understood"),
        ({"layers": ["all"]}, "all is no layer; there are frames, patches, capsules, votes"),
        ({"layers": 3}, "not understood"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_wish(json.dumps(GOOD | change))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "[" * 100_000])
def test_what_is_no_wish_at_all_is_refused_in_a_sentence(text):
    with pytest.raises(ValueError, match="not understood"):
        read_wish(text)
