"""An image file as upright RGB, 8 bits per channel: what the capture profile's `input` takes.

Pillow decodes. Its decoders are reached by format name, so that none runs that `infer` does not list (EPS would start
Ghostscript). Colour profiles are not applied: training code reads images without them, too.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convertor.errors import RefusedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL import Image

    Pixels = npt.NDArray[np.uint8]

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
READABLE = "BMP, GIF, JPEG, PNG, PPM, TIFF or WebP"
# 200 megapixels are 600 MB of RGB; beyond that a file is a mistake or an attack.
MAX_PIXELS = 200_000_000
_ORIENTATION = 0x0112
_TIFF_BITS = 258
_TIFF_PHOTOMETRIC = 262
_WHITE_IS_ZERO = 0
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


class ImageError(RefusedError):
    """A file that is no image that can be sent; its message is one line without the file's name."""


def read_image(path: Path) -> Pixels:
    """Return a file's image as uint8 [H, W, 3], RGB, upright, contiguous.

    EXIF orientation is applied (JPEG, PNG, TIFF, WebP; a value that cannot be read counts as upright). Transparency is
    composited on white, grey is replicated, CMYK is converted without profiles, 16-bit grey is scaled by 255/65535
    (51559 -> 201), of 16-bit colour the high byte is taken. Of several frames or pages the first is read.

    Raises:
        ImageError: The file is missing, not an image of FORMATS, broken, or larger than MAX_PIXELS; one line.
    """
    from PIL import Image, UnidentifiedImageError

    _check_file(path)
    with _quiet_pillow():
        try:
            image: Image.Image = Image.open(path, formats=FORMATS)
            with image:
                _check_size(image)
                image.load()
                return _upright(_to_rgb(image), _orientation(image))
        except ImageError:
            raise
        except UnidentifiedImageError:
            raise ImageError(_what_it_is(path)) from None
        except MemoryError:
            raise ImageError("not enough memory to decode it") from None
        except Exception as error:
            # What Pillow's decoders raise on a broken file is not documented: OSError, SyntaxError, ValueError, ...
            raise ImageError(f"cannot be decoded ({str(error) or type(error).__name__})") from error


@contextmanager
def _quiet_pillow() -> Generator[None]:
    """Keep Pillow's warnings and log off stderr, and replace its size limit by ours, which has a readable line."""
    from PIL import Image

    logging.getLogger("PIL").addHandler(logging.NullHandler())
    former, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = former


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise ImageError(f"a folder; name its images, for example {path}/*.jpg")
        if not path.exists():
            raise ImageError("no such file")
        if not path.is_file():
            raise ImageError("not a regular file")
        if path.stat().st_size == 0:
            raise ImageError("an empty file")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:
        raise ImageError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _check_size(image: Image.Image) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ImageError(
            f"{width} x {height} pixels, and at most {MAX_PIXELS // 1_000_000} megapixels are read; make it smaller"
        )


def _what_it_is(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS:
        kind = "HEIC"
    elif head[4:12] in (b"ftypavif", b"ftypavis"):
        kind = "AVIF"
    elif start.startswith(b"%pdf"):
        kind = "a PDF"
    elif b"<svg" in head.lower():
        kind = "an SVG drawing"
    elif start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the image; run `git lfs pull`"
    else:
        return f"not an image, or a damaged one; expected {READABLE}"
    return f"{kind}, which is not read; save it as JPEG or PNG"


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation that is still to be applied, 1..8; 1 where there is none or it cannot be read.

    To be called after `load()`: Pillow then has turned a TIFF by itself and dropped its tag.
    """
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # a corrupt EXIF block raises all kinds; the picture itself is fine
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels as EXIF 2.3 defines orientation 1..8: where the stored first row and first column belong."""
    import numpy as np

    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def _to_rgb(image: Image.Image) -> Pixels:
    import numpy as np

    mode = image.mode
    if mode.startswith("I;16") or (mode == "I" and image.format in ("PNG", "PPM")):
        return _from_deep_grey(image)
    if mode in ("I", "F", "LAB"):
        kind = {"I": "32-bit whole numbers", "F": "floating-point numbers", "LAB": "CIELAB colours"}[mode]
        raise ImageError(
            f"its pixels are {kind}, which have no agreed 8-bit range; save it as 8- or 16-bit RGB or grey"
        )
    if image.has_transparency_data:
        return np.array(_on_white(image))
    return np.array(image.convert("RGB"))


def _on_white(image: Image.Image) -> Image.Image:
    from PIL import Image

    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(white, layer).convert("RGB")


def _from_deep_grey(image: Image.Image) -> Pixels:
    """Scale 16-bit grey, or the 12 bits that a TIFF says it has, to 8 bits, rounded to nearest."""
    import numpy as np

    tags: Any = getattr(image, "tag_v2", {})
    bits = int(tags.get(_TIFF_BITS, (16,))[0])
    top = 2**bits - 1
    levels = np.arange(2**16, dtype=np.int64).clip(0, top)
    table = ((levels * 255 + top // 2) // top).astype(np.uint8)
    if tags.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO:
        table = 255 - table
    grey = table[np.asarray(image).astype(np.uint16)]
    return np.repeat(grey[:, :, np.newaxis], 3, axis=2)
