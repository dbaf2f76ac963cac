"""Which output of an anomaly model is what, by its name in the manifest, its type and shape, and last its own name.

Per image: one float = score; [C] or [C, 1, 1] with C >= 2 floats = class head; one plane of floats [H, W] or
[1, H, W] = anomaly map; [C, H, W] with C >= 2, and one plane of integers or booleans = pixel classes. One integer or
boolean per image is a verdict (anomalib's pred_label), which the threshold gives again: it is not read.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..adapter import OutputAdapter
from ..contract import Array, DecodeError, shapes_of

# An output's name and its numbers.
Pair = tuple[str, Array]

# What each meaning looks like, in the order in which a score is looked for.
LAYOUTS = {
    "classes": "class probabilities [B, C]",
    "score": "one number per image [B]",
    "map": "a map [B, 1, H, W] or [B, H, W]",
    "pixel_classes": "class scores [B, C, H, W] or class indices [B, H, W]",
}
OF_VERDICT = ("classes", "score", "map")
# Where several outputs look alike, those with such a word in their names are meant.
_WORDS = {
    "classes": ("class", "prob"),
    "score": ("score",),
    "map": ("map",),
    "pixel_classes": ("mask", "seg", "pixel"),
}


class HeadFinder:
    """Finds the outputs that mean something.

    Args:
        adapter: The manifest's `outputs`; where it says anything, nothing is looked for.
        names: The graph's output names in order; empty strings where the engine loses names.
        pixel_classes: How many pixel classes the package names.
    """

    def __init__(self, adapter: OutputAdapter, names: Sequence[str], pixel_classes: int) -> None:
        self._adapter = adapter
        self._names = [name.lower() for name in names]
        self._pixel_classes = pixel_classes

    def __call__(self, outputs: Sequence[Array], images: int) -> dict[str, Array]:
        """Return the output of each meaning for so many images, batch axis first, where there is no doubt.

        Raises:
            DecodeError: No output can give a verdict; or several alike can; or a named one has another shape.
        """
        found = self._named(outputs) if self._adapter else self._seen(outputs, images)
        heads = {meaning: np.atleast_1d(head) for meaning, head in found.items()}
        if "classes" in heads:
            heads["classes"] = _pooled(heads["classes"])
        for meaning, head in heads.items():
            if not _fits(meaning, head):
                raise DecodeError(f"anomaly: expected {LAYOUTS[meaning]} as {meaning}, got {shapes_of([head])}")
        if not heads.keys() & set(OF_VERDICT):
            raise DecodeError(
                "anomaly: expected class probabilities [B, C], a score [B] or a map [B, 1, H, W] among the outputs, "
                f"got {shapes_of(outputs)}; name them in the manifest's outputs"
            )
        return heads

    def _named(self, outputs: Sequence[Array]) -> dict[str, Array]:
        named = {meaning: self._adapter.get(meaning, outputs) for meaning in LAYOUTS}
        return {meaning: head for meaning, head in named.items() if head is not None}

    def _seen(self, outputs: Sequence[Array], images: int) -> dict[str, Array]:
        """Return what types, shapes and names tell."""
        names = self._names if len(self._names) == len(outputs) else [""] * len(outputs)
        pairs = list(zip(names, outputs))
        # A vector or table of another length is a constant of the model; if nothing fits, the caller says so.
        pairs = [pair for pair in pairs if _is_of(images, pair[1])] or pairs
        chosen = {meaning: self._likeliest(meaning, pairs) for meaning in LAYOUTS}
        if chosen["classes"] and chosen["score"]:
            # A class head, or features beside a score: only names tell.
            has_score, has_classes = (
                any(_is_worded(meaning, name) for name, _ in chosen[meaning]) for meaning in ("score", "classes")
            )
            if has_score == has_classes:
                raise _doubt("score or one with class probabilities [B, C]", chosen["score"] + chosen["classes"])
            chosen["classes" if has_score else "score"] = []
        verdict = next((meaning for meaning in OF_VERDICT if chosen[meaning]), None)
        # Without pixel classes the map is the mask.
        of_mask = ("pixel_classes" if chosen["pixel_classes"] else "map") if self._pixel_classes else None
        for meaning in (verdict, of_mask):
            if meaning is not None and len(chosen[meaning]) > 1:
                raise _doubt(meaning, chosen[meaning])
        return {meaning: alike[0][1] for meaning, alike in chosen.items() if len(alike) == 1}

    def _likeliest(self, meaning: str, pairs: list[Pair]) -> list[Pair]:
        """Return the outputs that look like the meaning; of several, those that rather are it than the others."""
        alike = [pair for pair in pairs if meaning_of(pair[1]) == meaning]
        if len(alike) > 1:
            alike = [pair for pair in alike if _is_worded(meaning, pair[0])] or alike
        if len(alike) > 1 and meaning == "pixel_classes":
            alike = [pair for pair in alike if pair[1].ndim == 4 and pair[1].shape[1] == self._pixel_classes] or alike
        return alike


def _is_of(images: int, output: Array) -> bool:
    return meaning_of(output) not in ("classes", "score") or np.atleast_1d(output).shape[0] == images


def _is_worded(meaning: str, name: str) -> bool:
    return any(word in name for word in _WORDS[meaning])


def _doubt(wanted: str, pairs: list[Pair]) -> DecodeError:
    shapes = shapes_of([output for _, output in pairs])
    return DecodeError(
        f"anomaly: expected one output as {wanted}, got {len(pairs)}: {shapes}; name it in the manifest's outputs"
    )


def meaning_of(output: Array) -> str | None:
    """Return what a raw output is by its type and shape, batch axis first; None for what is not read."""
    per_image = list(output.shape[1:])
    kind = output.dtype.kind
    if output.size == 0 or len(per_image) > 3 or kind not in "fiub":
        return None
    if int(np.prod(per_image)) == 1:
        return "score" if kind == "f" else None
    if len(per_image) == 1 or (len(per_image) == 3 and per_image[1:] == [1, 1]):
        return "classes" if kind == "f" else None
    has_one_plane = len(per_image) == 2 or per_image[0] == 1
    return "map" if kind == "f" and has_one_plane else "pixel_classes"


def _pooled(head: Array) -> Array:
    """Return a class head without its axes of one pixel."""
    return head.reshape(head.shape[:2]) if head.ndim == 4 and head.shape[2:] == (1, 1) else head


def _fits(meaning: str, head: Array) -> bool:
    if head.size == 0:
        return False
    if meaning == "classes":
        return head.ndim == 2
    if meaning == "score":
        return head.size == len(head)
    return head.ndim == 3 or (head.ndim == 4 and (meaning == "pixel_classes" or head.shape[1] == 1))
