"""decode's model.py: every kind of file that the tool's own reader is tried on, and faulty ones among good ones."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

import triton_python_backend_utils as pb_utils
from tests.convertor.infer.odd_images import (
    JPEG,
    PNG,
    REFUSED,
    TIFF,
    WEBP,
    Odd,
    cut,
    encoded,
    holed,
    noise,
    png,
    saved,
    stored,
)
from tests.convertor.infer.scene import scene

# Pillow 11, the last for Python 3.9, warns of what Pillow 12 takes again.
pytestmark = pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated:DeprecationWarning")
ROOT = Path(__file__).parents[3]
# OpenCV's alternatives to what Pillow does with them.
BMP = [Odd("rgb.bmp", lambda: saved(scene(), "BMP"))]
SHOWN = [odd for odd in [*JPEG, *WEBP, *PNG, *TIFF, *BMP] if odd.shows]
NOT_READ = [odd for odd in [*TIFF, *REFUSED] if odd.shows is None and odd.content is not None]


def request(*files: bytes) -> pb_utils.InferenceRequest:
    """Return a request of files, padded to the longest with zero bytes."""
    longest = max(map(len, files), default=0)
    rows = [np.frombuffer(file + bytes(longest - len(file)), np.uint8) for file in files]
    inputs = [pb_utils.Tensor("input_encoded", np.stack(rows))] if rows else []
    return pb_utils.InferenceRequest(inputs=inputs)


def images(response: pb_utils.InferenceResponse) -> np.ndarray:
    error = response.error()
    assert error is None, error.message()
    (tensor,) = response.output_tensors()
    assert tensor.name() == "image"
    assert tensor.as_numpy().flags.c_contiguous
    return tensor.as_numpy()


def error_of(response: pb_utils.InferenceResponse) -> str:
    error = response.error()
    assert error is not None
    assert response.output_tensors() == []
    assert error.code() == pb_utils.TritonError.INVALID_ARG
    message = error.message()
    assert "\n" not in message
    assert len(message) < 300
    assert message.startswith("input_encoded: ")
    return message


@pytest.mark.parametrize("odd", SHOWN, ids=lambda odd: odd.name)
def test_odd_files_become_the_scene(model: Any, odd: Odd) -> None:
    assert odd.content is not None
    content = odd.content()
    plain, padded = model.execute([request(content), request(content + bytes(777))])
    found = images(plain)
    expected = scene(*odd.shows or ())
    assert (found.dtype, found.shape) == (np.uint8, (1, *expected.shape))
    assert np.abs(found[0].astype(int) - expected).max() <= (4 if odd.name.endswith(".jpg") else 1)
    assert np.array_equal(found, images(padded))


@pytest.mark.parametrize("odd", NOT_READ, ids=lambda odd: odd.name)
def test_what_is_no_image_is_an_error_of_its_request(model: Any, odd: Odd) -> None:
    assert odd.content is not None
    good = request(saved(scene(), "PNG"))
    first, bad, last = model.execute([good, request(odd.content()), good])
    error_of(bad)
    assert np.array_equal(images(first)[0], scene())
    assert np.array_equal(images(last)[0], scene())
    assert not [line for level, line in pb_utils.Logger.lines if level == "error"]


def progressive() -> bytes:
    return saved(noise(), "JPEG", progressive=True)


def with_preview() -> bytes:
    """Return a JPEG whose metadata holds a whole JPEG."""
    preview = saved(scene(), "JPEG")
    segment = b"\xff\xe1" + (len(preview) + 2).to_bytes(2, "big") + preview
    whole = saved(noise(), "JPEG")
    return whole[:2] + segment + whole[2:]


def with_prefix(content: bytes) -> bytes:
    """Return a WebP whose EXIF block begins with JPEG's mark, as some programs write it."""
    place = content.index(b"EXIF")
    size = int.from_bytes(content[place + 4 : place + 8], "little")
    exif = b"Exif\0\0" + content[place + 8 : place + 8 + size]
    chunks = content[8:place] + b"EXIF" + len(exif).to_bytes(4, "little") + exif + bytes(len(exif) % 2)
    return b"RIFF" + len(chunks).to_bytes(4, "little") + chunks


@pytest.mark.parametrize("orientation", [0, 1, 6, 9, 99])
def test_the_orientation_of_a_webp(model: Any, orientation: int) -> None:
    upright = stored(scene(), 6) if orientation == 6 else scene()
    content = saved(upright, "WEBP", orientation, lossless=True)
    for file in (content, with_prefix(content)):
        assert np.array_equal(images(model.execute([request(file)])[0])[0], scene())


def test_fill_bytes_between_a_jpegs_segments(model: Any) -> None:
    plain = saved(scene(), "JPEG")
    filled, expected = model.execute([request(plain[:2] + b"\xff\xff" + plain[2:]), request(plain)])
    assert np.array_equal(images(filled), images(expected))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(saved(noise(), "JPEG"), id="jpeg"),
        pytest.param(progressive(), id="progressive"),
        pytest.param(with_preview(), id="jpeg with a preview"),
        pytest.param(saved(noise(), "PNG"), id="png"),
        pytest.param(saved(noise(), "WEBP", lossless=True), id="webp"),
        pytest.param(saved(noise(), "BMP"), id="bmp"),
        pytest.param(saved(noise(), "TIFF", compression="tiff_lzw"), id="tiff"),
    ],
)
def test_cut_off_files_are_refused(model: Any, content: bytes, share: float) -> None:
    (response,) = model.execute([request(cut(content, share))])
    error_of(response)
    # Zeros could be pixels of a BMP or of a WebP.
    if content[:2] not in (b"BM", b"RI"):
        (padded,) = model.execute([request(cut(content, share) + bytes(50_000))])
        error_of(padded)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param([], "got a request without them", id="no input"),
        pytest.param([b""], "got none", id="empty"),
        pytest.param([bytes(1000)], "got none", id="zeros only"),
        pytest.param([b"GIF89a" + bytes(90)], "expected the bytes of a JPEG, PNG, WebP, BMP or TIFF file", id="gif"),
        pytest.param([png(40000, 40000)], "a PNG file that OpenCV refuses (pixels <= ", id="40000 x 40000"),
        pytest.param(
            [saved(scene(), "PNG"), saved(scene()[:50], "PNG")],
            "expected images of one size in a request of several, got 50 x 160 and 128 x 160",
            id="two sizes",
        ),
    ],
)
def test_each_error_says_what_is_wrong(model: Any, files: list[bytes], said: str) -> None:
    (response,) = model.execute([request(*files)])
    assert said in error_of(response)


def test_wrong_types_and_shapes(model: Any) -> None:
    for value in (np.zeros((1, 9), np.float32), np.zeros(9, np.uint8), np.zeros((0, 9), np.uint8)):
        (response,) = model.execute([pb_utils.InferenceRequest(inputs=[pb_utils.Tensor("input_encoded", value)])])
        assert "expected the bytes of image files, uint8 [B, n]" in error_of(response)


def test_a_request_of_several_files(model: Any) -> None:
    (response,) = model.execute([request(saved(scene(), "PNG"), saved(scene("dark"), "BMP"))])
    assert np.array_equal(images(response), np.stack([scene(), scene("dark")]))


def test_half_transparent_is_blended_with_white(model: Any) -> None:
    half = np.full((2, 2, 4), (100, 0, 255, 128), np.uint8)
    deep = encoded(half.astype(np.uint16) * 257, ".tif")
    for content in (saved(half, "PNG"), saved(half, "WEBP", lossless=True), saved(half, "TIFF"), deep):
        found = images(model.execute([request(content)])[0])
        assert np.abs(found.astype(int) - [177, 127, 255]).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_transparent_pngs_are_turned(model: Any, orientation: int) -> None:
    plain = saved(holed(), "PNG")
    turned = saved(holed(), "PNG", orientation)
    straight, found = (images(response)[0] for response in model.execute([request(plain), request(turned)]))
    picture = Image.open(io.BytesIO(turned)).convert("RGBA")
    assert picture.getexif()[0x0112] == orientation
    steps = {
        1: [],
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_270],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_90],
    }[orientation]
    expected = Image.fromarray(straight)
    for step in steps:
        expected = expected.transpose(step)
    assert np.array_equal(found, np.asarray(expected))


def test_16_bits_are_divided_by_257_and_rounded(model: Any) -> None:
    for deep, level in [(0, 0), (128, 0), (129, 1), (51559, 201), (65535, 255)]:
        content = encoded(np.full((4, 5), deep, np.uint16), ".png")
        assert (images(model.execute([request(content)])[0]) == level).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_any_bytes_behind_a_mark_are_answered(model: Any, kind: str) -> None:
    random = np.random.default_rng(5)
    content = np.frombuffer(saved(noise(), kind), np.uint8)
    for _ in range(30):
        broken = content.copy()
        places = random.integers(4, len(content), 20)
        broken[places] = random.integers(0, 256, 20)
        (response,) = model.execute([request(broken.tobytes())])
        if response.has_error():
            error_of(response)
    assert not [line for level, line in pb_utils.Logger.lines if level == "error"]


def test_the_limit_is_set_before_opencv_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import runpy, os; runpy.run_path(sys.argv[1] + '/model.py')\n"
        "import cv2, numpy as np\n"
        "from tests.convertor.infer.odd_images import png\n"
        "try: print(cv2.imdecode(np.frombuffer(png(13378, 13378), np.uint8), 1))\n"
        "except cv2.error as error: print('refused', os.environ['OPENCV_IO_MAX_IMAGE_PIXELS'])\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENCV")}
    folders = [str(ROOT / "templates/decode"), str(ROOT / "tests/stubs"), str(ROOT)]
    ran = [
        subprocess.run(
            [sys.executable, "-c", program, *folders],
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        ).stdout.strip()
        for more in ({}, {"OPENCV_IO_MAX_IMAGE_PIXELS": "1000"}, {"OPENCV_IO_MAX_IMAGE_PIXELS": "200000000"})
    ]
    assert ran == ["refused 178956970", "refused 1000", "None"]


def test_opencv_is_quiet(model: Any) -> None:
    assert (cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging).getLogLevel() == 0
    assert cv2.getNumThreads() == 1
