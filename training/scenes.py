"""Draws the images and the truth that the test packages are trained and judged on.

Needs numpy and OpenCV only, so that tests can draw held-out images. The same (seed, size, split) always gives the
same image. "train" and "evaluation" differ in random streams, sizes and background textures.

Coordinates are continuous source pixels: pixel (row r, column c) covers x in [c, c+1) and y in [r, r+1).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from training.backgrounds import BELTS, PLATES, Size, paint

PART_NAMES = ("washer", "nut", "bolt", "bracket")
PIXEL_NAMES = ("background", "scratch", "stain")
MAX_PARTS = 8

# (height, width). No evaluation size occurs in training.
TRAINING_SIZES: tuple[Size, ...] = (
    (352, 352),
    (288, 384),
    (432, 576),
    (528, 704),
    (640, 480),
    (540, 960),
    (400, 880),
    (720, 560),
)
EVALUATION_SIZES: tuple[Size, ...] = ((320, 320), (480, 640), (600, 800), (700, 500), (720, 1280))
_STREAMS = {"train": 1, "evaluation": 2}

Image = npt.NDArray[np.uint8]
Canvas = npt.NDArray[np.float32]
Points = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PartsScene:
    """Parts on a belt.

    Attributes:
        image: uint8 [H, W, 3], RGB.
        boxes: float32 [n, 4], x1 y1 x2 y2 in source pixels, tight around each part; n is 0 to MAX_PARTS.
        class_ids: int64 [n], indices of PART_NAMES.
    """

    image: Image
    boxes: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int64]


@dataclass(frozen=True)
class SurfaceScene:
    """A metal plate, flawless or with scratches and stains.

    Attributes:
        image: uint8 [H, W, 3], RGB.
        pixel_classes: uint8 [H, W], indices of PIXEL_NAMES; all zero on a flawless plate.
    """

    image: Image
    pixel_classes: npt.NDArray[np.uint8]

    @property
    def is_anomalous(self) -> bool:
        """Whether the plate has any flaw."""
        return bool(self.pixel_classes.any())


def _generator(seed: int, size: Size, split: str, subject: int) -> np.random.Generator:
    return np.random.default_rng([_STREAMS[split], subject, seed, size[0], size[1]])


def _ring(radius: float, count: int = 48) -> Points:
    turns = np.linspace(0, 2 * np.pi, count, endpoint=False)
    return np.stack([np.cos(turns), np.sin(turns)], axis=1) * radius


def _outline(rng: np.random.Generator, class_id: int) -> list[Points]:
    """Return the part's outline and its hole, if any, within a unit circle of radius 1 around the origin."""
    name = PART_NAMES[class_id]
    if name == "washer":
        return [_ring(1), _ring(rng.uniform(0.58, 0.68))]
    if name == "nut":
        return [_ring(1, 6), _ring(rng.uniform(0.34, 0.44))]
    if name == "bolt":
        head, shaft = rng.uniform(0.42, 0.5), rng.uniform(0.17, 0.23)
        neck = -rng.uniform(0.4, 0.5)
        corners = [(-0.88, -head), (neck, -head), (neck, -shaft), (0.98, -shaft)]
        return [np.array(corners + [(x, -y) for x, y in reversed(corners)])]
    arm = rng.uniform(0.36, 0.48)
    corners = [(0, 0), (1.4, 0), (1.4, arm), (arm, arm), (arm, 1.3), (0, 1.3)]
    return [np.array(corners) - np.array([0.62, 0.55])]


def _fill(canvas: Canvas, contours: list[Points], colour: npt.NDArray[np.float32], opacity: float = 1.0) -> None:
    """Draw the first contour minus the others, anti-aliased, onto `canvas`."""
    low = np.maximum(np.floor(contours[0].min(axis=0)).astype(int) - 2, 0)
    high = np.ceil(contours[0].max(axis=0)).astype(int) + 2
    window = canvas[low[1] : max(high[1], 0), low[0] : max(high[0], 0)]
    mask = np.zeros(window.shape[:2], np.uint8)
    for index, contour in enumerate(contours):
        # OpenCV puts integer coordinates at pixel centres; 4 fractional bits.
        points = np.rint((contour - low - 0.5) * 16).astype(np.int32)
        cv2.fillPoly(mask, [points], 0 if index else 255, cv2.LINE_AA, 4)
    alpha = mask[..., None].astype(np.float32) * np.float32(opacity / 255)
    window += (colour - window) * alpha


def _contrasting(rng: np.random.Generator, base: npt.NDArray[np.float32], least: float) -> npt.NDArray[np.float32]:
    """Return a metal-like RGB colour whose mean differs from that of `base` by at least `least`."""
    while True:
        colour = rng.uniform(25, 235) + rng.normal(0, 18, 3)
        if abs(colour.mean() - base.mean()) >= least:
            return np.clip(colour, 5, 250).astype(np.float32)


def _finish(rng: np.random.Generator, canvas: Canvas) -> Image:
    """Add uneven light and sensor noise; return uint8."""
    height, width = canvas.shape[:2]
    light = cv2.resize(rng.uniform(0.85, 1.12, (2, 2)).astype(np.float32), (width, height))
    grain = rng.standard_normal((height, width), dtype=np.float32) * np.float32(rng.uniform(1, 6))
    return np.clip(np.rint(canvas * light[..., None] + grain[..., None]), 0, 255).astype(np.uint8)


def _place(rng: np.random.Generator, size: Size, taken: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return (x, y, radius) of a free circle inside the image, or radius 0 when none was found."""
    height, width = size
    for _ in range(30):
        radius = min(size) * rng.uniform(0.09, 0.2)
        x = rng.uniform(radius + 1, width - radius - 1)
        y = rng.uniform(radius + 1, height - radius - 1)
        if all(np.hypot(x - u, y - v) > 0.9 * (radius + other) for u, v, other in taken):
            return x, y, radius
    return 0.0, 0.0, 0.0


def _scuff(rng: np.random.Generator, canvas: Canvas, colour: npt.NDArray[np.float32]) -> None:
    """Draw a faint mark that is no part."""
    height, width = canvas.shape[:2]
    centre = rng.uniform((0, 0), (width, height))
    length, breadth = min(height, width) * rng.uniform(0.02, 0.15), min(height, width) * rng.uniform(0.005, 0.02)
    turn = rng.uniform(0, np.pi)
    axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    _fill(canvas, [(_ring(1, 16) * (length, breadth)) @ axes + centre], colour, 0.5)


def draw_parts(seed: int, size: Size, split: str) -> PartsScene:
    """Draw a belt of `size` (height, width) with 0 to MAX_PARTS parts that hardly overlap."""
    rng = _generator(seed, size, split, subject=1)
    base = np.clip(rng.uniform(40, 210) + rng.normal(0, 25, 3), 10, 245).astype(np.float32)
    canvas = paint(rng, size, BELTS[split], base, rng.uniform(4, 22))
    for _ in range(rng.integers(0, 4)):
        _scuff(rng, canvas, _contrasting(rng, base, 15))
    boxes: list[npt.NDArray[np.float64]] = []
    class_ids: list[int] = []
    taken: list[tuple[float, float, float]] = []
    for _ in range(0 if rng.random() < 0.04 else rng.integers(1, MAX_PARTS + 1)):
        x, y, radius = _place(rng, size, taken)
        if not radius:
            continue
        taken.append((x, y, radius))
        class_id, turn = int(rng.integers(len(PART_NAMES))), rng.uniform(0, 2 * np.pi)
        axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) * radius
        contours = [contour @ axes + (x, y) for contour in _outline(rng, class_id)]
        _fill(canvas, contours, _contrasting(rng, base, 55))
        boxes.append(np.concatenate([contours[0].min(axis=0), contours[0].max(axis=0)]))
        class_ids.append(class_id)
    truth = np.array(boxes, np.float32).reshape(-1, 4)
    return PartsScene(_finish(rng, canvas), truth, np.array(class_ids, np.int64))


def _scratch(rng: np.random.Generator, size: Size) -> npt.NDArray[np.uint8]:
    """Return a mask (0..255) of a curved scratch."""
    height, width = size
    start, turn = rng.uniform((0.1, 0.1), (0.9, 0.9)) * (width, height), rng.uniform(0, 2 * np.pi)
    steps = np.cumsum(rng.normal(0, 0.12, 24)) + turn
    path = np.cumsum(np.stack([np.cos(steps), np.sin(steps)], axis=1), axis=0) * (
        min(size) * rng.uniform(0.2, 0.6) / 24
    )
    mask = np.zeros(size, np.uint8)
    thickness = max(3, round(min(size) * rng.uniform(0.016, 0.028)))
    points = np.rint((path + start) * 16).astype(np.int32)
    cv2.polylines(mask, [points], False, 255, thickness, cv2.LINE_AA, 4)
    return mask


def _stain(rng: np.random.Generator, size: Size) -> npt.NDArray[np.uint8]:
    """Return a mask (0..255) of an irregular round stain."""
    height, width = size
    lobes = sum(
        rng.uniform(0, 0.18) * np.cos(k * np.linspace(0, 2 * np.pi, 48, False) + rng.uniform(0, 6)) for k in (2, 3, 5)
    )
    outline = _ring(1) * (1 + np.asarray(lobes))[:, None] * min(size) * rng.uniform(0.05, 0.16)
    outline += rng.uniform((0.12, 0.12), (0.88, 0.88)) * (width, height)
    mask = np.zeros(size, np.uint8)
    cv2.fillPoly(mask, [np.rint(outline * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
    return mask


def _hole(rng: np.random.Generator, canvas: Canvas) -> None:
    """Draw a drilled hole with its rim, which every plate may have."""
    height, width = canvas.shape[:2]
    centre = rng.uniform((0.1, 0.1), (0.9, 0.9)) * (width, height)
    radius = min(height, width) * rng.uniform(0.03, 0.06)
    _fill(canvas, [_ring(radius * 1.35) + centre], canvas.mean(axis=(0, 1)) * np.float32(1.2))
    _fill(canvas, [_ring(radius) + centre], np.full(3, rng.uniform(10, 30), np.float32))


def draw_surface(seed: int, size: Size, split: str, flawed: bool) -> SurfaceScene:
    """Draw a plate of `size` (height, width); a flawed one has one to three scratches or stains."""
    rng = _generator(seed, size, split, subject=2)
    base = np.clip(rng.uniform(95, 195) + rng.normal(0, 8, 3), 60, 220).astype(np.float32)
    canvas = paint(rng, size, PLATES[split], base, rng.uniform(3, 12))
    for _ in range(rng.integers(0, 4)):
        _hole(rng, canvas)
    pixel_classes = np.zeros(size, np.uint8)
    for _ in range(rng.integers(1, 4) if flawed else 0):
        is_scratch = rng.random() < 0.5
        mask = _scratch(rng, size) if is_scratch else _stain(rng, size)
        shade = (
            base + np.float32(rng.choice([-1, 1]) * rng.uniform(45, 80)) if is_scratch else base * (0.55, 0.42, 0.28)
        )
        alpha = mask[..., None].astype(np.float32) * np.float32((1.0 if is_scratch else rng.uniform(0.5, 0.85)) / 255)
        canvas += (shade.astype(np.float32) - canvas) * alpha
        pixel_classes[mask > 127] = 1 if is_scratch else 2
    return SurfaceScene(_finish(rng, canvas), pixel_classes)
