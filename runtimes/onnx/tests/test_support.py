"""What convert refuses of an ONNX artifact before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from runtimes.onnx.support import check, read_facts


@pytest.mark.parametrize(
    ("inputs", "got"),
    [
        pytest.param(["images"], None, id="one"),
        pytest.param(["images", "orig_target_sizes"], "2: images, orig_target_sizes", id="B87-two"),
        pytest.param([], "0: none", id="none"),
        pytest.param(None, None, id="graph-unknown"),
    ],
)
def test_inputs(inputs: list[str] | None, got: str | None) -> None:
    facts: dict[str, Any] | None = None if inputs is None else {"inputs": [{"name": name} for name in inputs]}
    expected = f"net.onnx: expected one input (the image), got {got}; export the model with the image as its only input"
    assert check({"artifact": "net.onnx"}, facts) == ([] if got is None else [expected])


def test_a_graph_by_another_name_would_be_served_unchecked() -> None:
    facts, problems = read_facts("net.bin", {"net.bin": 9}, lambda name, limit: b"")
    assert facts is None
    assert problems == [
        "net.bin: expected a name that ends in .onnx, by which convert knows the graph that it has to check; rename it"
    ]
