"""Tiny ONNX graphs, written field by field: the payload's tests need no onnx package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16 = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
Shape = Sequence["int | str"]


def save(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def echo(dtype: int = FLOAT, shape: Shape = (1, 3, 4, 6), **model: int) -> bytes:
    """Return a graph whose output `y` is its input `x`."""
    return graph([node("Identity", ["x"], ["y"])], [tensor("x", dtype, shape)], [tensor("y", dtype, shape)], **model)


def reshape(shape: Shape, to: Sequence[int]) -> bytes:
    """Return a graph whose output `y` is its float input `x` in another shape; more images do not fit it."""
    target = _field(1, len(to)) + _field(2, INT64) + _field(8, "to") + b"".join(_field(7, axis) for axis in to)
    body = _field(1, node("Reshape", ["x", "to"], ["y"])) + _field(2, "tiny") + _field(5, target)
    body += _field(11, tensor("x", FLOAT, shape)) + _field(12, tensor("y", FLOAT, to))
    return _field(1, 8) + _field(7, body) + _field(8, _field(1, "") + _field(2, 17))


def graph(
    nodes: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes], ir: int = 8, opset: int = 17
) -> bytes:
    """Return ModelProto bytes (ir_version 1, graph 7, opset_import 8)."""
    body = b"".join(_field(1, n) for n in nodes) + _field(2, "tiny")
    body += b"".join(_field(11, i) for i in inputs) + b"".join(_field(12, o) for o in outputs)
    opsets = [("", opset), ("TRT", 1)]
    imports = b"".join(_field(8, _field(1, domain) + _field(2, version)) for domain, version in opsets)
    return _field(1, ir) + _field(7, body) + imports


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **ints: int) -> bytes:
    """Return NodeProto bytes; keywords are integer attributes."""
    names = b"".join(_field(1, name) for name in inputs) + b"".join(_field(2, name) for name in outputs)
    attributes = b"".join(_field(5, _field(1, key) + _field(3, value) + _field(20, 2)) for key, value in ints.items())
    return names + _field(4, operator) + attributes + _field(7, domain)


def tensor(name: str, dtype: int, shape: Shape) -> bytes:
    """Return ValueInfoProto bytes; a text in `shape` is an open axis."""
    dims = b"".join(_field(1, _field(2 if isinstance(axis, str) else 1, axis)) for axis in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, dtype) + _field(2, dims)))


def with_weights(*locations: str) -> bytes:
    """Return the graph y = x + w0 + w1 ..., a float [1] each, in other files; those of one file lie there in a row."""
    names = [f"w{number}" for number in range(len(locations))]
    sums = ["x", *(f"sum{number}" for number in range(1, len(names))), "y"]
    body = b"".join(_field(1, node("Add", [sums[i], name], [sums[i + 1]])) for i, name in enumerate(names))
    body += _field(2, "tiny")
    for number, (name, location) in enumerate(zip(names, locations)):
        body += _field(5, _weight(name, location, 4 * locations[:number].count(location)))
    body += _field(11, tensor("x", FLOAT, (1, 3, 4, 6))) + _field(12, tensor("y", FLOAT, (1, 3, 4, 6)))
    return _field(1, 8) + _field(7, body) + _field(8, _field(1, "") + _field(2, 17))


def _weight(name: str, location: str, offset: int) -> bytes:
    entries = {"location": location, "offset": str(offset), "length": "4"}
    places = b"".join(_field(13, _field(1, key) + _field(2, value)) for key, value in entries.items())
    return _field(1, 1) + _field(2, FLOAT) + _field(8, name) + places + _field(14, 1)


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])
