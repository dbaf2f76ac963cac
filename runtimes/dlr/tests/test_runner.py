"""The DLR runner on genuine models in the real library: every trap of it that was measured."""

from __future__ import annotations

import logging
import os
import re
import threading
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, TensorSpec
from runtimes.dlr.tests import neo
from runtimes.dlr.tests.neo import Model, Node, copier

IMAGE = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
SMALL = copier((1, 3, 2, 4))


def test_a_compiled_model(load: Any, kernels: bytes) -> None:
    runner = load(neo.distance(6, 5), kernels)
    assert runner.inputs == [TensorSpec("input", "float32", (1, 3, 6, 5))]
    assert runner.outputs == [
        TensorSpec("anomaly_map", "float32", (1, 1, 6, 5)),
        TensorSpec("pred_score", "float32", (1, 1)),
    ]
    image = np.random.default_rng(0).random((1, 3, 6, 5), np.float32)
    for got, wanted in zip(runner(image), neo.distance_reference(image)):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_details_say_what_runs(load: Any) -> None:
    assert load(SMALL, threads=3).details == {
        "engine": "dlr 1.10.0",
        "library": "libdlr 1.6.0 of the package",
        "device": "cpu",
        "threads": "3",
        "fallback": "compiled.so was compiled for the CPU",
    }


@pytest.mark.parametrize(
    ("dtype", "back"),
    [
        pytest.param("float32", "float32", id="float32"),
        pytest.param("uint8", "uint8", id="uint8"),
        pytest.param("float16", "float32", id="half in, float out"),
        pytest.param("int64", "int64", id="int64"),
    ],
)
@pytest.mark.parametrize("fed", ["float32", "uint8"])
def test_b77_input_is_cast_to_the_graphs_dtype(load: Any, dtype: str, back: str, fed: str) -> None:
    runner = load(copier((1, 3, 2, 4), dtype))
    (output,) = runner(IMAGE.astype(fed))
    assert runner.inputs[0].dtype == dtype
    assert output.dtype == back
    np.testing.assert_array_equal(output, IMAGE.astype(back))


def test_input_dtype_is_not_that_of_a_weight_listed_before_it(load: Any) -> None:
    """The library takes the type of input 0 from argument 0, here a float32 weight: bytes would be read as floats."""
    nodes = [Node("same", (1, 3, 2, 4), ["image"], dtype="uint8"), Node("weight", (2,), ["w"])]
    weights = {"w": np.array([5, 7], np.float32)}
    model = Model({"image": ((1, 3, 2, 4), "uint8")}, nodes, ["same", "weight"], weights, order=["w", "image"])
    image, weight = load(model)(IMAGE)
    np.testing.assert_array_equal(image, IMAGE.astype(np.uint8))
    assert weight.tolist() == [5, 7]


@pytest.mark.parametrize(
    "shape", [(1, 2, 4, 3), (3, 2, 4), (24,), (1, 3, 4, 2), (1, 3, 2, 5)], ids=lambda shape: "x".join(map(str, shape))
)
def test_a_batch_of_another_shape_is_refused_although_dlr_takes_it(load: Any, shape: tuple[int, ...]) -> None:
    runner = load(SMALL)
    with pytest.raises(RunnerError, match=re.escape(f"expected a batch [1, 3, 2, 4], got {list(shape)}")):
        runner(np.zeros(shape, np.float32))
    np.testing.assert_array_equal(runner(IMAGE)[0], IMAGE)


@pytest.mark.parametrize("graph", [1, 4])
@pytest.mark.parametrize("images", [1, 3, 4, 5, 9])
def test_b78_any_number_of_images_each_with_its_own_result(load: Any, graph: int, images: int) -> None:
    """DLR takes exactly the graph's number of elements."""
    batch = np.concatenate([IMAGE * (number + 1) for number in range(images)])
    runner = load(copier((graph, 3, 2, 4), out=(graph, 24)))
    np.testing.assert_array_equal(runner(batch)[0], batch.reshape(images, 24))


def test_b78_an_output_without_a_batch_axis_is_named(load: Any) -> None:
    runner = load(copier((1, 3, 2, 4), out=(24,)))
    assert runner(IMAGE)[0].shape == (24,)
    with pytest.raises(RunnerError, match=re.escape("output same: expected the graph's batch of 1 as its first axis")):
        runner(np.concatenate([IMAGE, IMAGE]))


@pytest.mark.parametrize(
    ("weight", "back"),
    [
        pytest.param(np.array(7, np.float32), "float32", id="rank 0"),
        pytest.param(np.array([7, 8], np.float64), "float32", id="float64"),
        pytest.param(np.array([7, -8], np.int8), "int8", id="int8"),
        pytest.param(np.array([7, -8], np.int32), "int32", id="int32"),
        pytest.param(np.array([7, 8], np.float16), "float32", id="float16"),
    ],
)
def test_outputs_keep_their_order_shape_and_type(load: Any, weight: np.ndarray[Any, Any], back: str) -> None:
    nodes = [*SMALL.nodes, Node("constant", weight.shape, ["w"], dtype=weight.dtype.name)]
    first, second = load(Model(SMALL.inputs, nodes, ["constant", "same"], {"w": weight}))(IMAGE)
    assert (first.shape, first.dtype.name) == (weight.shape, back)
    np.testing.assert_array_equal(first, weight)
    np.testing.assert_array_equal(second, IMAGE)


def test_results_are_the_callers_own(load: Any) -> None:
    runner = load(SMALL)
    (first,) = runner(IMAGE)
    runner(IMAGE + 1)
    np.testing.assert_array_equal(first, IMAGE)


def test_results_are_right_from_several_threads(load: Any) -> None:
    """Without a lock around the whole run some answers are another thread's, with no error."""
    shape = (1, 3, 64, 64)
    runner = load(copier(shape))
    wrong: list[int] = []

    def client(number: int) -> None:
        image = np.full(shape, number, np.float32)
        wrong.extend(number for _ in range(100) if not (runner(image)[0] == number).all())

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_each_version_in_its_own_folder_keeps_its_code_and_weights(load: Any, library: bytes) -> None:
    def constant(value: float) -> Model:
        nodes = [Node("same", (1, 3, 2, 4), ["input"]), Node("w_out", (1,), ["w"])]
        return Model({"input": ((1, 3, 2, 4), "float32")}, nodes, ["w_out"], {"w": np.array([value], np.float32)})

    old, new = load(constant(1), folder="1"), load(constant(2), folder="2")
    assert [old(IMAGE)[0].tolist(), new(IMAGE)[0].tolist()] == [[1], [2]]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["scores"], "scores", id="metadata"),
        pytest.param([], "same", id="metadata without names: the graph's"),
        pytest.param(["a", "b"], "same", id="metadata of another model"),
    ],
)
def test_output_names(load: Any, names: list[str], expected: str) -> None:
    (output,) = load(Model(SMALL.inputs, SMALL.nodes, SMALL.outputs, names=names)).outputs
    assert output == TensorSpec(expected, "float32", (1, 3, 2, 4))


def test_metadata_that_names_fewer_outputs_than_there_are(load: Any) -> None:
    nodes = [*SMALL.nodes, Node("again", (1, 24), ["same"])]
    outputs = load(Model(SMALL.inputs, nodes, ["same", "again"], names=["scores"])).outputs
    assert [spec.name for spec in outputs] == ["same", "again"]


@pytest.mark.parametrize("content", [None, b"", b"{"], ids=["none", "empty", "junk"])
def test_a_model_without_usable_metadata_is_served(load: Any, content: bytes | None) -> None:
    runner = load(SMALL, files={"compiled.meta": content})
    assert [spec.name for spec in runner.outputs] == ["same"]


def test_b103_other_files_beside_the_model_do_not_matter(load: Any) -> None:
    extra = {"dlr.h": b"#", "manifest": b"{}", "model-shapes.json": b"{}", "hyperparams.json": b"{}", "notes.txt": b""}
    np.testing.assert_array_equal(load(SMALL, files=extra)(IMAGE)[0], IMAGE)


@pytest.mark.parametrize("folder", ["with space", "größe", "a/b"])
def test_other_paths(load: Any, folder: str) -> None:
    np.testing.assert_array_equal(load(SMALL, folder=folder)(IMAGE)[0], IMAGE)


def test_nothing_is_printed(load: Any, refused: Any, capfd: pytest.CaptureFixture[str]) -> None:
    load(SMALL)(IMAGE)
    refused(SMALL, folder="bad", files={"compiled.so": b"junk"})
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger().handlers == [h for h in logging.getLogger().handlers if "dlr" not in str(h)]


def test_stderr_is_its_own_again(load: Any, capfd: pytest.CaptureFixture[str]) -> None:
    load(SMALL)
    os.write(2, b"afterwards")
    assert capfd.readouterr().err == "afterwards"


def test_a_closed_runner(load: Any) -> None:
    runner = load(SMALL)
    runner.close()
    with pytest.raises(RunnerError, match="closed"):
        runner(IMAGE)
