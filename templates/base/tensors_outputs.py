"""Results as the tensors of the tensors profile (`base_<m>`'s outputs).

`overlay_detections` is for marshal only. Of a detector it is a JSON object: `detections`, and `masks`, `keypoints` and
`rotated` where the task has them, rows in the same order. Of maps it is one line of JSON, {"kind": "heat" | "classes"
| "none", "size": [h, w], "shown": [top, left, height, width]}, and behind the line the plane, h * w bytes: classes at
source size, heat at the network's map size, of which `shown` (fractions) is the image.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline import Found
from postprocessors.geometry import FrameGeometry
from postprocessors.results import AnomalyResult, Classification, Detections, InstanceMask
from postprocessors.rle import run_lengths, to_string

Array = npt.NDArray[Any]
Values = dict[str, Array]

DRAWN = "overlay_detections"
# What is padded to the longest of a request's images with spaces: JSON may be followed by them.
_JSON = ("detections", "det_masks", DRAWN)
_NO_CLASS = -1
# Keypoints are drawn, not measured, in the overlay.
_DECIMALS = 2


class TensorsOutputs:
    """Packs what was found in a request's images.

    Args:
        model: model.json; `decode` states the fixed dims: `max_det`, `keypoints`, `top_k`.
        names: The model's outputs in config.pbtxt.
    """

    def __init__(self, model: Mapping[str, Any], names: Sequence[str]) -> None:
        self._settings: Mapping[str, Any] = model["decode"]
        self._task: str = model["task"]
        self._names = tuple(names)

    def pack(self, found: Sequence[Found], wanted: Collection[str]) -> Values:
        """Return the outputs of one request, batch axis first, only those that are wanted.

        Args:
            found: One per image, at least one; the images are of one size.
            wanted: Names of outputs; none stand for all.
        """
        names = [name for name in self._names if not wanted or name in wanted]
        images = [self._image(one, names) for one in found]
        return {name: _joined([image[name] for image in images], name in _JSON) for name in names}

    def _image(self, found: Found, names: Collection[str]) -> Values:
        result = found.result
        if isinstance(result, Detections):
            return self._detections(result, found.frame, names)
        if isinstance(result, Classification):
            count = int(self._settings["top_k"])
            ids = _rows(result.class_ids, (count,), np.int32, _NO_CLASS)
            return {"class_scores": _rows(result.scores, (count,)), "class_ids": ids}
        if isinstance(result, AnomalyResult):
            return self._anomaly(result, found.frame, names)
        drawn = _plane("classes", result.classes) if DRAWN in names else b""
        return {"class_map": result.classes, DRAWN: _bytes(drawn)}

    def _detections(self, found: Detections, frame: FrameGeometry, names: Collection[str]) -> Values:
        most = int(self._settings["max_det"])
        values = {
            "num_dets": np.array([len(found)], np.int32),
            "det_boxes": _rows(found.boxes, (most, 4)),
            "det_scores": _rows(found.scores, (most,)),
            "det_classes": _rows(found.class_ids, (most,), np.int32),
        }
        parts: dict[str, bytes] = {}
        if "detections" in names or DRAWN in names:
            parts["detections"] = _json(found.to_records())
        if self._task == "instance_segmentation":
            wanted = "det_masks" in names or DRAWN in names
            parts["masks"] = _json([_rle(mask, frame.source) for mask in found.masks or () if wanted])
        if self._task == "keypoint_detection":
            points = int(self._settings["keypoints"][0])
            values["det_keypoints"] = _rows(found.keypoints, (most, points, 3))
            parts["keypoints"] = _short(found.keypoints)
        if self._task == "oriented_detection":
            values["det_rboxes"] = _rows(found.rotated, (most, 5))
            parts["rotated"] = _short(found.rotated)
        drawn = b", ".join(b'"%s": %s' % (name.encode(), part) for name, part in parts.items())
        values[DRAWN] = _bytes(b"{%s}" % drawn)
        values["detections"], values["det_masks"] = (_bytes(parts.get(name, b"[]")) for name in ("detections", "masks"))
        return values

    def _anomaly(self, result: AnomalyResult, frame: FrameGeometry, names: Collection[str]) -> Values:
        heat = result.anomaly_map
        drawn = b""
        if DRAWN in names and result.class_mask is not None:
            drawn = _plane("classes", result.class_mask)
        elif DRAWN in names and heat is not None:
            drawn = _plane("heat", self._heat(heat), _shown(frame))
        elif DRAWN in names:
            drawn = _plane("none", np.zeros((0, 0), np.uint8))
        return {
            "anomaly_score": np.array([result.score], np.float32),
            "is_anomalous": np.array([result.is_anomalous], np.uint8),
            "anomaly_map": np.zeros((1, 1), np.float32) if heat is None else heat,
            DRAWN: _bytes(drawn),
        }

    def _heat(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
        """Return the map as bytes whose middle is the threshold: what is normal looks so in every image."""
        threshold = float(self._settings["threshold"])
        lowest, highest = self._settings.get("score_range") or (0.0, 2 * threshold)
        span = float(highest - lowest) or 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            shares = (values.astype(np.float64) - threshold) / span + 0.5
        return np.asarray(np.clip(shares, 0, 1) * 255 + 0.5, np.uint8)


def _rows(values: Array | None, dims: tuple[int, ...], dtype: Any = np.float32, fill: int = 0) -> Array:  # noqa: ANN401
    """Return the rows, at most `dims[0]`, and `fill` behind them; None has none."""
    rows = np.full(dims, fill, dtype)
    if values is not None and len(values):
        rows[: len(values)] = values
    return rows


def _rle(mask: InstanceMask, size: tuple[int, int]) -> dict[str, Any]:
    return {"size": list(size), "counts": to_string(run_lengths(mask, size))}


def _short(values: Array | None) -> bytes:
    return b"[]" if values is None else _json(np.round(values.astype(np.float64), _DECIMALS).tolist())


def _json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _bytes(text: bytes) -> Array:
    return np.frombuffer(text, np.uint8)


def _shown(frame: FrameGeometry) -> list[float]:
    (rows, columns), (top, left), (height, width) = frame.network, frame.offset, frame.resized
    return [top / rows, left / columns, height / rows, width / columns]


def _plane(kind: str, plane: npt.NDArray[np.uint8], shown: Sequence[float] = (0, 0, 1, 1)) -> bytes:
    header = {"kind": kind, "size": list(plane.shape), "shown": list(shown)}
    return _json(header) + b"\n" + plane.tobytes()


def _joined(values: Sequence[Array], is_json: bool) -> Array:
    """Return one array [B, ...]; JSON that is shorter than the longest is filled up with spaces."""
    if not is_json or len(values) == 1:
        return np.stack(values)
    filled = np.full((len(values), max(map(len, values))), ord(" "), np.uint8)
    for row, value in zip(filled, values):
        row[: len(value)] = value
    return filled
