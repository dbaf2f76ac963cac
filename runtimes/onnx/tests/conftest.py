"""Runners of tiny graphs in the real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.onnx.tests import graphs


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that loads a graph's bytes."""

    def load_graph(content: bytes, **options: Any) -> Any:
        return make_runner("onnx", RunnerOptions(graphs.save(tmp_path / "model.onnx", content), **options))

    return load_graph


@pytest.fixture
def refused(load: Callable[..., Any]) -> Callable[..., str]:
    """Return a function that returns the line with which a graph's bytes are refused."""

    def refused_line(content: bytes, **options: Any) -> str:
        with pytest.raises(RunnerError) as caught:
            load(content, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refused_line
