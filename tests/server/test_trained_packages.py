"""The trained packages on the stock server: as good as their own engine and an independent decode say they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

from convertor.serve.process import Server
from tests.clients import Client, blocks, detected
from tests.server.conftest import ROOT
from training import evaluate
from training.metrics import Found, auroc, average_precision
from training.scenes import EVALUATION_SIZES, Image

pytestmark = pytest.mark.server

IMAGES_PER_SIZE = 10


def session(name: str) -> onnxruntime.InferenceSession:
    path = ROOT / "tests/packages" / name / "model.onnx"
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def served_by(client: Client, name: str) -> Callable[[Image], Found]:
    def detect(image: Image) -> Found:
        rows = np.array(detected(client.capture(name, image)), np.float32).reshape(-1, 6)
        return Found(rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int64))

    return detect


def judged(detect: Callable[[Image], Found]) -> tuple[float, float]:
    found, truth = [], []
    for size in EVALUATION_SIZES:
        some_found, some_truth = evaluate.judge_detector(detect, size, IMAGES_PER_SIZE)
        found += some_found
        truth += some_truth
    return average_precision(found, truth)


@pytest.mark.parametrize(("name", "threshold"), [("parts_yolo", 0.25), ("parts_rf_detr", 0.5)])
def test_served_precision_is_the_engines_own(server: Server, name: str, threshold: float) -> None:
    engine, detect = session(name), evaluate.DETECTORS[name]
    with Client(server) as client:
        served = judged(served_by(client, name))
    independent = judged(lambda image: detect(engine, image, threshold))
    print(f"{name}: served mAP50 {served[0]:.4f} mAP50-95 {served[1]:.4f}, independent {independent}")
    assert served[0] >= 0.9
    np.testing.assert_allclose(served, independent, atol=0.005)


def test_served_anomaly_scores_separate_as_the_engines_own(server: Server) -> None:
    engine = session("parts_anomaly")
    scores, labels, own = [], [], []
    with Client(server) as client:
        for size in EVALUATION_SIZES:
            own.append(evaluate.judge_anomaly(engine, size, IMAGES_PER_SIZE))
            for index in range(IMAGES_PER_SIZE):
                flawed = index % 2 == 1
                scene = evaluate.draw_surface(evaluate.FIRST_SEED + index, size, "evaluation", flawed=flawed)
                outputs = client.capture("parts_anomaly", scene.image)
                scores.append(blocks(outputs["output_capture"])[0]["Anomaly_score"])
                labels.append(flawed)
                assert bool(outputs["output_anomalous"][0]) == (scores[-1] >= 0.5)
    independent = np.concatenate([rows["class"] for rows in own])
    served = auroc(np.array(scores), np.array(labels))
    print(f"parts_anomaly: served AUROC {served:.4f}")
    assert served >= 0.95
    assert abs(served - auroc(independent, np.array(labels))) <= 0.005
    np.testing.assert_allclose(scores, independent, atol=0.02)
