"""base in the tensors profile: requests of one call together, and faulty ones among good ones."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from runtimes.contract import RunnerError
from tests.payload.base.conftest import Loader
from tests.payload.base.tensors_wire import (
    NONSENSE,
    POISON,
    SeeingRunner,
    SingleRunner,
    ask,
    boxes,
    image,
    load_detector,
    request,
    values,
)
from tests.payload.base.wire import error_of


def counts(responses: list[pb_utils.InferenceResponse]) -> list[int | None]:
    """Return the number of detections of each response, None for an error."""
    return [None if response.has_error() else values(response)["num_dets"].item() for response in responses]


def sizes(runner: SeeingRunner) -> list[int]:
    """Return how many images each engine call had, without the two of the warm-up."""
    return [len(batch) for batch in runner.batches[2:]]


def warnings() -> list[str]:
    return [text for level, text in pb_utils.Logger.lines if level == "warn"]


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], pb_utils.Metric]:
    """Return every metric that is made, by name and labels beyond model and version."""
    made: dict[tuple[str, ...], pb_utils.Metric] = {}

    def metric(family: pb_utils.MetricFamily, labels: dict[str, str]) -> pb_utils.Metric:
        assert (labels["model"], labels["version"]) == ("base_widget", "3")
        return made.setdefault((family.name, *list(labels.values())[2:]), pb_utils.Metric(labels))

    monkeypatch.setattr(pb_utils.MetricFamily, "Metric", metric)
    return made


def test_images_of_all_requests_are_one_engine_call(load: Loader) -> None:
    runner = SeeingRunner(boxes)
    model = load_detector(load, runner)
    pictures = [image(0, size=(8, 8)), np.concatenate([image(1), image(2)]), image(3, size=(40, 24))]
    together = ask(model, *map(request, pictures))
    assert sizes(runner) == [4]
    alone = [ask(model, request(picture))[0] for picture in pictures]
    for one, other in zip(together, alone):
        assert {name: value.tolist() for name, value in values(one).items()} == {
            name: value.tolist() for name, value in values(other).items()
        }
    # Each with its own geometry: the box's right edge at 2.75 of 8 network pixels.
    assert values(together[1])["det_boxes"][0, 0, 2] == 11
    assert values(together[2])["det_boxes"][0, 0, 2] == 8.25


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        pytest.param({"execution": {"max_engine_batch": 2}}, [2, 2, 1], id="a graph right for two"),
        pytest.param({"max_batch_size": 4}, [4, 1], id="more images than a batch"),
        pytest.param({}, [5], id="any number"),
    ],
)
def test_engine_batches(load: Loader, described: dict[str, Any], expected: list[int]) -> None:
    runner = SeeingRunner(boxes)
    model = load_detector(load, runner, **described)
    assert counts(ask(model, *(request(image(red)) for red in (0, 1, 2, 3, 4)))) == [0, 1, 2, 3, 0]
    assert sizes(runner) == expected


@pytest.mark.parametrize(
    ("bad", "parameters", "said", "code"),
    [
        pytest.param(None, {}, "input: expected an image, got a request without it", "INVALID_ARG", id="no image"),
        pytest.param(image()[0], {}, "expected images [B, H, W, 3], got shape [16, 32, 3]", "INVALID_ARG", id="3 axes"),
        pytest.param(image()[:0], {}, "got shape [0, 16, 32, 3]", "INVALID_ARG", id="no images"),
        pytest.param(image().astype(np.float32), {}, "got float32", "INVALID_ARG", id="floats"),
        pytest.param(image(size=(0, 0)), {}, "got shape [0, 0, 3]", "INVALID_ARG", id="0 x 0"),
        pytest.param(image()[..., :2], {}, "got shape [16, 32, 2]", "INVALID_ARG", id="two channels"),
        pytest.param(image(), {"score_threshold": -1}, "score_threshold: expected", "INVALID_ARG", id="parameter"),
        pytest.param(image(), {"classes": '["cat"]'}, "classes: expected one of", "INVALID_ARG", id="class"),
        pytest.param(image(green=POISON), {}, "poison", "INTERNAL", id="the engine fails on it"),
        pytest.param(image(blue=NONSENSE), {}, "class scores reach 7.5", "INTERNAL", id="no result"),
        pytest.param(
            np.concatenate([image(), image(blue=NONSENSE)]), {}, "class scores reach 7.5", "INTERNAL", id="one of two"
        ),
    ],
)
def test_b114_an_error_is_that_requests_only(
    load: Loader, bad: np.ndarray | None, parameters: dict[str, Any], said: str, code: str
) -> None:
    model = load_detector(load)
    responses = ask(model, request(image(1)), request(bad, **parameters), request(image(2)), request(bad, **parameters))
    assert counts(responses) == [1, None, 2, None]
    for response in (responses[1], responses[3]):
        assert said in error_of(response)
        assert response.error().code() == getattr(pb_utils.TritonError, code)
    assert counts(ask(model, request(image(3)))) == [3]
    assert not [text for level, text in pb_utils.Logger.lines if level == "error"]


@pytest.mark.parametrize(
    ("bad", "parameters"),
    [
        pytest.param(image(), {"max_det": 0}, id="parameter"),
        pytest.param(image(), {"classes": "[9]"}, id="class"),
        pytest.param(image().astype(np.float32), {}, id="image"),
        pytest.param(image(green=POISON), {}, id="engine"),
        pytest.param(image(blue=NONSENSE), {}, id="decoder"),
        pytest.param(None, {}, id="no image"),
    ],
)
def test_a_refused_request_holds_no_memory(load: Loader, bad: np.ndarray | None, parameters: dict[str, Any]) -> None:
    model = load_detector(load)
    ask(model, request(image()), request(bad, **parameters))
    gc.collect()
    gc.disable()
    try:
        ask(model, request(image()), request(bad, **parameters))
        assert gc.collect() == 0  # its tensors would lie in the server's shared memory until then
    finally:
        gc.enable()


def test_a_call_of_bad_requests_only(load: Loader) -> None:
    model = load_detector(load)
    assert counts(ask(model, request(None), request(image().astype(np.int32)))) == [None, None]
    assert counts(ask(model)) == []


def test_b114_neighbours_of_a_poison_image_are_answered_and_batches_go_on(load: Loader) -> None:
    runner = SeeingRunner(boxes)
    model = load_detector(load, runner)
    assert counts(ask(model, request(image(1)), request(image(2, POISON)), request(image(3)))) == [1, None, 3]
    assert sizes(runner) == [3, 1, 1, 1]
    assert counts(ask(model, request(image(1)), request(image(2)))) == [1, 2]
    assert sizes(runner)[4:] == [2]
    assert warnings() == []


@pytest.mark.parametrize("start", [pytest.param(0, id="at load"), pytest.param(2, id="later")])
def test_b81_a_graph_that_cannot_batch_is_remembered_and_told_once(load: Loader, start: int) -> None:
    runner = SingleRunner(boxes)
    runner.start = start
    model = load_detector(load, runner)
    for _ in range(2):
        assert counts(ask(model, request(image(1)), request(image(2)))) == [1, 2]
    (warning,) = warnings()
    assert warning == (
        "widget version 3: at most 1 in one call from now on, because 2 images failed together: index out of range"
    )
    assert [len(batch) for batch in runner.batches][-4:] == [1, 1, 1, 1]


def test_a_device_with_memory_for_some_images(load: Loader) -> None:
    class Small(SeeingRunner):
        def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
            if len(batch) > 3:
                self.batches.append(batch)
                raise RunnerError("out of memory")
            return super().__call__(batch)

    runner = Small(boxes)
    model = load_detector(load, runner)
    for _ in range(2):
        assert counts(ask(model, *(request(image(red)) for red in (0, 1, 2, 3, 1, 1, 2)))) == [0, 1, 2, 3, 1, 1, 2]
    assert sizes(runner) == [7, 1, 1, 1, 1, 1, 1, 1, 3, 3, 1]
    (warning,) = warnings()
    assert "at most 3 in one call from now on, because 7 images failed together: out of memory" in warning


def test_outputs_without_a_batch_axis_are_run_one_by_one(load: Loader) -> None:
    class Rows(SeeingRunner):
        """YOLOv7 with NMS: rows of (image, box, class, score), however many."""

        def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
            self.batches.append(batch)
            reds = np.rint(batch[:, 0, 0, 0] * 255).astype(int)
            rows = [[index, 1, 1, 3, 3, 0, 0.5] for index, red in enumerate(reds) if red == 1]
            return [np.array(rows, np.float32).reshape(-1, 7)]

    model = load_detector(load, Rows(boxes))
    assert counts(ask(model, request(image(0)), request(image(1)), request(image(0)))) == [0, 1, 0]
    assert "at most 1 in one call from now on" in warnings()[0]


def test_the_capture_profile_runs_one_image_per_call(load: Loader) -> None:
    runner = SeeingRunner(boxes)
    model = load(runner=runner, decode={"num_classes": 2})
    responses = ask(model, *(request(image(red)[0]) for red in (0, 1)))
    assert [values(response)["output"].item() for response in responses] == [0, 1]
    assert [len(batch) for batch in runner.batches] == [1, 1, 1]


def test_metrics(load: Loader, metrics: dict[tuple[str, ...], pb_utils.Metric]) -> None:
    model = load_detector(load)
    ask(model, request(image(1)), request(None), request(image(3)), request(image(), max_det=0))
    ask(model, request(image(2, POISON)), request(image(2)))
    seconds = {key: metrics.pop(key).value() for key in list(metrics) if key[0] == "convertor_stage_seconds_total"}
    assert {name[1] for name in seconds} == {"preprocess", "engine", "decode"}
    assert all(0 < value < 60 for value in seconds.values())
    assert {key: metric.value() for key, metric in metrics.items()} == {
        ("convertor_model_device", "auto", "cpu"): 1,
        ("convertor_stage_calls_total", "preprocess"): 2,
        ("convertor_stage_calls_total", "engine"): 2,
        ("convertor_stage_calls_total", "decode"): 2,
        ("convertor_images_total",): 3,
        ("convertor_detections_total",): 6,
        ("convertor_fallbacks_total",): 1,
        ("convertor_request_failures_total", "image"): 1,
        ("convertor_request_failures_total", "parameter"): 1,
        ("convertor_request_failures_total", "engine"): 1,
    }
