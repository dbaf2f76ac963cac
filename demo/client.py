"""A client of the capture profile, as an edge pipeline has one: raw pixels in, capture JSON and overlay out."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from convertor.errors import ServerError

TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class Detection:
    """One object: x1, y1, x2, y2 in pixels of the image that was sent, score 0..1, class name."""

    label: str
    score: float
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Answer:
    """What was found, best first, and the image with the boxes drawn in, a JPEG file."""

    detections: tuple[Detection, ...]
    overlay: bytes


def detect(url: str, model: str, image: npt.NDArray[np.uint8]) -> Answer:
    """Send one image, uint8 [H, W, C] in RGB order, with the METADATA `{}`.

    Raises:
        ServerError: The server refuses the request or does not answer in time.
    """
    inputs = [_tensor("input", image), _tensor("METADATA", np.frombuffer(b"{}", np.uint8))]
    try:
        client: Any = triton.InferenceServerClient(url)  # tritonclient is only partly typed
        with client as server:
            result = server.infer(model, inputs, client_timeout=TIMEOUT_SECONDS)
    except InferenceServerException as error:
        raise ServerError(f"{model}: {error.message()}") from error
    capture, overlay = (result.as_numpy(name).tobytes() for name in ("output_capture", "output_overlay"))
    return Answer(read_capture(capture), overlay)


def read_capture(capture: bytes) -> tuple[Detection, ...]:
    """Return the detections of a capture JSON: its base64 block that has `detections`, in the order given there."""
    blocks = [
        json.loads(base64.b64decode(output["data"]))
        for output in json.loads(capture)["deviceFleetAuxiliaryOutputs"]
        if output["encoding"] == "BASE64"
    ]
    found: dict[str, Any] = next(block["detections"] for block in blocks if "detections" in block)
    return tuple(
        Detection(record["class_label"], record["confidence"], tuple(record["bounding_box"]))
        for _, record in sorted(found.items(), key=lambda item: int(item[0]))
    )


def _tensor(name: str, value: npt.NDArray[np.uint8]) -> Any:  # noqa: ANN401 - see above
    tensor: Any = triton.InferInput(name, list(value.shape), "UINT8")
    tensor.set_data_from_numpy(value)
    return tensor
