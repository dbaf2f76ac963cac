"""Odd image files, made here: what each shows once it is upright RGB, or the line that refuses it."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from PIL import Image

from tests.convertor.infer.scene import GREY, HEIGHT, WIDTH, Pixels, scene

ALL = ("red", "green", "blue", "dark", "level")


@dataclass(frozen=True)
class Odd:
    """A file: its name, its content (None: there is no file), and what is right.

    Attributes:
        shows: The patches that are seen; None when the file is refused.
        line: Part of the line that refuses it.
    """

    name: str
    content: Callable[[], bytes] | None
    shows: tuple[str, ...] | None = ALL
    line: str = ""


def saved(image: Image.Image | Pixels, kind: str, orientation: object = None, **options: Any) -> bytes:
    """Return a file written by Pillow, with an EXIF block when an orientation is given."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    if orientation is not None:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    if kind == "JPEG":
        # Without subsampling: a decoder smooths subsampled colours across blocks.
        options = {"quality": 95, "subsampling": 0, **options}
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def encoded(image: Pixels, suffix: str) -> bytes:
    """Return a file written by OpenCV from RGB, RGBA or grey of 8 or 16 bits."""
    order = {2: None, 3: cv2.COLOR_RGB2BGR}.get(image.ndim)
    if image.ndim == 3 and image.shape[2] == 4:
        order = cv2.COLOR_RGBA2BGRA
    return cv2.imencode(suffix, image if order is None else cv2.cvtColor(image, order))[1].tobytes()


def stored(upright: Pixels, orientation: int) -> Pixels:
    """Return what a camera stores so that EXIF `orientation` shows `upright` (EXIF 2.3, tag 274)."""
    return {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),  # to be turned 90 degrees clockwise
        7: lambda a: np.rot90(a.transpose(1, 0, 2), 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation](upright).copy()


def palette(image: Pixels | None = None) -> Image.Image:
    return Image.fromarray(scene() if image is None else image).quantize(16)


def holed() -> Pixels:
    """Return the scene as RGBA whose background is transparent black: white only when composited on white."""
    image = np.dstack([scene(), np.full((HEIGHT, WIDTH), 255, np.uint8)])
    image[(scene() == 255).all(axis=2)] = 0
    return image


def grey() -> Pixels:
    return scene(*GREY)[:, :, 0]


def deep(image: Pixels, level: int = 51559) -> Pixels:
    """Return 16 bits per channel; the level patch is 51559, which is 200.6 of 255."""
    wide = image.astype(np.uint16) * 257
    wide[image == 201] = level
    return wide


def cmyk() -> Image.Image:
    rgb = scene().astype(int)
    black = 255 - rgb.max(axis=2)
    ink = 255 - rgb - black[:, :, np.newaxis]
    # the inverse of r = (255 - c) (255 - k) / 255
    ink = np.rint(255 * ink / np.maximum(255 - black, 1)[:, :, np.newaxis])
    return Image.fromarray(np.dstack([ink, black]).astype(np.uint8), "CMYK")


def palette_with_holes() -> bytes:
    indexed = palette()
    colours = np.array(indexed.getpalette()[: 16 * 3]).reshape(-1, 3)
    clear = int(np.argmax((colours == 255).all(axis=1)))
    shown = colours.copy()
    shown[clear] = 0  # black, were it not transparent
    indexed.putpalette(shown.astype(np.uint8).ravel().tolist())
    return saved(indexed, "PNG", transparency=clear)


def colour_key() -> bytes:
    """Return an RGB PNG in which magenta, its background, is the transparent colour (tRNS)."""
    image = scene()
    image[(image == 255).all(axis=2)] = (255, 0, 255)
    return saved(image, "PNG", transparency=(255, 0, 255))


def several(kind: str, **options: Any) -> bytes:
    """Return the scene as first frame or page of two."""
    second = Image.fromarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    first = Image.fromarray(scene())
    if kind == "GIF":
        first, second = palette(), second.quantize(16)
    return saved(first, kind, save_all=True, append_images=[second], **options)


def with_corrupt_exif() -> bytes:
    exif = b"Exif\0\0II*\0\xff\xff\xff\x7f" + b"\xff" * 40
    segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    plain = saved(scene(), "JPEG")
    return plain[:2] + segment + plain[2:]


def tiff(pixels: Pixels, bits: int, data: bytes, photometric: int, sample_format: int = 1, order: str = "<") -> bytes:
    """Return an uncompressed one-strip TIFF of grey, written by hand: depths that no writer here has."""
    height, width = pixels.shape
    tags = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, bits),
        (259, 3, 1),
        (262, 3, photometric),
        (273, 4, 8),
        (277, 3, 1),
        (278, 4, height),
        (279, 4, len(data)),
        (339, 3, sample_format),
    ]
    entries = b"".join(
        struct.pack(f"{order}HHI", tag, kind, 1)
        + (struct.pack(f"{order}I", value) if kind == 4 else struct.pack(f"{order}HH", value, 0))
        for tag, kind, value in tags
    )
    directory = struct.pack(f"{order}H", len(tags)) + entries + bytes(4)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(f"{order}I", 8 + len(data)) + data + directory


def twelve_bits() -> bytes:
    levels = (grey().astype(int) * 4095 + 127) // 255
    pairs = levels.reshape(-1, 2)
    first, second = pairs[:, 0], pairs[:, 1]
    packed = np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=1).astype(np.uint8)
    return tiff(grey(), 12, packed.tobytes(), 1)


def png(width: int, height: int) -> bytes:
    """Return a PNG header that promises width x height pixels, and next to no data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def cut(content: bytes, share: float = 0.5) -> bytes:
    return content[: int(len(content) * share)]


def noise() -> Pixels:
    return np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3)).astype(np.uint8)


def turned(kind: str, orientation: int, **options: Any) -> Callable[[], bytes]:
    return lambda: saved(stored(scene(), orientation), kind, orientation, **options)


JPEG: Sequence[Odd] = [
    Odd("plain.jpg", lambda: saved(scene(), "JPEG")),
    *(Odd(f"exif orientation {n}.jpg", turned("JPEG", n)) for n in range(1, 9)),
    Odd("exif orientation 0.jpg", lambda: saved(scene(), "JPEG", 0)),
    Odd("exif orientation 99.jpg", lambda: saved(scene(), "JPEG", 99)),
    Odd("exif corrupt.jpg", with_corrupt_exif),
    Odd("progressive.jpg", lambda: saved(scene(), "JPEG", progressive=True)),
    Odd("progressive turned.jpg", turned("JPEG", 6, progressive=True)),
    Odd("grey.jpg", lambda: saved(grey(), "JPEG"), GREY),
    Odd("cmyk.jpg", lambda: saved(cmyk(), "JPEG")),
    Odd("zeros after the end.jpg", lambda: saved(scene(), "JPEG") + bytes(1000)),
]
WEBP: Sequence[Odd] = [
    Odd("lossless.webp", lambda: saved(scene(), "WEBP", lossless=True)),
    *(Odd(f"exif orientation {n}.webp", turned("WEBP", n, lossless=True)) for n in (2, 3, 6, 8)),
    Odd("alpha.webp", lambda: saved(holed(), "WEBP", lossless=True)),
    Odd("animated.webp", lambda: several("WEBP", lossless=True)),
]
PNG: Sequence[Odd] = [
    Odd("rgb.png", lambda: saved(scene(), "PNG")),
    Odd("alpha.png", lambda: saved(holed(), "PNG")),
    Odd("palette.png", lambda: saved(palette(), "PNG")),
    Odd("palette transparent.png", palette_with_holes),
    Odd("colour key.png", colour_key),
    Odd("grey.png", lambda: saved(grey(), "PNG"), GREY),
    Odd(
        "grey alpha.png",
        lambda: saved(
            Image.fromarray(np.dstack([grey() * (grey() < 255), np.uint8(255) * (grey() < 255)]), "LA"), "PNG"
        ),
        GREY,
    ),
    Odd("1 bit.png", lambda: saved(Image.fromarray(scene("dark")).convert("1"), "PNG"), ("dark",)),
    Odd("16 bit grey.png", lambda: encoded(deep(grey()), ".png"), GREY),
    Odd("16 bit rgb.png", lambda: encoded(deep(scene()), ".png")),
    Odd("16 bit alpha.png", lambda: encoded(deep(holed()), ".png")),
    Odd("exif orientation 8.png", turned("PNG", 8)),
    Odd("animated.png", lambda: several("PNG")),
]
TIFF: Sequence[Odd] = [
    Odd("rgb lzw.tif", lambda: saved(scene(), "TIFF", compression="tiff_lzw")),
    *(Odd(f"orientation {n}.tif", turned("TIFF", n)) for n in (1, 3, 6)),
    Odd("two pages.tif", lambda: several("TIFF")),
    Odd("palette.tif", lambda: saved(palette(), "TIFF")),
    Odd("cmyk.tif", lambda: saved(cmyk(), "TIFF")),
    Odd("1 bit.tif", lambda: saved(Image.fromarray(scene("dark")).convert("1"), "TIFF"), ("dark",)),
    Odd("12 bit grey.tif", twelve_bits, GREY),
    Odd("16 bit grey.tif", lambda: encoded(deep(grey()), ".tif"), GREY),
    Odd("16 bit rgb.tif", lambda: encoded(deep(scene()), ".tif")),
    Odd("16 bit big-endian.tif", lambda: tiff(grey(), 16, deep(grey()).astype(">u2").tobytes(), 1, order=">"), GREY),
    Odd("16 bit white is zero.tif", lambda: tiff(grey(), 16, (65535 - deep(grey())).tobytes(), 0), GREY),
    Odd(
        "float.tif", lambda: saved(Image.fromarray(np.ones((8, 8), np.float32)), "TIFF"), None, "floating-point numbers"
    ),
    Odd("32 bit.tif", lambda: saved(Image.fromarray(np.ones((8, 8), np.int32)), "TIFF"), None, "32-bit whole numbers"),
]
OTHER: Sequence[Odd] = [
    Odd("palette.gif", lambda: saved(palette(), "GIF")),
    Odd("animated.gif", lambda: several("GIF")),
    Odd("rgb.bmp", lambda: saved(scene(), "BMP")),
    Odd("rgb.ppm", lambda: saved(scene(), "PPM")),
    Odd("16 bit.pgm", lambda: encoded(deep(grey()), ".pgm"), GREY),
    Odd("a PNG called.jpg", lambda: saved(scene(), "PNG")),
    Odd("no suffix", lambda: saved(scene(), "PNG")),
    Odd("Größe 測試 🙂.png", lambda: saved(scene(), "PNG")),
    Odd("[bold]%s{0}[red].png", lambda: saved(scene(), "PNG")),
    Odd("line\nbreak.png", lambda: saved(scene(), "PNG")),
]
REFUSED: Sequence[Odd] = [
    Odd("missing.jpg", None, None, "no such file"),
    Odd("empty.jpg", lambda: b"", None, "an empty file"),
    Odd("text.jpg", lambda: b"not a picture\n" * 9, None, "not an image, or a damaged one; expected BMP, GIF"),
    Odd("drawing.svg", lambda: b"<?xml version='1.0'?><svg xmlns='x'/>", None, "an SVG drawing, which is not read"),
    Odd("page.pdf", lambda: b"%PDF-1.7\n%\xe2\xe3\n", None, "a PDF, which is not read; save it as JPEG or PNG"),
    Odd("postscript.eps", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", None, "not an image"),
    Odd("phone.heic", lambda: b"\0\0\0\x18ftypheic" + bytes(40), None, "HEIC, which is not read"),
    Odd("picture.avif", lambda: b"\0\0\0\x1cftypavif" + bytes(40), None, "AVIF, which is not read"),
    Odd("pointer.png", lambda: b"version https://git-lfs.github.com/spec/v1\noid", None, "Git LFS pointer"),
    Odd("cut.jpg", lambda: cut(saved(noise(), "JPEG")), None, "cannot be decoded (image file is truncated"),
    Odd("cut.png", lambda: cut(saved(noise(), "PNG")), None, "cannot be decoded ("),
    Odd("cut.webp", lambda: cut(saved(noise(), "WEBP")), None, "cannot be decoded ("),
    Odd("cut.gif", lambda: cut(saved(palette(noise()), "GIF")), None, "cannot be decoded ("),
    Odd("cut.tif", lambda: cut(saved(noise(), "TIFF")), None, "cannot be decoded ("),
    Odd("only a start.jpg", lambda: saved(scene(), "JPEG")[:4], None, "not an image, or a damaged one"),
    Odd("bomb.png", lambda: png(20000, 20000), None, "20000 x 20000 pixels, and at most 200 megapixels are read"),
    Odd("no pixels.png", lambda: png(0, 10), None, "not an image, or a damaged one"),
]
TABLE: Sequence[Odd] = [*JPEG, *WEBP, *PNG, *TIFF, *OTHER, *REFUSED]
