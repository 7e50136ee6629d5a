"""A message from a client matches the schema, or is refused in one sentence."""

import json

import pytest

from qecnet.viewer.request import CorruptionLevels, Request, RequestedShape, parse_request

CORRUPTION = {"points": 900, "noise": 0.01, "outliers": 0, "occlusion": 0.5, "seed": 3}
SOFA = {"kind": "sofa", "seed": 2, "rotation": [0.6, 0, 0.8, 0]}
VALID = {
    "id": 7,
    "shape": SOFA,
    "corruption": CORRUPTION,
    "second": {"upload": 4, "rotation": [1, 0, 0, 0]},
    "layers": ["votes", "frames"],
    "compare": True,
    "camera": [0, -3, 1.5],
    "model": "upright",
}


def test_a_valid_request_is_parsed():
    assert parse_request(json.dumps(VALID)) == Request(
        id=7,
        shape=RequestedShape((0.6, 0.0, 0.8, 0.0), "sofa", 2),
        corruption=CorruptionLevels(900, 0.01, 0.0, 0.5, 3),
        second=RequestedShape((1.0, 0.0, 0.0, 0.0), upload=4),
        layers=("votes", "frames"),
        compare=True,
        camera=(0.0, -3.0, 1.5),
        model="upright",
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"id": -1}, "id is -1"),
        ({"id": True}, "id is True"),
        ({"shape": SOFA | {"rotation": [1, 1, 0, 0]}}, "four numbers of norm 1"),
        ({"shape": SOFA | {"rotation": [float("nan"), 0, 0, 1]}}, r"rotation\[0\] is nan"),
        ({"shape": SOFA | {"rotation": [1, 0, 0]}}, "a list of 4 values"),
        ({"shape": SOFA | {"rotation": [0] * 9}}, "a list of 4 values"),
        ({"shape": SOFA | {"kind": "whale"}}, "kind is 'whale'"),
        ({"shape": SOFA | {"kind": ["sofa"]}}, "kind is"),
        ({"shape": SOFA | {"seed": 1e300}}, r"seed is 1e\+300"),
        ({"shape": {"upload": "../../etc/passwd", "rotation": [1, 0, 0, 0]}}, "upload is '../../etc/passwd'"),
        ({"shape": None}, "shape is None"),
        ({"second": 3}, "second is 3"),
        ({"corruption": CORRUPTION | {"points": 0}}, "points is 0"),
        ({"corruption": CORRUPTION | {"occlusion": 1}}, "occlusion is 1"),
        ({"corruption": {}}, "points is missing"),
        ({"layers": ["all"]}, r"layers\[0\] is 'all'; it must be one of frames, patches, capsules, votes"),
        ({"layers": 3}, "layers is 3"),
        ({"compare": 1}, "compare is 1"),
        ({"camera": [1, 2]}, "a list of 3 values"),
        ({"camera": [1, 2, 3, 4]}, "a list of 3 values"),
        ({"camera": [1, 2, 1e9]}, "camera is .*1000000000"),
        ({"camera": [1, 2, float("nan")]}, r"camera\[2\] is nan"),
        ({"model": 3}, "model is 3"),
        ({"id": "x" * 60_000}, "id is 'xxx"),
    ],
)
def test_an_invalid_field_is_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_request(json.dumps(VALID | change))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"id": ' + "9" * 10_000 + "}", "[]", "3", "null"])
def test_invalid_message_is_refused(text):
    with pytest.raises(ValueError, match="request"):
        parse_request(text)
