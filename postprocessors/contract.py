"""What every decoder takes and returns.

Payload: runs inside the server's python (3.9 or newer); needs numpy, nothing more.
A decoder family is the folder `postprocessors/<name>/`; its `decode.py` has `create(config) -> Decoder`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt

from .adapter import OutputAdapter
from .geometry import FrameGeometry
from .results import Result

Array = npt.NDArray[Any]


class DecodeError(Exception):
    """The raw outputs are not what the decoder documents; the text is one line with the shapes seen and expected."""


class DecodeValueError(DecodeError):
    """The shapes are right, but these numbers cannot be a result; another image may give better ones."""


@dataclass(frozen=True)
class DecoderConfig:
    """What a decoder is made from.

    Attributes:
        settings: The family's own settings (its support.py's DEFAULTS, merged with the manifest).
        class_names: Names by class id; may be empty.
        output_names: Names of the raw outputs in order; empty strings where the engine loses names.
        outputs: The manifest's output adapter, {meaning: {"tensor": index or name, "activation": ...}}.
        task: What is looked for, for a family of several tasks; empty means the family's first.
    """

    settings: Mapping[str, Any]
    class_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    task: str = ""

    def adapter(self) -> OutputAdapter:
        """Return the output adapter.

        Raises:
            DecodeError: The manifest names an output that the graph does not have.
        """
        try:
            return OutputAdapter(self.outputs, self.output_names)
        except ValueError as error:
            raise DecodeError(str(error)) from error


class Decoder(Protocol):
    """Turns the raw outputs of one batch into one result per image."""

    def __call__(self, outputs: Sequence[Array], frames: Sequence[FrameGeometry]) -> Sequence[Result]:
        """Decode `outputs` (batch axis first) for the images described by `frames`.

        Raises:
            DecodeError: The shapes or values are not the ones the decoder documents.
        """
        ...


def shapes_of(outputs: Sequence[Array]) -> str:
    """Return the outputs' shapes for a message."""
    return ", ".join(str(list(output.shape)) for output in outputs) or "none"


def make_decoder(family: str, config: DecoderConfig) -> Decoder:
    """Return the decoder of `postprocessors/<family>/`."""
    module = importlib.import_module(f"{__package__}.{family}.decode")
    return module.create(config)
