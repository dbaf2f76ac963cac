"""What convert refuses of an RF-DETR package before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.rf_detr.support import DEFAULTS, PRESETS, advise, check

BOTH = {"boxes": {"tensor": 0}, "logits": {"tensor": 1}}


def facts(*shapes: list[Any]) -> dict[str, Any]:
    return {"outputs": [{"name": f"output{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)]}


def problems(
    graph: dict[str, Any] | None,
    outputs: dict[str, Any] | None = None,
    task: str = "object_detection",
    **settings: Any,
) -> list[str]:
    return check({"settings": {**DEFAULTS, **settings}, "outputs": outputs or {}, "task": task}, graph)


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
        pytest.param(facts([]), {}, 8, id="open-rank-is-seen-at-load"),
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


def test_b24_one_output_is_no_rf_detr() -> None:
    (problem,) = problems(facts([1, 300, 6]), num_classes=80)
    assert problem.startswith("detection.layout: expected boxes and logits for an RF-DETR model, got one output")
    assert problem.endswith("detr is the layout of RT-DETR exports with one output")


@pytest.mark.parametrize(
    ("task", "shapes", "refused"),
    [
        pytest.param("instance_segmentation", [[1, 9, 4], [1, 9, 91], [1, 9, 78, 78]], False, id="masks"),
        pytest.param("instance_segmentation", [[1, 9, 4], [1, 9, 91]], True, id="no-masks"),
        pytest.param("object_detection", [[1, 9, 4], [1, 9, 91], [1, 9, 78, 78]], False, id="masks-not-asked-for"),
    ],
)
def test_masks(task: str, shapes: list[list[int]], refused: bool) -> None:
    found = problems(facts(*shapes), task=task, num_classes=90)
    assert [problem.partition(":")[0] for problem in found] == ["task"] * refused


def test_named_masks_belong_to_segmentation_only() -> None:
    named = {**BOTH, "masks": {"tensor": 2}}
    assert problems(None, named, task="instance_segmentation") == []
    assert len(problems(None, named)) == 1


@pytest.mark.parametrize(("stage", "lines"), [({}, 1), ({"normalize": True}, 0)])
def test_normalisation_is_asked_for(stage: dict[str, Any], lines: int) -> None:
    assert len(advise({"stage": stage}, None)) == lines


def test_a_preset_says_only_what_the_family_reads() -> None:
    assert all(set(preset["detection"]) <= set(DEFAULTS) for preset in PRESETS.values())
