"""One name, another engine: input dims stay as wide as they have once been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from convertor.cli import main
from convertor.model_config import inputs_of, parse_config
from runtimes.dlr.tests import neo
from tests.builders import anomaly_manifest, constant_graph, write_package

NAME, SIZE = "line", {"image_width": 6, "image_height": 4}
# Enough of an ELF file for convert, which runs none.
LIBRARY = b"\x7fELF" + bytes(60)


def package(folder: Path, engine: str) -> Path:
    manifest: dict[str, Any] = {**anomaly_manifest(["background", "dent"], input_shape=[1, 3, 4, 6]), "dataset": SIZE}
    files = {"model.onnx": constant_graph({"score": np.array([0.5], np.float32)}, (1, 3, 4, 6))}
    if engine == "dlr":
        del manifest["runtime"]
        files = dict(neo.copier((1, 3, 4, 6)).files(LIBRARY))
    return write_package(folder / f"{engine}.zip", manifest, files)


def publish(folder: Path, engine: str, *flags: str) -> list[int]:
    """Convert, and return the dims of the ensemble's input."""
    repository = folder / "repository"
    assert main(["convert", str(package(folder, engine)), "-o", str(repository), "--name", NAME, *flags]) == 0
    config = parse_config((repository / NAME / "config.pbtxt").read_text("utf-8"), NAME)
    return next(list(tensor.dims) for tensor in inputs_of(config) if tensor.name == "input")


def test_dlr_to_onnx_and_back_needs_no_flag(tmp_path: Path) -> None:
    assert publish(tmp_path, "dlr") == [4, 6, 3]
    assert publish(tmp_path, "onnx") == [-1, -1, -1]
    assert publish(tmp_path, "dlr") == [-1, -1, -1]


def test_replace_takes_the_package_s_own_dims(tmp_path: Path) -> None:
    publish(tmp_path, "onnx")
    assert publish(tmp_path, "dlr", "--replace") == [4, 6, 3]
