"""marshal: base's answer and the image to the capture JSON, the mask as PNG and the overlay as JPEG.

Payload: runs inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

# The server appends this folder; an installed package of the same name would win.
sys.path.insert(0, str(Path(__file__).parent))

import cv2
import numpy as np
import numpy.typing as npt

import triton_python_backend_utils as pb_utils
from capture import Inference, capture_document, detections_block, to_json, utc_now
from capture_request import Findings, Metadata, RequestError, check_image, read_findings, read_metadata, scalar
from detections_file import ROOTS_VARIABLE, NotWrittenError, capture_roots, write_detections
from overlay import EncodeError, blend_mask, draw_detections, encode_jpeg, encode_png
from postprocessors.palette import BACKGROUND
from postprocessors.server_checks import check_numpy
from postprocessors.server_metrics import ServerMetrics
from tensors_overlay import draw_batch

Array = npt.NDArray[Any]

# The reasons name the clients' folders: a limit on what a client can put into the log.
_MOST_REASONS = 100


class TritonPythonModel:
    """The second step of both profiles.

    Tensors. Inputs: `input` uint8 [B, H, W, 3], `overlay_detections` uint8 [B, n]. Output: `overlay` uint8 [B, n] JPEG.

    Capture. Inputs: `input` uint8 [H, W, C], `inference_output` uint8 [1], `inference_mask` uint8 [H, W, 3] RGB,
    `inference_confidence` and `inference_score` float32 [1], `inference_anomalies` and `metadata` uint8 [n] JSON.
    Outputs: `output` uint8 [n] JSON, `mask` uint8 [n] PNG, `overlay` uint8 [n] JPEG (both empty when there is none),
    `output_anomalous` uint8 [1], `output_confidence` float32 [1].
    """

    clock: Callable[[], datetime] = staticmethod(utc_now)

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load what `convert` says of the model, from `model.json` beside this file.

        Raises:
            pb_utils.TritonModelException: This server cannot work with the installed NumPy.
        """
        check_numpy(pb_utils)
        # Drawing gains nothing from OpenCV's threads, and their busy waiting takes CPU from the engine.
        cv2.setNumThreads(1)
        facts = json.loads(Path(__file__).with_name("model.json").read_text("utf-8"))
        self._ensemble, self._version = str(facts["name"]), str(facts["version"])
        self._log_prefix = f"marshal_{self._ensemble}"
        self._metrics = ServerMetrics(pb_utils, self._log_prefix, self._version)
        self._is_capture = facts.get("profile", "capture") == "capture"
        if self._is_capture:
            self._prepare_capture()

    def _prepare_capture(self) -> None:
        self._roots = capture_roots(os.environ)
        self._not_written: set[str] = set()
        if not self._roots:
            pb_utils.Logger.log_info(
                f"{self._log_prefix}: {ROOTS_VARIABLE} names no folder: *.detections.json files are not written"
            )

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        """Answer each request, in order; what is wrong with one is an error of that one only."""
        with self._metrics.stage("overlay"):
            return [self._answer(request) for request in requests]

    def _answer(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        try:
            return pb_utils.InferenceResponse(self._outputs(request) if self._is_capture else [_overlay(request)])
        except (RequestError, EncodeError) as error:
            message, code, fault = str(error), pb_utils.TritonError.INVALID_ARG, "image"
        except Exception as error:  # the other requests of this call still get their answers
            pb_utils.Logger.log_error(f"{self._log_prefix}: {traceback.format_exc()}")
            message, code = f"internal error: {type(error).__name__}: {error}", pb_utils.TritonError.INTERNAL
            fault = "internal"
        self._metrics.add("request_failures", 1, reason=fault)
        line = " ".join(f"{self._log_prefix}: {message}".split())
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(line, code))

    def _outputs(self, request: pb_utils.InferenceRequest) -> list[pb_utils.Tensor]:
        image = check_image(_array(request, "input"))
        mask = _array(request, "inference_mask")
        metadata = read_metadata(_bytes(request, "metadata"))
        findings = read_findings(_bytes(request, "inference_anomalies"))
        inference = Inference(
            model_name=self._ensemble,
            model_version=self._version,
            time=self.clock(),
            metadata=metadata,
            label=int(scalar("inference_output", _array(request, "inference_output"))),
            confidence=scalar("inference_confidence", _array(request, "inference_confidence")),
            score=scalar("inference_score", _array(request, "inference_score")),
            findings=findings,
            has_mask=not findings.is_detection and _counts(mask, image),
        )
        if findings.is_detection:
            self._write_detections(findings, metadata)
        mask_file, overlay_file = _pictures(image, mask, inference)
        return [
            pb_utils.Tensor("output", np.frombuffer(to_json(capture_document(inference)), np.uint8)),
            pb_utils.Tensor("mask", mask_file),
            pb_utils.Tensor("overlay", overlay_file),
            pb_utils.Tensor("output_anomalous", np.array([inference.label], np.uint8)),
            pb_utils.Tensor("output_confidence", np.array([inference.confidence], np.float32)),
        ]

    def _write_detections(self, findings: Findings, metadata: Metadata) -> None:
        """Write the detections' file where the operator allows it; a failure is told once per reason, not per frame."""
        if not self._roots:
            return
        try:
            write_detections(to_json(detections_block(findings)), metadata, self._roots)
        except NotWrittenError as error:
            if len(self._not_written) < _MOST_REASONS and str(error) not in self._not_written:
                self._not_written.add(str(error))
                pb_utils.Logger.log_warn(f"{self._log_prefix}: detections file not written: {error}")


def _overlay(request: pb_utils.InferenceRequest) -> pb_utils.Tensor:
    return pb_utils.Tensor("overlay", draw_batch(_array(request, "input"), _array(request, "overlay_detections")))


def _array(request: pb_utils.InferenceRequest, name: str) -> Array:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None:
        raise RequestError(f"{name}: the request has no such input")
    return tensor.as_numpy()


def _bytes(request: pb_utils.InferenceRequest, name: str) -> bytes:
    return _array(request, name).tobytes()


def _counts(mask: Array, image: Array) -> bool:
    """Return whether base made a mask: zeros, or another size than the image's, stand for none."""
    return mask.ndim == 3 and mask.shape == (*image.shape[:2], 3) and bool(mask.any())


def _pictures(image: Array, mask: Array, inference: Inference) -> tuple[Array, Array]:
    """Return the files of the mask and of the overlay, uint8 [n] each, [0] where there is none."""
    none = np.zeros(0, np.uint8)
    if inference.findings.is_detection:
        return none, encode_jpeg(draw_detections(image, inference.findings.records))
    if inference.has_mask:
        return encode_png(mask), encode_jpeg(blend_mask(image, mask, BACKGROUND))
    return none, none
