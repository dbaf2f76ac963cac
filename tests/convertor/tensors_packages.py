"""Packages of every task, planned in the tensors profile, and their configs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convertor.convert import Prepared
from convertor.model_config import parse_config
from tests.convertor.conversions import prepared
from tests.convertor.packages import anomaly_manifest, onnx_bytes, yolo_manifest

YOLO_OUTPUTS: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "object_detection": {"output0": (1, 7, 21)},
    "instance_segmentation": {"output0": (1, 39, 21), "output1": (1, 32, 16, 16)},
    "keypoint_detection": {"output0": (1, 22, 21)},
    "oriented_detection": {"output0": (1, 8, 21)},
}


def with_yolo(folder: Path, task: str, detection: dict[str, Any] | None = None, **options: Any) -> Prepared:
    """A YOLO package of three classes; `options` are the command line's, `serving` the manifest's."""
    serving = {"profile": "tensors", **options.pop("serving", {})}
    manifest = yolo_manifest(task=task, model_name="parts", serving=serving, device=options.pop("on", "auto"))
    manifest["model_graph"]["stages"][0]["type"] = f"yolo_{task}"
    manifest["detection"].update(detection or {})
    if task == "keypoint_detection":
        manifest["detection"].setdefault("keypoints", [5, 3])
    return prepared(folder, manifest, {"model.onnx": onnx_bytes(outputs=YOLO_OUTPUTS[task])}, **options)


def other(folder: Path, task: str, graph: dict[str, tuple[int | str, ...]], **top: Any) -> Prepared:
    manifest = {
        "runtime": "onnx",
        "task": task,
        "model_name": "parts",
        "serving": {"profile": "tensors"},
        "model_graph": {"stages": [{"type": task}]},
        **top,
    }
    return prepared(folder, manifest, {"model.onnx": onnx_bytes({"images": ("b", 3, 96, 64)}, graph)})


def detection(folder: Path) -> Prepared:
    return with_yolo(folder, "object_detection")


def segmentation(folder: Path) -> Prepared:
    serving = {"instances": 2, "gpus": [0, 1], "queue_delay_us": 2000, "preferred_batch_sizes": [8, 16], "threads": 3}
    return with_yolo(
        folder,
        "instance_segmentation",
        {"max_det": 100},
        serving={**serving, "max_batch_size": 4},
        on="gpu",
        max_batch_size=16,
        version=7,
    )


def keypoints(folder: Path) -> Prepared:
    return with_yolo(folder, "keypoint_detection")


def oriented(folder: Path) -> Prepared:
    return with_yolo(folder, "oriented_detection")


def classification(folder: Path) -> Prepared:
    serving = {"profile": "tensors", "warmup": False, "max_batch_size": 32}
    return other(folder, "classification", {"logits": ("b", 3)}, device="cpu", serving=serving)


def anomaly(folder: Path) -> Prepared:
    files = {"mochi/model.onnx": onnx_bytes(outputs={"score": (1, 2), "map": (1, 2, 64, 64)})}
    return prepared(folder, {**anomaly_manifest(), "model_name": "parts"}, files, profile="tensors", instances=2)


def semantic_segmentation(folder: Path) -> Prepared:
    return other(folder, "semantic_segmentation", {"logits": ("b", 5, 24, 16)}, detection={"num_classes": 5})


PACKAGES = {
    "object_detection": detection,
    "instance_segmentation": segmentation,
    "keypoint_detection": keypoints,
    "oriented_detection": oriented,
    "classification": classification,
    "anomaly": anomaly,
    "semantic_segmentation": semantic_segmentation,
}


def configs(one: Prepared) -> dict[str, Any]:
    return {model.name: parse_config(model.config, model.name) for model in one.plan.models}
