"""Finds the head among a graph's outputs, by names and shapes.

The rule, in order; the manifest's `outputs` (boxes, scores, classes, count) goes before it.
1. `[B, K, 4]` beside two `[B, K]`: boxes, scores and classes that the graph has chosen; a `[B, 1]` or `[B]` beside them
   is how many rows count (EfficientNMS). By name, else by value: class ids are whole numbers, scores are fractions.
   As many rows as the network has anchors, and no count: every anchor's best class, nothing is chosen yet (AI Hub).
2. `[B, N, 4]` beside `[B, N, C]` or `[B, C, N]`: boxes and class scores (YOLO-NAS, PP-YOLOE), whatever their names;
   of one class also beside `[B, N]`.
3. The one output of rank 3 that reads as a head (heads.py); of an end-to-end one and a raw one the former.
4. The one output `[n, 7]`: image, box, class, score (YOLOv7 with NMS).
Other outputs (prototypes of rank 4, maps of rank 5) are left alone.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple, Union

import numpy as np

from ..contract import Array, DecodeError, DecoderConfig, DecodeValueError, shapes_of
from ..geometry import FrameGeometry
from .heads import HeadRule, Reading, anchor_counts
from .images import RawImage, Rows, counted_rows, end_to_end_rows, indexed_rows, raw_image, raw_pair
from .task import Task

Image = Union[RawImage, Rows]
BY_NAME = {
    "count": ("num_dets", "num_detections"),
    "boxes": ("box",),
    "scores": ("score", "conf"),
    "classes": ("class", "label"),
}


class Batch(NamedTuple):
    """The outputs as images.

    Attributes:
        length: How many images there are.
        image: An image's part, by its place in the batch.
        pair: Boxes and scores are tensors of their own.
    """

    length: int
    image: Callable[[int], Image]
    pair: bool = False


class OutputRule:
    """The rule above for one package."""

    def __init__(self, config: DecoderConfig, task: Task) -> None:
        self._classes = int(config.settings["num_classes"])
        self._task = task
        self._names = [name.lower() for name in config.output_names]
        self._adapter = config.adapter()
        corners = (config.settings.get("box_format") or task.box_format) == "xyxy"
        self._heads = HeadRule(self._classes, config.settings, corners)
        # What the shape of the only output has settled: it is the same for every batch.
        self._settled: dict[tuple[int, ...], Reading] = {}

    def batch(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> Batch:
        """Return the outputs as at least as many images as there are frames (not empty).

        Raises:
            DecodeError: No output has a shape of the rule, or there are fewer images.
            DecodeValueError: Rows with an image index speak of more images.
        """
        batch = self._batch(outputs, frames[0].network, len(frames))
        if batch.length < len(frames):
            raise DecodeError(f"yolo: expected {len(frames)} images in the head, got {batch.length}")
        return batch

    def _batch(self, outputs: Sequence[Array], network: tuple[int, int], images: int) -> Batch:
        boxes = self._adapter.get("boxes", outputs)
        if boxes is not None:
            return self._named(boxes, outputs, network)
        settled = self._settled.get(outputs[0].shape[1:]) if len(outputs) == 1 else None
        if settled is not None:
            return self._of_reading(outputs[0], settled)
        chosen = self._chosen(outputs, network)
        if chosen is not None:
            return chosen
        pair = self._pair(outputs)
        if pair is not None:
            return pair
        head = self._head(outputs)
        if head is not None:
            tensor, readings = head
            if len(outputs) == len(readings) == 1:
                self._settled[tensor.shape[1:]] = readings[0]
            return self._of_head(tensor, readings, network)
        if len(outputs) == 1 and outputs[0].ndim == 2 and outputs[0].shape[1] == 7:
            return _of_indexed(outputs[0], images)
        raise DecodeError(self._unreadable(outputs))

    def _named(self, boxes: Array, outputs: Sequence[Array], network: tuple[int, int]) -> Batch:
        """Return what the manifest's `outputs` names."""
        scores, classes, count = (self._adapter.get(meaning, outputs) for meaning in ("scores", "classes", "count"))
        if scores is None:
            extras = self._task.extra_channels(outputs, self._classes)
            readings = self._heads.readings(boxes.shape, extras)
            if not readings:
                raise DecodeError(self._unreadable([boxes]))
            return self._of_head(boxes, readings, network)
        if classes is not None:
            if not (boxes.ndim == 3 and boxes.shape[2] == 4 and boxes.shape[:2] == scores.shape == classes.shape):
                raise DecodeError(
                    f"yolo: expected boxes [B, K, 4], scores [B, K], classes [B, K], "
                    f"got {shapes_of([boxes, scores, classes])}; check what outputs names"
                )
            return _of_chosen(boxes, scores, classes, count)
        pair = self._pair([boxes, scores])
        if pair is None:
            raise DecodeError(
                f"yolo: expected boxes [B, N, 4] and scores [B, N, {self._classes}], "
                f"got {shapes_of([boxes, scores])}; check what outputs names"
            )
        return pair

    def _chosen(self, outputs: Sequence[Array], network: tuple[int, int]) -> Batch | None:
        """Return boxes with one score and one class each, or None."""
        boxes = [output for output in outputs if output.ndim == 3 and output.shape[2] == 4]
        if len(boxes) != 1:
            return None
        vectors = [index for index, output in enumerate(outputs) if output.shape == boxes[0].shape[:2]]
        counts = [i for i, output in enumerate(outputs) if output.size == len(boxes[0]) and 1 <= output.ndim <= 2]
        if len(vectors) == len(counts) == 3:
            # One row at most: the count looks like the rest; EfficientNMS puts it first.
            counts = [index for index in counts if self._is(index, "count")] or counts[:1]
            vectors = [index for index in vectors if index != counts[0]]
        counts = [index for index in counts if index not in vectors]
        if len(vectors) != 2 or len(counts) > 1:
            return None
        scores, classes = self._scores_and_classes(outputs, *vectors)
        if not counts and boxes[0].shape[1] in anchor_counts(network):
            return _of_best_classes(boxes[0], scores, classes, self._classes)
        return _of_chosen(boxes[0], scores, classes, outputs[counts[0]] if counts else None)

    def _is(self, index: int, meaning: str) -> bool:
        return index < len(self._names) and any(part in self._names[index] for part in BY_NAME[meaning])

    def _scores_and_classes(self, outputs: Sequence[Array], first: int, second: int) -> tuple[Array, Array]:
        a, b = outputs[first], outputs[second]
        if self._is(first, "classes") != self._is(second, "classes"):
            return (b, a) if self._is(first, "classes") else (a, b)
        if self._is(first, "scores") != self._is(second, "scores"):
            return (a, b) if self._is(first, "scores") else (b, a)
        whole = [bool((values == np.floor(values)).all()) for values in (a, b)]
        if whole[0] != whole[1]:
            return (b, a) if whole[0] else (a, b)
        # Whole numbers both: nothing was found, and class ids reach higher than the scores' 0.
        return (b, a) if a.max(initial=0) > b.max(initial=0) else (a, b)

    def _pair(self, outputs: Sequence[Array]) -> Batch | None:
        """Return boxes and scores as a batch if two of the outputs are that, or None."""
        tensors = [output[..., None] if output.ndim == 2 and self._classes == 1 else output for output in outputs]
        found = [
            (boxes, scores, channels_first)
            for boxes in tensors
            for scores in tensors
            for channels_first in (False, True)
            if boxes is not scores and self._is_pair(boxes, scores, channels_first)
        ]
        if len(found) > 1 and self._classes == 4:
            # Either may be the boxes: pixels go beyond what scores can be.
            found = [pair for pair in found if not np.nanmax(np.abs(pair[1]), initial=0) > 1] or found
        if not found:
            return None
        boxes, scores, channels_first = found[0]
        classes = self._classes

        def image(index: int) -> RawImage:
            return raw_pair(boxes[index], scores[index], classes, channels_first)

        return Batch(len(boxes), image, pair=True)

    def _is_pair(self, boxes: Array, scores: Array, channels_first: bool) -> bool:
        if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4 or len(boxes) != len(scores):
            return False
        rows, columns = scores.shape[1:]
        return (
            (columns, rows) == (boxes.shape[1], self._classes)
            if channels_first
            else (rows, columns)
            == (
                boxes.shape[1],
                self._classes,
            )
        )

    def _head(self, outputs: Sequence[Array]) -> tuple[Array, list[Reading]] | None:
        extras = self._task.extra_channels(outputs, self._classes)
        heads = [(output, self._heads.readings(output.shape, extras)) for output in outputs]
        heads = [head for head in heads if head[1]]
        if len(heads) > 1:
            rows = [head for head in heads if all(reading.end_to_end for reading in head[1])]
            heads = rows if len(rows) == 1 else heads
        if len(heads) > 1:
            raise DecodeError(
                f"yolo: expected one output of rank 3, got {shapes_of(outputs)}; name the head in outputs.boxes"
            )
        return heads[0] if heads else None

    def _of_head(self, head: Array, readings: list[Reading], network: tuple[int, int]) -> Batch:
        return self._of_reading(head, self._heads.choose(head, readings, network))

    def _of_reading(self, head: Array, reading: Reading) -> Batch:
        classes = self._classes

        def image(index: int) -> Image:
            return end_to_end_rows(head[index]) if reading.end_to_end else raw_image(head[index], reading, classes)

        return Batch(len(head), image)

    def _unreadable(self, outputs: Sequence[Array]) -> str:
        """Return the line that refuses these outputs."""
        extras = self._task.extra_channels(outputs, self._classes)
        heads = [output for output in outputs if output.ndim == 3]
        if len(heads) == 1 and not (len(outputs) > 1 and heads[0].shape[2] == 4):
            shape = list(heads[0].shape)
            return (
                f"yolo: expected {self._heads.expected(extras[0])}, "
                f"got {min(shape[1:])} in {shape}; set detection.num_classes to what the model was trained on"
            )
        if any(output.ndim == 5 for output in outputs) and not heads:
            return (
                f"yolo: expected one output of rank 3, got raw maps {shapes_of(outputs)} without their anchors; "
                "export the model with its decode (detect) layer"
            )
        return (
            f"yolo: expected one output of rank 3, got {shapes_of(outputs)}; "
            "export with the decoded head only, or with boxes and scores, or with EfficientNMS's four outputs"
        )


def _of_chosen(boxes: Array, scores: Array, classes: Array, count: Array | None) -> Batch:
    counts = None if count is None else count.reshape(-1)
    if counts is not None and len(counts) != len(boxes):
        raise DecodeError(f"yolo: expected one count per image, got {len(counts)} for {shapes_of([boxes])}")

    def image(index: int) -> Rows:
        limit = None if counts is None else float(counts[index])
        return counted_rows(boxes[index], scores[index], classes[index], limit)

    return Batch(len(boxes), image)


def _of_best_classes(boxes: Array, scores: Array, classes: Array, count: int) -> Batch:
    """Return anchors that come with their best class as a raw head with no other scores."""

    def image(index: int) -> RawImage:
        numbers = classes[index].astype(np.float32)
        known = np.flatnonzero(np.isfinite(numbers))
        numbers = numbers[known]
        wrong = numbers[~((numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers)))]
        if len(wrong):
            raise DecodeValueError(
                f"yolo: class {wrong[0]:.6g} of an anchor, expected whole numbers from 0 to {count - 1}; "
                "set detection.num_classes to what the model was trained on"
            )
        table = np.zeros((len(boxes[index]), count), np.float32)
        table[known, numbers.astype(np.intp)] = scores[index][known]
        return raw_pair(boxes[index], table, count, channels_first=False)

    return Batch(len(boxes), image, pair=True)


def _of_indexed(rows: Array, images: int) -> Batch:
    highest = rows[:, 0].max(initial=-1)
    if highest >= images:
        raise DecodeValueError(
            f"yolo: a row belongs to image {highest:.0f}, expected 0 to {images - 1}; "
            f"if {list(rows.shape)} are no rows of image, box, class and score, export the decoded head only"
        )

    def image(index: int) -> Rows:
        return indexed_rows(rows, index)

    return Batch(images, image)
