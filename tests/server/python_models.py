"""Small hand-written models of the python backend: one FP32 vector `x` in, one `y` out."""

from __future__ import annotations

from pathlib import Path

CONFIG = """\
name: "{name}"
{engine}
max_batch_size: 0
input [{{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }}]
output [{{ name: "y" data_type: TYPE_FP32 dims: [ -1 ] }}]
"""
STEP = """\
ensemble_scheduling {{ step [{{
  model_name: "{step}" model_version: 1
  input_map {{ key: "x" value: "x" }} output_map {{ key: "y" value: "y" }}
}}] }}
"""
ECHO = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", array)]) for array in arrays]
"""


def at_load(statement: str) -> str:
    """A model that runs `statement` when it is loaded."""
    lines = [
        "import ctypes, os, sys, time",
        "import triton_python_backend_utils as pb_utils",
        "class TritonPythonModel:",
    ]
    return "\n".join(
        [*lines, "    def initialize(self, args):", f"        {statement}", "    def execute(self, _): ...", ""]
    )


def add_model(repository: Path, name: str, source: str) -> Path:
    """Add a python model and return its version folder."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(source)
    (repository / name / "config.pbtxt").write_text(CONFIG.format(name=name, engine='backend: "python"'))
    return version


def add_ensemble(repository: Path, name: str, step: str) -> None:
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version / ".keep").touch()
    text = CONFIG.format(name=name, engine='platform: "ensemble"') + STEP.format(step=step)
    (repository / name / "config.pbtxt").write_text(text)
