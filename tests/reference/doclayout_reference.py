"""An independent account of what the demo's detector finds, written to doclayout_reference.json.

Stand-alone on purpose: nothing of the product is imported. Own resize in numpy, ONNX Runtime, OpenCV's NMS.
Run: `python tests/reference/doclayout_reference.py MODEL.onnx`; with `--spread` it writes nothing and prints how far
detections move when OpenCV's fixed-point resize takes the place of ours. README.md beside it explains the fields.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime
from compare import differences
from images import DERIVATIONS, Image, derive, digest

MODEL_SHA256 = "7259c856bb6dae572c9385587049a08065548bbfae8360634b5a576b04248957"
RESULT = Path(__file__).with_suffix(".json")
SIDE, PAD, CLASSES = 1024, 114, 11
SCORE, IOU, MAX_DET = 0.25, 0.45, 300
# How near to a threshold a candidate may be and still be listed as one that may come or go.
SLACK = 0.03
# Rows of a table of detections: x1, y1, x2, y2 in source pixels, score, class.
Rows = npt.NDArray[np.float64]


class Letterbox(NamedTuple):
    """The network's input, uint8 [1024, 1024, 3], and how to get back: gain (x, y), padding (left, top)."""

    canvas: Image
    gain: tuple[float, float]
    padding: tuple[int, int]


def to_rgb(image: Image) -> Image:
    """Replicate grey, composite alpha on white (nearest, half to even)."""
    if image.shape[2] == 1:
        return np.concatenate([image] * 3, axis=2)
    if image.shape[2] == 3:
        return image
    alpha = image[:, :, 3:].astype(np.float64) / 255.0
    return np.rint(image[:, :, :3] * alpha + 255.0 * (1.0 - alpha)).astype(np.uint8)


def sampling(source: int, target: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return lower neighbour, upper neighbour and the upper one's weight for each of `target` half-pixel centres."""
    position = ((np.arange(target) + 0.5) * source / target - 0.5).clip(0, source - 1)
    lower = np.floor(position).astype(np.intp)
    return lower, np.minimum(lower + 1, source - 1), position - lower


def bilinear(image: Image, height: int, width: int) -> Image:
    """Resize in float64, rounded once at the end."""
    upper_row, lower_row, down = sampling(image.shape[0], height)
    left, right, across = sampling(image.shape[1], width)
    rows = image[upper_row] * (1 - down)[:, None, None] + image[lower_row] * down[:, None, None]
    pixels = rows[:, left] * (1 - across)[None, :, None] + rows[:, right] * across[None, :, None]
    return np.rint(pixels).astype(np.uint8)


def opencv_bilinear(image: Image, height: int, width: int) -> Image:
    """Resize with OpenCV's fixed-point code: for comparison only."""
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR).astype(np.uint8)


RESIZE = {"own": bilinear, "opencv": opencv_bilinear}


def letterbox(image: Image, resize: str = "own") -> Letterbox:
    """Follow Ultralytics: one factor, sizes rounded, centred, an odd pixel of padding at the far side."""
    height, width = image.shape[:2]
    factor = min(SIDE / height, SIDE / width)
    new_height, new_width = max(round(height * factor), 1), max(round(width * factor), 1)
    left, top = round((SIDE - new_width) / 2 - 0.1), round((SIDE - new_height) / 2 - 0.1)
    canvas = np.full((SIDE, SIDE, 3), PAD, np.uint8)
    canvas[top : top + new_height, left : left + new_width] = RESIZE[resize](image, new_height, new_width)
    return Letterbox(canvas, (width / new_width, height / new_height), (left, top))


def infer(session: onnxruntime.InferenceSession, canvas: Image) -> npt.NDArray[np.float64]:
    """Return the head as [21504, 15]: cx, cy, w, h in network pixels, then the 11 class scores."""
    batch = (canvas.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)[None]
    (head,) = session.run(["output0"], {"images": np.ascontiguousarray(batch)})
    return np.asarray(head[0].T, np.float64)


def decode(head: npt.NDArray[np.float64], score: float = SCORE, iou: float = IOU) -> Rows:
    """Keep each anchor's best class at `score` or more, suppress per class with OpenCV, best first; network pixels."""
    classes, scores = head[:, 4:].argmax(axis=1), head[:, 4:].max(axis=1)
    kept: list[int] = []
    for class_id in range(CLASSES):
        members = np.flatnonzero((classes == class_id) & (scores >= np.float32(score)))
        corner_and_size = np.column_stack([head[members, :2] - head[members, 2:4] / 2, head[members, 2:4]])
        # OpenCV's own threshold is "more than": the members have passed ours already.
        chosen = cv2.dnn.NMSBoxes(corner_and_size.tolist(), scores[members].tolist(), 0.0, iou) if len(members) else []
        kept.extend(members[np.asarray(chosen, np.intp)].tolist())
    kept.sort(key=lambda anchor: -scores[anchor])
    half = head[kept[:MAX_DET], 2:4] / 2
    centre = head[kept[:MAX_DET], :2]
    return np.column_stack([centre - half, centre + half, scores[kept[:MAX_DET]], classes[kept[:MAX_DET]]])


def to_source(rows: Rows, box: Letterbox, image: Image) -> Rows:
    """Take the padding off, scale each axis by its own gain, clip to the image."""
    mapped = rows.copy()
    for axis, size in ((0, image.shape[1]), (1, image.shape[0])):
        mapped[:, axis:4:2] = ((rows[:, axis:4:2] - box.padding[axis]) * box.gain[axis]).clip(0, size)
    return mapped


def undecided(head: npt.NDArray[np.float64]) -> Rows:
    """Return the rows, network pixels, that a change of SLACK in either threshold brings in or takes away."""
    per_iou = [{tuple(row) for row in decode(head, SCORE - SLACK, iou)} for iou in (IOU - SLACK, IOU, IOU + SLACK)]
    settled = {row for row in set.intersection(*per_iou) if row[4] >= SCORE + SLACK}
    rows = sorted(set.union(*per_iou) - settled, key=lambda row: -row[4])
    return np.array(rows, np.float64).reshape(-1, 6)


def as_json(rows: Rows) -> list[list[float]]:
    """Return rows rounded far below the tolerance, the class as an integer."""
    return [[*(round(value, 3) for value in row[:4]), round(row[4], 5), int(row[5])] for row in rows.tolist()]


def examine(session: onnxruntime.InferenceSession, name: str, resize: str = "own") -> dict[str, Any]:
    """Return the reference's entry for one image."""
    image = derive(name)
    box = letterbox(to_rgb(image), resize)
    head = infer(session, box.canvas)
    return {
        "how": DERIVATIONS[name].words,
        "shape": list(image.shape),
        "sha256": digest(image),
        "detections": as_json(to_source(decode(head), box, image)),
        "undecided": as_json(to_source(undecided(head), box, image)),
    }


def write(session: onnxruntime.InferenceSession) -> None:
    """Write the reference for every image."""
    entries = {}
    for name in DERIVATIONS:
        entries[name] = examine(session, name)
        print(f"{name}: {len(entries[name]['detections'])} detections")
    made_with = {"onnxruntime": onnxruntime.__version__, "opencv": cv2.__version__, "numpy": np.__version__}
    head = {"model_sha256": MODEL_SHA256, "score_threshold": SCORE, "iou_threshold": IOU, "made_with": made_with}
    text = json.dumps({**head, "images": entries}, indent=1)
    # One row of numbers per line keeps a change of the file readable.
    RESULT.write_text(re.sub(r"\[\s+(-?\d[^\[\]]*?)\s+\]", _on_one_line, text) + "\n", encoding="utf-8")


def _on_one_line(numbers: re.Match[str]) -> str:
    return f"[{' '.join(numbers.group(1).split())}]"


def print_spread(session: onnxruntime.InferenceSession) -> None:
    """Print, per image, the largest shift in pixels and in score between the two resizes, and what does not match."""
    reference = json.loads(RESULT.read_text(encoding="utf-8"))["images"]
    for name in DERIVATIONS:
        found = examine(session, name, "opencv")["detections"]
        compared = differences(reference[name], found)
        print(f"{name:24} {compared.pixels:6.3f} px {compared.score:7.4f}", *compared.problems, sep="  ")


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--spread", action="store_true")
    arguments = parser.parse_args()
    if hashlib.sha256(arguments.model.read_bytes()).hexdigest() != MODEL_SHA256:
        raise SystemExit(f"{arguments.model}: not the model of this reference (expected SHA-256 {MODEL_SHA256})")
    session = onnxruntime.InferenceSession(str(arguments.model), providers=["CPUExecutionProvider"])
    if arguments.spread:
        print_spread(session)
    else:
        write(session)


if __name__ == "__main__":
    main()
