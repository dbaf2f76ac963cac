"""An engine's inputs and outputs, and the shapes that its optimization profile allows.

Payload: runs inside the server's python (3.9 or newer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..contract import RunnerError, TensorSpec
from .element_types import ElementType

# A plan can have several; an execution context begins with the first.
_PROFILE = 0


@dataclass(frozen=True)
class EngineTensor:
    """One input or output.

    Attributes:
        name: The engine's name of it.
        element: Its element type.
        shape: -1 where the engine leaves an axis open.
    """

    name: str
    element: ElementType
    shape: tuple[int, ...]

    @property
    def spec(self) -> TensorSpec:
        """What the runner contract calls it."""
        return TensorSpec(self.name, self.element.name, tuple(None if axis < 0 else axis for axis in self.shape))


@dataclass(frozen=True)
class ShapeLimits:
    """The least and the largest shape that the engine takes for its image, batch axis first."""

    least: tuple[int, ...]
    largest: tuple[int, ...]

    def slice_size(self, count: int) -> int | None:
        """Return the batch in which `count` images have to be run; None if they can be run as they are."""
        least, largest = self.least[0], self.largest[0]
        return None if least <= count <= largest else min(max(count, least), largest)

    def __str__(self) -> str:
        least, largest = (list(shape) for shape in (self.least, self.largest))
        return f"{least}" if least == largest else f"{least} to {largest}"


def tensors_of(
    trt: ModuleType,
    engine: Any,  # noqa: ANN401 - TensorRT ships no types
    artifact: str,
) -> tuple[EngineTensor, Sequence[EngineTensor]]:
    """Return the image and the outputs, told apart by their mode: an engine lists them in any order.

    Raises:
        RunnerError: There is more than one input, or a tensor lies in another way in memory than an array does.
    """
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    if len(inputs) != 1:
        raise RunnerError(
            f"{artifact}: expected one input (the image), got {len(inputs)}: {', '.join(inputs) or 'none'}; "
            "build the plan from a model with the image as its only input"
        )
    for name in names:
        where, order = engine.get_tensor_location(name).name, engine.get_tensor_format(name).name
        if (where, order) != ("DEVICE", "LINEAR"):
            raise RunnerError(
                f"{artifact}: tensor {name}: expected it on the GPU in linear order, got {where} and {order}; "
                "build the plan with linear inputs and outputs"
            )
    image, *outputs = (
        EngineTensor(name, ElementType(name, engine.get_tensor_dtype(name).name), tuple(engine.get_tensor_shape(name)))
        for name in [*inputs, *(name for name in names if name not in inputs)]
    )
    return image, outputs


def limits_of(engine: Any, image: EngineTensor) -> ShapeLimits:  # noqa: ANN401 - TensorRT ships no types
    """Return what the engine takes for its image."""
    if -1 not in image.shape:
        return ShapeLimits(image.shape, image.shape)
    least, _, largest = engine.get_tensor_profile_shape(image.name, _PROFILE)
    return ShapeLimits(tuple(least), tuple(largest))
