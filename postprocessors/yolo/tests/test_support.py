"""What convert refuses of a YOLO package before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.yolo.support import DEFAULTS, check


def facts(*shapes: list[Any]) -> dict[str, Any]:
    return {"outputs": [{"name": f"output{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)]}


def problems(graph: dict[str, Any] | None, outputs: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    return check({"settings": {**DEFAULTS, **settings}, "outputs": outputs or {}}, graph)


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        pytest.param(facts([1, 84, 8400]), {"num_classes": 80}, id="channels-first"),
        pytest.param(facts([1, 8400, 84]), {"num_classes": 80}, id="transposed"),
        pytest.param(facts(["batch", 84, "anchors"]), {"num_classes": 3}, id="open-axes-are-seen-at-load"),
        pytest.param(facts([1, 84, 8400], [1, 32, 160, 160]), {"num_classes": 80}, id="another-rank-beside-it"),
        pytest.param(facts([1, 84, 8400], [1, 84, 100]), {"num_classes": 3}, id="two-heads-are-seen-at-load"),
        pytest.param(None, {"num_classes": 3}, id="graph-unknown"),
    ],
)
def test_nothing_to_refuse(graph: dict[str, Any] | None, settings: dict[str, Any]) -> None:
    assert problems(graph, **settings) == []


@pytest.mark.parametrize(
    ("graph", "settings", "outputs", "expected"),
    [
        pytest.param(facts([1, 84, 8400]), {"num_classes": 3}, {}, "expected a head with 7 channels", id="B07"),
        pytest.param(None, {}, {}, "detection.num_classes: expected the number of classes", id="no-count"),
        pytest.param(None, {"num_classes": 3, "end_to_end": True}, {}, "export without NMS", id="end-to-end"),
        pytest.param(None, {"num_classes": 3, "box_format": "xyxy"}, {}, "detection.box_format", id="box-format"),
        pytest.param(None, {"num_classes": 3}, {"masks": {"tensor": 1}}, "outputs.masks: expected boxes", id="outputs"),
        pytest.param(None, {"num_classes": 3}, {"a": {"tensor": 1}}, "got 'a'; name it boxes", id="outputs-next-step"),
    ],
)
def test_refusals(graph: Any, settings: dict[str, Any], outputs: dict[str, Any], expected: str) -> None:
    (problem,) = problems(graph, outputs, **settings)
    assert expected in problem
