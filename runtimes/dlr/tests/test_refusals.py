"""Models and devices that DLR, or the runner, refuses: one line each, with the real library."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.dlr.tests import neo
from runtimes.dlr.tests.neo import Model, Node, copier

Refused = Callable[..., str]
SMALL = copier((1, 3, 2, 4))
GPU = Model(SMALL.inputs, SMALL.nodes, SMALL.outputs, target="gpu")
ANY = Model(SMALL.inputs, SMALL.nodes, SMALL.outputs, target=None)


@pytest.mark.parametrize(
    ("model", "device", "line"),
    [
        pytest.param(ANY, "gpu", "device gpu: this libdlr.so cannot load the model for gpu: ", id="a CPU library"),
        pytest.param(GPU, "auto", "device auto: this libdlr.so cannot load the model for gpu: ", id="a GPU model"),
        pytest.param(SMALL, "gpu", "device gpu: compiled.so was compiled for cpu; ", id="a CPU model"),
        pytest.param(
            SMALL, "tensorrt", "device tensorrt: compiled.so was compiled for cpu; ", id="a CPU model, TensorRT"
        ),
        pytest.param(GPU, "cpu", "device cpu: compiled.so was compiled for gpu; ", id="a GPU model on the CPU"),
    ],
)
def test_a_device_that_is_not_there_is_a_load_error(refused: Refused, model: Model, device: str, line: str) -> None:
    told = refused(model, device=device)
    assert told.startswith(line)
    assert ("Device API gpu is not enabled" in told) == ("cannot load" in line)


@pytest.mark.parametrize(
    ("model", "device", "fallback"),
    [
        pytest.param(ANY, "auto", "compiled.so names no device, which to DLR is the CPU", id="any, auto"),
        pytest.param(SMALL, "auto", "compiled.so was compiled for the CPU", id="cpu, auto"),
        pytest.param(ANY, "cpu", None, id="any, cpu"),
        pytest.param(SMALL, "cpu", None, id="cpu, cpu"),
    ],
)
def test_the_cpu(load: Any, model: Model, device: str, fallback: str | None) -> None:
    details = load(model, device=device).details
    assert (details["device"], details.get("fallback")) == ("cpu", fallback)


NO_TARGET = b'{"Requirements": {"TargetDeviceType": null}}'
DEEP = b'{"Model": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BROKEN_META = json.dumps({"Model": {"Outputs": 3}}).encode()
TWO = Model({"a": ((1, 3, 1, 1), "float32"), "b": ((1,), "float32")}, [Node("same", (1, 3, 1, 1), ["a"])], ["same"], {})
NO_FUNCTION = Model(SMALL.inputs, [Node("same", (1, 3, 2, 4), ["input"], "fused_conv")], ["same"])


@pytest.mark.parametrize(
    ("model", "files", "line"),
    [
        pytest.param(SMALL, {"compiled.so": b"junk"}, "file too short", id="junk kernels"),
        pytest.param(SMALL, {"compiled.so": b""}, "file too short", id="empty kernels"),
        pytest.param(SMALL, {"compiled.params": b"x" * 99}, "Invalid parameters file format", id="junk weights"),
        pytest.param(SMALL, {"compiled.params": None}, "get_num_output_group", id="no weights"),
        pytest.param(SMALL, {"compiled_model.json": None}, "Must have .so, .json, and .params files", id="no graph"),
        pytest.param(SMALL, {"compiled_model.json": b"{"}, "compiled_model.json: is not the graph", id="junk graph"),
        pytest.param(SMALL, {"compiled_model.json": b""}, "compiled_model.json: is not the graph", id="empty graph"),
        pytest.param(SMALL, {"a.json": b"{}"}, "expected one *.json, got a.json, compiled_model.json", id="two graphs"),
        pytest.param(SMALL, {"a.so": b"x"}, "Found multiple model lib files", id="two kernels"),
        pytest.param(SMALL, {"a.tensorrt": b""}, "requires DLR release-1.1.0", id="a tensorrt file"),
        pytest.param(
            SMALL, {"compiled.meta": BROKEN_META}, "compiled.meta: Outputs is not what Neo", id="odd metadata"
        ),
        pytest.param(SMALL, {"compiled.meta": b"[]"}, "compiled.meta: Model is not what Neo", id="a list as metadata"),
        pytest.param(
            SMALL, {"compiled.meta": NO_TARGET}, "compiled.meta: TargetDeviceType is not what", id="no target"
        ),
        pytest.param(SMALL, {"compiled.meta": DEEP}, "compiled.meta: is nested too deep", id="metadata without end"),
        pytest.param(NO_FUNCTION, {}, "no such function in module: fused_conv", id="a kernel missing"),
        pytest.param(TWO, {}, "compiled.so: expected one input (the image), got 2: a, b; ", id="two inputs"),
    ],
)
def test_what_is_refused_says_why(refused: Refused, model: Model, files: dict[str, bytes | None], line: str) -> None:
    """DLR itself raises most of these without a text; the reason is on the process's stderr only."""
    assert line in refused(model, files=files)


def test_truncated_weights(refused: Refused) -> None:
    model = Model(SMALL.inputs, [Node("o", (2,), ["w"])], ["o"], {"w": np.ones(2, np.float32)})
    told = refused(model, files={"compiled.params": neo.params(model.weights)[:-4]})
    assert "compiled.so: dlr refuses the model: " in told
    assert "compiled.params (" in told


def test_a_colon_in_the_path(refused: Refused) -> None:
    assert "DLR takes a ':' in a path for a separator" in refused(SMALL, folder="line:4")


def test_b102_a_bundled_library_that_does_not_load(refused: Refused) -> None:
    told = refused(SMALL, bundled=b"junk")
    assert re.fullmatch(r"libdlr\.so could not be loaded: \S+libdlr\.so: file too short; take it out of .*", told)


def test_b102_no_library_anywhere(refused: Refused) -> None:
    assert refused(SMALL, bundled=None).startswith("no libdlr.so in the package, and none in the server's python")


@pytest.mark.parametrize(
    ("name", "next_step"),
    [
        pytest.param("libdlr.so", "take it out to use the server's own", id="the runtime library"),
        pytest.param("compiled.so", "compile it for this one", id="the kernels"),
    ],
)
def test_a_library_for_another_cpu_is_not_called_missing(
    refused: Refused, library: bytes, name: str, next_step: str
) -> None:
    foreign = library[:18] + (183).to_bytes(2, "little") + library[20:]
    told = refused(SMALL, files={name: foreign}, bundled=foreign if name == "libdlr.so" else library)
    assert told == f"{name}: built for 64-bit ARM, the server runs on x86-64; {next_step}"


def test_b102_a_bundled_library_that_needs_another_one(refused: Refused, library: bytes, tmp_path: Path) -> None:
    """The one that Neo puts beside a model for a GPU needs the TensorRT of the device it was compiled for."""
    del library
    if neo.compiler() is None:
        pytest.skip("no C compiler here")
    line = "libdlr.so could not be loaded: libnvinfer.so.6: cannot open shared object file: No such file or directory; "
    needy = neo.needing(tmp_path, "libnvinfer.so.6")
    assert refused(SMALL, bundled=needy).startswith(line + "take it out of the package")


def test_a_folder_that_is_not_there(wrapper: None, tmp_path: Path) -> None:
    del wrapper
    with pytest.raises(RunnerError, match=r"^compiled\.so: dlr refuses the model: model_path \S+ doesn't exist; "):
        make_runner("dlr", RunnerOptions(tmp_path / "nowhere" / "compiled.so"))


@pytest.mark.parametrize("dtype", ["int8", "bool"])
def test_an_input_that_cannot_hold_a_pixel(refused: Refused, dtype: str) -> None:
    assert refused(copier((1, 3, 2, 4), dtype)) == (
        f"compiled.so: input input: expected floating point or pixels from 0 to 255, got {dtype}; "
        "compile the model with a float32 input"
    )
