"""Manifests read and refused, without a package around them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convertor.errors import RefusedError
from convertor.manifest.parse import Manifest, parse_manifest

STAGE = "model_graph.stages[0]"


def parse(value: Any) -> Manifest:
    """The manifest that a JSON value is."""
    return parse_manifest(json.dumps(value).encode())


def refusals(data: bytes) -> list[str]:
    """The lines with which it is refused."""
    with pytest.raises(RefusedError) as caught:
        parse_manifest(data)
    return list(caught.value.problems)
