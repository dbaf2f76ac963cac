"""What convert refuses of an anomaly package before anything runs."""

from __future__ import annotations

from postprocessors.anomaly.support import check


def test_outputs() -> None:
    assert check({"outputs": {"score": {"tensor": 0}, "map": {"tensor": 1}}}, None) == []
    (problem,) = check({"outputs": {"boxes": {"tensor": 0}}}, None)
    assert problem == (
        "outputs.boxes: expected one of classes, map, pixel_classes, score for an anomaly model, got 'boxes'; "
        "correct it"
    )
