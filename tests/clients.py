"""Calls to a served model, over either protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

Array = np.ndarray[Any, Any]
PROTOCOLS = {"http": http_client, "grpc": grpc_client}
DTYPES = {"uint8": "UINT8", "float32": "FP32", "int32": "INT32"}


def as_bytes(value: object) -> Array:
    """Return JSON of a value as uint8 [n]; bytes as they are."""
    return np.frombuffer(value if isinstance(value, bytes) else json.dumps(value).encode(), np.uint8)


class Client:
    """A tritonclient of one protocol; a context manager."""

    def __init__(self, server: Any, protocol: str = "grpc") -> None:
        self._module = PROTOCOLS[protocol]
        url = server.grpc_url if protocol == "grpc" else server.http_url
        extra = {"network_timeout": 120.0} if protocol == "http" else {}
        self.raw = self._module.InferenceServerClient(url, **extra)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def infer(self, model: str, inputs: Mapping[str, Array], version: str = "") -> dict[str, Array]:
        """Return every output of a model."""
        sent = []
        for name, value in inputs.items():
            tensor = self._module.InferInput(name, list(value.shape), DTYPES.get(str(value.dtype), "FP64"))
            tensor.set_data_from_numpy(value)
            sent.append(tensor)
        result = self.raw.infer(model, sent, model_version=version)
        response = result.get_response()
        outputs = response["outputs"] if isinstance(response, dict) else response.outputs
        names = [output["name"] if isinstance(output, dict) else output.name for output in outputs]
        return {name: result.as_numpy(name) for name in names}

    def capture(self, model: str, image: Array, metadata: object = None) -> dict[str, Array]:
        """Call an ensemble of the capture profile."""
        return self.infer(model, {"input": image, "METADATA": as_bytes({} if metadata is None else metadata)})


def blocks(capture: Array) -> list[Any]:
    """Return the base64 JSON blocks of a capture JSON, parsed: the verdict, then the detections or the anomalies."""
    document = json.loads(capture.tobytes())
    return [json.loads(base64.b64decode(o["data"])) for o in document["deviceFleetAuxiliaryOutputs"] if "data" in o]


def detected(outputs: Mapping[str, Array]) -> list[list[float]]:
    """Return [x1, y1, x2, y2, score, class] rows of a served detection, best first."""
    found = blocks(outputs["output_capture"])[1]["detections"]
    return [
        [*record["bounding_box"], record["confidence"], int(record["class_index"])]
        for _, record in sorted(found.items(), key=lambda item: int(item[0]))
    ]
