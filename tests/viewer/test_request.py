"""A message from a client matches the schema, or is refused in one sentence."""

import json

import pytest

from qecnet.viewer.request import CorruptionLevels, GalleryShape, Request, RotatedShape, UploadedShape, parse_request

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
        shape=RotatedShape(GalleryShape("sofa", 2), (0.6, 0.0, 0.8, 0.0)),
        corruption=CorruptionLevels(900, 0.01, 0.0, 0.5, 3),
        second=RotatedShape(UploadedShape(4), (1.0, 0.0, 0.0, 0.0)),
        layers=frozenset(("frames", "votes")),
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
        ({"shape": SOFA | {"rotation": [float("nan"), 0, 0, 1]}}, "rotation is nan"),
        ({"shape": SOFA | {"rotation": [1, 0, 0]}}, "four numbers"),
        ({"shape": SOFA | {"rotation": [0] * 9}}, "at most 4"),
        ({"shape": SOFA | {"kind": "whale"}}, "kind is 'whale'"),
        ({"shape": SOFA | {"kind": ["sofa"]}}, "kind is"),
        ({"shape": SOFA | {"seed": 1e300}}, r"seed is 1e\+300"),
        ({"shape": SOFA | {"upload": 1}}, "unknown field 'kind'"),
        ({"shape": {"upload": "../../etc/passwd", "rotation": [1, 0, 0, 0]}}, "upload is '../../etc/passwd'"),
        ({"shape": None}, "shape is None"),
        ({"second": 3}, "second is 3"),
        ({"corruption": CORRUPTION | {"points": 0}}, "points is 0"),
        ({"corruption": CORRUPTION | {"occlusion": 1}}, "occlusion is 1"),
        ({"corruption": {}}, "lacks the field"),
        ({"layers": ["all"]}, "layers is 'all'; it must be one of frames, patches, capsules, votes"),
        ({"layers": ["votes"] * 5}, "at most 4"),
        ({"layers": 3}, "layers is 3"),
        ({"compare": 1}, "compare is 1"),
        ({"camera": [1, 2]}, "three numbers"),
        ({"camera": [1, 2, 3, 4]}, "at most 3"),
        ({"camera": [1, 2, 1e9]}, r"camera is 1000000000"),
        ({"camera": [1, 2, float("nan")]}, "camera is nan"),
        ({"model": 3}, "model is 3"),
        ({"more": 1}, "unknown field 'more'"),
        ({"id": "x" * 60_000}, "id is 'xxx"),
    ],
)
def test_an_invalid_field_is_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_request(json.dumps(VALID | change))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"id": ' + "9" * 10_000 + "}", "[]", "3", "null"])
def test_a_message_that_is_no_request_is_refused(text):
    with pytest.raises(ValueError, match="the request"):
        parse_request(text)
