"""The DLR runner on genuine models in the real library: every trap of it that was measured."""

from __future__ import annotations

import json
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


def message(load: Any, model: Model = SMALL, **options: Any) -> str:
    with pytest.raises(RunnerError) as caught:
        load(model, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    }


@pytest.mark.parametrize(
    ("dtype", "back"),
    [
        pytest.param("float32", "float32", id="B77-float32"),
        pytest.param("uint8", "uint8", id="B77-uint8"),
        pytest.param("float16", "float32", id="half in, float out"),
        pytest.param("int64", "int64", id="int64"),
    ],
)
@pytest.mark.parametrize("fed", ["float32", "uint8"])
def test_input_is_cast_to_the_graphs_dtype(load: Any, dtype: str, back: str, fed: str) -> None:
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


def test_more_images_than_the_graph_takes_run_one_by_one(load: Any) -> None:
    batch = np.concatenate([IMAGE, IMAGE + 1, IMAGE * 2])
    np.testing.assert_array_equal(load(SMALL)(batch)[0], batch)


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


@pytest.mark.parametrize("content", [None, b"", b"{"], ids=["none", "empty", "junk"])
def test_a_model_without_usable_metadata_is_served(load: Any, content: bytes | None) -> None:
    runner = load(SMALL, files={"compiled.meta": content})
    assert [spec.name for spec in runner.outputs] == ["same"]


def test_other_files_beside_the_model_do_not_matter(load: Any) -> None:
    """B103."""
    extra = {"dlr.h": b"#", "manifest": b"{}", "model-shapes.json": b"{}", "hyperparams.json": b"{}", "notes.txt": b""}
    np.testing.assert_array_equal(load(SMALL, files=extra)(IMAGE)[0], IMAGE)


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
def test_a_device_that_is_not_there_is_a_load_error(load: Any, model: Model, device: str, line: str) -> None:
    told = message(load, model, device=device)
    assert told.startswith(line)
    assert ("Device API gpu is not enabled" in told) == ("cannot load" in line)


@pytest.mark.parametrize("device", ["auto", "cpu"])
@pytest.mark.parametrize("model", [ANY, SMALL], ids=["any", "cpu"])
def test_the_cpu(load: Any, model: Model, device: str) -> None:
    assert load(model, device=device).details["device"] == "cpu"


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
        pytest.param(NO_FUNCTION, {}, "no such function in module: fused_conv", id="a kernel missing"),
        pytest.param(TWO, {}, "compiled.so: expected one input (the image), got 2: a, b; ", id="two inputs"),
    ],
)
def test_what_is_refused_says_why(load: Any, model: Model, files: dict[str, bytes | None], line: str) -> None:
    """DLR itself raises most of these without a text; the reason is on the process's stderr only."""
    assert line in message(load, model, files=files)


def test_truncated_weights(load: Any) -> None:
    model = Model(SMALL.inputs, [Node("o", (2,), ["w"])], ["o"], {"w": np.ones(2, np.float32)})
    told = message(load, model, files={"compiled.params": neo.params(model.weights)[:-4]})
    assert "compiled.so: dlr refuses the model: " in told
    assert "compiled.params (" in told


def test_a_colon_in_the_path(load: Any) -> None:
    assert "DLR takes a ':' in a path for a separator" in message(load, SMALL, folder="line:4")


@pytest.mark.parametrize("folder", ["with space", "größe", "a/b"])
def test_other_paths(load: Any, folder: str) -> None:
    np.testing.assert_array_equal(load(SMALL, folder=folder)(IMAGE)[0], IMAGE)


def test_a_bundled_library_that_does_not_load(load: Any) -> None:
    """B102."""
    told = message(load, SMALL, bundled=b"junk")
    assert re.fullmatch(r"libdlr\.so could not be loaded: \S+libdlr\.so: file too short; take it out of .*", told)


def test_no_library_anywhere(load: Any) -> None:
    """B102."""
    assert message(load, SMALL, bundled=None).startswith("no libdlr.so in the package, and none in the server's python")


def test_nothing_is_printed(load: Any, capfd: pytest.CaptureFixture[str]) -> None:
    load(SMALL)(IMAGE)
    message(load, SMALL, folder="bad", files={"compiled.so": b"junk"})
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
