"""What convert refuses of an RF-DETR package before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.rf_detr.support import DEFAULTS, check

BOTH = {"boxes": {"tensor": 0}, "logits": {"tensor": 1}}


def facts(*shapes: list[Any]) -> dict[str, Any]:
    return {"outputs": [{"name": f"output{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)]}


def problems(graph: dict[str, Any] | None, outputs: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    return check({"settings": {**DEFAULTS, **settings}, "outputs": outputs or {}}, graph)


@pytest.mark.parametrize(
    ("graph", "outputs", "classes"),
    [
        pytest.param(facts([1, 300, 4], [1, 300, 91]), {}, 90, id="background-column"),
        pytest.param(facts([1, 300, 91], [1, 300, 4]), {}, 91, id="logits-first"),
        pytest.param(facts([1, 300, 4], [1, 300, 4]), {}, 3, id="B36-two-alike"),
        pytest.param(facts([1, 300, 4], [1, 300, 91]), {}, None, id="no-count"),
        pytest.param(facts([1, 300, 4], [1, 300, "classes"]), {}, 8, id="open-axis-is-seen-at-load"),
        pytest.param(facts([1, 300, 5], [1, 300, 91]), {}, 8, id="no-boxes-is-seen-at-load"),
        pytest.param(facts([1, 300, 4], [1, 300, 91], [1, 78, 78]), {}, 8, id="three-outputs-are-seen-at-load"),
        pytest.param(facts([1, 300, 4], [1, 300, 91]), BOTH, 8, id="named-outputs-are-seen-at-load"),
        pytest.param(None, {}, 8, id="graph-unknown"),
    ],
)
def test_nothing_to_refuse(graph: dict[str, Any] | None, outputs: dict[str, Any], classes: int | None) -> None:
    assert problems(graph, outputs, num_classes=classes) == []


def test_b41_a_class_count_that_the_graph_contradicts() -> None:
    (problem,) = problems(facts([1, 300, 4], [1, 300, 91]), num_classes=8)
    assert problem.startswith("detection.num_classes: expected 8 or 9 class columns")
    assert "got 91 from the graph" in problem


@pytest.mark.parametrize("named", [["boxes"], ["logits"], ["boxes", "scores"]])
def test_half_an_adapter(named: list[str]) -> None:
    (problem,) = problems(None, {meaning: {"tensor": 0} for meaning in named}, num_classes=8)
    assert problem == (
        f"outputs: expected boxes and logits for an RF-DETR model, got {', '.join(named)}; name both or none"
    )
