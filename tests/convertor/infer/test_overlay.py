from __future__ import annotations

from pathlib import Path

import pytest

from convertor.errors import UsageError
from convertor.infer.overlay import overlay_paths


def paths(target: str, *images: str) -> list[str]:
    return [str(path) for path in overlay_paths(target, [Path(image) for image in images])]


@pytest.mark.parametrize(
    ("target", "images", "expected"),
    [
        pytest.param("out.jpg", ["a.png"], ["out.jpg"], id="one file"),
        pytest.param("out.JPEG", ["a.png"], ["out.JPEG"], id="the other suffix"),
        pytest.param("out/", ["a.png"], ["out/a.overlay.jpg"], id="folder, one image"),
        pytest.param("out/", ["x/a.png", "y/b.png"], ["out/a.overlay.jpg", "out/b.overlay.jpg"], id="folder"),
        pytest.param("{stem}.jpg", ["a.png", "b"], ["a.jpg", "b.jpg"], id="stem"),
        pytest.param(
            "{stem}.jpg",
            ["a.png", "x/a.png", "A.gif", "a-2.png"],
            ["a.jpg", "a-2.jpg", "A-3.jpg", "a-2-2.jpg"],
            id="same",
        ),
        pytest.param("{stem}/{stem}.jpg", ["{stem}.png"], ["{stem}/{stem}.jpg"], id="braces in the image's name"),
    ],
)
def test_names(target: str, images: list[str], expected: list[str]) -> None:
    assert paths(target, *images) == expected


def test_a_folder_that_is_there_needs_no_slash(tmp_path: Path) -> None:
    assert paths(str(tmp_path), "a.png") == [f"{tmp_path}/a.overlay.jpg"]


@pytest.mark.parametrize(
    ("target", "images", "line"),
    [
        ("out.jpg", ["a.png", "b.png"], "there are 2 images; name a folder (out/) or use {stem}.jpg"),
        ("out.png", ["a.png"], "overlays are JPEG files"),
        ("{stem}", ["a.png"], "overlays are JPEG files"),
        ("x/../a.jpg", ["a.jpg"], "would overwrite the image a.jpg"),
        ("{stem}.jpg", ["b.png", "a.jpg"], "would overwrite the image a.jpg"),
    ],
)
def test_refused_names(target: str, images: list[str], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        paths(target, *images)
    assert line in str(caught.value)
