"""The runner's own work: shapes, order, types, memory, threads; on a fake engine (fakes.py says why).

`-k gpu` runs what touches CUDA on a real one: it needs cuda-bindings and a GPU, and no TensorRT.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, TensorSpec
from runtimes.tensorrt.engine_tensors import ShapeLimits
from runtimes.tensorrt.tests.fake_cuda import FakeCuda
from runtimes.tensorrt.tests.fakes import VERSION, FakeEngine, FakeTrt, Outputs, plan_bytes

SIZE = 3 * 4 * 6
OPEN = (-1, 3, 4, 6)


def images(count: int) -> np.ndarray:
    return np.arange(count * SIZE, dtype=np.float32).reshape(count, 3, 4, 6)


def heads(batch: np.ndarray) -> Outputs:
    """Two outputs that no swap, shift or neighbour's value can be taken for."""
    flat = batch.reshape(len(batch), -1)
    return {"logits": flat[:, :5] * 2, "boxes": np.stack([flat.min(1), flat.max(1)], 1) + 0.5}


def detector(cuda: Any, least: int = 1, largest: int = 32, **changed: Any) -> FakeEngine:
    shapes = {"shape": OPEN, "profile": ((least, 3, 4, 6), (largest, 3, 4, 6))}
    return FakeEngine(**{"cuda": cuda, "names": ["logits", "images", "boxes"], "compute": heads, **shapes, **changed})


def check(runner: Any, batch: np.ndarray) -> None:
    logits, boxes = runner(batch)
    np.testing.assert_array_equal(logits, heads(batch)["logits"])
    np.testing.assert_array_equal(boxes, heads(batch)["boxes"])


def test_b96_tensors_are_known_by_mode_and_name_not_by_order(load: Any, cuda: Any) -> None:
    runner = load(detector(cuda))
    assert runner.inputs == [TensorSpec("images", "float32", (None, 3, 4, 6))]
    assert runner.outputs == [
        TensorSpec("logits", "float32", (None, 5)),
        TensorSpec("boxes", "float32", (None, 2)),
    ]
    check(runner, images(2))


def test_b83_output_shapes_are_those_of_the_batch_and_not_of_the_profile(load: Any, cuda: Any) -> None:
    runner = load(detector(cuda, 1, 32))
    logits, boxes = runner(images(1))
    assert (logits.shape, boxes.shape) == ((1, 5), (1, 2))
    check(runner, images(1))
    if isinstance(cuda, FakeCuda):
        assert sorted(len(memory) for memory in cuda.live["device"].values()) == [1 * 2 * 4, 1 * 5 * 4, SIZE * 4]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_any_number_of_images_within_the_profile(load: Any, cuda: Any, count: int) -> None:
    check(load(detector(cuda, 2, 3)), images(count))


@pytest.mark.parametrize(
    ("count", "size"), [(1, 4), (3, 4), (4, None), (8, None), (9, 8), (100, 8)], ids=lambda value: str(value)
)
def test_no_more_is_run_than_has_to_be(count: int, size: int | None) -> None:
    assert ShapeLimits((4, 3, 4, 6), (8, 3, 4, 6)).slice_size(count) == size


def test_a_fixed_batch_runs_in_slices(load: Any, cuda: Any) -> None:
    runner = load(detector(cuda, shape=(2, 3, 4, 6), profile=None))
    assert runner.inputs[0].shape == (2, 3, 4, 6)
    check(runner, images(5))


def test_memory_is_kept_and_grows_only_when_it_has_to(load: Any) -> None:
    cuda = FakeCuda()
    runner = load(detector(cuda))
    check(runner, images(3))
    taken = cuda.allocations
    check(runner, images(3))
    check(runner, images(1))
    assert cuda.allocations == taken
    check(runner, images(4))
    assert cuda.allocations == 2 * taken
    assert len(cuda.live["host"]) == len(cuda.live["device"]) == 3


def test_a_result_is_not_overwritten_by_the_next_call(load: Any, cuda: Any) -> None:
    runner = load(detector(cuda))
    first = runner(images(2))
    runner(images(2) + 1000)
    np.testing.assert_array_equal(first[0], heads(images(2))["logits"])


def test_turned_and_read_only_batches(load: Any, cuda: Any) -> None:
    runner = load(detector(cuda))
    turned = np.ascontiguousarray(images(2).transpose(0, 3, 2, 1)).transpose(0, 3, 2, 1)
    turned.flags.writeable = False
    check(runner, turned)


def test_b92_what_takes_time_is_done_at_load(load: Any) -> None:
    engine = detector(FakeCuda())
    runner = load(engine)
    assert engine.contexts == 1
    runner(images(1))
    assert engine.contexts == 1


NAN_OF_ONES = np.array([0xFFFFFFFF], np.uint32).view(np.float32)[0]


def same(batch: np.ndarray) -> Outputs:
    return {"out": batch}


@pytest.mark.parametrize(
    ("element", "name", "fed", "seen", "back"),
    [
        pytest.param("FLOAT", "float32", 1279.3, 1279.3, np.float32, id="float"),
        pytest.param("HALF", "float16", 1279.3, 1279.0, np.float32, id="B71-half"),
        pytest.param("BF16", "float32", 1.00390625, 1.0, np.float32, id="bf16-tie-to-even-down"),
        pytest.param("BF16", "float32", 1.01171875, 1.015625, np.float32, id="bf16-tie-to-even-up"),
        pytest.param("BF16", "float32", np.inf, np.inf, np.float32, id="bf16-inf"),
        pytest.param("BF16", "float32", np.nan, np.nan, np.float32, id="bf16-nan"),
        pytest.param("BF16", "float32", NAN_OF_ONES, np.nan, np.float32, id="bf16-nan-that-rounds-over"),
        pytest.param("BF16", "float32", -3.0, -3.0, np.float32, id="bf16-negative"),
        pytest.param("INT8", "int8", -7, -7, np.int8, id="int8"),
        pytest.param("UINT8", "uint8", 200, 200, np.uint8, id="B71-uint8"),
        pytest.param("INT32", "int32", 70000, 70000, np.int32, id="int32"),
        pytest.param("INT64", "int64", 5, 5, np.int64, id="int64"),
    ],
)
def test_types(load: Any, cuda: Any, element: str, name: str, fed: float, seen: float, back: type) -> None:
    engine = FakeEngine(cuda, ["images", "out"], (1, 3, 4, 6), same, types={"images": element, "out": element})
    runner = load(engine)
    (output,) = runner(np.full((1, 3, 4, 6), fed, np.float32))
    assert (runner.inputs[0].dtype, output.dtype) == (name, back)
    np.testing.assert_allclose(output, np.full((1, 3, 4, 6), seen, back))


@pytest.mark.parametrize(("element", "fed"), [("UINT8", 114 / 255), ("INT8", 200.0), ("UINT8", -1.0)])
def test_pixels_that_a_whole_number_cannot_hold_are_refused(load: Any, element: str, fed: float) -> None:
    types = {"images": element, "out": element}
    runner = load(FakeEngine(FakeCuda(), ["images", "out"], (1, 3, 4, 6), same, types=types))
    with pytest.raises(RunnerError, match=r"^input images: takes u?int8, got values that it cannot hold .*; set image"):
        runner(np.full((1, 3, 4, 6), fed, np.float32))


def found(batch: np.ndarray) -> Outputs:
    """As many rows as the first pixel says, and that pixel of each image."""
    count = int(batch.flat[0])
    return {"selected": np.arange(count * 3, dtype=np.int64).reshape(count, 3), "first": batch[:, 0, 0, :1]}


def nms(cuda: Any, **changed: Any) -> FakeEngine:
    shapes = {"shape": (1, 3, 4, 6), "types": {"selected": "INT64"}, "data_dependent": {"selected": 24 * 10}}
    return FakeEngine(**{"cuda": cuda, "names": ["images", "selected", "first"], "compute": found, **shapes, **changed})


def test_outputs_whose_shape_the_data_decide(load: Any, cuda: Any) -> None:
    runner = load(nms(cuda))
    assert runner.outputs[0] == TensorSpec("selected", "int64", (None, 3))
    for count in (4, 0, 7, 1):
        image = np.full((1, 3, 4, 6), count, np.float32)
        selected, first = runner(image)
        np.testing.assert_array_equal(selected, np.arange(count * 3).reshape(count, 3))
        assert selected.shape == (count, 3)
        assert first.tolist() == [[count]]


def test_an_output_without_room_for_anything(load: Any, cuda: Any) -> None:
    selected, _ = load(nms(cuda, data_dependent={"selected": 0}))(np.zeros((1, 3, 4, 6), np.float32))
    assert selected.shape == (0, 3)


def test_the_shape_of_an_earlier_run_is_not_taken_for_this_one(load: Any) -> None:
    runner = load(nms(FakeCuda()))
    runner(np.zeros((1, 3, 4, 6), np.float32))
    runner._engine.failure = "silence"
    with pytest.raises(RunnerError, match=r"^model.plan: output selected: the engine told no shape$"):
        runner(np.zeros((1, 3, 4, 6), np.float32))


def test_such_an_output_cannot_be_cut_into_slices_and_is_named(load: Any) -> None:
    with pytest.raises(RunnerError, match=r"^output selected: expected the graph's batch of 1 as its first axis"):
        load(nms(FakeCuda()))(np.full((2, 3, 4, 6), 4, np.float32))


def test_no_memory_for_such_an_output_is_told(load: Any) -> None:
    cuda = FakeCuda()
    runner = load(nms(cuda))
    runner(np.zeros((1, 3, 4, 6), np.float32))
    cuda.limit = 24 * 10
    runner._engine.data_dependent = {"selected": 24 * 20}
    with pytest.raises(
        RunnerError, match=r"^model.plan: TensorRT failed on a batch \[1, 3, 4, 6\]: CUDA: cudaMalloc: "
    ):
        runner(np.zeros((1, 3, 4, 6), np.float32))
    assert len(cuda.live["host"]) == 2
    runner._engine.data_dependent = {"selected": 24 * 10}
    runner._engine.failure = "run"
    with pytest.raises(RunnerError, match="the kernel failed"):
        runner(np.zeros((1, 3, 4, 6), np.float32))


def test_threads_wait_for_each_other_and_each_has_its_device(load: Any, cuda: Any) -> None:
    runner = load(detector(cuda))
    failures: list[BaseException] = []

    def call(count: int) -> None:
        try:
            for turn in range(20):
                check(runner, images(count) + turn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(count,)) for count in (1, 2, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_close_gives_everything_back(load: Any) -> None:
    cuda = FakeCuda()
    runner = load(detector(cuda))
    runner(images(1))
    runner.close()
    runner.close()
    assert (cuda.live, cuda.streams) == ({"host": {}, "device": {}}, {})
    with pytest.raises(RunnerError, match=r"^model.plan: the runner is closed$"):
        runner(images(1))


def test_what_really_runs(load: Any) -> None:
    runner = load(detector(FakeCuda(gpus=2)), device_id=1)
    assert runner.details == {
        "engine": f"TensorRT {VERSION}",
        "device": "gpu 1",
        "gpu": "A fake GPU (compute capability 9.1)",
        "shapes": "[1, 3, 4, 6] to [32, 3, 4, 6]",
    }


@pytest.mark.parametrize("device", ["auto", "gpu", "tensorrt"])
def test_every_word_for_a_gpu(load: Any, device: str) -> None:
    assert load(detector(FakeCuda()), device=device).details["device"] == "gpu 0"


def test_a_failing_run_says_the_first_error_and_the_next_one_works(load: Any) -> None:
    runner = load(detector(FakeCuda()))
    runner._engine.failure = "run"
    for count in (1, 2):
        with pytest.raises(RunnerError) as caught:
            runner(images(count))
        shape = (count, 3, 4, 6)
        assert str(caught.value) == (
            f"model.plan: TensorRT failed on a batch {list(shape)}: the kernel failed on {shape}"
        )
    runner._engine.failure = ""
    check(runner, images(1))


@pytest.mark.parametrize("shape", [(1, 3, 4, 7), (1, 1, 4, 6), (1, 3, 4)])
def test_a_shape_outside_the_profile(load: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(RunnerError) as caught:
        load(detector(FakeCuda()))(np.zeros(shape, np.float32))
    assert str(caught.value) == (
        f"model.plan: input images: the plan takes [1, 3, 4, 6] to [32, 3, 4, 6], got {list(shape)}"
    )


def test_no_memory(load: Any) -> None:
    cuda = FakeCuda()
    cuda.limit = SIZE * 4
    runner = load(detector(cuda))
    with pytest.raises(RunnerError, match=r"^CUDA: cudaMalloc: out of memory$"):
        runner(images(2))
    assert cuda.live == {"host": {}, "device": {}}
    check(runner, images(1))


def test_plugins_are_registered_and_only_the_plan_is_handed_over(load: Any) -> None:
    engine = detector(FakeCuda())
    trt = FakeTrt(engine)
    load(engine, trt)
    assert trt.content == plan_bytes()
