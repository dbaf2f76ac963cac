"""One picture's results against the vendor's, after our rules are applied to the vendor's list too.

The rules: boxes are clipped to the image, those without area go, the best score comes first. Lists are compared as
sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from postprocessors.geometry import FrameGeometry
from postprocessors.results import Classification, Detections
from tests.zoo.cases import Array, Found

BOX, HALF_PRECISION_BOX, SCORE, KEYPOINT, MASK = 0.05, 0.5, 5e-4, 0.1, 0.01


@dataclass
class Tally:
    """What was compared, and what came of it; of one set or, added up, of a case.

    Attributes:
        sets: Lists of detections.
        vendors: The vendor's detections before our rules.
        clipped: Of these, how many lie partly or wholly outside the image.
        dropped: How many have no area then.
        moved: How many change places when the best comes first.
        compared: How many are left.
        box, score, keypoint: The largest differences: pixels, 0..1, pixels.
        mask: The largest difference of a mask's size, relative to the vendor's.
        problems: One line per detection that has no partner, or whose partner differs by more than is allowed.
    """

    sets: int = 0
    vendors: int = 0
    clipped: int = 0
    dropped: int = 0
    moved: int = 0
    compared: int = 0
    box: float = 0.0
    score: float = 0.0
    keypoint: float | None = None
    mask: float | None = None
    problems: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        pairs = ((one.name, getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return Tally(**{name: _added(name, ours, theirs) for name, ours, theirs in pairs})


def compare(ours: Detections | Classification, vendors: Found, frame: FrameGeometry, box: float = BOX) -> Tally:
    """Return what differs; `box` is how far a corner may be off."""
    if isinstance(ours, Classification):
        return _compare_classes(ours, vendors)
    expected, tally = by_our_rules(vendors, frame)
    corners = _corners(ours.rotated) if ours.rotated is not None else ours.boxes.reshape(-1, 2, 2)
    pairs: list[tuple[int, int]] = []
    free = np.ones(len(ours), bool)
    for index in range(len(expected.scores)):
        place = (
            _corners(expected.rotated[index : index + 1])
            if expected.rotated is not None
            else expected.boxes[index].reshape(1, 2, 2)
        )
        distances = _distances(place, corners)
        score_off = np.abs(ours.scores - expected.scores[index])
        fitting = free & (ours.class_ids == expected.class_ids[index]) & (distances <= box) & (score_off <= SCORE)
        if not fitting.any():
            tally.problems.append(f"missing: {_row(expected, index)}")
            continue
        best = int(np.argmin(np.where(fitting, distances, np.inf)))
        free[best] = False
        pairs.append((index, best))
        tally.box, tally.score = max(tally.box, float(distances[best])), max(tally.score, float(score_off[best]))
    tally.problems += [f"unexpected: {_ours_row(ours, int(index))}" for index in np.flatnonzero(free)]
    if expected.keypoints is not None:
        _compare_keypoints(ours, expected, pairs, frame, tally)
    return tally


def compare_masks(in_network: Detections, vendors: Found, frame: FrameGeometry, box: float = BOX) -> Tally:
    """Return how far the sizes of masks are off.

    Args:
        in_network: Decoded for an image that is the network's input itself, where the vendor counts its pixels.
        vendors: The vendor's list.
        frame: Where the real image lies in the network's input.
        box: How far a corner may be off.
    """
    assert in_network.masks is not None
    assert vendors.mask_areas is not None
    expected, _ = by_our_rules(vendors, frame)
    assert expected.mask_areas is not None
    boxes = frame.to_source(in_network.boxes)
    tally = Tally(mask=0.0)
    for index, wanted in enumerate(expected.mask_areas.tolist()):
        distances = np.abs(boxes - expected.boxes[index]).max(axis=1, initial=0)
        same = in_network.class_ids == expected.class_ids[index]
        near = same & (distances <= box) & (np.abs(in_network.scores - expected.scores[index]) <= SCORE)
        if not near.any():
            tally.problems.append(f"mask: missing: {_row(expected, index)}")
            continue
        area = in_network.masks[int(np.argmin(np.where(near, distances, np.inf)))].area
        off = abs(area - wanted) / wanted
        tally.mask = max(tally.mask or 0.0, off)
        if off > MASK:
            tally.problems.append(f"mask: {area} pixels, expected {wanted}: {_row(expected, index)}")
    return tally


def by_our_rules(vendors: Found, frame: FrameGeometry) -> tuple[Found, Tally]:
    """Return the vendor's list as our rules leave it, and what each rule changed."""
    around = vendors.boxes if vendors.rotated is None else _enclosing(vendors.rotated)
    height, width = frame.source
    clipped = np.clip(around, 0, [width, height, width, height])
    has_area = (clipped[:, 2:] > clipped[:, :2]).all(axis=1)
    order = np.argsort(-vendors.scores[has_area], kind="stable")
    kept = np.flatnonzero(has_area)[order]
    tally = Tally(
        sets=1,
        vendors=len(around),
        clipped=int((clipped != around).any(axis=1).sum()),
        dropped=int((~has_area).sum()),
        moved=int((order != np.arange(len(order))).sum()),
        compared=len(kept),
    )
    chosen = {
        name: None if getattr(vendors, name) is None else getattr(vendors, name)[kept]
        for name in ("rotated", "scores", "class_ids", "keypoints", "mask_areas")
    }
    return replace(vendors, boxes=clipped[kept], **chosen), tally


def _compare_classes(ours: Classification, vendors: Found) -> Tally:
    tally = Tally(sets=1, vendors=len(vendors.scores), compared=len(vendors.scores))
    if ours.class_ids.tolist() != vendors.class_ids.tolist():
        tally.problems.append(f"classes {ours.class_ids.tolist()}, expected {vendors.class_ids.tolist()}")
        return tally
    tally.score = float(np.abs(ours.scores - vendors.scores).max())
    if tally.score > SCORE:
        tally.problems.append(f"scores {ours.scores.tolist()}, expected {vendors.scores.tolist()}")
    return tally


def _compare_keypoints(
    ours: Detections, expected: Found, pairs: Sequence[tuple[int, int]], frame: FrameGeometry, tally: Tally
) -> None:
    assert ours.keypoints is not None
    assert expected.keypoints is not None
    tally.keypoint = 0.0
    for index, best in pairs:
        # Ultralytics cuts points off at the image; ours stay where they are.
        limits = frame.source[::-1]
        off = np.abs(np.clip(ours.keypoints[best, :, :2], 0, limits) - expected.keypoints[index, :, :2]).max()
        visible_off = np.abs(ours.keypoints[best, :, 2] - expected.keypoints[index, :, 2]).max()
        tally.keypoint = max(tally.keypoint, float(off))
        if off > KEYPOINT or visible_off > SCORE:
            tally.problems.append(f"keypoints off by {off:.3f}, visibility by {visible_off:.4f}")


def _distances(one: Array, many: Array) -> Array:
    """Return how far the farthest corner of each of `many` [n, K, 2] lies from its partner in `one` [1, K, 2].

    A rotated box may begin with any of its corners.
    """
    shifts = range(4) if one.shape[1] == 4 else range(1)
    found: Iterator[Any] = (np.abs(np.roll(many, shift, axis=1) - one).max(axis=(1, 2), initial=0) for shift in shifts)
    return np.min(list(found), axis=0)


def _corners(rotated: Array) -> Array:
    """Return [n, 4, 2] of cx, cy, w, h, angle."""
    cosines, sines = np.cos(rotated[:, 4]), np.sin(rotated[:, 4])
    along = np.stack([cosines, sines], axis=1) * rotated[:, 2:3] / 2
    across = np.stack([-sines, cosines], axis=1) * rotated[:, 3:4] / 2
    signs = ((1, 1), (1, -1), (-1, -1), (-1, 1))
    return np.stack([rotated[:, :2] + first * along + second * across for first, second in signs], axis=1)


def _enclosing(rotated: Array) -> Array:
    corners = _corners(rotated)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def _row(found: Found, index: int) -> str:
    place = found.boxes[index] if found.rotated is None else found.rotated[index]
    return f"class {found.class_ids[index]}, {found.scores[index]:.5f}, {np.round(place, 3).tolist()}"


def _ours_row(ours: Detections, index: int) -> str:
    place = ours.boxes[index] if ours.rotated is None else ours.rotated[index]
    return f"class {ours.class_ids[index]}, {ours.scores[index]:.5f}, {np.round(place.astype(float), 3).tolist()}"


def _added(name: str, ours: Any, theirs: Any) -> Any:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return max(ours, theirs) if name in ("box", "score", "keypoint", "mask") else ours + theirs
