"""An image file as upright RGB, 8 bits per channel.

OpenCV decodes and turns JPEG, PNG and TIFF as their EXIF says; it ignores a WebP's, and everyone's where an image is
read with its transparency, so that orientation is read here, too. Colour profiles are not applied: training code reads
images without them. Of several frames or pages the first is read.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Pixels = npt.NDArray[Any]

# Read by OpenCV when it is imported; model.py sets it before.
LIMIT = "OPENCV_IO_MAX_IMAGE_PIXELS"
READABLE = "JPEG, PNG, WebP, BMP or TIFF"
_PNG_MARK, _TIFF_MARKS = b"\x89PNG\r\n\x1a\n", (b"II*\0", b"MM\0*")
_PNG_WITH_ALPHA = (4, 6)
_ORIENTATION, _PHOTOMETRIC, _SAMPLES = 274, 262, 277
_WHITE_IS_ZERO, _RGB = 0, 2
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, b"\xff\xd9"
# Grey and colour of 8 or 16 bits, as three channels, upright.
_COLOUR = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH


class Reading(NamedTuple):
    """How a file is read.

    Attributes:
        flags: OpenCV's.
        orientation: The EXIF orientation, 1..8, that is left to be applied.
    """

    flags: int
    orientation: int = 1


class FileError(ValueError):
    """The bytes are no image that is read here; the text is one line."""


def read_image(content: bytes) -> Image:
    """Return a file's image as uint8 [H, W, 3], RGB, upright, contiguous.

    Zero bytes behind the file do no harm. Transparency is composited on white (not a BMP's, which few programs mean),
    grey is replicated, CMYK converted without profiles, 16 bits are scaled by 255/65535.

    Raises:
        FileError: The content is empty, no file of READABLE, damaged or cut off, or has more pixels than LIMIT allows.
    """
    kind = _kind_of(content)
    reading = _how_to_read(kind, content)
    if kind == "JPEG" and not _is_whole_jpeg(content):
        raise FileError("a JPEG file that is cut off: its end is missing")
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), reading.flags)
    except cv2.error as error:
        # Before it decodes, OpenCV refuses sizes.
        limit = f"; at most {os.environ[LIMIT]} pixels are decoded" if LIMIT in os.environ else ""
        raise FileError(f"a {kind} file that OpenCV refuses ({' '.join(str(error.err).split())}){limit}") from error
    if pixels is None:  # pyright: ignore[reportUnnecessaryComparison] - OpenCV's stub forgets it
        raise FileError(f"a {kind} file that cannot be decoded: damaged, cut off, or not of 8 or 16 bits per channel")
    found: Pixels = np.asarray(pixels)
    # libtiff multiplies colours of 8 bits by their alpha, those of 16 it gives as they are.
    premultiplied = kind == "TIFF" and found.dtype == np.uint8
    return _upright(_to_rgb(found, premultiplied), reading.orientation)


def _kind_of(content: bytes) -> str:
    if content[:3] == b"\xff\xd8\xff":
        return "JPEG"
    if content[:8] == _PNG_MARK:
        return "PNG"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WebP"
    if content[:4] in _TIFF_MARKS:
        return "TIFF"
    if content[:2] == b"BM":
        return "BMP"
    if not content.strip(b"\0"):
        raise FileError(f"expected the bytes of a {READABLE} file, got none")
    raise FileError(f"expected the bytes of a {READABLE} file, got {len(content)} bytes that begin {content[:8].hex()}")


def _how_to_read(kind: str, content: bytes) -> Reading:
    if kind == "WebP":
        exif = next((data for name, data in _chunks(content, 12, "<4sI", 0) if name == b"EXIF"), b"")
        return Reading(cv2.IMREAD_UNCHANGED, _orientation(exif))
    if kind == "PNG":
        chunks = dict(_chunks(content, 8, ">I4s", 4))
        if content[25:26] not in [bytes([colours]) for colours in _PNG_WITH_ALPHA] and b"tRNS" not in chunks:
            return Reading(_COLOUR)
        return Reading(cv2.IMREAD_UNCHANGED, _orientation(chunks.get(b"eXIf", b"")))
    if kind == "TIFF":
        tags = _tags(content)
        if tags.get(_SAMPLES, 1) == 4 and tags.get(_PHOTOMETRIC) == _RGB:
            return Reading(cv2.IMREAD_UNCHANGED)
        # Of deep grey whose white is 0, OpenCV gives the negative.
        return Reading(cv2.IMREAD_COLOR if tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO else _COLOUR)
    return Reading(cv2.IMREAD_COLOR)


def _chunks(content: bytes, start: int, layout: str, trailer: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (name, data) of a PNG's or WebP's chunks; data of more than 64 KiB, no metadata, is left out."""
    while start + 8 <= len(content):
        one, other = struct.unpack_from(layout, content, start)
        size, name = (one, other) if layout[0] == ">" else (other, one)
        yield name, content[start + 8 : start + 8 + size] if size <= 1 << 16 else b""
        # A WebP's chunks are padded to even sizes, a PNG's have a checksum.
        start += 8 + size + (trailer or size % 2)


def _orientation(exif: bytes) -> int:
    """Return the orientation that an EXIF block states, 1..8; 1 where there is none or it cannot be read."""
    block = exif[6:] if exif[:6] == b"Exif\0\0" else exif
    value = _tags(block).get(_ORIENTATION, 1)
    return value if 1 <= value <= 8 else 1


def _tags(tiff: bytes) -> dict[int, int]:
    """Return the first whole number of each tag of the first directory of a TIFF, or of an EXIF block, which is one."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    try:
        if order is None:
            return {}
        (start,) = struct.unpack_from(f"{order}I", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, start)
        found: dict[int, int] = {}
        for place in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(f"{order}HH", tiff, place)
            if kind in (3, 4):  # SHORT, LONG
                (found[tag],) = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", tiff, place + 8)
        return found
    except struct.error:
        return {}


def _is_whole_jpeg(content: bytes) -> bool:
    """Return whether the image's end is there: libjpeg would fill up what is missing with grey."""
    place = 2
    # Metadata may hold a preview, a JPEG with an end of its own: segments are skipped up to the scan.
    while place + 4 <= len(content) and content[place] == 0xFF:
        if content[place + 1] == 0xFF:  # fill byte
            place += 1
            continue
        if content[place + 1] == _START_OF_SCAN:
            break
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return content.find(_END_OF_IMAGE, place) >= 0


def _to_rgb(pixels: Pixels, premultiplied: bool) -> Image:
    """Return uint8 [H, W, 3] RGB of OpenCV's grey, BGR or BGRA of 8 or 16 bits."""
    if pixels.dtype == np.uint16:
        pixels = np.asarray(cv2.convertScaleAbs(pixels, alpha=1 / 257))
    if pixels.dtype != np.uint8:
        raise FileError(f"its pixels are {pixels.dtype}, expected 8 or 16 bits per channel")
    if pixels.ndim == 2:
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB), np.uint8)
    if pixels.shape[2] == 3:
        # In place: a second image of this size may be half a gigabyte.
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels), np.uint8)
    alpha = cv2.cvtColor(np.ascontiguousarray(pixels[:, :, 3]), cv2.COLOR_GRAY2RGB)
    colours = cv2.cvtColor(pixels, cv2.COLOR_BGRA2RGB)
    if premultiplied:
        return np.asarray(cv2.add(colours, cv2.bitwise_not(alpha)), np.uint8)
    # c * a + 255 * (1 - a), written on the complement so that saturating bytes do: 255 - (255 - c) * a.
    return np.asarray(cv2.bitwise_not(cv2.multiply(cv2.bitwise_not(colours), alpha, scale=1 / 255)), np.uint8)


def _upright(pixels: Image, orientation: int) -> Image:
    """Turn pixels as EXIF 2.3 defines orientation 1..8: where the stored first row and first column belong."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
