"""A decode model as the server loads it: model.py and model.json in one version folder, under the fake pb_utils."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import pytest

import triton_python_backend_utils as pb_utils

ROOT = Path(__file__).parents[3]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return an initialised model."""
    monkeypatch.setattr(pb_utils.Logger, "lines", [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    folder = tmp_path / "decode_widget" / "3"
    folder.mkdir(parents=True)
    for name in ("model.py", "image_file.py"):
        shutil.copy(ROOT / "templates/decode" / name, folder)
    (folder / "model.json").write_text(json.dumps({"format": 1, "name": "widget", "version": 3}))
    spec = importlib.util.spec_from_file_location("decode_model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert sys.path[0] == str(folder)
    loaded = module.TritonPythonModel()
    log = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging  # as OpenCV 4 and 5 have it
    level = log.getLogLevel()
    loaded.initialize({"model_name": "decode_widget", "model_version": "3"})
    yield loaded
    log.setLogLevel(level)
    # The next test has a copy of its own.
    sys.modules.pop("image_file")
