"""`ZOO=<folder> python -m tests.zoo.facts` writes tests/data/zoo/*.npz, which tests/payload/test_zoo.py reads.

Of each case one picture and the lists of some parameter sets: raw_<n>, found_<n> (x1, y1, x2, y2, score, class) and
`about`. Raw heads are reduced to what decides: anchors and scores no lower than what a list ends with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo.cases import Array, Case, Found, Picture, cases

DATA = Path(__file__).parents[1] / "data" / "zoo"
# Case: picture, parameter sets by their place, what stands before the class scores on the axis of channels.
CHOSEN = {
    "doclaynet-yolov8n-trained": ("docpage0", (0, 2), 4),
    "legacy-ul842-v8p80": ("chelsea", (0,), 4),
    "libre-picodet": ("bus", (2,), 4),
    "v10p80_320_e2e": ("chelsea", (0, 1), None),
    "v26p80_320_e2e": ("chelsea", (0, 1), None),
    "v8p6tricky_320": ("chelsea", (0, 3), 4),
    "v8p80_320": ("chelsea", (0, 3), 4),
    "v8p80_320_nms": ("zidane", (0,), None),
    "v8p80_320_nms_dyn_b1": ("chelsea", (0,), None),
    "yolov5v7-p80_320": ("bus", (0, 3), 5),
}


def main() -> None:
    """Write the files."""
    for case in cases():
        if case.name in CHOSEN:
            name, sets, before = CHOSEN[case.name]
            (picture,) = (picture for picture in case.pictures() if picture.name == name)
            found = [picture.found[index] for index in sets]
            np.savez_compressed(DATA / f"{case.name}.npz", **_content(case, picture, found, before))


def _content(case: Case, picture: Picture, found: list[Found], before: int | None) -> dict[str, Any]:
    decoder, preset = case.convention
    about = {
        "decoder": decoder,
        "preset": preset,
        "outputs": list(picture.raw),
        "source": picture.source,
        "network": picture.network,
        "detection": [one.detection for one in found],
    }
    raw = [output.astype(np.float32) for output in picture.raw.values()]
    if before is not None:
        raw = [_reduced(raw[0], before, min(map(_lowest, found)))]
    return {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        **{f"raw_{index}": output for index, output in enumerate(raw)},
        **{
            f"found_{index}": np.column_stack([one.boxes, one.scores, one.class_ids]).astype(np.float32)
            for index, one in enumerate(found)
        },
    }


def _lowest(found: Found) -> float:
    """Return below what no score decides: the threshold, or the last one of a full list."""
    is_full = len(found.scores) == found.detection.get("max_det", 300)
    return float(found.scores.min()) - 1e-6 if is_full else found.detection["score_threshold"]


def _reduced(head: Array, before: int, lowest: float) -> Array:
    """Return a head [1, a, b] without the anchors and scores that no list needs."""
    is_first = head.shape[1] < head.shape[2]
    rows = (head.transpose(0, 2, 1) if is_first else head)[0].copy()
    objectness = rows[:, 4:5] if before == 5 else 1
    rows[:, before:][rows[:, before:] * objectness <= lowest] = 0
    rows = rows[(rows[:, before:] > 0).any(axis=1)][None]
    return np.ascontiguousarray(rows.transpose(0, 2, 1) if is_first else rows)


if __name__ == "__main__":
    main()
