"""Models that the tests of the PyTorch runner make, and how they load them."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner

torch: Any = pytest.importorskip("torch")

DATA = Path(__file__).parent / "data"
IMAGE = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6) / 72
HAS_GPU = torch.cuda.is_available()
DEVICES = ["cpu", pytest.param("gpu", marks=pytest.mark.skipif(not HAS_GPU, reason="no GPU"))]
FORMATS = ["script", "program"]


class Call(torch.nn.Module):
    """A network whose forward is a function of a convolution's result."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.convolution(x))


def saved(folder: Path, form: str, function: Any, dtype: Any = torch.float32) -> tuple[Path, Any]:
    module = Call(function).eval().to(dtype)
    image = torch.from_numpy(IMAGE).to(dtype)
    path = folder / ("model.pt" if form == "script" else "model.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == "script":
            torch.jit.trace(module, image, strict=False).save(str(path))
        else:
            torch.export.save(torch.export.export(module, (image,)), path)
    return path, module(image)


def load(path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_runner("pytorch", RunnerOptions(path, **options))


def message(path: Path, **options: Any) -> str:
    with pytest.raises(RunnerError) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def scripted(folder: Path, body: str, returns: str) -> Path:
    """Save a module whose forward(x) is `body`."""
    source = folder / "written.py"
    source.write_text(
        "import torch\nfrom typing import *\nclass Written(torch.nn.Module):\n"
        f"    def forward(self, x: torch.Tensor) -> {returns}:\n        return {body}\n"
    )
    spec = importlib.util.spec_from_file_location("written", source)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.jit.script(module.Written()).save(str(folder / "model.pt"))
    return folder / "model.pt"
