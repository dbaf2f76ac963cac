"""`base_<m>`: image in, verdict or detections out: preprocess, engine, decode.

Payload: copied byte for byte and run inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import os
import sys

# The server appends the version folder to sys.path: an installed package of the same name would win.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - before anything else

import json
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import triton_python_backend_utils as pb_utils
from capture_outputs import pack
from postprocessors.contract import DecodeError, Decoder, DecoderConfig, DecodeValueError, make_decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Result
from postprocessors.server_checks import check_numpy
from runtimes.contract import Runner, RunnerError, RunnerOptions, make_runner
from runtimes.preprocessors.base import BasePreprocessor
from runtimes.preprocessors.colour import ImageError

KNOWN_ERRORS = (DecodeError, ImageError, RunnerError)


class TritonPythonModel:
    """Triton's python model: one image per request, one response per request."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the engine and try it: what cannot work fails here and not at the first request."""
        check_numpy(pb_utils)
        # __file__, not args["model_repository"]: releases differ in what they put there.
        folder = Path(__file__).resolve().parent
        self._model: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        self._mask_dims = _output_dims(args["model_config"], "mask")
        try:
            self._preprocess = BasePreprocessor(self._model["preprocess"])
            self._runner: Runner = make_runner(self._model["runtime"], _runner_options(self._model, folder, args))
            self._warm_up()
        except KNOWN_ERRORS as error:
            raise pb_utils.TritonModelException(str(error)) from error
        self._log_details()
        self._show_device()

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        """Answer every request; an error of one is an error of that one only."""
        return [self._respond(request) for request in requests]

    def finalize(self) -> None:
        """Release the engine."""
        self._runner.close()

    def _respond(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        try:
            tensor = pb_utils.get_input_tensor_by_name(request, "input")
            if tensor is None:
                raise ImageError("input: expected an image, got a request without it")
            image = tensor.as_numpy()
            tensors = pack(self._infer(image), image.shape, self._mask_dims)
        except ImageError as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG))
        except KNOWN_ERRORS as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        # The engine and NumPy may raise anything; the request gets the reason, the log the traceback.
        except Exception as error:
            pb_utils.Logger.log_error(traceback.format_exc())
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"inference failed: {reason[:500]}"))
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in tensors.items()])

    def _warm_up(self) -> None:
        """Run a grey image, and make the decoder on the way: some engines know their outputs after the first run."""
        batch, placements = self._preprocess([np.full((*self._preprocess.network, 3), 114, np.uint8)])
        raw = self._runner(batch)
        self._decode: Decoder = make_decoder(self._model["family"], _decoder_config(self._model, self._runner))
        try:
            self._decode(raw, [FrameGeometry(*placement) for placement in placements])
        except DecodeValueError as error:
            # A flat image has no variance, which some networks divide by: no verdict on the model.
            pb_utils.Logger.log_warn(f"{self._title()}: a grey test image gives no result: {error}")

    def _log_details(self) -> None:
        details = dict(self._runner.details)
        fallback, warning = details.pop("fallback", None), details.pop("warning", None)
        pb_utils.Logger.log_info(f"{self._title()}: {', '.join(f'{key} {value}' for key, value in details.items())}")
        if fallback:
            place = "the CPU" if details["device"] == "cpu" else details["device"]
            pb_utils.Logger.log_info(f"{self._title()}: device {self._model['device']}: runs on {place}: {fallback}")
        if warning:
            pb_utils.Logger.log_warn(f"{self._title()}: {warning}")

    def _show_device(self) -> None:
        """Show on /metrics what runs: a GPU that was wanted and not got should not go unseen."""
        labels = {
            "model": f"base_{self._model['name']}",
            "version": str(self._model["version"]),
            "wanted": self._model["device"],
            "device": self._runner.details["device"],
        }
        try:
            # Both are kept, to the end: letting a family go takes the other models' series with it.
            self._metrics = pb_utils.MetricFamily(
                name="convertor_model_device",
                description="The device that a model's engine runs on, beside the one that was wanted; always 1",
                kind=pb_utils.MetricFamily.GAUGE,
            )
            self._metric = self._metrics.Metric(labels=labels)
            self._metric.set(1)
        # Releases before 23.05 have none, and an operator may have switched metrics off: no reason not to serve.
        except Exception as error:
            reason = " ".join(str(error).split())
            pb_utils.Logger.log_info(f"{self._title()}: no metric of its device: {reason}")

    def _title(self) -> str:
        return f"{self._model['name']} version {self._model['version']}"

    def _infer(self, image: np.ndarray[Any, np.dtype[Any]]) -> Result:
        batch, placements = self._preprocess([image])
        frames = [FrameGeometry(*placement) for placement in placements]
        return self._decode(self._runner(batch), frames)[0]


def _runner_options(model: Mapping[str, Any], folder: Path, args: Mapping[str, str]) -> RunnerOptions:
    return RunnerOptions(
        artifact=folder / model["artifact"],
        device=model["device"],
        device_id=int(args.get("model_instance_device_id", 0)),
        threads=model["execution"].get("threads", 0),
        tf32=model["execution"].get("tf32", False),
        allow_pickles=model["execution"].get("allow_pickles", False),
    )


def _decoder_config(model: Mapping[str, Any], runner: Runner) -> DecoderConfig:
    return DecoderConfig(
        settings=model["decode"],
        class_names=tuple(model["class_names"]),
        output_names=tuple(spec.name for spec in runner.outputs),
        outputs=model["outputs"],
        task=model["task"],
    )


def _output_dims(model_config: str, name: str) -> list[int]:
    outputs = {output["name"]: output["dims"] for output in json.loads(model_config)["output"]}
    return [int(dim) for dim in outputs[name]]
