"""Calls of the tensors profile: any subset of outputs, with parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients import DTYPES, Array, Client


class TensorsClient(Client):
    """A tritonclient of one protocol; a context manager."""

    def ask(
        self,
        model: str,
        inputs: Mapping[str, Array],
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> dict[str, Array]:
        """Return the named outputs of a model; every one when none is named."""
        sent = []
        for name, value in inputs.items():
            tensor = self._module.InferInput(name, list(value.shape), DTYPES[str(value.dtype)])
            tensor.set_data_from_numpy(value)
            sent.append(tensor)
        wanted = [self._module.InferRequestedOutput(name) for name in outputs] or None
        result = self.raw.infer(model, sent, outputs=wanted, parameters=dict(parameters or {}))
        response = result.get_response()
        found = response["outputs"] if isinstance(response, dict) else response.outputs
        names = [output["name"] if isinstance(output, dict) else output.name for output in found]
        return {name: result.as_numpy(name) for name in names}
