"""The network's input: what the graph fixes wins, the manifest fills in what it leaves open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from convertor.facts import ArtifactFacts, TensorFact
from convertor.manifest.parse import MANIFEST, Manifest
from convertor.notes import Notes

STAGE = f"{MANIFEST}: model_graph.stages[0]"
IMAGE_CHANNELS = (1, 3)
# Types that hold pixel values, 0 to 1 or 0 to 255; int8 holds neither. "unknown": the graph does not say.
FLOATS = frozenset({"float16", "float32", "float64", "unknown"})
INTEGERS = frozenset({"uint8", "uint16", "uint32", "uint64", "int16", "int32", "int64"})

# What one run is fed, images times channels times pixels: 4 GB of float32.
_MOST_NUMBERS = 1 << 30

Shape = Sequence["int | str | None"]


@dataclass(frozen=True)
class Network:
    """The network's input: sides in pixels, channels, NCHW or NHWC, whether it takes whole numbers."""

    height: int
    width: int
    channels: int
    layout: str
    integers: bool = False


@dataclass(frozen=True)
class _Stated:
    """A size as the manifest states it: height and width in pixels."""

    where: str
    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height} x {self.width}"


def network_input(manifest: Manifest, facts: ArtifactFacts | None, artifact: str, notes: Notes) -> Network | None:
    """Return the network's input, or None after noting why there is none that works.

    Each side is the graph's where it is fixed there, else that of `input_shape`, `image_height` and `image_width`, or
    `network_input`, the first of them that states both sides.

    Args:
        manifest: The package's manifest.
        facts: What the graph says of itself; None when it says nothing.
        artifact: The artifact's name, for lines.
        notes: Takes problems, and a warning for every statement that another one overrides.
    """
    image = facts.inputs[0] if facts and facts.inputs else None
    asked: Shape | None = manifest.stage.get("input_shape")
    if image is not None and not _check_image(image, asked, artifact, notes):
        return None
    graph = image.shape if image is not None else None
    layout, channels = _layout(graph) or _layout(asked) or ("NCHW", 3)
    sizes = _stated_sizes(manifest)
    height, width = _sides(graph, layout) if graph is not None else (0, 0)
    if sizes:
        height, width = height or sizes[0].height, width or sizes[0].width
    if not height or not width:
        notes.problems.append(
            f"{STAGE}.input_shape: expected the network's size, which the graph leaves open, got nothing; "
            "add input_shape [1, 3, height, width]"
        )
        return None
    winner = sizes[0].where if sizes and (sizes[0].height, sizes[0].width) == (height, width) else "the graph"
    notes.warnings.extend(
        f"{size.where} says {size} (height x width), {winner} {height} x {width}; {winner} wins"
        for size in sizes
        if (size.height, size.width) != (height, width)
    )
    return Network(height, width, channels, layout, image is not None and image.dtype in INTEGERS)


def _check_image(image: TensorFact, asked: Shape | None, artifact: str, notes: Notes) -> bool:
    """Note what the graph's input says that cannot be served, or that overrides the manifest; return whether it can."""
    problems = _image_problems(image)
    notes.problems.extend(f"{artifact}: input {image.name}: {problem}" for problem in problems)
    if problems or image.shape is None:
        return not problems
    if asked is not None:
        notes.warnings.extend(
            f"{STAGE}.input_shape says {said}; the graph wins" for said in _contradictions(asked, image.shape)
        )
    if (batch := _fixed(image.shape[0])) > 1:
        notes.warnings.append(
            f"{artifact}: input {image.name}: the graph takes {batch} images at once, so that one image costs as much "
            f"as {batch}; export it with a free batch"
        )
    return True


def _image_problems(image: TensorFact) -> list[str]:
    if image.dtype not in FLOATS | INTEGERS:
        return [f"expected floating point or pixels from 0 to 255, got {image.dtype}; export it with a float32 input"]
    shape = image.shape
    if shape is None:
        return []
    if len(shape) != 4:
        return [
            f"expected four axes (batch, channels, height, width), got {_written(shape)}; export the model with them"
        ]
    numbers = [axis for axis in shape if isinstance(axis, int)]
    if any(axis < 1 for axis in numbers) or math.prod(numbers) > _MOST_NUMBERS:
        return [
            f"expected axes from 1 on and at most {_MOST_NUMBERS} numbers in all, got {_written(shape)}; "
            "export the model again"
        ]
    fixed = all(isinstance(axis, int) for axis in (shape[1], shape[3]))
    if fixed and _layout(shape) is None:
        return [f"expected 1 or 3 channels, got {shape[1]} in {_written(shape)}; the server sends grey or RGB images"]
    return []


def _layout(shape: Shape | None) -> tuple[str, int] | None:
    """Return the axis order and the channels of a shape of four axes, or None where it leaves them open."""
    if shape is None:
        return None
    for layout, axis in (("NCHW", shape[1]), ("NHWC", shape[3])):
        if axis in IMAGE_CHANNELS:
            return layout, int(axis)
    return None


def _contradictions(asked: Shape, graph: Shape) -> Iterator[str]:
    """Yield what a stated shape says of batch, axis order and channels that the graph fixes otherwise."""
    batch, fixed = _fixed(asked[0]), _fixed(graph[0])
    if batch and fixed and batch != fixed:
        yield f"batch {batch}, the graph {fixed}"
    stated, real = _layout(asked), _layout(graph)
    if stated is None or real is None:
        return
    if stated[0] != real[0]:
        yield f"{stated[0]}, the graph {real[0]}"
    if stated[1] != real[1]:
        yield f"{stated[1]} channel{'s' if stated[1] > 1 else ''}, the graph {real[1]}"


def _sides(shape: Shape, layout: str) -> tuple[int, int]:
    """Return (height, width) of a shape of four axes, 0 for a side that it leaves open."""
    height, width = shape[1:3] if layout == "NHWC" else shape[2:4]
    return _fixed(height), _fixed(width)


def _fixed(axis: int | str | None) -> int:
    return axis if isinstance(axis, int) and axis > 0 else 0


def _stated_sizes(manifest: Manifest) -> list[_Stated]:
    """Return every size that the manifest states in full, the one that counts first."""
    stage, found = manifest.stage, list[_Stated]()
    if shape := stage.get("input_shape"):
        layout, _ = _layout(shape) or ("NCHW", 3)
        found.append(_Stated(f"{STAGE}.input_shape", *_sides(shape, layout)))
    if "image_height" in stage and "image_width" in stage:
        found.append(_Stated(f"{STAGE}.image_height, image_width", stage["image_height"], stage["image_width"]))
    if size := manifest.detection.get("network_input"):
        height, width = (size, size) if isinstance(size, int) else size
        found.append(_Stated(f"{MANIFEST}: detection.network_input", height, width))
    return [size for size in found if size.height and size.width]


def _written(shape: Shape) -> str:
    return f"[{', '.join('?' if axis is None else str(axis) for axis in shape)}]"
