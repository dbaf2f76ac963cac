"""A marshal model as the server loads it: model.py and model.json in one version folder, under the fake pb_utils."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import triton_python_backend_utils as pb_utils

ROOT = Path(__file__).parents[3]
CLOCK = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that loads a marshal model with a fixed clock."""
    monkeypatch.delenv("CAPTURE_ROOTS", raising=False)
    monkeypatch.setattr(pb_utils.Logger, "lines", [])
    monkeypatch.setattr(sys, "path", list(sys.path))

    def load_model(**facts: object) -> Any:
        folder = tmp_path / "marshal_widget" / "3"
        folder.mkdir(parents=True)
        shutil.copy(ROOT / "templates/marshal/model.py", folder)
        (folder / "model.json").write_text(json.dumps({"format": 1, "name": "widget", "version": 3, **facts}))
        spec = importlib.util.spec_from_file_location("marshal_model", folder / "model.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert sys.path[0] == str(folder)
        model = module.TritonPythonModel()
        model.clock = lambda: CLOCK
        model.initialize({"model_name": "marshal_widget", "model_version": "3"})
        return model

    return load_model
