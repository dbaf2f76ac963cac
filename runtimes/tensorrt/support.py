"""What the tool must know of TensorRT. Standard library only; loaded by file path, never at run time.

A plan's tensors cannot be read without the library that built it, and a GPU. What can be: its magic word, and the
metadata that Ultralytics writes before it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Optional, cast

NAMES = frozenset({"tensorrt", "trt", "tensorrt_rtx"})
ARTIFACT = "model.plan"
DEFAULTS: dict[str, Any] = {}

Read = Callable[[str, int], bytes]
Facts = Optional[dict[str, Any]]

# TensorRT from 8.6 on, TensorRT-RTX, TensorRT until 8.5.
_MAGIC = (b"ftrt", b"vtrt", b"ptrt")
_OLD = b"ptrt"
# The size of the plan, among its magic word, the layout's number and the version.
_HEADER = struct.Struct("<4x4x8xQ4x")
_METADATA_BYTES = 16 << 20
_REBUILD = "build one on the target with trtexec or tensorrt's Builder"
_AGAIN = "copy it again, or build it again on the target"


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"device": "auto", "cpu", "gpu" or "tensorrt", ...}.
        facts: What `read_facts` found; None when unknown.
    """
    del facts
    if manifest["device"] != "cpu":
        return []
    return [
        "device: expected auto, gpu or tensorrt, got cpu; runtime tensorrt needs a GPU: "
        "set it to auto, or pack the ONNX model with runtime onnx"
    ]


def read_facts(artifact: str, files: Mapping[str, int], read: Read) -> tuple[Facts, list[str]]:
    """Return what Ultralytics' metadata say of a plan, and problems.

    Args:
        artifact: The plan's name in the package.
        files: Name in the package -> size.
        read: (name, limit) -> the first bytes of a file.

    Returns:
        {"inputs", "outputs", "metadata"}, None where the plan has no metadata. Types, and the outputs' shapes, are not
        in it.
    """
    head = read(artifact, _HEADER.size)
    length = int.from_bytes(head[:4], "little")
    metadata: dict[str, Any] | None = None
    size = files[artifact]
    if head[:4] not in _MAGIC and 2 <= length <= min(_METADATA_BYTES, size):
        begin = read(artifact, 4 + length + _HEADER.size)
        metadata = _metadata(begin[4 : 4 + length])
        if metadata is not None:
            head, size = begin[4 + length :], size - 4 - length
    if head[:4] not in _MAGIC:
        got = "Ultralytics' metadata with no plan behind it" if metadata is not None else _what_it_is(head)
        return None, [f"{artifact}: expected a plan of TensorRT, got {got}; {_REBUILD}"]
    if head[:4] == _OLD:
        return None, [f"{artifact}: expected a plan of TensorRT 10 or newer, got one of 8.5 or older; {_REBUILD}"]
    expected = _HEADER.unpack(head)[0] if len(head) == _HEADER.size else _HEADER.size
    if size != expected:
        return None, [
            f"{artifact}: is damaged, expected a plan of {expected} bytes by its header, got {size}; {_AGAIN}"
        ]
    return _facts(metadata) if metadata is not None else None, []


def _metadata(content: bytes) -> dict[str, Any] | None:
    try:
        value: Any = json.loads(content.decode())  # bytes may also be UTF-16
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _what_it_is(head: bytes) -> str:
    if not head:
        return "an empty file"
    # ModelProto begins with ir_version (field 1, a small number), and producer, graph or opset follow.
    if head[:1] == b"\x08" and 0 < head[1] < 32 and head[2:3] in (b"\x12", b"\x1a", b"\x22", b"\x28", b"\x3a", b"\x42"):
        return "an ONNX model, which runtime onnx runs as it is"
    return "something else"


def _facts(metadata: Mapping[str, Any]) -> Facts:
    """Return the tensors as Ultralytics' exporter names and shapes them, None where the size is not told.

    Its image is `images` [batch, channels, height, width]; its outputs are `output0` and, for masks, `output1`. With
    `dynamic` batch, height and width are open, and `imgsz` is only what the engine is fastest at.
    """
    size: Any = metadata.get("imgsz")
    sides = cast("list[Any]", size if isinstance(size, list) else [size, size])
    batch, channels = metadata.get("batch"), metadata.get("channels", 3)
    if len(sides) != 2 or any(type(axis) is not int for axis in (*sides, channels)):
        return None
    arguments: Any = metadata.get("args")
    is_open = isinstance(arguments, dict) and bool(cast("dict[str, Any]", arguments).get("dynamic"))
    fixed = [batch if type(batch) is int else None, channels, *sides]
    names = ["output0", "output1"] if metadata.get("task") == "segment" else ["output0"]
    return {
        "inputs": [{"name": "images", "dtype": "unknown", "shape": [None, channels, None, None] if is_open else fixed}],
        "outputs": [{"name": name, "dtype": "unknown", "shape": []} for name in names],
        "metadata": {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in metadata.items()
        },
    }
