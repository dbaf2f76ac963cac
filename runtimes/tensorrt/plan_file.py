"""What a plan file's first bytes say: which library built it, whether it is whole, and Ultralytics' metadata before it.

Payload: runs inside the server's python (3.9 or newer); the standard library is enough.

NVIDIA documents no layout. This one was read from plans of TensorRT 8.2, 8.6, 10.0 and 10.15 and of TensorRT-RTX 1.4
and 1.7: a magic word, the size of the plan, and the version as four bytes. support.py reads the same for `convert`.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..contract import RunnerError

TENSORRT = "TensorRT"
TENSORRT_RTX = "TensorRT-RTX"

# Magic, 4 zero bytes, the layout's number, the plan's size, the version.
_HEADER = struct.Struct("<4s4xQQ4B")
_PRODUCTS = {b"ftrt": TENSORRT, b"vtrt": TENSORRT_RTX}
# Until TensorRT 8.5, the version's parts each behind a tag: nothing that runs here reads these.
_OLD = b"ptrt"
_OLD_HEADER = struct.Struct("<4s4xQQ4xB4xB4xB4xB")


@dataclass(frozen=True)
class Plan:
    """A plan in memory.

    Attributes:
        content: The plan alone.
        product: TENSORRT or TENSORRT_RTX; neither runs the other's plans.
        version: Of the library that built it, as in "10.15.1.29".
    """

    content: memoryview
    product: str
    version: str


def open_plan(path: Path) -> Plan:
    """Read a plan, without the metadata that Ultralytics puts before it.

    Raises:
        RunnerError: It is no plan, is not whole, or is older than what can be read; the line says what it is.
    """
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        raise RunnerError(
            f"{path.name}: expected the model's file, got nothing there; convert the package again"
        ) from None
    plan = content[metadata_size(content) :]
    magic = bytes(plan[:4])
    if magic not in _PRODUCTS and magic != _OLD:
        raise RunnerError(
            f"{path.name}: expected a plan of TensorRT, got {_what_it_is(bytes(plan[:64]))}; "
            "build one on the target with trtexec or tensorrt's Builder"
        )
    header = _OLD_HEADER if magic == _OLD else _HEADER
    if len(plan) < header.size:
        raise RunnerError(f"{path.name}: is cut short, only {len(plan)} bytes of a plan are there; copy it again")
    _, _, size, *version = header.unpack_from(plan)
    built_with = ".".join(map(str, version))
    if magic == _OLD:
        raise RunnerError(
            f"{path.name}: built with TensorRT {built_with}, TensorRT 10 and newer cannot read it; "
            "rebuild it on the target"
        )
    if size != len(plan):
        raise RunnerError(
            f"{path.name}: {'is cut short' if len(plan) < size else 'has more than a plan in it'}, "
            f"expected {size} bytes by its header, got {len(plan)}; copy it again or rebuild it on the target"
        )
    return Plan(plan, _PRODUCTS[magic], built_with)


def metadata_size(content: memoryview) -> int:
    """Return how many bytes stand before the plan: a 4-byte little-endian length and that much JSON; 0 if they do not.

    Only what Ultralytics writes counts: one JSON object, and right behind it a plan's magic word.
    """
    length = int.from_bytes(content[:4], "little")
    if bytes(content[4 + length : 8 + length]) not in {*_PRODUCTS, _OLD}:
        return 0
    try:
        metadata: Any = json.loads(bytes(content[4 : 4 + length]).decode())  # bytes may also be UTF-16
    except (ValueError, RecursionError):
        return 0
    return 4 + length if isinstance(metadata, dict) else 0


def _what_it_is(head: bytes) -> str:
    if not head:
        return "an empty file"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer (run `git lfs pull` and convert again)"
    # ModelProto begins with ir_version (field 1, a small number), and producer, graph or opset follow.
    if head[:1] == b"\x08" and 0 < head[1] < 32 and head[2:3] in (b"\x12", b"\x1a", b"\x22", b"\x28", b"\x3a", b"\x42"):
        return "an ONNX model (runtime onnx runs it as it is)"
    if head[4:5] == b"{":
        return "Ultralytics' metadata with no plan behind it"
    return "something else"
