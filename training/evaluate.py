"""Judges the committed packages on held-out images with bare ONNX Runtime and decoders of its own.

    python -m training.evaluate [--images 40] [--threshold T] [--packages tests/packages]

Prints mAP50 and mAP50-95 of both detectors, AUROC, accuracy and pixel IoU of the anomaly model, per image size and in
all. Needs numpy, OpenCV and onnxruntime. Images are drawn with seeds FIRST_SEED and up: a test can draw the same ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from training.frames import letterbox, stretch, to_tensor
from training.metrics import Found, Truth, auroc, average_precision, box_iou
from training.scenes import EVALUATION_SIZES, PIXEL_NAMES, Image, Size, draw_parts, draw_surface

FIRST_SEED = 500_000
YOLO_SIDE, RF_DETR_SIDE, ANOMALY_SIDE = 320, 256, 256
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def _corners(boxes: Floats) -> Floats:
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def suppress(boxes: Floats, scores: Floats, class_ids: Ints, limit: float = 0.45) -> Ints:
    """Class-wise non-maximum suppression; return the kept indices, best first."""
    order = np.argsort(-scores, kind="stable")
    overlaps = box_iou(boxes[order], boxes[order]) * (class_ids[order][:, None] == class_ids[order][None])
    kept: list[int] = []
    for row in range(len(order)):
        if not kept or overlaps[row, kept].max() <= limit:
            kept.append(row)
    return order[kept]


def detect_yolo(session: onnxruntime.InferenceSession, image: Image, threshold: float) -> Found:
    """Run the YOLO-layout detector on one RGB image; boxes in source pixels."""
    frame = letterbox(image, YOLO_SIDE)
    (raw,) = session.run(None, {"images": to_tensor(frame.image, normalize=False)})
    scores = raw[0, 4:].max(axis=0)
    keep = scores >= threshold
    boxes, class_ids, scores = _corners(raw[0, :4, keep]), raw[0, 4:].argmax(axis=0)[keep], scores[keep]
    best = suppress(boxes, scores, class_ids)
    return Found(frame.to_source(boxes[best]), scores[best], class_ids[best])


def detect_rf_detr(session: onnxruntime.InferenceSession, image: Image, threshold: float) -> Found:
    """Run the RF-DETR-layout detector on one RGB image; boxes in source pixels."""
    height, width = image.shape[:2]
    tensor = to_tensor(stretch(image, RF_DETR_SIDE).image, normalize=True)
    dets, labels = session.run(["dets", "labels"], {"input": tensor})
    # The last slot is the background that RF-DETR carries along and never reports.
    scores = 1 / (1 + np.exp(-labels[0, :, :-1]))
    queries, class_ids = np.nonzero(scores >= threshold)
    boxes = _corners(dets[0])[queries] * np.array([width, height] * 2, np.float32)
    return Found(boxes, scores[queries, class_ids], class_ids)


DETECTORS = {"parts_yolo": detect_yolo, "parts_rf_detr": detect_rf_detr}


def judge_detector(detect: Callable[[Image], Found], size: Size, count: int) -> tuple[list[Found], list[Truth]]:
    """Return what `detect` found on `count` held-out images of one size, and the truth."""
    scenes = [draw_parts(FIRST_SEED + index, size, "evaluation") for index in range(count)]
    return [detect(scene.image) for scene in scenes], [Truth(scene.boxes, scene.class_ids) for scene in scenes]


def judge_anomaly(session: onnxruntime.InferenceSession, size: Size, count: int) -> dict[str, npt.NDArray]:
    """Return scores, labels and the pixel counts behind the IoU of `count` plates of one size, half of them flawed."""
    rows: dict[str, list] = {"class": [], "score": [], "map": [], "label": [], "shared": [], "union": []}
    for index in range(count):
        scene = draw_surface(FIRST_SEED + index, size, "evaluation", flawed=index % 2 == 1)
        tensor = to_tensor(stretch(scene.image, ANOMALY_SIDE).image, normalize=True)
        names = ["class_probs", "anomaly_map", "pred_score", "pixel_logits"]
        class_probs, anomaly_map, pred_score, pixel_logits = session.run(names, {"input": tensor})
        grid = [np.minimum(((np.arange(ANOMALY_SIDE) + 0.5) * n / ANOMALY_SIDE).astype(int), n - 1) for n in size]
        truth, seen = scene.pixel_classes[np.ix_(*grid)], pixel_logits[0].argmax(axis=0)
        rows["class"].append(class_probs[0, 0])
        rows["score"].append(pred_score.ravel()[0])
        rows["map"].append(anomaly_map.max())
        rows["label"].append(scene.is_anomalous)
        kinds = range(len(PIXEL_NAMES))
        rows["shared"].append([((truth == kind) & (seen == kind)).sum() for kind in kinds])
        rows["union"].append([((truth == kind) | (seen == kind)).sum() for kind in kinds])
    return {key: np.array(values) for key, values in rows.items()}


def _describe_detector(found: list[Found], truth: list[Truth]) -> str:
    at_half, averaged = average_precision(found, truth)
    return f"mAP50 {at_half:.4f}, mAP50-95 {averaged:.4f}"


def _describe_anomaly(rows: dict[str, npt.NDArray]) -> str:
    areas = {key: auroc(rows[key], rows["label"]) for key in ("class", "score", "map")}
    accuracy = {key: ((rows[key] >= 0.5) == rows["label"]).mean() for key in ("class", "score")}
    overlap = rows["shared"].sum(axis=0) / np.maximum(rows["union"].sum(axis=0), 1)
    parts = [f"AUROC {key} {value:.4f}" for key, value in areas.items()]
    parts += [f"accuracy {key} {value:.4f}" for key, value in accuracy.items()]
    return ", ".join([*parts, *(f"IoU {name} {value:.3f}" for name, value in zip(PIXEL_NAMES, overlap))])


def _open(packages: Path, name: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(packages / name / "model.onnx", providers=["CPUExecutionProvider"])


def _report(name: str, images: str, figures: str) -> None:
    sys.stdout.write(f"{name} {images}: {figures}\n")


def report_detector(name: str, options: argparse.Namespace) -> None:
    """Print one line per evaluation size and one for all of them."""
    threshold = options.threshold
    if threshold is None:
        manifest = json.loads((options.packages / name / "manifest.json").read_text("utf-8"))
        threshold = manifest["detection"]["score_threshold"]
    detect = partial(DETECTORS[name], _open(options.packages, name), threshold=threshold)
    all_found, all_truth = [], []
    for size in EVALUATION_SIZES:
        found, truth = judge_detector(detect, size, options.images)
        all_found += found
        all_truth += truth
        _report(name, f"{size[1]}x{size[0]}", _describe_detector(found, truth))
    _report(name, f"all {len(all_found)} images, score >= {threshold}", _describe_detector(all_found, all_truth))


def report_anomaly(name: str, options: argparse.Namespace) -> None:
    """Print one line per evaluation size and one for all of them."""
    session = _open(options.packages, name)
    tables = [judge_anomaly(session, size, options.images) for size in EVALUATION_SIZES]
    for size, rows in zip(EVALUATION_SIZES, tables):
        _report(name, f"{size[1]}x{size[0]}", _describe_anomaly(rows))
    merged = {key: np.concatenate([rows[key] for rows in tables]) for key in tables[0]}
    _report(name, f"all {len(merged['label'])} images", _describe_anomaly(merged))


def main() -> None:
    """Judge every package found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=40, help="images per size")
    parser.add_argument("--packages", type=Path, default=Path(__file__).parent.parent / "tests" / "packages")
    parser.add_argument("--threshold", type=float, help="least score of a detection; default: the package's own")
    options = parser.parse_args()
    reports = {"parts_yolo": report_detector, "parts_rf_detr": report_detector, "parts_anomaly": report_anomaly}
    for name, report in reports.items():
        if (options.packages / name / "model.onnx").exists():
            report(name, options)


if __name__ == "__main__":
    main()
