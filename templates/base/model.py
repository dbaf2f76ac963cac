"""`base_<m>`: images in, what was found out: preprocess, engine, decode.

Payload: copied byte for byte and run inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import os
import sys

# The server appends the version folder to sys.path: an installed package of the same name would win.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - before anything else

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Union

import triton_python_backend_utils as pb_utils
from capture_outputs import pack
from failures import KNOWN_ERRORS, Failure, failure
from pipeline import Answer, Found, Job, Pipeline
from postprocessors.results import Detections
from postprocessors.server_checks import check_numpy
from postprocessors.server_metrics import ServerMetrics
from request_parameters import read_overrides
from runtimes.contract import Runner, RunnerOptions, make_runner
from runtimes.preprocessors.colour import ImageError
from tensors_outputs import Array, TensorsOutputs

Asked = Union["list[Job]", Failure]


class TritonPythonModel:
    """Triton's python model: the images of all requests of a call together, one response per request."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the engine and try it: what cannot work fails here and not at the first request."""
        check_numpy(pb_utils)
        # __file__, not args["model_repository"]: releases differ in what they put there.
        folder = Path(__file__).resolve().parent
        self._model: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        outputs = _output_dims(args["model_config"])
        self._tensors = TensorsOutputs(self._model, list(outputs)) if self._model["profile"] == "tensors" else None
        self._mask_dims = outputs.get("mask", [])
        self._metrics = ServerMetrics(pb_utils, f"base_{self._model['name']}", str(self._model["version"]))
        try:
            self._runner: Runner = make_runner(self._model["runtime"], _runner_options(self._model, folder, args))
            self._pipeline = Pipeline(self._model, self._runner, self._metrics, self._warn)
            self._pipeline.warm_up()
        except KNOWN_ERRORS as error:
            raise pb_utils.TritonModelException(str(error)) from error
        self._log_details()
        self._metrics.device(self._model["device"], self._runner.details["device"])
        if self._metrics.problem:
            pb_utils.Logger.log_info(f"{self._title()}: no metric of its device: {self._metrics.problem}")

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        """Answer every request; an error of one is an error of that one only."""
        asked = [self._read(request) for request in requests]
        answers = self._pipeline.run([job for jobs in asked if isinstance(jobs, list) for job in jobs])
        self._count(answers)
        left = iter(answers)
        return [
            self._respond(request, list(islice(left, len(jobs))) if isinstance(jobs, list) else [jobs])
            for request, jobs in zip(requests, asked)
        ]

    def finalize(self) -> None:
        """Release the engine."""
        self._runner.close()

    def _read(self, request: pb_utils.InferenceRequest) -> Asked:
        """Return the request's images, each with its parameters, or what is wrong with it."""
        try:
            tensor = pb_utils.get_input_tensor_by_name(request, "input")
            if tensor is None:
                raise ImageError("input: expected an image, got a request without it")
            image = tensor.as_numpy()
            if self._tensors is None:
                return [Job(image)]
            if image.ndim != 4 or not len(image):
                raise ImageError(f"input: expected images [B, H, W, 3], got shape {list(image.shape)}")
            overrides = read_overrides(request.parameters(), self._model["decode"])
            return [Job(one, overrides) for one in image]
        except Exception as error:
            return failure(error)

    def _respond(self, request: pb_utils.InferenceRequest, answers: Sequence[Answer]) -> pb_utils.InferenceResponse:
        failed = next((answer for answer in answers if isinstance(answer, Failure)), None)
        if failed is not None:
            return self._refuse(failed)
        found = [answer for answer in answers if isinstance(answer, Found)]
        try:
            tensors = self._pack(request, found)
        except Exception as error:
            return self._refuse(failure(error))
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in tensors.items()])

    def _pack(self, request: pb_utils.InferenceRequest, found: Sequence[Found]) -> Mapping[str, Array]:
        if self._tensors is None:
            return pack(found[0].result, found[0].frame.source, self._mask_dims)
        return self._tensors.pack(found, request.requested_output_names())

    def _count(self, answers: Sequence[Answer]) -> None:
        results = [answer.result for answer in answers if isinstance(answer, Found)]
        self._metrics.add("images", len(results))
        self._metrics.add("detections", sum(len(result) for result in results if isinstance(result, Detections)))

    def _refuse(self, failed: Failure) -> pb_utils.InferenceResponse:
        self._metrics.add("request_failures", 1, reason=failed.reason)
        if failed.trace:
            pb_utils.Logger.log_error(failed.trace)
        code = pb_utils.TritonError.INVALID_ARG if failed.is_clients_fault else pb_utils.TritonError.INTERNAL
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(failed.message, code))

    def _log_details(self) -> None:
        details = dict(self._runner.details)
        fallback, warning = details.pop("fallback", None), details.pop("warning", None)
        pb_utils.Logger.log_info(f"{self._title()}: {', '.join(f'{key} {value}' for key, value in details.items())}")
        if fallback:
            place = "the CPU" if details["device"] == "cpu" else details["device"]
            pb_utils.Logger.log_info(f"{self._title()}: device {self._model['device']}: runs on {place}: {fallback}")
        if warning:
            self._warn(warning)

    def _warn(self, line: str) -> None:
        pb_utils.Logger.log_warn(f"{self._title()}: {line}")

    def _title(self) -> str:
        return f"{self._model['name']} version {self._model['version']}"


def _runner_options(model: Mapping[str, Any], folder: Path, args: Mapping[str, str]) -> RunnerOptions:
    return RunnerOptions(
        artifact=folder / model["artifact"],
        device=model["device"],
        device_id=int(args.get("model_instance_device_id", 0)),
        threads=model["execution"].get("threads", 0),
        tf32=model["execution"].get("tf32", False),
        allow_pickles=model["execution"].get("allow_pickles", False),
    )


def _output_dims(model_config: str) -> dict[str, list[int]]:
    """Return the outputs' dims by name, in the order of config.pbtxt."""
    return {output["name"]: [int(dim) for dim in output["dims"]] for output in json.loads(model_config)["output"]}
