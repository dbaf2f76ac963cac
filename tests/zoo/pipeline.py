"""From a case to its decoder by the product's own way: a package, checked by convert, and what model.json would say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import StringStringEntryProto, TensorProto

from convertor import capture, ingredients
from convertor.manifest.keys import TASKS
from convertor.manifest.parse import MANIFEST, parse_manifest
from convertor.package import open_package
from postprocessors.contract import DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Result
from runtimes.preprocessors.placement import place, rules_of
from tests.convertor.packages import onnx_bytes
from tests.zoo.cases import Case, Found, Picture

TYPES = {"tensor(float)": TensorProto.FLOAT, "tensor(float16)": TensorProto.FLOAT16}


@dataclass(frozen=True)
class Served:
    """What the server would be told, and do."""

    family: str
    preprocess: Mapping[str, Any]
    config: DecoderConfig

    def frame(self, picture: Picture) -> FrameGeometry:
        return FrameGeometry(
            *place(picture.source, picture.network, self.preprocess["preserve_aspect"], rules_of(self.preprocess))
        )

    def decode(self, picture: Picture, frame: FrameGeometry) -> Result:
        raw = [picture.raw[name] for name in self.config.output_names]
        # As every runner gives them.
        (found,) = make_decoder(self.family, self.config)([output.astype("float32") for output in raw], [frame])
        return found


class Packages:
    """Converts one parameter set after the other in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def serve(self, case: Case, network: Sequence[int], found: Found) -> Served:
        """Return what convert makes of the case's export, asked for with the vendor's parameters."""
        # The vendor's suppression alone, without what becomes of masks after it.
        boxes_only = found.suppression_only and case.task == "instance_segmentation"
        task = "object_detection" if boxes_only else case.task
        (self._folder / MANIFEST).write_text(json.dumps(_manifest(case, task, network, found)))
        (self._folder / "model.onnx").write_bytes(_graph(case))
        with open_package(self._folder) as package:
            manifest = parse_manifest(package.read(MANIFEST, 1 << 20))
            parts, _ = ingredients.collect(package, manifest, None, None, None)
        names = tuple(tensor["name"] for tensor in case.index["outputs"])
        config = DecoderConfig(parts.decode, parts.class_names, names, parts.manifest.outputs, task)
        return Served(parts.decoder.name, parts.preprocess, config)


def serve_every_task() -> None:
    """Let convert take tasks that no profile serves yet; their decoders are what is compared."""
    capture.TASKS = frozenset(TASKS)


def _manifest(case: Case, task: str, network: Sequence[int], found: Found) -> dict[str, Any]:
    layout, preset = case.convention
    detection = {"layout": layout, **found.detection}
    count = case.num_classes()
    if count is not None:
        detection["num_classes"] = count
    return {
        "runtime": "onnx",
        "task": task,
        "detection": detection,
        "model_graph": {"stages": [{"preset": preset, "input_shape": [1, 3, *network]}]},
    }


def _graph(case: Case) -> bytes:
    """Return a graph without nodes that says of itself what the vendor's says."""
    inputs, outputs = (
        {tensor["name"]: tensor["shape"] for tensor in case.index[kind]} for kind in ("inputs", "outputs")
    )
    model = onnx.load_from_string(onnx_bytes(inputs, outputs, dtype=TYPES[case.index["inputs"][0]["dtype"]]))
    model.metadata_props.extend(StringStringEntryProto(key=key, value=value) for key, value in case.metadata.items())
    return model.SerializeToString()
