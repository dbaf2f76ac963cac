"""The package's decoder, and those of requests with parameters of their own.

Payload: runs inside the server's python (3.9 or newer); needs numpy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from postprocessors.contract import DecodeError, Decoder, DecoderConfig, DecodeValueError, make_decoder
from postprocessors.geometry import FrameGeometry
from request_parameters import AS_PACKAGED, Overrides, ParameterError

Array = npt.NDArray[Any]

# Clients have a handful of settings; one that tries a new threshold with every request must not fill the memory.
_MOST_KEPT = 16


class Decoders:
    """Decoders by what a request overrides, made when they are first asked for.

    Args:
        family: The decoder's family.
        config: The package's own settings.
        probe: Raw outputs of one image and its geometry, on which a decoder of other classes is tried: some know their
            classes only when they see the outputs.
    """

    def __init__(self, family: str, config: DecoderConfig, probe: tuple[Sequence[Array], FrameGeometry]) -> None:
        self._family = family
        self._config = config
        self._probe = probe
        self.packaged = make_decoder(family, config)
        self._kept: OrderedDict[Overrides, Decoder] = OrderedDict()

    def get(self, overrides: Overrides) -> Decoder:
        """Return the decoder.

        Raises:
            ParameterError: The model has none of the classes that are asked for.
        """
        if overrides == AS_PACKAGED:
            return self.packaged
        decoder = self._kept.pop(overrides, None) or self._make(overrides)
        self._kept[overrides] = decoder
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return decoder

    def _make(self, overrides: Overrides) -> Decoder:
        asked: dict[str, Any] = dict(overrides.settings)
        settings = {**self._config.settings, **asked}
        if "score_threshold" in asked and "class_thresholds" in settings:
            # What is asked for holds for all classes.
            settings["class_thresholds"] = None
        config = replace(self._config, settings=settings)
        if not overrides.masks and config.task == "instance_segmentation":
            # The boxes of a segmentation head are those of a detection head with something behind them.
            config = replace(config, task="object_detection")
        try:
            decoder = make_decoder(self._family, config)
            if "classes" in asked:
                self._try(decoder)
        except DecodeError as error:
            # Its text names the manifest's block, where the request has a parameter.
            raise ParameterError(f"classes: {str(error).partition(': ')[2]}") from error
        return decoder

    def _try(self, decoder: Decoder) -> None:
        outputs, frame = self._probe
        with suppress(DecodeValueError):  # about the grey image, not about the classes
            decoder(outputs, [frame])
