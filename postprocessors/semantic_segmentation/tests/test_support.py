"""What convert refuses of a segmentation model before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.semantic_segmentation.support import DEFAULTS, check

Outputs = dict[str, tuple[str, list[Any]]]


def problems(graph: Outputs | None = None, stage: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    outputs = settings.pop("outputs", {})
    facts = [{"name": name, "dtype": dtype, "shape": shape} for name, (dtype, shape) in (graph or {}).items()]
    return check(
        {"settings": {**DEFAULTS, **settings}, "outputs": outputs, "stage": stage or {}},
        {"outputs": facts} if graph else None,
    )


def scores(*shape: Any) -> tuple[str, list[Any]]:
    return "float32", list(shape)


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        pytest.param(None, {}, id="no-facts"),
        pytest.param({"logits": scores(1, 150, 128, 128)}, {"num_classes": 150}, id="segformer"),
        pytest.param({"out": scores(1, 21, 9, 9), "aux": scores(1, 21, 9, 9)}, {"num_classes": 21}, id="torchvision"),
        pytest.param({"out": scores(1, 9, 9, 21)}, {"num_classes": 21}, id="channels-last"),
        pytest.param({"out": scores(1, None, 9, 9)}, {"num_classes": 21}, id="open-classes"),
        pytest.param({"out": scores()}, {"num_classes": 21}, id="unknown-rank"),
        pytest.param({"out": ("int64", [1, 512, 512])}, {"num_classes": 21}, id="indices"),
        pytest.param({"out": scores(1, 1, 9, 9)}, {"num_classes": 2}, id="one-plane"),
        pytest.param(
            {"a": scores(1, 4, 9, 9), "b": scores(1, 3, 9, 9)},
            {"num_classes": 3, "outputs": {"scores": {"tensor": "b"}}},
            id="named",
        ),
    ],
)
def test_what_is_accepted(graph: Outputs | None, settings: dict[str, Any]) -> None:
    assert problems(graph, **settings) == []


@pytest.mark.parametrize(
    ("graph", "settings", "expected"),
    [
        pytest.param(
            {"o": scores(1, 150, 9, 9)}, {"num_classes": 21}, "detection.num_classes: expected the", id="count"
        ),
        pytest.param({"o": scores(1, 512, 512, 9)}, {}, "detection.num_classes: expected the classes", id="too-many"),
        pytest.param(None, {"num_classes": 257}, "detection.num_classes: expected at most 256", id="no-byte"),
        pytest.param({"o": scores(1, 1000)}, {}, "outputs: expected one output", id="classifier"),
        pytest.param({"a": scores(1, 3, 9, 9), "b": scores(1, 3, 9, 9)}, {}, "outputs: expected one output", id="two"),
        pytest.param(
            None, {"outputs": {"map": {"tensor": 0}}}, "outputs.map: expected scores or classes", id="meaning"
        ),
        pytest.param(
            None,
            {"outputs": {"scores": {"tensor": 0}, "classes": {"tensor": 1}}},
            "outputs: expected scores or classes, got both",
            id="both",
        ),
        pytest.param(
            None, {"stage": {"resize": "shortest_edge_crop"}}, "model_graph.stages[0].resize: expected", id="cropped"
        ),
    ],
)
def test_what_is_refused(graph: Outputs | None, settings: dict[str, Any], expected: str) -> None:
    (problem,) = problems(graph, **settings)
    assert problem.startswith(expected)


def test_without_a_count_a_square_in_front_may_be_the_picture() -> None:
    (problem,) = problems({"out": scores(1, 128, 128, 3)})
    assert problem.startswith("detection.num_classes: expected the number of classes")
    assert problems({"out": scores(1, 128, 128, 3)}, channels_first=False) == []
    assert problems({"out": scores(1, 3, 128, 128)}) == []
