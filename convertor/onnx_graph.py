"""Read an ONNX file without the onnx package: inputs, outputs, metadata and what it needs, tensor data passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from convertor.errors import RefusedError
from convertor.listing import shown
from convertor.onnx_schema import (
    DTYPES,
    EXTERNAL,
    Attribute,
    Entry,
    Function,
    Graph,
    Model,
    Node,
    Opset,
    SparseTensor,
    Tensor,
    Type,
    ValueInfo,
)
from convertor.protobuf import WireError, WireReader

_NAME_BYTES = 1 << 16
_METADATA_BYTES = 1 << 20
_DEPTH = 32  # graphs within graphs; exporters reach 3
_RANK = 64


@dataclass(frozen=True)
class TensorFact:
    """An input or output of a graph.

    Attributes:
        name: Its name.
        dtype: NumPy's name where there is one ("float32", "float16", "uint8", ...), ONNX's in lower case otherwise;
            "sequence", "map", "sparse", "optional" for what is no tensor; "unknown" if the graph does not say.
        shape: One entry per dimension: a size, the name of a dynamic one, or None where nothing is known; () for a
            scalar. None if not even the rank is known.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class OnnxFacts:
    """What an ONNX file says of itself.

    Attributes:
        ir_version: Of the file format, >= 1.
        opsets: Domain -> version that the model needs; "" is ONNX's own domain ("ai.onnx").
        producer: Exporter and its version ("pytorch 2.4.0"); "" if it says nothing.
        inputs: Those that have to be fed, in graph order: initialisers listed as inputs are left out.
        outputs: In graph order.
        metadata: The exporter's key -> value; values over 1 MiB are left out.
        external_files: Sorted locations of tensor data kept in other files, relative to the model's folder, unchecked.
        operators: (domain, type) of all nodes, subgraphs and functions included; calls of the model's own functions
            are left out: this is what the engine has to know.
    """

    ir_version: int
    opsets: Mapping[str, int]
    producer: str
    inputs: tuple[TensorFact, ...]
    outputs: tuple[TensorFact, ...]
    metadata: Mapping[str, str]
    external_files: tuple[str, ...]
    operators: frozenset[tuple[str, str]]


def read_onnx_facts(stream: BinaryIO, size: int, name: str = "model.onnx") -> OnnxFacts:
    """Walk an ONNX file, passing over tensor data; memory stays flat.

    Args:
        stream: Positioned at the file's first byte; what it cannot seek over is read and dropped.
        size: The file's length in bytes.
        name: What to call the file in errors.

    Raises:
        RefusedError: It is no ONNX file, is cut short, or exceeds bounds that no real model reaches; one line.
    """
    walk = _Walk(WireReader(stream, size))
    try:
        walk.model(size)
    except WireError as error:
        raise RefusedError(f"{shown(name)}: not an ONNX file: {error}; export or copy it again") from error
    return walk.facts()


class _Walk:
    """One walk over one file; collects while it goes. Every method takes the offset at which its message ends."""

    def __init__(self, reader: WireReader) -> None:
        self._reader = reader
        self._ir_version = 0
        self._producer = ["", ""]
        self._opsets: dict[str, int] = {}
        self._metadata: dict[str, str] = {}
        self._inputs: list[TensorFact] = []
        self._outputs: list[TensorFact] = []
        self._initializers: set[str] = set()
        self._external: set[str] = set()
        self._operators: set[tuple[str, str]] = set()
        self._functions: set[tuple[str, str]] = set()
        self._has_graph = False

    def facts(self) -> OnnxFacts:
        return OnnxFacts(
            ir_version=self._ir_version,
            opsets=self._opsets,
            producer=" ".join(part for part in self._producer if part),
            inputs=tuple(fact for fact in self._inputs if fact.name not in self._initializers),
            outputs=tuple(self._outputs),
            metadata=self._metadata,
            external_files=tuple(sorted(self._external)),
            operators=frozenset(self._operators - self._functions),
        )

    def model(self, stop: int) -> None:
        for key, value in self._reader.fields(stop):
            if key == Model.IR:
                self._ir_version = value
            elif key in (Model.PRODUCER, Model.PRODUCER_VERSION):
                self._producer[key == Model.PRODUCER_VERSION] = self._name(value)
            elif key == Model.GRAPH:
                self._has_graph = True
                self._graph(value, 0)
            elif key == Model.OPSET:
                self._opset(value)
            elif key == Model.METADATA:
                name, text = self._entry(value, _METADATA_BYTES)
                if text is not None:
                    self._metadata[name] = text
            elif key == Model.FUNCTION:
                self._function(value)
        needed = {"graph": self._has_graph, "IR version": self._ir_version, "operator set": self._opsets}
        missing = [what for what, found in needed.items() if not found]
        if missing:
            raise WireError(f"it has no {' and no '.join(missing)}")

    def _graph(self, stop: int, depth: int) -> None:
        if depth > _DEPTH:
            raise WireError(f"graphs are nested over {_DEPTH} deep")
        for key, value in self._reader.fields(stop):
            if key == Graph.NODE:
                self._node(value, depth)
            elif key == Graph.INITIALIZER:
                self._tensor(value, named=depth == 0)
            elif key == Graph.SPARSE_INITIALIZER:
                self._sparse_tensor(value, named=depth == 0)
            elif key == Graph.INPUT and depth == 0:
                self._inputs.append(self._value_info(value))
            elif key == Graph.OUTPUT and depth == 0:
                self._outputs.append(self._value_info(value))

    def _node(self, stop: int, depth: int) -> None:
        domain = operator = ""
        for key, value in self._reader.fields(stop):
            if key == Node.TYPE:
                operator = self._name(value)
            elif key == Node.DOMAIN:
                domain = self._domain(value)
            elif key == Node.ATTRIBUTE:
                self._attribute(value, depth)
        self._operators.add((domain, operator))

    def _attribute(self, stop: int, depth: int) -> None:
        for key, value in self._reader.fields(stop):
            if key in Attribute.TENSORS:
                self._tensor(value)
            elif key in Attribute.GRAPHS:
                self._graph(value, depth + 1)
            elif key in Attribute.SPARSE_TENSORS:
                self._sparse_tensor(value)

    def _function(self, stop: int) -> None:
        domain = name = ""
        for key, value in self._reader.fields(stop):
            if key == Function.NAME:
                name = self._name(value)
            elif key == Function.DOMAIN:
                domain = self._domain(value)
            elif key == Function.NODE:
                self._node(value, 1)
            elif key == Function.ATTRIBUTE:
                self._attribute(value, 1)
        self._functions.add((domain, name))

    def _tensor(self, stop: int, named: bool = False) -> None:
        external, location = False, None
        for key, value in self._reader.fields(stop):
            if key == Tensor.NAME and named:
                self._initializers.add(self._name(value))
            elif key == Tensor.LOCATION:
                # As the engine's C++ reads an enum: its low 32 bits.
                external = value & 0xFFFF_FFFF == EXTERNAL
            elif key == Tensor.EXTERNAL_DATA:
                name, text = self._entry(value, _NAME_BYTES)
                location = text if name == "location" else location
        if external:
            self._external.add(location or "")

    def _sparse_tensor(self, stop: int, named: bool = False) -> None:
        for key, value in self._reader.fields(stop):
            if key in (SparseTensor.VALUES, SparseTensor.INDICES):
                self._tensor(value, named and key == SparseTensor.VALUES)

    def _value_info(self, stop: int) -> TensorFact:
        fact = TensorFact("", "unknown", None)
        for key, value in self._reader.fields(stop):
            if key == ValueInfo.NAME:
                fact = replace(fact, name=self._name(value))
            elif key == ValueInfo.TYPE:
                fact = self._type(value, fact.name)
        return fact

    def _type(self, stop: int, name: str) -> TensorFact:
        fact = TensorFact(name, "unknown", None)
        for key, value in self._reader.fields(stop):
            if key == Type.TENSOR:
                fact = self._tensor_type(value, name)
            elif key in Type.OTHERS:
                fact = TensorFact(name, Type.OTHERS[key], None)
        return fact

    def _tensor_type(self, stop: int, name: str) -> TensorFact:
        fact = TensorFact(name, "unknown", None)
        for key, value in self._reader.fields(stop):
            if key == Type.ELEMENT:
                fact = replace(fact, dtype=DTYPES.get(value, "unknown"))
            elif key == Type.SHAPE:
                fact = replace(fact, shape=self._shape(value))
        return fact

    def _shape(self, stop: int) -> tuple[int | str | None, ...]:
        shape: list[int | str | None] = []
        for key, value in self._reader.fields(stop):
            if key == Type.DIMENSION:
                shape.append(self._dimension(value))
            if len(shape) > _RANK:
                raise WireError(f"a shape has over {_RANK} dimensions")
        return tuple(shape)

    def _dimension(self, stop: int) -> int | str | None:
        dimension: int | str | None = None
        for key, value in self._reader.fields(stop):
            if key == Type.SIZE:
                dimension = value if value < 1 << 63 else None  # a negative one: some exporters' -1 for "any"
            elif key == Type.SYMBOL:
                dimension = self._name(value) or None
        return dimension

    def _opset(self, stop: int) -> None:
        domain, version = "", 0
        for key, value in self._reader.fields(stop):
            if key == Opset.DOMAIN:
                domain = self._domain(value)
            elif key == Opset.VERSION:
                version = value
        self._opsets[domain] = version

    def _entry(self, stop: int, limit: int) -> tuple[str, str | None]:
        name, text = "", ""
        for key, value in self._reader.fields(stop):
            if key == Entry.KEY:
                name = self._name(value)
            elif key == Entry.VALUE:
                text = self._reader.text(value, limit)
        return name, text

    def _domain(self, stop: int) -> str:
        domain = self._name(stop)
        return "" if domain == "ai.onnx" else domain

    def _name(self, stop: int) -> str:
        name = self._reader.text(stop, _NAME_BYTES)
        if name is None:
            raise WireError(f"a name is longer than {_NAME_BYTES} bytes")
        return name
