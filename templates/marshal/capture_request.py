"""One request to marshal, checked: what the client says of the capture, and what base found.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

# Real METADATA is some hundred bytes; the limit keeps a stray image from being parsed as JSON.
MAX_METADATA_BYTES = 1 << 20

_CAPTURE_ID = "capture_id"
_FOLDER = "sagemaker_edge_core_capture_data_disk_path"
_FLEET = "sagemaker_edge_core_device_fleet_name"

Record = Mapping[str, Any]


class RequestError(ValueError):
    """The request cannot be answered; the text is one line: what, got, expected."""


@dataclass(frozen=True)
class Metadata:
    """What the client says of the capture; an absent key is an empty string.

    Attributes:
        capture_id: Names the capture's files; anything the client likes, so not always fit for a file name.
        folder: Where the client keeps the capture's files.
        fleet: The device fleet's name.
    """

    capture_id: str = ""
    folder: str = ""
    fleet: str = ""

    def path(self, suffix: str) -> str | None:
        """Return `<folder>/<capture_id>.<suffix>`; None without folder or id, or with an id that is no file name."""
        if not self.folder or not is_file_name(self.capture_id):
            return None
        return posixpath.join(self.folder, f"{self.capture_id}.{suffix}")


def is_file_name(capture_id: str) -> bool:
    """Return whether an id, with a suffix behind it, names a file of one folder: no separators, no `..`, no NUL."""
    return capture_id not in ("", ".", "..") and not any(character in "/\\\0" for character in capture_id)


def read_metadata(payload: bytes) -> Metadata:
    """Read METADATA: a JSON object; all keys are optional, others are ignored.

    Raises:
        RequestError: It is too long, not UTF-8 JSON, not an object, or a key that is read is not a string.
    """
    if len(payload) > MAX_METADATA_BYTES:
        raise RequestError(f"METADATA: got {len(payload)} bytes, expected at most {MAX_METADATA_BYTES}")
    parsed = _parse_json("METADATA", payload)
    if not isinstance(parsed, dict):
        raise RequestError(f"METADATA: got {_json_type(parsed)}, expected a JSON object ({{}} is enough)")
    fields = cast("dict[str, Any]", parsed)
    return Metadata(*(_text(fields, key) for key in (_CAPTURE_ID, _FOLDER, _FLEET)))


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"METADATA: {key}: got {_json_type(value)}, expected a string")
    return value


@dataclass(frozen=True)
class Findings:
    """What base found: a detector's objects, best first, or the classes of an anomaly mask in class order.

    Attributes:
        is_detection: A detector answered, even if it found nothing.
        records: One JSON object per finding, without the detector's sentinel.
    """

    is_detection: bool
    records: Sequence[Record]


def read_findings(payload: bytes) -> Findings:
    """Read `inference_anomalies`.

    A detector's records carry `bounding_box`, its sentinel for "nothing found" too, so that a list with nothing in
    it can only come from an anomaly model.

    Raises:
        RequestError: It is not a list of records of one kind.
    """
    name = "inference_anomalies"
    parsed = _parse_json(name, payload)
    if not isinstance(parsed, list):
        raise RequestError(f"{name}: got {_json_type(parsed)}, expected a JSON list")
    items = cast("list[Any]", parsed)
    for item in items:
        if not isinstance(item, dict):
            raise RequestError(f"{name}: got {_json_type(item)} in the list, expected JSON objects")
    records = cast("list[Record]", items)
    is_detection = bool(records) and "bounding_box" in records[0]
    found = [record for record in records if not record.get("no_objects")]
    for record in found:
        (_check_detection if is_detection else _check_area)(record)
    return Findings(is_detection, found)


def _check_detection(record: Record) -> None:
    box = record.get("bounding_box")
    if not isinstance(box, list) or [_is_number(side) for side in cast("list[Any]", box)] != [True] * 4:
        raise RequestError("inference_anomalies: bounding_box: expected 4 finite numbers")
    if not _is_number(record.get("confidence")):
        raise RequestError("inference_anomalies: confidence: expected a finite number")
    if not isinstance(record.get("class"), int) or not isinstance(record.get("class_label"), str):
        raise RequestError("inference_anomalies: expected class (an integer) and class_label (a string)")


def _check_area(record: Record) -> None:
    if not isinstance(record.get("name"), str) or not isinstance(record.get("hex_color"), str):
        raise RequestError("inference_anomalies: expected name and hex_color (strings)")
    if not _is_number(record.get("total_percentage_area")):
        raise RequestError("inference_anomalies: total_percentage_area: expected a finite number")


def check_image(image: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the image if it is uint8 [H, W, C] with C 1, 3 or 4 and no empty side.

    Raises:
        RequestError: It is anything else.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3, 4) or 0 in image.shape:
        raise RequestError(
            f"input: got {image.dtype} {list(image.shape)}, "
            "expected uint8 [height, width, channels] with 1, 3 or 4 channels"
        )
    return image


def scalar(name: str, values: npt.NDArray[Any]) -> float:
    """Return the one number of a tensor of shape [1].

    Raises:
        RequestError: There is not exactly one, or it is not finite (JSON has no word for it).
    """
    if values.size != 1:
        raise RequestError(f"{name}: got shape {list(values.shape)}, expected [1]")
    value = float(values.reshape(-1)[0])
    if not math.isfinite(value):
        raise RequestError(f"{name}: got {value}, expected a finite number")
    return value


def _parse_json(name: str, payload: bytes) -> object:
    try:
        return json.loads(payload.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}: got bytes that are not UTF-8, expected JSON in UTF-8") from error
    except ValueError as error:
        raise RequestError(f"{name}: got {len(payload)} bytes that are not JSON ({error})") from error
    except RecursionError as error:
        raise RequestError(f"{name}: got JSON nested too deeply") from error


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _json_type(value: object) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a string", "bool": "true or false", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")
