"""`decode_<m>`: image files in, images out, in front of `base_<m>`.

Payload: copied byte for byte and run inside the server's python (3.9 or newer); needs numpy and opencv.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# The server appends this folder; an installed package of the same name would win.
sys.path.insert(0, str(Path(__file__).parent))
# OpenCV reads it once, when it is imported: a header that promises more is refused before there is memory for it, half
# a gigabyte of RGB. An operator's own value stays.
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", "178956970")

import cv2
import numpy as np
import numpy.typing as npt
from image_file import FileError, Image, read_image

import triton_python_backend_utils as pb_utils
from postprocessors.server_checks import check_numpy
from postprocessors.server_metrics import ServerMetrics


def _opencv_log() -> Any:  # noqa: ANN401 - a module
    """Return where OpenCV has its log's level: OpenCV 5 moved it."""
    return cv2 if hasattr(cv2, "setLogLevel") else importlib.import_module("cv2.utils").logging


class TritonPythonModel:
    """Files to images.

    Input: `input_encoded` uint8 [B, n], one file each, which zero bytes may follow. Output: `image` uint8 [B, H, W, 3].
    """

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load what `convert` says of the model, from `model.json` beside this file.

        Raises:
            pb_utils.TritonModelException: This server cannot work with the installed NumPy.
        """
        check_numpy(pb_utils)
        # Decoding gains nothing from OpenCV's threads, and their busy waiting takes CPU from the engine.
        cv2.setNumThreads(1)
        # What is wrong with a file is told to who sent it; OpenCV's log would only fill the server's.
        _opencv_log().setLogLevel(0)
        facts = json.loads(Path(__file__).with_name("model.json").read_text("utf-8"))
        self._title = f"decode_{facts['name']}"
        self._metrics = ServerMetrics(pb_utils, self._title, str(facts["version"]))

    def execute(self, requests: Sequence[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        """Answer each request, in order; what is wrong with one is an error of that one only."""
        with self._metrics.stage("decode_file"):
            return [self._answer(request) for request in requests]

    def _answer(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        try:
            return pb_utils.InferenceResponse([pb_utils.Tensor("image", _images(request))])
        except FileError as error:
            message, code, fault = f"input_encoded: {error}", pb_utils.TritonError.INVALID_ARG, "image"
        except Exception as error:  # the other requests of this call still get their answers
            pb_utils.Logger.log_error(f"{self._title}: {traceback.format_exc()}")
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            message, code, fault = f"decoding failed: {reason}", pb_utils.TritonError.INTERNAL, "internal"
        self._metrics.add("request_failures", 1, reason=fault)
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def _images(request: pb_utils.InferenceRequest) -> npt.NDArray[np.uint8]:
    """Return the images of one request, uint8 [B, H, W, 3].

    Raises:
        FileError: There are none, a file is not an image, or their sizes differ.
    """
    tensor = pb_utils.get_input_tensor_by_name(request, "input_encoded")
    if tensor is None:
        raise FileError("expected the bytes of an image file, got a request without them")
    files: npt.NDArray[Any] = tensor.as_numpy()
    if files.dtype != np.uint8 or files.ndim != 2 or not len(files):
        raise FileError(f"expected the bytes of image files, uint8 [B, n], got {files.dtype} {list(files.shape)}")
    images: list[Image] = [read_image(file.tobytes()) for file in files]
    sizes = sorted({image.shape[:2] for image in images})
    if len(sizes) > 1:
        found = " and ".join(f"{height} x {width}" for height, width in sizes[:2])
        raise FileError(f"expected images of one size in a request of several, got {found} (height x width)")
    return np.stack(images) if len(images) > 1 else images[0][np.newaxis]
