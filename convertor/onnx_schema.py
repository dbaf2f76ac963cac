"""The part of ONNX's protobuf schema that is read: keys of the fields, by message.

Numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, IR 14).
"""

from __future__ import annotations

from typing import Final

from convertor.protobuf import VARINT, field_key

EXTERNAL: Final = 1  # TensorProto.DataLocation
# TensorProto.DataType
DTYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2", 27: "float6e2m3", 28: "float6e3m2",
}  # fmt: skip


class Model:
    """ModelProto."""

    IR, PRODUCER, PRODUCER_VERSION = field_key(1, VARINT), field_key(2), field_key(3)
    GRAPH, OPSET, METADATA, FUNCTION = field_key(7), field_key(8), field_key(14), field_key(25)


class Opset:
    """OperatorSetIdProto."""

    DOMAIN, VERSION = field_key(1), field_key(2, VARINT)


class Entry:
    """StringStringEntryProto."""

    KEY, VALUE = field_key(1), field_key(2)


class Graph:
    """GraphProto."""

    NODE, INITIALIZER, SPARSE_INITIALIZER = field_key(1), field_key(5), field_key(15)
    INPUT, OUTPUT = field_key(11), field_key(12)


class Function:
    """FunctionProto."""

    NAME, NODE, DOMAIN, ATTRIBUTE = field_key(1), field_key(7), field_key(10), field_key(11)


class Node:
    """NodeProto."""

    TYPE, DOMAIN, ATTRIBUTE = field_key(4), field_key(7), field_key(5)


class Attribute:
    """AttributeProto."""

    TENSORS = (field_key(5), field_key(10))
    GRAPHS = (field_key(6), field_key(11))
    SPARSE_TENSORS = (field_key(22), field_key(23))


class Tensor:
    """TensorProto."""

    NAME, EXTERNAL_DATA, LOCATION = field_key(8), field_key(13), field_key(14, VARINT)


class SparseTensor:
    """SparseTensorProto."""

    VALUES, INDICES = field_key(1), field_key(2)


class ValueInfo:
    """ValueInfoProto."""

    NAME, TYPE = field_key(1), field_key(2)


class Type:
    """TypeProto, its Tensor, TensorShapeProto and Dimension."""

    TENSOR = field_key(1)
    OTHERS: Final = {field_key(4): "sequence", field_key(5): "map", field_key(8): "sparse", field_key(9): "optional"}
    ELEMENT, SHAPE = field_key(1, VARINT), field_key(2)
    DIMENSION, SIZE, SYMBOL = field_key(1), field_key(1, VARINT), field_key(2)
