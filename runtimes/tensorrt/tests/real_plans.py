"""Real plans, built by TensorRT for RTX from small ONNX graphs; its parser and builder need no GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

IMAGE = [1, 3, 32, 32]
CLASSES = 3


def graph(batch: int | str = 1, element: int = TensorProto.FLOAT, second_input: bool = False) -> bytes:
    """Return a small YOLO head: `images` [batch, 3, 32, 32] to `output0` [batch, 4 + 3, 16]."""
    weight = np.random.default_rng(0).normal(size=(4 + CLASSES, 3, 8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["pixels", "weight"], ["map"], strides=[8, 8]),
        helper.make_node("Reshape", ["map", "shape"], ["output0"]),
    ]
    inputs = [helper.make_tensor_value_info("images", element, [batch, *IMAGE[1:]])]
    outputs = [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [batch, 4 + CLASSES, 16])]
    if second_input:
        inputs.append(helper.make_tensor_value_info("sizes", TensorProto.FLOAT, [1, 2]))
        outputs.append(helper.make_tensor_value_info("twice", TensorProto.FLOAT, [1, 2]))
        nodes.append(helper.make_node("Add", ["sizes", "sizes"], ["twice"]))
    constants = [
        numpy_helper.from_array(weight, "weight"),
        numpy_helper.from_array(np.array([0, 4 + CLASSES, 16]), "shape"),
    ]
    body = helper.make_graph(nodes, "head", inputs, outputs, constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def build(trt: Any, log: Any, model: bytes, largest: int | None = None) -> bytes:
    """Return the plan of a graph; with `largest` a profile from one image to that many."""
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    assert parser.parse(model), [parser.get_error(index).desc() for index in range(parser.num_errors)]
    config = builder.create_builder_config()
    if largest is not None:
        profile = builder.create_optimization_profile()
        profile.set_shape("images", IMAGE, IMAGE, [largest, *IMAGE[1:]])
        config.add_optimization_profile(profile)
    return bytes(builder.build_serialized_network(network, config))
