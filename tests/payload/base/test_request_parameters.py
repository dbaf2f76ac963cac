"""Parameters of one request: what is read, what is refused, and what they change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from request_parameters import AS_PACKAGED, Overrides, ParameterError, read_overrides
from tests.payload.base.conftest import Loader
from tests.payload.base.tensors_wire import SeeingRunner, ask, image, listed, load_detector, request, values
from tests.payload.base.wire import error_of

SETTINGS = {"score_threshold": 0.25, "iou_threshold": 0.45, "max_det": 300, "classes": None}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param("", AS_PACKAGED, id="nothing"),
        pytest.param("{}", AS_PACKAGED, id="no parameters"),
        pytest.param('{"sequence_id": 7, "priority": 1, "x-trace": "abc"}', AS_PACKAGED, id="not ours"),
        pytest.param('{"score_threshold": 0.5}', Overrides((("score_threshold", 0.5),)), id="a float"),
        pytest.param('{"score_threshold": "0.5"}', Overrides((("score_threshold", 0.5),)), id="as text"),
        pytest.param('{"iou_threshold": 1}', Overrides((("iou_threshold", 1.0),)), id="a whole number"),
        pytest.param('{"max_det": 300}', Overrides((("max_det", 300),)), id="as many as there are"),
        pytest.param('{"max_det": "1"}', Overrides((("max_det", 1),)), id="one, as text"),
        pytest.param('{"classes": "[2, \\"dog\\"]"}', Overrides((("classes", (2, "dog")),)), id="ids and names"),
        pytest.param('{"classes": "dog"}', Overrides((("classes", ("dog",)),)), id="a name"),
        pytest.param('{"classes": 3}', Overrides((("classes", (3,)),)), id="an id"),
        pytest.param('{"masks": false}', Overrides(masks=False), id="no masks"),
        pytest.param('{"masks": "False"}', Overrides(masks=False), id="no masks, as text"),
        pytest.param('{"masks": true}', AS_PACKAGED, id="masks"),
    ],
)
def test_what_is_read(parameters: str, expected: Overrides) -> None:
    assert read_overrides(parameters, SETTINGS) == expected


FRACTION = "expected a number from 0 to 1, got "
COUNT = "expected a whole number from 1 to 300, the model's own (a request may only lower it), got "
CLASSES = 'expected a JSON list of class ids or names as text, such as [0, "dog"], got '


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *(
            pytest.param("score_threshold", value, FRACTION + shown, id=shown)
            for value, shown in [(-0.1, "-0.1"), (1.5, "1.5"), ("nan", "'nan'"), ("1e999", "'1e999'"), ("", "''")]
        ),
        pytest.param("score_threshold", float("nan"), f"{FRACTION}nan", id="nan"),
        pytest.param("score_threshold", True, f"{FRACTION}True", id="true"),
        pytest.param("iou_threshold", "x" * 999, f"{FRACTION}'{'x' * 59}...", id="long"),
        *(
            pytest.param("max_det", value, COUNT + repr(value), id=f"max_det {value!r}")
            for value in (0, -1, 301, 2.5, "many", None, True, 10**30)
        ),
        pytest.param("classes", "[]", f"{CLASSES}'[]'", id="no classes"),
        pytest.param("classes", "[1.5]", f"{CLASSES}'[1.5]'", id="half a class"),
        pytest.param("classes", "[true]", f"{CLASSES}'[true]'", id="a class of true"),
        pytest.param("classes", '{"dog": 1}', f"{CLASSES}'{{\"dog\": 1}}'", id="an object"),
        pytest.param("masks", "maybe", "expected true or false, got 'maybe'", id="masks"),
        pytest.param("masks", 0, "expected true or false, got 0", id="masks 0"),
    ],
)
def test_what_is_refused(name: str, value: object, said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read_overrides(json.dumps({name: value}), SETTINGS)
    assert str(caught.value) == f"{name}: {said}"


@pytest.mark.parametrize("text", ["[" * 100_000, "x" * 1000, json.dumps(["x" * 1000])])
def test_endless_text_is_refused_and_not_shown_back(text: str) -> None:
    with pytest.raises(ParameterError, match="classes: expected a JSON list") as caught:
        read_overrides(json.dumps({"classes": text}), SETTINGS)
    assert len(str(caught.value)) < 200


def test_a_setting_that_the_decoder_has_not_is_refused() -> None:
    with pytest.raises(ParameterError, match="iou_threshold: expected no such parameter, because the model's decoder"):
        read_overrides('{"iou_threshold": 0.5}', {"score_threshold": 0.5})


def three(red: int, blue: int) -> list[np.ndarray]:
    """Return three boxes, the first two overlapping by a half, of classes 0, 0, 1 and scores 0.9, 0.6, 0.3."""
    del red, blue
    raw = np.zeros((1, 6, 9), np.float32)
    raw[0, :, :3] = np.array([[2, 2, 2, 2, 0.9, 0], [2, 3, 2, 2, 0.6, 0], [6, 6, 2, 2, 0, 0.3]]).T
    return [raw]


@pytest.mark.parametrize(
    ("parameters", "scores"),
    [
        pytest.param({}, [0.9, 0.6, 0.3], id="as packaged"),
        pytest.param({"score_threshold": "0.5"}, [0.9, 0.6], id="score_threshold"),
        pytest.param({"iou_threshold": "0.2"}, [0.9, 0.3], id="iou_threshold"),
        pytest.param({"max_det": 1}, [0.9], id="max_det"),
        pytest.param({"classes": "[1]"}, [0.3], id="a class's id"),
        pytest.param({"classes": "dog"}, [0.9, 0.6], id="a class's name"),
        pytest.param({"classes": "1", "score_threshold": "0.5"}, [], id="both"),
    ],
)
def test_each_changes_its_own_request_only(load: Loader, parameters: dict[str, Any], scores: list[float]) -> None:
    model = load_detector(load, SeeingRunner(three))
    first, asked, last = ask(model, request(image()), request(image(), **parameters), request(image()))
    assert [record["confidence"] for record in listed(values(asked)["detections"])] == pytest.approx(scores)
    for other in (first, last):
        assert values(other)["num_dets"].item() == 3


def test_a_requests_threshold_holds_for_every_class(load: Loader) -> None:
    model = load_detector(load, SeeingRunner(three), decode={"class_thresholds": {"dog": 0.7}})
    assert values(ask(model, request(image()))[0])["num_dets"].item() == 2
    (response,) = ask(model, request(image(), score_threshold="0.1"))
    assert values(response)["num_dets"].item() == 3


def test_a_class_that_the_model_has_not(load: Loader) -> None:
    model = load_detector(load, SeeingRunner(three))
    bad, good = ask(model, request(image(), classes="[0, 2]"), request(image()))
    assert error_of(bad) == "classes: expected one of the model's 2 classes, got 2"
    assert values(good)["num_dets"].item() == 3


def test_classes_of_a_model_that_a_grey_image_tells_nothing(load: Loader) -> None:
    def odd(red: int, blue: int) -> list[np.ndarray]:
        return [three(red, blue)[0] * (1 if red != 114 else 9)]

    model = load_detector(load, SeeingRunner(odd))
    good, bad = ask(model, request(image(), classes="[1]"), request(image(), classes="[2]"))
    assert values(good)["num_dets"].item() == 1
    assert error_of(bad) == "classes: expected one of the model's 2 classes, got 2"


def test_decoders_of_requests_are_kept_but_not_without_end(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    import decoders

    made: list[object] = []
    original = decoders.make_decoder

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(decoders, "make_decoder", counted)
    model = load_detector(load, SeeingRunner(three))
    for _ in range(3):
        ask(model, request(image(), max_det=1), request(image(), max_det=2))
    assert len(made) == 1 + 2
    for step in range(16):
        ask(model, request(image(), score_threshold=str(step / 100)))
    ask(model, request(image(), max_det=2))
    assert len(made) == 3 + 16 + 1
    assert not [text for level, text in pb_utils.Logger.lines if level == "error"]
