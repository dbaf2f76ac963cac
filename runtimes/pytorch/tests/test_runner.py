"""The PyTorch runner on the real engine; on a GPU too where there is one."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, TensorSpec
from runtimes.cpus import thread_count
from runtimes.pytorch.tests.models import (
    DATA,
    DEVICES,
    FORMATS,
    IMAGE,
    Call,
    load,
    message,
    saved,
    torch,
)

# TorchScript is deprecated in torch 2.10 and later; it is what most packages hold.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMATS)
def test_the_same_numbers(tmp_path: Path, form: str, device: str) -> None:
    path, (boxes, logits) = saved(tmp_path, form, lambda y: (y.sigmoid(), y.flatten(2) * 4))
    runner = load(path, device=device)
    found = runner(IMAGE)
    assert [value.dtype for value in found] == [np.float32, np.float32]
    for value, expected in zip(found, (boxes, logits)):
        np.testing.assert_allclose(value, expected.detach().numpy(), atol=1e-4 if device == "cpu" else 2e-3)
    assert len(runner.outputs) == 2
    assert runner.details["device"] == ("cpu" if device == "cpu" else "gpu 0")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMATS)
def test_b71_half_models(tmp_path: Path, form: str, dtype: str, device: str) -> None:
    path, expected = saved(tmp_path, form, lambda y: y * 1000, getattr(torch, dtype))
    runner = load(path, device=device)
    (found,) = runner(IMAGE)
    assert runner.inputs[0].dtype == {"float16": "float16", "bfloat16": "float32"}[dtype]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.detach().float().numpy(), rtol=0.02, atol=8)


@pytest.mark.parametrize("layout", ["grey", "NHWC"])
@pytest.mark.parametrize("form", FORMATS)
def test_other_layouts(tmp_path: Path, form: str, layout: str) -> None:
    module = torch.nn.Flatten()
    image = np.ascontiguousarray(IMAGE[:, :1] if layout == "grey" else IMAGE.transpose(0, 2, 3, 1))
    path = tmp_path / "model.pt"
    if form == "script":
        torch.jit.trace(module, torch.from_numpy(image)).save(str(path))
    else:
        path = tmp_path / "model.pt2"
        torch.export.save(torch.export.export(module, (torch.from_numpy(image),)), path)
    runner = load(path, device="cpu")
    assert runner.inputs[0].shape == (image.shape if form == "program" else ())
    np.testing.assert_array_equal(runner(image)[0], image.reshape(1, -1))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 2])
def test_a_fixed_batch_runs_in_slices(tmp_path: Path, size: int, count: int) -> None:
    module = Call(lambda y: (y.sigmoid(), y.flatten(1)))
    program = torch.export.export(module, (torch.rand(size, 3, 4, 6),))
    torch.export.save(program, tmp_path / "model.pt2")
    batch = np.random.default_rng(0).random((count, 3, 4, 6), np.float32)
    found = load(tmp_path / "model.pt2", device="cpu")(batch)
    for value, expected in zip(found, module(torch.from_numpy(batch))):
        np.testing.assert_allclose(value, expected.detach().numpy(), atol=1e-5)


def test_a_script_that_was_traced_with_another_batch_says_what_to_do(tmp_path: Path) -> None:
    path, _ = saved(tmp_path, "script", lambda y: y.reshape(1, 4, 24))
    with pytest.raises(RunnerError) as caught:
        load(path)(np.repeat(IMAGE, 2, axis=0))
    assert str(caught.value).endswith(
        "; it may have been traced with another batch or size: export it with a free batch, or as a program"
    )


def test_an_output_without_a_batch_cannot_be_joined(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Call(lambda y: y.sum((0, 1))), (torch.rand(2, 3, 4, 6),)), tmp_path / "m.pt2")
    with pytest.raises(
        RunnerError, match=r"output sum_1: expected the graph's batch of 2 as its first axis, got \[4, 6\]"
    ):
        load(tmp_path / "m.pt2", device="cpu")(IMAGE)


def test_specs_of_a_program() -> None:
    runner = load(DATA / "program.pt2")
    assert runner.inputs == [TensorSpec("input", "float32", (1, 3, 4, 6))]
    assert runner.outputs == [TensorSpec("conv2d", "float32", (1, 2, 4, 6))]


def test_a_free_batch(tmp_path: Path) -> None:
    module = Call(lambda y: y[:, :, ::2])
    shapes = ({0: torch.export.Dim("batch", min=1, max=8), 2: torch.export.Dim.AUTO},)
    program = torch.export.export(module, (torch.rand(2, 3, 4, 6),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    runner = load(tmp_path / "model.pt2")
    assert runner.inputs[0].shape == (None, 3, None, 6)
    assert runner(np.concatenate([IMAGE] * 3))[0].shape == (3, 4, 2, 6)


@pytest.mark.parametrize("form", FORMATS)
def test_requires_grad_turned_and_read_only_batches(tmp_path: Path, form: str) -> None:
    path, expected = saved(tmp_path, form, lambda y: y)
    assert expected.requires_grad
    turned = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    fixed = IMAGE.copy()
    fixed.flags.writeable = False
    runner = load(path, device="cpu")
    for batch in (turned, fixed):
        np.testing.assert_allclose(runner(batch)[0], expected.detach().numpy(), atol=1e-5)


def test_b97_b99_pickles() -> None:
    for name in ("module.pt", "state_dict.pt", "legacy.pt"):
        assert "which is not loaded; export it with torch.jit.trace" in message(DATA / name)


@pytest.mark.parametrize(("asked", "given"), [(0, None), (1, 1), (3, 3)])
def test_b93_threads_are_set(asked: int, given: int | None) -> None:
    details = load(DATA / "script.pt", threads=asked, device="cpu").details
    assert torch.get_num_threads() == int(details["threads"]) == (given or thread_count())


def test_calls_from_several_threads() -> None:
    runner = load(DATA / "script.pt", device="cpu", threads=1)
    expected = [runner(np.full_like(IMAGE, value))[0] for value in range(4)]
    wrong: list[int] = []

    def call(value: int) -> None:
        for _ in range(50):
            if not np.allclose(runner(np.full_like(IMAGE, value))[0], expected[value]):
                wrong.append(value)

    threads = [threading.Thread(target=call, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_inputs(tmp_path: Path) -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any, size: Any) -> Any:
            return x * size

    torch.jit.trace(Two(), (torch.rand(1), torch.rand(1))).save(str(tmp_path / "model.pt"))
    assert "expected one input (the image), got 2: x, size" in message(tmp_path / "model.pt")


@pytest.mark.parametrize("name", ["script.pt", "program.pt2"])
def test_a_batch_that_the_model_refuses_and_a_closed_runner(name: str) -> None:
    runner = load(DATA / name)
    with pytest.raises(RunnerError, match=r"torch failed on a batch \[1, 2, 4, 6\]: .+") as caught:
        runner(IMAGE[:, :2])
    assert "\n" not in str(caught.value)
    runner.close()
    with pytest.raises(RunnerError, match="the runner is closed"):
        runner(IMAGE)


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert message(DATA / "script.pt").startswith("runtime pytorch: torch is not usable in the server's python (")
