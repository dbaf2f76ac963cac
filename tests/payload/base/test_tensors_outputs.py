"""The tensors profile's outputs, one table per task, and what of them is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.payload.base.conftest import PREPROCESS, Loader
from tests.payload.base.tensors_wire import (
    DETECTION,
    DRAWN,
    MOST,
    SeeingRunner,
    ask,
    boxes,
    described,
    image,
    listed,
    load_detector,
    request,
    segments,
    values,
)

TEXT = ("uint8", (1, -1))
FOUND: dict[str, tuple[str, tuple[int, ...]]] = {
    "num_dets": ("int32", (1, 1)),
    "det_boxes": ("float32", (1, MOST, 4)),
    "det_scores": ("float32", (1, MOST)),
    "det_classes": ("int32", (1, MOST)),
    "detections": TEXT,
}


def posed(red: int, blue: int) -> list[np.ndarray]:
    points = np.tile(np.array([2, 3, 0.75, 8, 8, 0.25], np.float32)[None, :, None], (1, 1, 9))
    return [np.concatenate([*boxes(red, blue), points], axis=1)]


def turned(red: int, blue: int) -> list[np.ndarray]:
    return [np.concatenate([*boxes(red, blue), np.zeros((1, 1, 9), np.float32)], axis=1)]


TASKS: dict[str, tuple[Any, int, dict[str, Any], dict[str, tuple[str, tuple[int, ...]]]]] = {
    "object_detection": (boxes, 1, {}, {}),
    "instance_segmentation": (segments, 2, {}, {"det_masks": TEXT}),
    "keypoint_detection": (posed, 1, {"keypoints": [2, 3]}, {"det_keypoints": ("float32", (1, MOST, 2, 3))}),
    "oriented_detection": (turned, 1, {}, {"det_rboxes": ("float32", (1, MOST, 5))}),
}


def load_task(load: Loader, task: str) -> Any:
    answer, outputs, decode, more = TASKS[task]
    return load_detector(
        load, SeeingRunner(answer, outputs), task=task, decode=decode, names=(*DETECTION, *more, DRAWN)
    )


@pytest.mark.parametrize("red", [0, 1, 3])
@pytest.mark.parametrize("task", TASKS)
def test_a_detectors_outputs(load: Loader, task: str, red: int) -> None:
    (response,) = ask(load_task(load, task), request(image(red)))
    found = values(response)
    assert described(found) == {**FOUND, **TASKS[task][3], DRAWN: TEXT}
    assert found["num_dets"].tolist() == [[red]]
    records = listed(found["detections"])
    assert len(records) == red
    assert found["det_boxes"][0, :red].tolist() == [record["bounding_box"] for record in records]
    assert found["det_scores"][0, :red].tolist() == [record["confidence"] for record in records]
    assert found["det_classes"][0, :red].tolist() == [record["class"] for record in records]
    for name, value in found.items():
        assert name not in ("det_boxes", "det_scores", "det_classes") or not value[0, red:].any()


def test_the_values_of_a_detection(load: Loader) -> None:
    (response,) = ask(load_detector(load), request(image(2)))
    found = values(response)
    # 8 x 8 network, 32 x 16 image: x times 4, y times 2.
    assert found["det_boxes"][0, :2].tolist() == [[5, 4, 11, 8], [13, 4, 19, 8]]
    assert listed(found["detections"])[1] == {
        "bounding_box": [13.0, 4.0, 19.0, 8.0],
        "class": 1,
        "class_label": "Füße",
        "confidence": pytest.approx(0.8),
        "confidence_threshold": 0.25,
    }
    assert listed(found[DRAWN]) == {"detections": listed(found["detections"])}


def test_masks_are_coco_s_and_masks_false_leaves_them_out(load: Loader) -> None:
    model = load_task(load, "instance_segmentation")
    with_masks, without = (values(r) for r in ask(model, request(image(2)), request(image(2), masks=False)))
    masks = listed(with_masks["det_masks"])
    assert [mask["size"] for mask in masks] == [[16, 32]] * 2
    assert listed(with_masks[DRAWN])["masks"] == masks
    assert listed(without["det_masks"]) == listed(without[DRAWN])["masks"] == []
    for name in DETECTION:
        assert np.array_equal(with_masks[name], without[name])


def test_keypoints_and_rotated_boxes(load: Loader) -> None:
    posed_found = values(ask(load_task(load, "keypoint_detection"), request(image(1)))[0])
    assert posed_found["det_keypoints"][0, 0].tolist() == [[8, 6, 0.75], [32, 16, 0.25]]
    assert not posed_found["det_keypoints"][0, 1:].any()
    assert listed(posed_found[DRAWN])["keypoints"] == [[[8, 6, 0.75], [32, 16, 0.25]]]


def test_rotated_boxes(load: Loader) -> None:
    found = values(ask(load_task(load, "oriented_detection"), request(image(1)))[0])
    assert found["det_rboxes"][0, 0].tolist() == pytest.approx([8, 6, 6, 4, 0])
    assert len(listed(found[DRAWN])["rotated"]) == 1


def test_classification(load: Loader) -> None:
    scores = np.array([[0.125, 0.625, 0.25]], np.float32)
    model = load_detector(
        load,
        SeeingRunner(lambda *_: [scores]),
        family="classification",
        task="classification",
        names=("class_scores", "class_ids"),
        decode={"num_classes": None, "top_k": 3, "score_threshold": 0.2},
        class_names=[],
    )
    found = values(ask(model, request(image()))[0])
    assert described(found) == {"class_scores": ("float32", (1, 3)), "class_ids": ("int32", (1, 3))}
    assert found["class_scores"].tolist() == [[0.625, 0.25, 0]]
    assert found["class_ids"].tolist() == [[1, 2, -1]]


@pytest.mark.parametrize(
    ("answers", "decode", "heat", "kind"),
    [
        pytest.param([np.array([0.75], np.float32)], {}, (1, 1), "none", id="score only"),
        pytest.param([np.full((1, 1, 4, 6), 0.75, np.float32)], {"threshold": 0.75}, (4, 6), "heat", id="a map"),
        pytest.param(
            [np.array([0.75], np.float32), np.full((1, 2, 4, 4), [[[0.1]], [[0.9]]], np.float32)],
            {"pixel_class_names": ["background", "dent"]},
            (1, 1),
            "classes",
            id="pixel classes",
        ),
    ],
)
def test_anomaly(load: Loader, answers: list[np.ndarray], decode: dict[str, Any], heat: Any, kind: str) -> None:
    names = ("anomaly_score", "is_anomalous", "anomaly_map", DRAWN)
    model = load_detector(
        load,
        SeeingRunner(lambda *_: answers, len(answers)),
        family="anomaly",
        task="anomaly",
        names=names,
        decode=decode,
    )
    found = values(ask(model, request(image()))[0])
    assert described(found) == {
        "anomaly_score": ("float32", (1, 1)),
        "is_anomalous": ("uint8", (1, 1)),
        "anomaly_map": ("float32", (1, *heat)),
        DRAWN: TEXT,
    }
    assert (found["anomaly_score"].item(), found["is_anomalous"].item()) == (0.75, 1)
    assert found["anomaly_map"].max() == (0.75 if kind == "heat" else 0)
    head, _, plane = found[DRAWN].tobytes().partition(b"\n")
    described_plane = listed(np.frombuffer(head, np.uint8))
    assert described_plane["kind"] == kind
    assert len(plane) == np.prod(described_plane["size"])
    # The threshold is the middle of the heat; the class at the image's own size.
    assert {"none": b"", "heat": b"\x80" * 24, "classes": b"\x01" * 512}[kind] == plane


@pytest.mark.parametrize(
    ("decode", "preserve_aspect", "middle", "shown"),
    [
        pytest.param({"threshold": 4.0}, False, 4.0, [0, 0, 1, 1], id="stretched"),
        # 32 x 16 pixels are 8 x 4 of 8 x 8.
        pytest.param({"threshold": 4.0}, True, 4.0, [0.25, 0, 0.5, 1], id="letterboxed"),
        pytest.param({"threshold": 4.0, "score_range": [2.0, 22.0]}, False, 4.0, [0, 0, 1, 1], id="a score's range"),
    ],
)
def test_heat(load: Loader, decode: dict[str, Any], preserve_aspect: bool, middle: float, shown: list[float]) -> None:
    plane = np.array([[[[middle, middle + 2], [-1e30, 1e30]]]], np.float32)
    model = load_detector(
        load,
        SeeingRunner(lambda *_: [plane]),
        family="anomaly",
        task="anomaly",
        names=(DRAWN,),
        decode=decode,
        preprocess={**PREPROCESS, "preserve_aspect": preserve_aspect},
    )
    head, _, heat = values(ask(model, request(image()))[0])[DRAWN].tobytes().partition(b"\n")
    assert listed(np.frombuffer(head, np.uint8)) == {"kind": "heat", "size": [2, 2], "shown": shown}
    assert list(heat) == [128, 153 if "score_range" in decode else 191, 0, 255]


def test_semantic_segmentation(load: Loader) -> None:
    scores = np.zeros((1, 3, 8, 8), np.float32)
    scores[0, 2, :4] = 1
    model = load_detector(
        load,
        SeeingRunner(lambda *_: [scores]),
        family="semantic_segmentation",
        task="semantic_segmentation",
        names=("class_map", DRAWN),
        decode={"num_classes": 3},
    )
    found = values(ask(model, request(image()))[0])
    assert described(found) == {"class_map": ("uint8", (1, 16, 32)), DRAWN: TEXT}
    assert found["class_map"][0, 0, 0] == 2
    assert found["class_map"][0, -1, -1] == 0
    assert found[DRAWN].tobytes().endswith(b"\n" + found["class_map"].tobytes())


@pytest.mark.parametrize("wanted", [("num_dets",), ("det_masks",), ("det_boxes", "detections"), (DRAWN,)])
def test_only_what_is_wanted_is_returned(load: Loader, wanted: tuple[str, ...]) -> None:
    model = load_task(load, "instance_segmentation")
    every, some = (values(r) for r in ask(model, request(image(2)), request(image(2), wanted)))
    assert set(some) == set(wanted)
    assert all(np.array_equal(some[name], every[name]) for name in wanted)


def test_a_request_of_several_images(load: Loader) -> None:
    model = load_task(load, "instance_segmentation")
    reds = (0, 3, 1)
    together, *alone = ask(
        model, request(np.concatenate([image(red) for red in reds])), *map(request, map(image, reds))
    )
    found = values(together)
    assert found["num_dets"].tolist() == [[0], [3], [1]]
    for index, response in enumerate(alone):
        one = values(response)
        for name, value in found.items():
            if name in ("detections", "det_masks", DRAWN):
                text = value[index].tobytes()
                assert text.rstrip(b" ") == one[name][0].tobytes()
                listed(value[index])
            else:
                assert np.array_equal(value[index], one[name][0])
