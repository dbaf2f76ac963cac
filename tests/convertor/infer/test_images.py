"""Files to upright RGB, without a server."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from convertor.infer.images import MAX_PIXELS, ImageError, read_image
from tests.convertor.infer.odd_images import TABLE, Odd, deep, encoded, grey, png, saved, stored
from tests.convertor.infer.scene import scene


def written(folder: Path, odd: Odd) -> Path:
    path = folder / odd.name
    if odd.content is not None:
        path.write_bytes(odd.content())
    return path


@pytest.mark.parametrize("odd", [odd for odd in TABLE if odd.shows], ids=lambda odd: odd.name)
def test_odd_files_become_the_scene(tmp_path: Path, odd: Odd) -> None:
    image = read_image(written(tmp_path, odd))
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    expected = scene(*odd.shows or ())
    assert image.shape == expected.shape
    tolerance = 4 if odd.name.endswith(".jpg") else 1
    assert np.abs(image.astype(int) - expected).max() <= tolerance


@pytest.mark.parametrize("odd", [odd for odd in TABLE if odd.shows is None], ids=lambda odd: odd.name)
def test_what_is_no_image_is_one_line(tmp_path: Path, odd: Odd) -> None:
    with pytest.raises(ImageError) as caught:
        read_image(written(tmp_path, odd))
    assert odd.line in str(caught.value)
    assert len(caught.value.lines()) == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_opencvs(tmp_path: Path, orientation: int) -> None:
    content = saved(stored(scene(), orientation), "JPEG", orientation)
    (tmp_path / "turned.jpg").write_bytes(content)
    other = cv2.cvtColor(cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    assert np.abs(read_image(tmp_path / "turned.jpg").astype(int) - other).max() <= 3


def test_cmyk_is_opencvs(tmp_path: Path) -> None:
    odd = next(odd for odd in TABLE if odd.name == "cmyk.jpg")
    path = written(tmp_path, odd)
    other = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    assert np.abs(read_image(path).astype(int) - other).max() <= 3


@pytest.mark.parametrize(("deep_level", "level"), [(0, 0), (128, 0), (129, 1), (51559, 201), (65535, 255)])
def test_16_bit_grey_is_divided_by_257_and_rounded(tmp_path: Path, deep_level: int, level: int) -> None:
    (tmp_path / "deep.png").write_bytes(encoded(np.full((4, 5), deep_level, np.uint16), ".png"))
    assert (read_image(tmp_path / "deep.png") == level).all()


def test_turned_16_bit_grey(tmp_path: Path) -> None:
    sideways = np.ascontiguousarray(np.rot90(deep(grey()), 1))
    (tmp_path / "deep.png").write_bytes(saved(Image.fromarray(sideways), "PNG", 6))
    assert np.abs(read_image(tmp_path / "deep.png")[:, :, 1].astype(int) - grey()).max() <= 1


def test_half_transparent_is_blended_with_white(tmp_path: Path) -> None:
    (tmp_path / "half.png").write_bytes(saved(np.full((2, 2, 4), (100, 0, 255, 128), np.uint8), "PNG"))
    assert np.abs(read_image(tmp_path / "half.png").astype(int) - [177, 127, 255]).max() <= 1


def test_the_size_limit_is_ours(tmp_path: Path) -> None:
    former = Image.MAX_IMAGE_PIXELS
    (tmp_path / "large.png").write_bytes(png(MAX_PIXELS // 1000, 1000))
    with pytest.raises(ImageError, match="cannot be decoded"):  # its few bytes are not enough, its size is
        read_image(tmp_path / "large.png")
    (tmp_path / "larger.png").write_bytes(png(MAX_PIXELS // 1000 + 1, 1000))
    with pytest.raises(ImageError, match="at most 200 megapixels"):
        read_image(tmp_path / "larger.png")
    assert former == Image.MAX_IMAGE_PIXELS


def test_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"a folder; name its images, for example .*/\*\.jpg"):
        read_image(tmp_path)
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path / "pipe.jpg")


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1)])
def test_smallest_images(tmp_path: Path, shape: tuple[int, int]) -> None:
    (tmp_path / "small.png").write_bytes(saved(np.full((*shape, 3), 7, np.uint8), "PNG"))
    assert read_image(tmp_path / "small.png").shape == (*shape, 3)
