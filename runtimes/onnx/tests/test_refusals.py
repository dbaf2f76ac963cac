"""Graphs that ONNX Runtime, or the runner, refuses: one line each, from the real engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.onnx.refusals import one_line
from runtimes.onnx.tests import graphs

onnxruntime: Any = pytest.importorskip("onnxruntime")

Refused = Callable[..., str]
VERSION = f"onnxruntime {onnxruntime.__version__}"
X, Y = graphs.tensor("x", graphs.FLOAT, (1, 3, 4, 6)), graphs.tensor("y", graphs.FLOAT, (1, 3, 4, 6))


def test_b84_a_newer_ir_is_refused_with_both_numbers(refused: Refused) -> None:
    expected = rf"model.onnx: model IR 99, {VERSION} reads at most IR (\d+); export again with an older IR or update "
    found = re.fullmatch(f"{expected}onnxruntime", refused(graphs.echo(ir=99)))
    assert found is not None
    assert 8 <= int(found[1]) < 99


def test_b85_a_newer_opset_is_refused_with_both_numbers(refused: Refused) -> None:
    expected = (
        rf"model.onnx: opset 99, {VERSION} reads at most opset (\d+); export again with an older opset or update "
    )
    found = re.fullmatch(f"{expected}onnxruntime", refused(graphs.echo(opset=99)))
    assert found is not None
    assert 17 <= int(found[1]) < 99


@pytest.mark.parametrize(
    ("inputs", "got"),
    [
        pytest.param(["x", "orig_target_sizes"], "2: x, orig_target_sizes", id="two"),
        pytest.param(["im_shape", "x", "scale_factor"], "3: im_shape, x, scale_factor", id="three"),
    ],
)
def test_b87_more_inputs_than_the_image_are_named(refused: Refused, inputs: list[str], got: str) -> None:
    graph = graphs.graph(
        [graphs.node("Sum", inputs, ["y"])], [graphs.tensor(name, graphs.FLOAT, (1, 3, 4, 6)) for name in inputs], [Y]
    )
    assert refused(graph) == (
        f"model.onnx: expected one input (the image), got {got}; export the model with the image as its only input"
    )


@pytest.mark.parametrize(
    ("node", "rest"),
    [
        pytest.param(
            graphs.node("EfficientNMS_TRT", ["x"], ["y"], "TRT"),
            "no operator TRT:EfficientNMS_TRT; export again without it",
            id="a plugin of TensorRT",
        ),
        pytest.param(
            graphs.node("Mine", ["x"], ["y"]), "no operator Mine; export again without it", id="an unknown operator"
        ),
        pytest.param(
            graphs.node("Mine", ["x"], ["y"], "elsewhere"),
            "no operators of the domain elsewhere; export again without them",
            id="an unknown domain",
        ),
    ],
)
def test_b89_an_operator_that_the_engine_lacks_is_named(refused: Refused, node: bytes, rest: str) -> None:
    assert refused(graphs.graph([node], [X], [Y])) == f"model.onnx: {VERSION} has {rest}"


def test_b86_a_missing_file_of_external_data_is_named(refused: Refused) -> None:
    line = refused(graphs.with_weights("weights/w.bin"))
    advice = "its weights are in weights/w.bin, which is not there; pack the file beside it and convert again"
    # Older releases pass on the file system's own words.
    assert line == f"model.onnx: {advice}" or re.fullmatch(
        rf"model.onnx: {VERSION} refuses it: .*weights/w\.bin.*", line
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            graphs.echo(graphs.STRING), r"tensor x: type tensor\(string\) is not one that can be served", id="text"
        ),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            r"model.onnx: expected the file itself, got a Git LFS pointer; run `git lfs pull`",
            id="a Git LFS pointer",
        ),
        pytest.param(b"no graph", rf"model.onnx: {VERSION} refuses it: Protobuf parsing failed.", id="not-onnx"),
        pytest.param(
            b"",
            rf"model.onnx: {VERSION} refuses it: (No graph was found|ModelProto does not have a graph).*",
            id="empty",
        ),
    ],
)
def test_other_files(refused: Refused, content: bytes, expected: str) -> None:
    assert re.fullmatch(expected, refused(content))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match=r"^model\.onnx: onnxruntime .* refuses it: .*doesn't exist"):
        make_runner("onnx", RunnerOptions(tmp_path / "model.onnx"))


@pytest.mark.parametrize(
    ("dtype", "name"), [pytest.param(graphs.INT8, "int8", id="int8"), pytest.param(graphs.BOOL, "bool", id="bool")]
)
def test_an_input_that_cannot_hold_a_pixel(refused: Refused, dtype: int, name: str) -> None:
    assert refused(graphs.echo(dtype)) == (
        f"model.onnx: input x: expected floating point or pixels from 0 to 255, got {name}; "
        "export it with a float32 input"
    )


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param("[ONNXRuntimeError] : 1 : FAIL : a\n b " + "x" * 1000, "a b " + "x" * 296, id="long"),
        pytest.param(
            "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:154 std::conditional_t<THRW, void, S> "
            "onnxruntime::CudaCall(ERRTYPE, const char*) [with ERRTYPE = cudaError; bool THRW = true] "
            "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:146 std::conditional_t<THRW, void, S> "
            "onnxruntime::CudaCall(ERRTYPE, const char*) [with ERRTYPE = cudaError; bool THRW = true] CUDA failure "
            "100: no CUDA-capable device is detected ; GPU=-1 ; hostname=here ; file=/a/b.cc ; line=355 ; expr=f(); \n",
            "CUDA failure 100: no CUDA-capable device is detected",
            id="CUDA's",
        ),
        pytest.param(
            "/onnxruntime_src/onnxruntime/core/providers/cuda/info.cc:63 static onnxruntime::Info "
            "onnxruntime::Info::From(const onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL : "
            'options.h:187 Parse Failed to parse provider option "device_id": CUDA failure 100: none',
            'options.h:187 Parse Failed to parse provider option "device_id": CUDA failure 100: none',
            id="options'",
        ),
    ],
)
def test_the_engines_messages_without_where_they_come_from(message: str, line: str) -> None:
    assert one_line(message) == line
