"""What convert refuses of an anomaly package before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from postprocessors.anomaly.support import DEFAULTS, advise, check


def problems(facts: dict[str, tuple[str, list[Any]]] | None = None, **settings: Any) -> list[str]:
    outputs = [{"name": name, "dtype": dtype, "shape": shape} for name, (dtype, shape) in (facts or {}).items()]
    return check({"settings": {**DEFAULTS, **settings}, "outputs": {}}, {"outputs": outputs} if facts else None)


def test_outputs() -> None:
    assert check({"outputs": {"score": {"tensor": 0}, "map": {"tensor": 1}}}, None) == []
    (problem,) = check({"outputs": {"boxes": {"tensor": 0}}}, None)
    assert problem == (
        "outputs.boxes: expected one of classes, map, pixel_classes, score for an anomaly model, got 'boxes'; "
        "correct it"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pixel_threshold", "0.5"),
        ("pixel_threshold", True),
        ("score_range", 4),
        ("score_range", [1]),
        ("score_range", [2, 2]),
        ("score_range", [0, None]),
    ],
)
def test_values_of_its_own_keys(key: str, value: object) -> None:
    (problem,) = problems(**{key: value})
    assert problem.startswith(f"model_graph.stages[0].{key}: expected ")
    assert repr(value) in problem


def test_b104_a_two_neuron_head() -> None:
    head = {"out": ("float32", [1, 2])}
    assert problems(head, class_normal_ids=[1]) == []
    assert problems(head, class_normal_ids=[2])[0].startswith("model_graph.stages[0].class_normal_ids: expected some")
    assert len(problems(head, class_normal_ids=[0, 1])) == 1


MAP, MASK, SCORE = ("float32", [1, 1, 256, 256]), ("bool", [1, 1, 256, 256]), ("float32", [1])
THREE = ["background", "a", "b"]


@pytest.mark.parametrize(
    ("outputs", "names", "refused"),
    [
        pytest.param({"s": SCORE, "m": MAP}, THREE, True, id="map"),
        pytest.param({"s": SCORE, "m": MAP, "k": MASK}, THREE, True, id="map-and-mask"),
        pytest.param({"s": SCORE, "m": MAP}, ["a"], True, id="one-name"),
        pytest.param({"s": SCORE, "m": MAP}, THREE[:2], False, id="two-names"),
        pytest.param({"s": SCORE}, THREE, False, id="no-pixels"),
        pytest.param({"s": SCORE, "m": ("float32", [])}, THREE, False, id="not-known"),
        pytest.param({"s": SCORE, "m": ("float32", [1, 3, 256, 256])}, THREE, False, id="planes"),
        pytest.param({"s": SCORE, "m": ("int64", [1, 256, 256])}, THREE, False, id="indices"),
    ],
)
def test_pixel_classes_that_the_graph_does_not_tell_apart(
    outputs: dict[str, tuple[str, list[Any]]], names: list[str], refused: bool
) -> None:
    found = problems(outputs, pixel_class_names=names)
    assert len(found) == refused
    assert all(line.startswith("model_graph.pixel_level_classes: expected 2 names") for line in found)


@pytest.mark.parametrize(
    ("planes", "names", "expected"),
    [
        pytest.param(3, THREE, None, id="as-many"),
        pytest.param(None, THREE, None, id="open"),
        pytest.param(3, [], None, id="no-names"),
        pytest.param(3, THREE[:2], "2 names for 3 classes of the graph; a class without one", id="fewer"),
        pytest.param(2, THREE, "3 names for 2 classes of the graph; the rest is not used", id="more"),
    ],
)
def test_names_and_planes_of_another_number(planes: int | None, names: list[str], expected: str | None) -> None:
    outputs = [{"name": "pixels", "dtype": "float32", "shape": [1, planes, 64, 64]}]
    described = {"settings": {**DEFAULTS, "pixel_class_names": names}, "outputs": {}, "stage": {}}
    lines = advise(described, {"outputs": outputs})
    assert len(lines) == bool(expected)
    assert all(f"model_graph.pixel_level_classes: {expected}" in line for line in lines)
    assert advise(described, None) == []


@pytest.mark.parametrize(("names", "lines"), [(("pred_score", "anomaly_map"), 1), (("anomaly_map",), 0)])
def test_anomalib_normalises_itself(names: tuple[str, ...], lines: int) -> None:
    facts = {"outputs": [{"name": name, "dtype": "float32", "shape": []} for name in names]}
    described = {"settings": DEFAULTS, "outputs": {}, "stage": {"normalize": True}}
    found = advise(described, facts)
    assert len(found) == lines
    assert all(line.startswith("model_graph.stages[0].normalize: is true, but anomalib") for line in found)
    assert advise({**described, "stage": {"normalize": False}}, facts) == []
