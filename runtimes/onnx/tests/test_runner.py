"""The ONNX runner on real graphs in the real engine, and its one-line messages."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, TensorSpec, make_runner
from runtimes.onnx.refusals import one_line
from runtimes.onnx.tests import graphs

onnxruntime: Any = pytest.importorskip("onnxruntime")

IMAGE = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6)
VERSION = f"onnxruntime {onnxruntime.__version__}"


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Return a function that loads a graph's bytes."""

    def load_graph(content: bytes, **options: Any) -> Any:
        return make_runner("onnx", RunnerOptions(graphs.save(tmp_path / "model.onnx", content), **options))

    return load_graph


def available_cpus() -> int | None:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count()


def message(load: Any, content: bytes, **options: Any) -> str:
    with pytest.raises(RunnerError) as caught:
        load(content, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "name", "fed", "back"),
    [
        pytest.param(graphs.FLOAT, "float32", IMAGE + 0.5, np.float32, id="float32"),
        pytest.param(graphs.FLOAT16, "float16", IMAGE + 0.5, np.float32, id="B71-half-in-float-out"),
        pytest.param(graphs.UINT8, "uint8", IMAGE, np.uint8, id="B71-uint8"),
        pytest.param(graphs.INT64, "int64", IMAGE, np.int64, id="int64"),
    ],
)
def test_dtype_of_the_graph(load: Any, dtype: int, name: str, fed: np.ndarray, back: type) -> None:
    runner = load(graphs.echo(dtype))
    (output,) = runner(fed)
    assert runner.inputs == [TensorSpec("x", name, (1, 3, 4, 6))]
    assert output.dtype == back
    np.testing.assert_array_equal(output, fed.astype(name))


def test_half_precision_comes_back_as_float32_before_decoding(load: Any) -> None:
    # 1279.3 is 1279 in half precision; sums of it must not be rounded again.
    (output,) = load(graphs.echo(graphs.FLOAT16, (1,)))(np.array([1279.3], np.float32))
    assert output.dtype == np.float32
    assert output[0] == 1279.0


def test_open_axes_and_output_order(load: Any) -> None:
    nodes = [graphs.node("Identity", ["x"], ["second"]), graphs.node("Shape", ["x"], ["first"])]
    shape = ("batch", 3, "height", "width")
    outputs = [graphs.tensor("first", graphs.INT64, (4,)), graphs.tensor("second", graphs.FLOAT, shape)]
    runner = load(graphs.graph(nodes, [graphs.tensor("x", graphs.FLOAT, shape)], outputs))
    assert runner.inputs[0].shape == (None, 3, None, None)
    assert [spec.name for spec in runner.outputs] == ["first", "second"]
    first, second = runner(np.concatenate([IMAGE, IMAGE]))
    assert first.tolist() == [2, 3, 4, 6]
    assert second.shape == (2, 3, 4, 6)


def test_a_batch_in_any_memory_order(load: Any) -> None:
    turned = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(load(graphs.echo())(turned)[0], IMAGE)


def test_calls_from_several_threads(load: Any) -> None:
    runner = load(graphs.echo())
    wrong: list[int] = []

    def call(value: int) -> None:
        for _ in range(50):
            if not (runner(np.full_like(IMAGE, value))[0] == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=call, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_auto_takes_the_cpu_and_says_so(load: Any) -> None:
    details = load(graphs.echo()).details
    assert details["engine"] == VERSION
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        assert (details["device"], details["providers"]) == ("cpu", "CPUExecutionProvider")


@pytest.mark.parametrize(("asked", "given"), [(0, None), (1, 1), (3, 3)])
def test_b93_threads_are_set_not_guessed(
    load: Any, monkeypatch: pytest.MonkeyPatch, asked: int, given: int | None
) -> None:
    seen: list[int] = []
    real = onnxruntime.InferenceSession

    def watched(path: str, settings: Any, providers: Any) -> Any:
        seen.append(settings.intra_op_num_threads)
        return real(path, settings, providers=providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    details = load(graphs.echo(), threads=asked, device="cpu").details
    assert seen == [int(details["threads"])]
    assert seen[0] == (given or available_cpus())


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="this onnxruntime knows CUDA"
)
@pytest.mark.parametrize("device", ["gpu", "tensorrt"])
def test_b90_a_gpu_that_is_not_there(load: Any, device: str) -> None:
    assert message(load, graphs.echo(), device=device) == (
        f"device {device}: no usable GPU, onnxruntime runs on CPUExecutionProvider; "
        "install onnxruntime-gpu and its CUDA libraries, or set device to auto"
    )


X, Y = graphs.tensor("x", graphs.FLOAT, (1, 3, 4, 6)), graphs.tensor("y", graphs.FLOAT, (1, 3, 4, 6))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            graphs.echo(ir=99),
            rf"model.onnx: model IR 99, {VERSION} reads at most IR \d+; export again with an older IR or update "
            "onnxruntime",
            id="B84-newer-ir",
        ),
        pytest.param(
            graphs.echo(opset=99),
            rf"model.onnx: opset 99, {VERSION} reads at most opset \d+; export again with an older opset or update "
            "onnxruntime",
            id="B85-newer-opset",
        ),
        pytest.param(
            graphs.graph([graphs.node("EfficientNMS_TRT", ["x"], ["y"], "TRT")], [X], [Y]),
            rf"model.onnx: {VERSION} has no operator TRT:EfficientNMS_TRT; export again without it",
            id="B89-tensorrt-plugin",
        ),
        pytest.param(
            graphs.graph([graphs.node("Mine", ["x"], ["y"])], [X], [Y]),
            rf"model.onnx: {VERSION} has no operator Mine; export again without it",
            id="B89-unknown-operator",
        ),
        pytest.param(
            graphs.graph([graphs.node("Mine", ["x"], ["y"], "elsewhere")], [X], [Y]),
            rf"model.onnx: {VERSION} has no operators of the domain elsewhere; export again without them",
            id="B89-unknown-domain",
        ),
        pytest.param(
            graphs.graph([graphs.node("Add", ["x", "z"], ["y"])], [X, graphs.tensor("z", graphs.FLOAT, (1,))], [Y]),
            r"model.onnx: expected one input \(the image\), got 2: x, z; export the model with the image as its only "
            "input",
            id="B87-two-inputs",
        ),
        pytest.param(
            graphs.echo(graphs.STRING),
            r"tensor x: type tensor\(string\) is not one that can be served",
            id="text-tensor",
        ),
        pytest.param(
            graphs.with_weight("model.onnx_data"),
            rf"model.onnx: {VERSION} refuses it: .*model.onnx_data.*",
            id="B86-side-file-missing",
        ),
        pytest.param(b"no graph", rf"model.onnx: {VERSION} refuses it: Protobuf parsing failed.", id="not-onnx"),
        pytest.param(
            b"",
            rf"model.onnx: {VERSION} refuses it: (No graph was found|ModelProto does not have a graph).*",
            id="empty",
        ),
    ],
)
def test_graphs_that_cannot_be_loaded(load: Any, content: bytes, expected: str) -> None:
    assert re.fullmatch(expected, message(load, content))


def test_a_side_file_is_found_from_any_working_directory(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.onnx_data").write_bytes(np.float32(2).tobytes())
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(load(graphs.with_weight("model.onnx_data"))(IMAGE)[0], IMAGE + 2)


def test_a_batch_that_the_graph_refuses_is_one_line(load: Any) -> None:
    runner = load(graphs.echo())
    with pytest.raises(RunnerError, match=r"model\.onnx: onnxruntime failed on a batch \[2, 3, 4, 6\]: .*") as caught:
        runner(np.concatenate([IMAGE, IMAGE]))
    assert "\n" not in str(caught.value)
    assert len(runner(IMAGE)) == 1


def test_a_long_reason_is_cut() -> None:
    line = one_line("[ONNXRuntimeError] : 1 : FAIL : a\n b " + "x" * 1000)
    assert line.startswith("a b xx")
    assert len(line) == 300


def test_a_closed_runner(load: Any) -> None:
    runner = load(graphs.echo())
    runner.close()
    runner.close()
    with pytest.raises(RunnerError, match=r"model\.onnx: the runner is closed"):
        runner(IMAGE)


def test_an_engine_that_is_not_installed(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert message(load, graphs.echo()).startswith("runtime onnx: onnxruntime is not usable in the server's python (")


@pytest.mark.parametrize("runtime", ["nope", "", "preprocessors", "onnx.runner"])
def test_an_unknown_runtime(runtime: str, tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match=f"runtime {runtime}: not part of this model; convert the package again"):
        make_runner(runtime, RunnerOptions(tmp_path / "model.x"))


def test_a_runner_whose_own_import_fails_is_not_called_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import runtimes

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/runner.py").write_text("import a_module_that_is_not_here\n")
    monkeypatch.setattr(runtimes, "__path__", [*runtimes.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_here"):
        make_runner("broken", RunnerOptions(tmp_path / "model.x"))


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("0", "0")], ids=["not set", "the operator's own word"])
def test_the_engine_reports_to_nobody_unless_the_operator_says_so(
    load: Any, monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    if before is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    else:
        monkeypatch.setenv("ORT_DISABLE_TELEMETRY", before)
    load(graphs.echo())
    assert os.environ["ORT_DISABLE_TELEMETRY"] == after
