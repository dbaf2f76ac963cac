"""The PyTorch runner on the real engine; on a GPU too where there is one."""

from __future__ import annotations

import os
import sys
import threading
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, TensorSpec, make_runner

torch: Any = pytest.importorskip("torch")
# TorchScript is deprecated in torch 2.10 and later; it is what most packages hold.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore::FutureWarning")

DATA = Path(__file__).parent / "data"
IMAGE = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6) / 72
HAS_GPU = torch.cuda.is_available()
DEVICES = ["cpu", pytest.param("gpu", marks=pytest.mark.skipif(not HAS_GPU, reason="no GPU"))]
FORMATS = ["script", "program"]


class Call(torch.nn.Module):
    """A network whose forward is a function of a convolution's result."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.convolution(x))


def saved(folder: Path, form: str, function: Any, dtype: Any = torch.float32) -> tuple[Path, Any]:
    module = Call(function).eval().to(dtype)
    image = torch.from_numpy(IMAGE).to(dtype)
    path = folder / ("model.pt" if form == "script" else "model.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == "script":
            torch.jit.trace(module, image, strict=False).save(str(path))
        else:
            torch.export.save(torch.export.export(module, (image,)), path)
    return path, module(image)


def load(path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_runner("pytorch", RunnerOptions(path, **options))


def message(path: Path, **options: Any) -> str:
    with pytest.raises(RunnerError) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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


def test_nested_outputs_in_order(tmp_path: Path) -> None:
    def nested(y: Any) -> Any:
        return {"b": (y.sigmoid(), y + 1), "a": [(y * 2).long(), None]}

    path, expected = saved(tmp_path, "program", nested)
    with pytest.raises(RunnerError, match="expected tensors in and out"):
        load(path)
    path, expected = saved(tmp_path, "program", lambda y: {"b": (y.sigmoid(), y + 1), "a": [(y * 2).long()]})
    found = load(path)(IMAGE)
    assert [value.dtype for value in found] == [np.float32, np.float32, np.int64]
    np.testing.assert_allclose(found[1], expected["b"][1].detach().numpy(), atol=1e-5)
    path, expected = saved(tmp_path, "script", lambda y: (y, (y + 1, [y * 2, y * 3])))
    runner = load(path)
    assert len(runner.outputs) == 0
    assert len(runner(IMAGE)) == len(runner.outputs) == 4


def test_b36c_nameless_outputs_stay_in_order(tmp_path: Path) -> None:
    path, (boxes, _) = saved(tmp_path, "script", lambda y: (y.sigmoid(), y * 9))
    runner = load(path)
    assert [spec.name for spec in runner.outputs] == ["", ""]
    np.testing.assert_allclose(runner(IMAGE)[0], boxes.detach().numpy(), atol=1e-5)


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


def test_b97_b99_pickles(tmp_path: Path) -> None:
    for name in ("module.pt", "state_dict.pt", "legacy.pt"):
        assert "which is not loaded; export it with torch.jit.trace" in message(DATA / name)


def test_a_pickle_in_a_program_is_never_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save(Evil(), tmp_path / "evil.pt")
    with zipfile.ZipFile(DATA / "program.pt2") as good, zipfile.ZipFile(tmp_path / "model.pt2", "w") as bad:
        for name in good.namelist():
            evil = name.endswith("sample_inputs/model.pt")
            bad.writestr(name, (tmp_path / "evil.pt").read_bytes() if evil else good.read(name))
    assert message(tmp_path / "model.pt2") == (
        "model.pt2: data/sample_inputs/model.pt is a pickle of more than tensors; it is not loaded, "
        "save it with torch.export.save"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not HAS_GPU, reason="no GPU")
@pytest.mark.parametrize("kind", ["cpu constants on gpu", "gpu constants on cpu"])
def test_b100_constants_of_another_device(tmp_path: Path, kind: str) -> None:
    fixed, device = ("cpu", "gpu") if kind.startswith("cpu") else ("cuda", "cpu")
    name = "cpu" if fixed == "cpu" else "cuda"
    image = torch.from_numpy(IMAGE).to(name)
    module = Call(lambda y: y + torch.arange(6.0, device=name)).eval().to(name)
    torch.jit.trace(module, image).save(str(tmp_path / "model.pt"))
    runner = load(tmp_path / "model.pt", device=device)
    with pytest.raises(RunnerError, match="has tensors that its export fixed to another device"):
        runner(IMAGE)


def test_b100_the_line_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = saved(tmp_path, "script", lambda y: y)
    runner = load(path, device="cpu")

    def mismatch(_: Any) -> Any:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
        )

    monkeypatch.setattr(runner, "_module", mismatch)
    with pytest.raises(RunnerError, match="export it on that device, or set device to gpu"):
        runner(IMAGE)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_b90_a_gpu_that_is_not_there() -> None:
    assert message(DATA / "script.pt", device="gpu").startswith("device gpu: no usable GPU 0, torch ")
    assert "set device to gpu, or runtime to tensorrt" in message(DATA / "script.pt", device="tensorrt")
    assert load(DATA / "script.pt").details["device"] == "cpu"


@pytest.mark.parametrize(("asked", "given"), [(0, None), (1, 1), (3, 3)])
def test_b93_threads_are_set(asked: int, given: int | None) -> None:
    details = load(DATA / "script.pt", threads=asked, device="cpu").details
    assert torch.get_num_threads() == int(details["threads"]) == (given or len(os.sched_getaffinity(0)))


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
