"""The zoo: raw outputs of vendors' own exports, and what each vendor's own pipeline finds in them.

It lies in the folder that the environment variable ZOO names: index.json (one entry per case), ref/<case>.json (what
the vendor found, per picture and parameter set), raw/<case>__<picture>.npz (the output tensors), inputs/ and images/.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from convertor.facts import parse_names

Array = np.ndarray[Any, Any]

TASKS = {
    "detect": "object_detection",
    "segment": "instance_segmentation",
    "pose": "keypoint_detection",
    "obb": "oriented_detection",
    "classify": "classification",
}
# Which decoder and whose convention; what is not here is Ultralytics' own.
CONVENTIONS = {
    "hf-detr": ("detr", "hf-detr"),
    "hf-rtdetr": ("detr", "hf-rt-detr"),
    "legacy-ul842-rtdetr": ("detr", "ultralytics-rt-detr-8.3"),
    "legacy-ul842-v8p80": ("yolo", "ultralytics-8.3"),
    "libre-picodet": ("yolo", "picodet"),
    "rfdetr-nano-full91": ("rf_detr", "rf-detr"),
    "rfdetr-nano-tiny91": ("rf_detr", "rf-detr"),
    "rtdetr-pico_320": ("detr", "ultralytics-rt-detr"),
    "yolo11n-cls_224": ("classification", "ultralytics-classify"),
    "yolov5v7-p80_320": ("yolo", "yolov5"),
}
# How the vendors' parameters are called in a manifest; what is false says nothing.
_DETECTION_KEYS = {
    "conf": "score_threshold",
    "conf_thres": "score_threshold",
    "threshold": "score_threshold",
    "iou": "iou_threshold",
    "iou_thres": "iou_threshold",
    "max_det": "max_det",
    "agnostic": "class_agnostic",
    "multi_label": "multi_label",
    "classes": "classes",
    "num_select": "top_k",
}


@dataclass(frozen=True)
class Found:
    """What the vendor finds in one picture with one set of parameters.

    Attributes:
        name: For people: the vendor's parameters.
        detection: The parameters in a manifest's words.
        boxes: float64 [n, 4], x1 y1 x2 y2 in source pixels.
        rotated: float64 [n, 5], cx cy w h angle, or None.
        scores: float64 [n].
        class_ids: int64 [n].
        keypoints: float64 [n, P, 3], or None.
        mask_areas: int64 [n], pixels of the network's input, or None.
        suppression_only: The vendor's NMS alone, without what its task does after it.
        in_float32: The vendor calculated in float32, although the tensors are of half precision.
    """

    name: str
    detection: Mapping[str, Any]
    boxes: Array
    rotated: Array | None
    scores: Array
    class_ids: Array
    keypoints: Array | None = None
    mask_areas: Array | None = None
    suppression_only: bool = False
    in_float32: bool = False


@dataclass(frozen=True)
class Picture:
    """One picture of a case.

    Attributes:
        name: bus, zidane, chelsea, ...
        source: (height, width).
        network: (height, width).
        raw: The graph's outputs by name.
        found: One per parameter set.
    """

    name: str
    source: tuple[int, int]
    network: tuple[int, int]
    raw: Mapping[str, Array]
    found: tuple[Found, ...]


@dataclass(frozen=True)
class Case:
    """One export."""

    folder: Path
    index: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.index["case"]

    @property
    def task(self) -> str:
        return TASKS[self.index["task"]]

    @property
    def convention(self) -> tuple[str, str]:
        """The decoder and its preset."""
        return CONVENTIONS.get(self.name, ("yolo", "ultralytics"))

    @property
    def half_precision(self) -> bool:
        return any("float16" in tensor["dtype"] for tensor in self.index["outputs"])

    @cached_property
    def reference(self) -> Mapping[str, Any]:
        return json.loads((self.folder / "ref" / f"{self.name}.json").read_text("utf-8"))

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.index.get("metadata") or {}

    def num_classes(self) -> int | None:
        """What a package has to say itself; None where the graph's metadata does."""
        if "num_labels" in self.index:
            return self.index["num_labels"]
        # 91 columns: the last of COCO's sparse ids is 90.
        return 90 if self.convention[0] == "rf_detr" else None

    def pictures(self) -> Iterator[Picture]:
        for name, entry in self.reference["images"].items():
            shape = entry["input_shape"]
            shape = shape if isinstance(shape, list) else next(iter(shape.values()))
            raw = np.load(self.folder / "raw" / f"{self.name}__{name}.npz")
            yield Picture(
                name,
                tuple(entry["shape_hw"]),
                tuple(shape[2:]),
                {output: raw[output] for output in raw.files},
                tuple(self._found(entry)),
            )

    def _found(self, entry: Mapping[str, Any]) -> Iterator[Found]:
        for one in entry["params"]:
            if "top5" not in one:
                rows = one["dets"] if "obb_xywhr_conf_cls" not in one else one["obb_xywhr_conf_cls"]
                order = [0, 1, 2, 3, 4, 5, 6] if "obb_xywhr_conf_cls" in one else None
                yield self._of_rows(one["params"], rows, order, one)
            else:
                none = np.zeros((len(one["top5"]), 4))
                yield Found("top 5", {"top_k": 5}, none, None, np.array(one["top5conf"]), np.array(one["top5"]))
        for one in entry.get("params_fp32math", ()):
            yield replace(self._of_rows(one["params"], one["dets"], None, {}), in_float32=True)
        for one in entry.get("extra", ()):
            order = [0, 1, 2, 3, 6, 4, 5] if self.task == "oriented_detection" else None
            yield self._of_rows(one["args"], one["dets"], order, {}, suppression_only=True)

    def _of_rows(
        self, params: Mapping[str, Any], rows: Any, order: Any, more: Mapping[str, Any], suppression_only: bool = False
    ) -> Found:
        table = np.array(rows, float).reshape(len(rows), -1 if len(rows) else 7 if order else 6)
        rotated = None
        if order:
            table = table[:, order]
            rotated, table = table[:, :5], np.column_stack([np.zeros((len(table), 4)), table[:, 5:]])
        points, areas = more.get("keypoints"), more.get("mask_area")
        return Found(
            name=", ".join(f"{key} {value}" for key, value in params.items() if value is not False),
            detection=self._detection(params),
            boxes=table[:, :4],
            rotated=rotated,
            scores=table[:, 4],
            class_ids=table[:, 5].astype(int),
            keypoints=None if points is None else np.array(points, float).reshape(len(rows), -1, 3),
            mask_areas=None if areas is None else np.array(areas, int),
            suppression_only=suppression_only,
        )

    def _detection(self, params: Mapping[str, Any]) -> dict[str, Any]:
        said = {
            _DETECTION_KEYS[key]: value
            for key, value in params.items()
            if value is not False and key in _DETECTION_KEYS
        }
        if "classes" in said:
            # The vendor is asked for class 2 of models of one class too; convert refuses what a model does not have.
            count = len(parse_names(self.metadata["names"]) or ())
            said["classes"] = [wanted for wanted in said["classes"] if wanted < count]
        return said


def zoo() -> Path | None:
    """The zoo's folder, or None where there is none."""
    folder = os.environ.get("ZOO")
    return Path(folder) if folder else None


def cases() -> list[Case]:
    """Every case; none without a zoo."""
    folder = zoo()
    if folder is None:
        return []
    return [Case(folder, entry) for entry in json.loads((folder / "index.json").read_text("utf-8"))]
