"""What convert refuses of a classifier before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.classification.support import DEFAULTS, check


def problems(
    shapes: list[list[Any]] | None = None,
    outputs: dict[str, Any] | None = None,
    metadata: dict[str, str] | None = None,
    **settings: Any,
) -> list[str]:
    facts = [{"name": f"out{index}", "dtype": "float32", "shape": shape} for index, shape in enumerate(shapes or [])]
    return check(
        {"settings": {**DEFAULTS, **settings}, "outputs": outputs or {}},
        {"outputs": facts, "metadata": metadata or {}} if shapes else None,
    )


@pytest.mark.parametrize(
    ("shapes", "settings"),
    [
        pytest.param(None, {}, id="no-facts"),
        pytest.param([[1, 1000]], {}, id="no-count"),
        pytest.param([["batch", 1000]], {"num_classes": 1000}, id="open-batch"),
        pytest.param([[1, 1000, 1, 1]], {"num_classes": 1000, "use_softmax": True}, id="not-pooled"),
        pytest.param([[1, None]], {"num_classes": 7}, id="open-columns"),
        pytest.param([[]], {"num_classes": 7}, id="unknown-rank"),
        pytest.param([[1, 7], [1, 2048, 7, 7]], {"num_classes": 7}, id="features-beside-it"),
        pytest.param([[1, 7], [1, 9]], {"num_classes": 9, "outputs": {"scores": {"tensor": 1}}}, id="named"),
    ],
)
def test_what_is_accepted(shapes: list[list[Any]] | None, settings: dict[str, Any]) -> None:
    assert problems(shapes, **settings) == []


@pytest.mark.parametrize(
    ("shapes", "settings", "expected"),
    [
        pytest.param(
            [[1, 1000]], {"num_classes": 10}, "detection.num_classes: expected 1000, the columns of", id="other-count"
        ),
        pytest.param([[1, 84, 8400]], {}, "task: expected an output [B, nc] for classification, got [1, 84", id="head"),
        pytest.param([[1, 5], [1, 7]], {}, "outputs.scores: expected the output with a score per class", id="two"),
        pytest.param(None, {"outputs": {"boxes": {"tensor": 0}}}, "outputs.boxes: expected scores", id="meaning"),
        pytest.param(
            None,
            {"outputs": {"scores": {"tensor": 0, "activation": "argmax"}}},
            "outputs.scores.activation: expected none, sigmoid or softmax",
            id="argmax",
        ),
        pytest.param(
            None,
            {"outputs": {"scores": {"tensor": 0, "activation": "softmax"}}, "use_softmax": True},
            "detection.use_softmax: expected false beside the activation softmax",
            id="softmax-twice",
        ),
        pytest.param(
            None,
            {"multi_label": True, "use_softmax": True},
            "detection.use_softmax: expected false with detection.multi_label",
            id="softmax-of-labels",
        ),
        pytest.param(
            [[1, 1000]],
            {"use_softmax": True, "metadata": {"task": "classify"}},
            "detection.use_softmax: expected false for Ultralytics' graph",
            id="softmax-in-the-graph",
        ),
    ],
)
def test_what_is_refused(shapes: list[list[Any]] | None, settings: dict[str, Any], expected: str) -> None:
    (problem,) = problems(shapes, **settings)
    assert problem.startswith(expected)
