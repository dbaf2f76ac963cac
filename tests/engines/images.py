"""Images for the engines' tests: a scanned page, a photograph, noise, one of one channel and one with alpha."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

DEMO = Path(__file__).resolve().parents[2] / "demo"


def read(name: str) -> np.ndarray:
    """Return an image of demo/ as uint8 [H, W, 3], RGB."""
    image = cv2.imread(str(DEMO / name), cv2.IMREAD_COLOR)
    assert image is not None
    return np.ascontiguousarray(image[:, :, ::-1])


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)


def various() -> dict[str, np.ndarray]:
    """Return images by name."""
    photograph = read("picture.jpg")
    alpha = np.full((*photograph.shape[:2], 1), 255, np.uint8)
    alpha[:, ::3] = 90
    return {
        "page": read("page.png"),
        "photograph": photograph,
        "grey": noise(50, 70, 1),
        "alpha": np.concatenate([photograph, alpha], 2),
    }
