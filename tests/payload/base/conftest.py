"""A base model as the server loads it: model.py, model.json and a tiny graph in one version folder."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triton_python_backend_utils as pb_utils
from postprocessors.anomaly.support import DEFAULTS as ANOMALY
from postprocessors.classification.support import DEFAULTS as CLASSIFICATION
from postprocessors.rf_detr.support import DEFAULTS as RF_DETR
from postprocessors.semantic_segmentation.support import DEFAULTS as SEMANTIC
from postprocessors.yolo.support import DEFAULTS as YOLO
from runtimes.contract import RunnerOptions, TensorSpec

ROOT = Path(__file__).parents[3]
DEFAULTS = {
    "yolo": YOLO,
    "rf_detr": RF_DETR,
    "anomaly": ANOMALY,
    "classification": CLASSIFICATION,
    "semantic_segmentation": SEMANTIC,
}
PREPROCESS = {
    "height": 8,
    "width": 8,
    "channels": 3,
    "layout": "NCHW",
    "interpolation": "linear",
    "preserve_aspect": False,
    "image_range_scale": True,
    "mean": None,
    "std": None,
    "channel_order": "rgb",
}


class ScriptedRunner:
    """An engine that answers with what it was told, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.batches: list[np.ndarray] = []
        self.inputs = [TensorSpec("x", "float32", (1, 3, 8, 8))]
        self.outputs = [TensorSpec("", "float32", ())] * 2
        self.details = {"engine": "scripted", "device": "cpu"}
        self.options: RunnerOptions | None = None
        self.closed = False

    def __call__(self, batch: np.ndarray) -> list[np.ndarray]:
        self.batches.append(batch)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


class Loader:
    """Loads base models of one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch

    def __call__(
        self,
        family: str = "yolo",
        runner: ScriptedRunner | None = None,
        mask_dims: tuple[int, ...] = (-1, -1, -1),
        args: dict[str, str] | None = None,
        **replaced: Any,
    ) -> Any:
        """Return an initialised model; without a runner, the engine is real and loads artifact/model.onnx."""
        module = self.module()
        if runner is not None:

            def scripted(_runtime: str, options: RunnerOptions) -> ScriptedRunner:
                runner.options = options
                return runner

            self._monkeypatch.setattr(module, "make_runner", scripted)
        settings = {**DEFAULTS[family], **replaced.pop("decode", {})}
        names = replaced.pop("names", ("output", "mask"))
        described = {
            "format": 1,
            "name": "widget",
            "version": 3,
            "task": "anomaly" if family == "anomaly" else "object_detection",
            "profile": "capture",
            "runtime": "onnx",
            "family": family,
            "device": "auto",
            "artifact": "artifact/model.onnx",
            "preprocess": PREPROCESS,
            "decode": settings,
            "class_names": [],
            "outputs": {},
            "execution": {},
            **replaced,
        }
        (self.folder / "model.json").write_text(json.dumps(described), "utf-8")
        model = module.TritonPythonModel()
        outputs = [{"name": name, "dims": list(mask_dims) if name == "mask" else [1]} for name in names]
        config = json.dumps({"output": outputs})
        model.initialize({"model_config": config, "model_name": "base_widget", "model_version": "3", **(args or {})})
        return model

    def module(self) -> Any:
        """Return model.py as a module of its own."""
        shutil.copy(ROOT / "templates/base/model.py", self.folder)
        spec = importlib.util.spec_from_file_location("base_model", self.folder / "model.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert sys.path[0] == str(self.folder)
        return module


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loader:
    """Return a function that loads a base model."""
    monkeypatch.setattr(pb_utils.Logger, "lines", [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "base_widget" / "3"
    (folder / "artifact").mkdir(parents=True)
    return Loader(folder, monkeypatch)
