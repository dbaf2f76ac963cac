"""base's model.py: loading, its tensors one by one, and faulty requests among good ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from postprocessors.palette import colour_of
from postprocessors.results import NO_OBJECTS
from runtimes.contract import RunnerError, TensorSpec
from runtimes.onnx.tests import graphs
from tests.payload.base.conftest import PREPROCESS, Loader, ScriptedRunner
from tests.payload.base.wire import ask, error_of, head, numbers, records, tensors

IMAGE = np.full((16, 32, 3), 90, np.uint8)
FOUND = head((4, 4, 4, 4, 1, 0.75), (2, 2, 2, 2, 0, 0.5))
NOTHING = head()


def load_error(load: Loader, **described: Any) -> str:
    with pytest.raises(pb_utils.TritonModelException) as caught:
        load(**described)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_detections(load: Loader) -> None:
    model = load(runner=ScriptedRunner(FOUND), decode={"num_classes": 2}, class_names=["dog", "Füße"])
    found = tensors(ask(model, IMAGE)[0])
    assert numbers(found) == (1, 0.75, 0.75)
    assert found["mask"].tolist() == [[[0, 0, 0]]]
    # 8 x 8 network, 32 x 16 image: x times 4, y times 2.
    best, second = records(found)
    assert best == {
        "bounding_box": [8.0, 4.0, 24.0, 12.0],
        "class": 1,
        "class_label": "Füße",
        "confidence": 0.75,
        "confidence_threshold": 0.25,
    }
    assert (second["class_label"], second["bounding_box"]) == ("dog", [4.0, 2.0, 12.0, 6.0])


def test_nothing_found_is_the_sentinel(load: Loader) -> None:
    found = tensors(ask(load(runner=ScriptedRunner(NOTHING), decode={"num_classes": 2}), IMAGE)[0])
    assert numbers(found) == (0, 0.0, 0.0)
    assert records(found) == [NO_OBJECTS]


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        pytest.param((-1, -1, -1), (1, 1, 3), id="open"),
        pytest.param((16, 32, 3), (16, 32, 3), id="fixed-by-the-dataset"),
    ],
)
def test_mask_of_a_detector(load: Loader, dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
    model = load(runner=ScriptedRunner(FOUND), decode={"num_classes": 2}, mask_dims=dims)
    mask = tensors(ask(model, IMAGE)[0])["mask"]
    assert mask.shape == shape
    assert not mask.any()


def test_anomaly_with_pixel_classes(load: Loader) -> None:
    pixels = np.zeros((1, 8, 8), np.int64)
    pixels[0, :2, :4] = 2
    model = load(
        "anomaly",
        ScriptedRunner([np.array([[0.83, 0.17]], np.float32), pixels]),
        decode={"threshold": 0.702, "pixel_class_names": ["background", "dent", "scratch"]},
    )
    found = tensors(ask(model, IMAGE)[0])
    assert numbers(found) == (1, pytest.approx(0.83), pytest.approx(0.83))
    assert found["mask"].shape == IMAGE.shape
    assert found["mask"][0, 0].tolist() == list(colour_of(2))
    assert found["mask"][-1, -1].tolist() == [255, 255, 255]
    # The defect covers 2 x 4 of 8 x 8 pixels; the class that is not there is left out.
    assert records(found) == [
        {"name": "background", "total_percentage_area": 0.875, "hex_color": "#FFFFFF"},
        {"name": "scratch", "total_percentage_area": 0.125, "hex_color": "#14A3B3"},
    ]


@pytest.mark.parametrize(
    ("score", "expected"),
    [pytest.param(0.25, (0, 0.75, 0.25), id="normal"), pytest.param(3.0, (1, 1, 3), id="beyond-1")],
)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_anomaly_without_pixel_classes(
    load: Loader, score: float, expected: tuple[int, float, float], channels: int
) -> None:
    model = load("anomaly", ScriptedRunner([np.array([score], np.float32)]))
    found = tensors(ask(model, IMAGE[:, :, :1].repeat(channels, axis=2))[0])
    assert numbers(found) == expected
    assert found["mask"].shape == (16, 32, 3)
    assert not found["mask"].any()
    assert records(found) == []


def test_b114_an_error_is_that_request_s_only(load: Loader) -> None:
    model = load(runner=ScriptedRunner(FOUND), decode={"num_classes": 2})
    answers = ask(model, IMAGE, IMAGE[:, :, 0], None, IMAGE.astype(np.float32), IMAGE)
    assert [answer.has_error() for answer in answers] == [False, True, True, True, False]
    assert error_of(answers[1]).endswith("got shape [16, 32]")
    assert error_of(answers[2]) == "input: expected an image, got a request without it"
    assert error_of(answers[3]).endswith("got float32")
    tensors(answers[4])


def test_whatever_an_engine_raises_is_one_line(load: Loader) -> None:
    runner = ScriptedRunner(NOTHING, ZeroDivisionError("first\n second"), RunnerError("the engine says no"), FOUND)
    model = load(runner=runner, decode={"num_classes": 2})
    first, second, third = ask(model, IMAGE, IMAGE, IMAGE)
    assert error_of(first) == "inference failed: ZeroDivisionError: first second"
    assert any(level == "error" and "Traceback" in text for level, text in pb_utils.Logger.lines)
    assert error_of(second) == "the engine says no"
    assert numbers(tensors(third))[0] == 1


def test_a_long_reason_is_cut(load: Loader) -> None:
    model = load(runner=ScriptedRunner(NOTHING, ValueError("x" * 10_000)), decode={"num_classes": 2})
    assert len(error_of(ask(model, IMAGE)[0])) < 600


def test_b13_scores_that_are_logits_are_a_request_error(load: Loader) -> None:
    model = load(runner=ScriptedRunner(NOTHING, head((4, 4, 4, 4, 0, 7.28)), FOUND), decode={"num_classes": 2})
    first, second = ask(model, IMAGE, IMAGE)
    assert "class scores reach 7.28" in error_of(first)
    tensors(second)


def test_the_warm_up_image_is_plain_grey(load: Loader) -> None:
    runner = ScriptedRunner(NOTHING)
    load(runner=runner, decode={"num_classes": 2}, preprocess={**PREPROCESS, "width": 12, "image_range_scale": False})
    (batch,) = runner.batches
    assert batch.shape == (1, 3, 8, 12)
    assert (batch == 114).all()


@pytest.mark.parametrize(
    ("family", "answer", "settings", "said"),
    [
        pytest.param("anomaly", [np.array([np.nan], np.float32)], {}, "finite score", id="nan-on-a-flat-image"),
        pytest.param("yolo", head((4, 4, 4, 4, 0, 7.28)), {"num_classes": 2}, "scores reach 7.28", id="B13-logits"),
    ],
)
def test_odd_numbers_in_the_warm_up_are_a_warning(
    load: Loader, family: str, answer: Any, settings: dict[str, Any], said: str
) -> None:
    load(family, ScriptedRunner(answer), decode=settings)
    (warning,) = [text for level, text in pb_utils.Logger.lines if level == "warn"]
    assert warning.startswith("widget version 3: a grey test image gives no result: ")
    assert said in warning


@pytest.mark.parametrize(
    ("family", "answer", "described", "expected"),
    [
        pytest.param(
            "yolo",
            head(classes=80),
            {"decode": {"num_classes": 3}},
            "yolo: expected 7 or 8 channels for num_classes=3 (or 6 for end-to-end rows), got 9 in [1, 84, 9]; "
            "set detection.num_classes to what the model was trained on",
            id="B07-head-of-another-model",
        ),
        pytest.param(
            "rf_detr",
            [np.zeros((1, 300, 4), np.float32)],
            {},
            "rf_detr: expected boxes [B, Q, 4] and logits [B, Q, C], got [1, 300, 4]",
            id="one-output",
        ),
        pytest.param(
            "yolo",
            NOTHING,
            {"decode": {"num_classes": 2}, "outputs": {"boxes": {"tensor": "nope"}}},
            "outputs.boxes: the graph has no output 'nope'; it has #0, #1",
            id="output-that-is-not-there",
        ),
        pytest.param(
            "yolo", RunnerError("the engine says no"), {"decode": {"num_classes": 2}}, "the engine says no", id="engine"
        ),
    ],
)
def test_what_the_warm_up_shows_is_a_load_error(
    load: Loader, family: str, answer: Any, described: dict[str, Any], expected: str
) -> None:
    assert load_error(load, family=family, runner=ScriptedRunner(answer), **described) == expected


def test_an_unknown_runtime_is_a_load_error(load: Loader) -> None:
    expected = "runtime nope: not part of this model; convert the package again"
    assert load_error(load, runtime="nope", decode={"num_classes": 2}) == expected


def test_what_runs_is_logged(load: Loader) -> None:
    load(runner=ScriptedRunner(NOTHING), decode={"num_classes": 2})
    assert pb_utils.Logger.lines == [("info", "widget version 3: engine scripted, device cpu")]


def test_b90_auto_that_falls_to_the_cpu_says_so_once_and_why(load: Loader) -> None:
    runner = ScriptedRunner(FOUND)
    runner.details["fallback"] = "engine 1.0 sees no GPU"
    load(runner=runner, decode={"num_classes": 2})
    assert pb_utils.Logger.lines == [
        ("info", "widget version 3: engine scripted, device cpu"),
        ("info", "widget version 3: device auto: runs on the CPU: engine 1.0 sees no GPU"),
    ]


def test_a_runners_warning_is_a_line_of_its_own(load: Loader) -> None:
    runner = ScriptedRunner(FOUND)
    runner.details["warning"] = "model.pt is a pickle"
    load(runner=runner, decode={"num_classes": 2})
    assert pb_utils.Logger.lines == [
        ("info", "widget version 3: engine scripted, device cpu"),
        ("warn", "widget version 3: model.pt is a pickle"),
    ]


def test_outputs_that_are_known_after_the_first_run_only(load: Loader) -> None:
    class Lazy(ScriptedRunner):
        def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
            self.outputs = [TensorSpec("extra", "float32", ()), TensorSpec("rows", "float32", ())]
            return super().__call__(batch)

    runner = Lazy([np.zeros((1, 3), np.float32), *FOUND])
    runner.outputs = []
    model = load(
        runner=runner,
        decode={"num_classes": 2},
        outputs={"boxes": {"tensor": "rows", "activation": "none"}},
    )
    assert numbers(tensors(ask(model, IMAGE)[0])) == (1, 0.75, 0.75)


def test_the_device_that_runs_is_a_metric(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[pb_utils.Metric] = []

    def metric(_: pb_utils.MetricFamily, labels: dict[str, str]) -> pb_utils.Metric:
        made.append(pb_utils.Metric(labels))
        return made[-1]

    monkeypatch.setattr(pb_utils.MetricFamily, "Metric", metric)
    load(runner=ScriptedRunner(NOTHING), decode={"num_classes": 2}, device="auto")
    (one,) = made
    assert one.labels == {"model": "base_widget", "version": "3", "wanted": "auto", "device": "cpu"}
    assert one.value() == 1


def test_a_server_without_metrics_serves_too(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise pb_utils.TritonModelException("metrics are\nnot enabled")

    monkeypatch.setattr(pb_utils.MetricFamily, "Metric", refused)
    load(runner=ScriptedRunner(NOTHING), decode={"num_classes": 2})
    assert ("info", "widget version 3: no metric of its device: metrics are not enabled") in pb_utils.Logger.lines


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"model_repository": "/models/base_widget"}, id="B120-model-folder"),
        pytest.param({"model_repository": "/models/base_widget/3/model.py/"}, id="B120-file-and-slash"),
        pytest.param({}, id="B120-none"),
    ],
)
def test_b120_the_artifact_lies_beside_the_code(load: Loader, args: dict[str, str]) -> None:
    runner = ScriptedRunner(NOTHING)
    load(runner=runner, decode={"num_classes": 2}, args={"model_instance_device_id": "1", **args})
    assert runner.options is not None
    assert runner.options.artifact == load.folder.resolve() / "artifact/model.onnx"
    assert (runner.options.device, runner.options.device_id, runner.options.threads) == ("auto", 1, 0)


def test_threads_of_the_execution_plan(load: Loader) -> None:
    runner = ScriptedRunner(NOTHING)
    load(runner=runner, decode={"num_classes": 2}, execution={"threads": 2}, device="cpu")
    assert runner.options is not None
    assert (runner.options.device, runner.options.threads) == ("cpu", 2)


def test_the_end_closes_the_engine(load: Loader) -> None:
    runner = ScriptedRunner(NOTHING)
    load(runner=runner, decode={"num_classes": 2}).finalize()
    assert runner.closed


def test_numpy_that_the_server_cannot_read_is_a_load_error(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pb_utils.Tensor, "as_numpy", lambda _tensor: np.zeros(0, np.uint8))
    assert "does not work with this server" in load_error(load, runner=ScriptedRunner(NOTHING))


def test_a_real_engine(load: Loader) -> None:
    """A head whose columns are the image's own: the decoder sees what the preprocessor made."""
    pytest.importorskip("onnxruntime")
    # [1, 3, 8, 8] -> [1, 6, 32]: rows 0 and 1 are channel 0, 2 and 3 channel 1, 4 and 5 (the classes) channel 2.
    graphs.save(load.folder / "artifact/model.onnx", graphs.reshape((1, 3, 8, 8), (1, 6, 32)))
    model = load(decode={"num_classes": 2}, preprocess={**PREPROCESS, "image_range_scale": False})
    image = np.zeros((8, 8, 3), np.uint8)
    image[0, 5] = 3, 2, 1
    image[4, 5] = 5, 4, 0
    found = tensors(ask(model, image)[0])
    (record,) = records(found)
    # cx 3, cy 5, w 2, h 4, class 0 with score 1.
    assert (record["bounding_box"], record["class"], record["confidence"]) == ([2, 3, 4, 7], 0, 1.0)
    assert any("engine onnxruntime" in line for _, line in pb_utils.Logger.lines)


def test_an_artifact_that_is_no_graph_is_a_load_error(load: Loader) -> None:
    pytest.importorskip("onnxruntime")
    graphs.save(load.folder / "artifact/model.onnx", b"no graph")
    assert load_error(load, decode={"num_classes": 2}).endswith("refuses it: Protobuf parsing failed.")
