"""The ONNX runner on real graphs in the real engine."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, TensorSpec, make_runner
from runtimes.onnx.tests import graphs

pytest.importorskip("onnxruntime")

Load = Callable[..., Any]
IMAGE = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6)
EIGHT = np.concatenate([IMAGE + number for number in range(8)])
PIXELS = np.arange(256, dtype=np.float32).reshape(1, 4, 8, 8)


@pytest.mark.parametrize(
    ("dtype", "name", "back"),
    [
        pytest.param(graphs.FLOAT, "float32", np.float32, id="float32"),
        pytest.param(graphs.FLOAT16, "float16", np.float32, id="half in, float out"),
        pytest.param(graphs.UINT8, "uint8", np.uint8, id="uint8"),
        pytest.param(graphs.INT16, "int16", np.int16, id="int16"),
        pytest.param(graphs.UINT16, "uint16", np.uint16, id="uint16"),
        pytest.param(graphs.INT32, "int32", np.int32, id="int32"),
        pytest.param(graphs.INT64, "int64", np.int64, id="int64"),
    ],
)
@pytest.mark.parametrize("fed", ["float32", "uint8"])
def test_b71_every_pixel_value_in_the_graphs_own_type(load: Load, dtype: int, name: str, back: type, fed: str) -> None:
    runner = load(graphs.echo(dtype, PIXELS.shape))
    (output,) = runner(PIXELS.astype(fed))
    assert runner.inputs == [TensorSpec("x", name, PIXELS.shape)]
    assert output.dtype == back
    np.testing.assert_array_equal(output, PIXELS)


def test_b71_half_precision_comes_back_as_float32_before_decoding(load: Load) -> None:
    # 1279.3 is 1279 in half precision; sums of it must not be rounded again.
    (output,) = load(graphs.echo(graphs.FLOAT16, (1,)))(np.array([1279.3], np.float32))
    assert output.dtype == np.float32
    assert output[0] == 1279.0


def test_open_axes_and_output_order(load: Load) -> None:
    nodes = [graphs.node("Identity", ["x"], ["second"]), graphs.node("Shape", ["x"], ["first"])]
    shape = ("batch", 3, "height", "width")
    outputs = [graphs.tensor("first", graphs.INT64, (4,)), graphs.tensor("second", graphs.FLOAT, shape)]
    runner = load(graphs.graph(nodes, [graphs.tensor("x", graphs.FLOAT, shape)], outputs))
    assert runner.inputs[0].shape == (None, 3, None, None)
    assert [spec.name for spec in runner.outputs] == ["first", "second"]
    first, second = runner(np.concatenate([IMAGE, IMAGE]))
    assert first.tolist() == [2, 3, 4, 6]
    assert second.shape == (2, 3, 4, 6)


def test_a_batch_in_any_memory_order(load: Load) -> None:
    turned = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(load(graphs.echo())(turned)[0], IMAGE)


@pytest.mark.parametrize("graph", [1, 4, "batch"])
@pytest.mark.parametrize("images", [1, 3, 4, 5, 8])
def test_b78_any_number_of_images_each_with_its_own_result(load: Load, graph: int | str, images: int) -> None:
    shape = (graph, 3, 4, 6)
    nodes = [graphs.node("Identity", ["x"], ["same"]), graphs.node("Flatten", ["x"], ["flat"], axis=1)]
    outputs = [graphs.tensor("same", graphs.FLOAT, shape), graphs.tensor("flat", graphs.FLOAT, (graph, 72))]
    runner = load(graphs.graph(nodes, [graphs.tensor("x", graphs.FLOAT, shape)], outputs))
    same, flat = runner(EIGHT[:images])
    np.testing.assert_array_equal(same, EIGHT[:images])
    np.testing.assert_array_equal(flat, EIGHT[:images].reshape(images, 72))


def test_b78_several_images_at_once_from_several_threads(load: Load) -> None:
    runner = load(graphs.echo())
    wrong: list[int] = []

    def call(value: int) -> None:
        batch = EIGHT[:3] * value
        wrong.extend(value for _ in range(50) if not (runner(batch)[0] == batch).all())

    threads = [threading.Thread(target=call, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_b78_an_output_without_a_batch_axis_is_named(load: Load) -> None:
    runner = load(graphs.reshape((1, 3, 4, 6), (18, 4)))
    assert runner(IMAGE)[0].shape == (18, 4)
    with pytest.raises(RunnerError, match=re.escape("output y: expected the graph's batch of 1 as its first axis")):
        runner(EIGHT)


def test_b81_a_graph_traced_at_one_image_fails_with_the_engines_own_words(load: Load) -> None:
    """Its batch is said to be free: not every number of images that it takes is one that it can answer."""
    runner = load(graphs.reshape(("batch", 3, 4, 6), (1, 3, 4, 6)))
    expected = r"model\.onnx: onnxruntime failed on a batch \[2, 3, 4, 6\]: Non-zero status code .* Reshape node\. .*"
    with pytest.raises(RunnerError, match=expected) as caught:
        runner(EIGHT[:2])
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(runner(IMAGE)[0], IMAGE)


def test_an_image_of_another_size_is_one_line(load: Load) -> None:
    runner = load(graphs.echo())
    with pytest.raises(RunnerError, match=r"model\.onnx: onnxruntime failed on a batch \[1, 3, 5, 6\]: .*") as caught:
        runner(np.zeros((1, 3, 5, 6), np.float32))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "locations",
    [
        pytest.param(["model.onnx_data"], id="beside it"),
        pytest.param(["weights/w.bin"], id="in a sub-folder"),
        pytest.param(["a b/größe 1.bin", "./w.bin", "deep/er/w.bin"], id="several"),
        pytest.param(["w.bin", "v.bin", "w.bin"], id="a file twice"),
    ],
)
def test_b86_external_data_is_found_from_any_working_directory(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locations: list[str]
) -> None:
    for number, location in enumerate(locations):
        file = tmp_path / location
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as stream:
            stream.write(np.float32(10**number).tobytes())
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(
        load(graphs.with_weights(*locations))(IMAGE)[0], IMAGE + sum(10**number for number in range(len(locations)))
    )


def test_a_closed_runner(load: Load) -> None:
    runner = load(graphs.echo())
    runner.close()
    runner.close()
    with pytest.raises(RunnerError, match=r"model\.onnx: the runner is closed"):
        runner(IMAGE)


def test_an_engine_that_is_not_installed(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert refused(graphs.echo()).startswith("runtime onnx: onnxruntime is not usable in the server's python (")


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
