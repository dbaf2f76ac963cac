"""The comparison must see what it is there to see, and the images must be the reference's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reference.compare import differences
from tests.reference.images import DERIVATIONS, derive, digest

REFERENCE = json.loads(Path(__file__).with_name("doclayout_reference.json").read_text(encoding="utf-8"))["images"]
FIRST, SECOND, FAINT = [0, 0, 10, 10, 0.9, 1], [0, 0, 10, 10, 0.8, 2], [50, 50, 60, 60, 0.26, 1]
ENTRY = {"detections": [FIRST, SECOND, FAINT], "undecided": [FAINT, [70, 70, 80, 80, 0.24, 3]]}


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        pytest.param([FIRST, SECOND, FAINT], 0, id="equal"),
        pytest.param([[0.5, 0, 10, 9.5, 0.885, 1], SECOND, FAINT], 0, id="within"),
        pytest.param([FIRST, SECOND], 0, id="undecided-gone"),
        pytest.param([FIRST, SECOND, FAINT, [70, 70, 80, 80, 0.25, 3]], 0, id="undecided-came"),
        pytest.param([SECOND, FAINT], 1, id="missing"),
        pytest.param([FIRST, FIRST, SECOND, FAINT], 1, id="twice"),
        pytest.param([[0, 0, 10, 11.01, 0.9, 1], SECOND, FAINT], 2, id="too-far"),
        pytest.param([[0, 0, 10, 10, 0.87, 1], SECOND, FAINT], 2, id="other-score"),
        pytest.param([[0, 0, 10, 10, 0.9, 3], SECOND, FAINT], 2, id="other-class"),
    ],
)
def test_differences(found: list[list[float]], problems: int) -> None:
    assert len(differences(ENTRY, found).problems) == problems


def test_the_reference_has_every_image() -> None:
    assert list(REFERENCE) == list(DERIVATIONS)


@pytest.mark.parametrize("name", DERIVATIONS)
def test_the_derived_image_is_the_one_of_the_reference(name: str) -> None:
    image = derive(name)
    assert list(image.shape) == REFERENCE[name]["shape"]
    assert digest(image) == REFERENCE[name]["sha256"]
