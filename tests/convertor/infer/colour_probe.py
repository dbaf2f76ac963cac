"""A detector made of ONNX operators that finds each patch of scene.py by its colour.

A wrong orientation moves the boxes, a wrong colour, level or background loses one or makes it the whole image.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.builders import detector_manifest, write_package
from tests.convertor.infer.scene import HEIGHT, PATCHES, WIDTH

SCORE = 0.9375


def probe_graph() -> bytes:
    """Return an ONNX graph [1, 3, HEIGHT, WIDTH] 0..1 -> YOLO head [1, 4 + 5, 40], one anchor per colour."""
    count = len(PATCHES)
    colours = np.array([patch[0] for patch in PATCHES.values()], np.float32).reshape(count, 3, 1, 1) / 255
    tolerances = np.array([patch[1] for patch in PATCHES.values()], np.float32).reshape(count, 1, 1) / 255
    constants = {
        "colours": colours,
        "tolerances": tolerances,
        "scores": np.eye(count, dtype=np.float32) * np.float32(SCORE),
        "half": np.float32(0.5),
        "one": np.float32(1),
        "channels": np.array([1], np.int64),
        "rows_axis": np.array([1], np.int64),
        "columns_axis": np.array([2], np.int64),
        "to_anchors": np.array([0, 0, 0, 40 - count], np.int64),
    }

    def node(operator: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(operator, inputs.split(), [output], **attributes)

    def ends(line: str, low: str, high: str) -> list[onnx.NodeProto]:
        return [
            node("ArgMax", line, f"{low}_index", axis=1, keepdims=1),
            node("Cast", f"{low}_index", low, to=TensorProto.FLOAT),
            node("ArgMax", line, f"{high}_index", axis=1, keepdims=1, select_last_index=1),
            node("Cast", f"{high}_index", f"{high}_pixel", to=TensorProto.FLOAT),
            node("Add", f"{high}_pixel one", high),
            node("Add", f"{low} {high}", f"{low}_sum"),
            node("Mul", f"{low}_sum half", f"{low}_centre"),
            node("Sub", f"{high} {low}", f"{low}_side"),
        ]

    nodes = [
        node("Sub", "images colours", "difference"),
        node("Abs", "difference", "distance"),
        node("ReduceMax", "distance channels", "farthest", keepdims=0),
        node("Less", "farthest tolerances", "same"),
        node("Cast", "same", "mask", to=TensorProto.FLOAT),
        node("ReduceMax", "mask rows_axis", "columns", keepdims=0),
        node("ReduceMax", "mask columns_axis", "rows", keepdims=0),
        *ends("columns", "x1", "x2"),
        *ends("rows", "y1", "y2"),
        node("ReduceMax", "columns rows_axis", "present", keepdims=1),
        node("Mul", "scores present", "classes"),
        node("Concat", "x1_centre y1_centre x1_side y1_side classes", "anchors", axis=1),
        node("Transpose", "anchors", "head", perm=[1, 0]),
        node("Pad", "head to_anchors", "padded"),
        node("Unsqueeze", "padded batch_axis", "output0"),
    ]
    constants["batch_axis"] = np.array([0], np.int64)
    graph = helper.make_graph(
        nodes,
        "colour_probe",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 4 + count, 40])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def write_probe(path: Path) -> Path:
    """Write the detector's package; its network input is the upright scene's size, so that nothing is resized."""
    manifest = detector_manifest(class_names=list(PATCHES))
    manifest["model_graph"]["stages"][0]["input_shape"] = [1, 3, HEIGHT, WIDTH]
    return write_package(path, manifest, {"model.onnx": probe_graph()})
