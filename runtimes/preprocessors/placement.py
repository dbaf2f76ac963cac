"""Where an image goes in the network's input, by the conventions of those who export networks.

Payload: runs inside the server's python (3.9 or newer); standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Placement(NamedTuple):
    """Where one image lies in the network's input; every pair is (vertical, horizontal).

    Field by field a FrameGeometry of the decoders, which explains `gain` and `pad`.
    """

    source: tuple[int, int]
    resized: tuple[int, int]
    network: tuple[int, int]
    offset: tuple[int, int] = (0, 0)
    gain: tuple[float, float] | None = None
    pad: tuple[float, float] | None = None


class Rules(NamedTuple):
    """How an image that is not stretched is placed.

    Attributes:
        crop: The shortest edge fills a square network, what stands out on the longer one is cut off on both sides;
            other networks are stretched into (torchvision's Resize and CenterCrop, as Ultralytics' classifiers).
        letterbox: "centre", an odd pixel of padding goes below and to the right (Ultralytics), or "top_left" (YOLOX).
        resize_rounding: Of the resized sides: "half_even" (Python's round, Ultralytics) or "floor" (YOLOX).
        letterbox_margin: Network pixels of each axis that the letterbox's image leaves free (YOLO-NAS: 4, 636 of 640).
        box_gain: How boxes are mapped back: "exact", per axis by the rounded size; "unrounded", by the one factor
            before rounding, and the padding that follows from it (Ultralytics 8.3.50 and 8.4.2); "unrounded_pad", the
            same with that padding not rounded (YOLOv5); "unrounded_gain", by that factor and the padding as placed
            (YOLO-NAS).
    """

    crop: bool = False
    letterbox: str = "centre"
    resize_rounding: str = "half_even"
    letterbox_margin: int = 0
    box_gain: str = "exact"


PLAIN = Rules()


def rules_of(settings: Mapping[str, Any]) -> Rules:
    """Return the rules in model.json's `preprocess`, which holds only what is not the default."""
    given = {key: settings[key] for key in Rules._fields if key in settings}
    return Rules(**given)


def place(source: tuple[int, int], network: tuple[int, int], preserve_aspect: bool, rules: Rules = PLAIN) -> Placement:
    """Return where an image of size `source` goes in a network input of size `network`, both (height, width).

    With `preserve_aspect` the image is scaled by one factor and padded, else stretched, unless `rules` crops it.
    """
    if rules.crop and network[0] == network[1]:
        return _cropped(source, network)
    if not preserve_aspect:
        return Placement(source, network, network)
    return _letterboxed(source, network, rules)


def _cropped(source: tuple[int, int], network: tuple[int, int]) -> Placement:
    short = min(source)
    height, width = (int(network[0] * side / short) for side in source)
    offset = -round((height - network[0]) / 2), -round((width - network[1]) / 2)
    return Placement(source, (height, width), network, offset)


def _letterboxed(source: tuple[int, int], network: tuple[int, int], rules: Rules) -> Placement:
    gain = min((free - rules.letterbox_margin) / side for free, side in zip(network, source))
    rounded = int if rules.resize_rounding == "floor" else round
    height, width = (max(rounded(side * gain), 1) for side in source)
    top_left = rules.letterbox == "top_left"
    offset = (0, 0) if top_left else (_half(network[0] - height), _half(network[1] - width))
    if rules.box_gain == "exact":
        return Placement(source, (height, width), network, offset)
    return Placement(source, (height, width), network, offset, (gain, gain), _pad(source, network, offset, gain, rules))


def _half(free: float) -> int:
    # Half of an odd number of pixels is rounded down: what is left over goes below and to the right.
    return round(free / 2 - 0.1)


def _pad(
    source: tuple[int, int], network: tuple[int, int], offset: tuple[int, int], gain: float, rules: Rules
) -> tuple[float, float]:
    if rules.letterbox == "top_left" or rules.box_gain == "unrounded_gain":
        return offset
    free = network[0] - source[0] * gain, network[1] - source[1] * gain
    if rules.box_gain == "unrounded_pad":
        return free[0] / 2, free[1] / 2
    return _half(free[0]), _half(free[1])
