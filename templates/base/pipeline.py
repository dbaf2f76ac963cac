"""Images to results: preprocess, engine, decode, for all images of a call together.

One engine call takes as many images as it may; each image is decoded with its own geometry and settings, and what is
wrong with one is the answer to that one only.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Union

import numpy as np
import numpy.typing as npt

from decoders import Decoders
from failures import Failure, failure
from postprocessors.contract import DecoderConfig, DecodeValueError
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Result
from postprocessors.server_metrics import ServerMetrics
from request_parameters import AS_PACKAGED, Overrides
from runtimes.contract import Runner
from runtimes.preprocessors.base import BasePreprocessor

Array = npt.NDArray[Any]
Raw = Union["list[Array]", Failure]
Log = Callable[[str], None]

_GREY = 114


@dataclass(frozen=True)
class Job:
    """One image, any array that a client may send, and what its request overrides."""

    image: Array
    overrides: Overrides = AS_PACKAGED


@dataclass(frozen=True)
class Found:
    """What was found in one image, and where the image lay in the network's input."""

    result: Result
    frame: FrameGeometry


Answer = Union[Found, Failure]


class Pipeline:
    """One loaded model.

    Args:
        model: model.json.
        runner: The engine.
        metrics: Takes times and counts.
        warn: Takes a line that an operator should see.
    """

    def __init__(self, model: Mapping[str, Any], runner: Runner, metrics: ServerMetrics, warn: Log) -> None:
        self._model = model
        self._runner = runner
        self._metrics = metrics
        self._warn = warn
        self._preprocess = BasePreprocessor(model["preprocess"])
        # Requests of the capture profile are one image each, and its packages were made for a batch of one.
        most: int = model.get("max_batch_size", 0) or 1
        self._most: int = min(most, model["execution"].get("max_engine_batch") or most)

    def warm_up(self) -> None:
        """Run a grey image, and make the decoder on the way: some engines know their outputs after the first run.

        Raises:
            DecodeError: The outputs are not what the decoder documents.
            RunnerError: The engine fails.
        """
        batch, placements = self._preprocess([np.full((*self._preprocess.network, 3), _GREY, np.uint8)])
        raw, frame = self._runner(batch), FrameGeometry(*placements[0])
        self._decoders = Decoders(self._model["family"], _decoder_config(self._model, self._runner), (raw, frame))
        try:
            self._decoders.packaged(raw, [frame])
        except DecodeValueError as error:
            # A flat image has no variance, which some networks divide by: no verdict on the model.
            self._warn(f"a grey test image gives no result: {error}")
        if self._most > 1:
            self._try_two(batch)

    def _try_two(self, batch: Array) -> None:
        """Run two images at once: a graph that was traced with one fails here, not at the first busy moment."""
        try:
            _split(self._runner(np.concatenate([batch, batch])), 2)
        except Exception as error:
            self._run_at_most(1, 2, failure(error))

    def run(self, jobs: Sequence[Job]) -> list[Answer]:
        """Return one result or error per job, in order."""
        answers: list[Answer] = []
        while len(answers) < len(jobs):
            answers += self._run_batch(jobs[len(answers) : len(answers) + self._most])
        return answers

    def _run_batch(self, jobs: Sequence[Job]) -> list[Answer]:
        with self._metrics.stage("preprocess"):
            batch, places = self._prepare([job.image for job in jobs])
        ready = [(job, place) for job, place in zip(jobs, places) if isinstance(place, FrameGeometry)]
        raws: list[Raw] = []
        if batch is not None:
            with self._metrics.stage("engine"):
                raws = self._infer(batch)
        with self._metrics.stage("decode"):
            decoded = iter([self._decode(raw, job, frame) for raw, (job, frame) in zip(raws, ready)])
        return [next(decoded) if isinstance(place, FrameGeometry) else place for place in places]

    def _prepare(self, images: Sequence[Array]) -> tuple[Array | None, list[FrameGeometry | Failure]]:
        """Return the batch of the images that can be prepared, None if there are none, and frame or error of each."""
        try:
            batch, placements = self._preprocess(images)
            return batch, [FrameGeometry(*placement) for placement in placements]
        except Exception as error:
            if len(images) == 1:
                return None, [failure(error)]
        each = [self._prepare([image]) for image in images]
        batches = [batch for batch, _ in each if batch is not None]
        return np.concatenate(batches) if batches else None, [places[0] for _, places in each]

    def _infer(self, batch: Array) -> list[Raw]:
        """Return each image's raw outputs, of a batch of one, or its error."""
        try:
            return [*_split(self._runner(batch), len(batch))]
        except Exception as error:
            failed = failure(error)
        if len(batch) == 1:
            return [failed]
        # One image may be what the engine fails on: its neighbours are answered.
        self._metrics.add("fallbacks", 1)
        alone = [self._infer(batch[index : index + 1])[0] for index in range(len(batch))]
        if not any(isinstance(raw, Failure) for raw in alone):
            # A device's memory may be enough for some.
            self._run_at_most(len(batch) // 2, len(batch), failed)
        return alone

    def _run_at_most(self, images: int, failed: int, failed_with: Failure) -> None:
        """Remember that so many images are too many for one call; said once for each number."""
        self._most = images
        why = f"because {failed} images failed together: {failed_with.message}"
        self._warn(f"at most {images} in one call from now on, {why}")

    def _decode(self, raw: Raw, job: Job, frame: FrameGeometry) -> Answer:
        if isinstance(raw, Failure):
            return raw
        try:
            return Found(self._decoders.get(job.overrides)(raw, [frame])[0], frame)
        except Exception as error:
            return failure(error)


def _split(outputs: list[Array], count: int) -> list[list[Array]]:
    """Return each image's outputs, of a batch of one; views.

    Raises:
        ValueError: An output has not one entry per image; image numbers among its values are for one call's images.
    """
    if count == 1:
        return [outputs]
    if any(not output.ndim or len(output) != count for output in outputs):
        shapes = ", ".join(str(list(output.shape)) for output in outputs)
        raise ValueError(f"expected outputs of {count} images, batch axis first, got {shapes}")
    return [[output[index : index + 1] for output in outputs] for index in range(count)]


def _decoder_config(model: Mapping[str, Any], runner: Runner) -> DecoderConfig:
    return DecoderConfig(
        settings=model["decode"],
        class_names=tuple(model["class_names"]),
        output_names=tuple(spec.name for spec in runner.outputs),
        outputs=model["outputs"],
        task=model["task"],
    )
