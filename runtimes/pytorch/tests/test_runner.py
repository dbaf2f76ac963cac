"""The PyTorch runner on the real engine; on a GPU too where there is one."""

from __future__ import annotations

import importlib.util
import sys
import threading
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, TensorSpec, make_runner
from runtimes.cpus import thread_count

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


def scripted(folder: Path, body: str, returns: str) -> Path:
    """Save a module whose forward(x) is `body`."""
    source = folder / "written.py"
    source.write_text(
        "import torch\nfrom typing import *\nclass Written(torch.nn.Module):\n"
        f"    def forward(self, x: torch.Tensor) -> {returns}:\n        return {body}\n"
    )
    spec = importlib.util.spec_from_file_location("written", source)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.jit.script(module.Written()).save(str(folder / "model.pt"))
    return folder / "model.pt"


@pytest.mark.parametrize(
    ("body", "returns", "names"),
    [
        pytest.param('{"logits": x, "boxes": x + 1}', "Dict[str, torch.Tensor]", ["logits", "boxes"], id="dict"),
        pytest.param("{7: x, 2: x + 1}", "Dict[int, torch.Tensor]", ["7", "2"], id="numbers"),
        pytest.param(
            '{"a": {"b": x}, "c": {"d": x + 1}}', "Dict[str, Dict[str, torch.Tensor]]", ["a.b", "c.d"], id="nested"
        ),
        pytest.param('{"a": [x, x + 1]}', "Dict[str, List[torch.Tensor]]", ["a.0", "a.1"], id="list in dict"),
        pytest.param("[x, x + 1]", "List[torch.Tensor]", ["", ""], id="list"),
        pytest.param('(x, {"a": x + 1})', "Tuple[torch.Tensor, Dict[str, torch.Tensor]]", ["", "a"], id="in tuple"),
    ],
)
def test_a_dict_names_outputs_after_the_first_run(tmp_path: Path, body: str, returns: str, names: list[str]) -> None:
    runner = load(scripted(tmp_path, body, returns), device="cpu")
    assert len(runner.outputs) == 0
    first, second = runner(np.concatenate([IMAGE] * 2))
    np.testing.assert_allclose(second, first + 1, atol=1e-5)
    assert [spec.name for spec in runner.outputs] == names
    assert [spec.dtype for spec in runner.outputs] == ["float32", "float32"]


@pytest.mark.parametrize(
    ("body", "returns", "got"),
    [
        pytest.param("(x, 3)", "Tuple[torch.Tensor, int]", "got int", id="number"),
        pytest.param('{"a": "b"}', "Dict[str, str]", "got str", id="text"),
    ],
)
def test_outputs_that_are_no_tensors(tmp_path: Path, body: str, returns: str, got: str) -> None:
    runner = load(scripted(tmp_path, body, returns))
    with pytest.raises(RunnerError, match=f"expected tensors as outputs, {got}; export it with tensors only"):
        runner(IMAGE)


@pytest.mark.parametrize(
    ("body", "returns", "shapes", "dtypes"),
    [
        pytest.param(
            "(x[:, :0], x.new_zeros([0, 6]))", "Tuple[torch.Tensor, torch.Tensor]", [(1, 0, 4, 6), (0, 6)], "ff"
        ),
        pytest.param("[x > 0, x.int(), x.double()]", "List[torch.Tensor]", [IMAGE.shape] * 3, "?if"),
        pytest.param("torch.jit.annotate(List[torch.Tensor], [])", "List[torch.Tensor]", [], ""),
        pytest.param("x.sum()", "torch.Tensor", [()], "f"),
        pytest.param("x[:, :1]", "torch.Tensor", [(1, 1, 4, 6)], "f"),
    ],
    ids=["without elements", "other types", "none", "a number", "one channel"],
)
def test_odd_outputs(tmp_path: Path, body: str, returns: str, shapes: list[tuple[int, ...]], dtypes: str) -> None:
    runner = load(scripted(tmp_path, body, returns), device="cpu")
    for _ in range(2):
        found = runner(IMAGE)
        assert [value.shape for value in found] == shapes
        assert "".join(value.dtype.char for value in found) == dtypes


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


def test_an_output_without_a_batch_cannot_be_joined(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Call(lambda y: y.sum((0, 1))), (torch.rand(2, 3, 4, 6),)), tmp_path / "m.pt2")
    with pytest.raises(
        RunnerError, match=r"output sum_1: expected the graph's batch of 2 as its first axis, got \[4, 6\]"
    ):
        load(tmp_path / "m.pt2", device="cpu")(IMAGE)


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


def test_b97_b99_pickles() -> None:
    for name in ("module.pt", "state_dict.pt", "legacy.pt"):
        assert "which is not loaded; export it with torch.jit.trace" in message(DATA / name)


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


@pytest.mark.parametrize("device", DEVICES)
def test_b100_a_device_frozen_into_a_script(tmp_path: Path, device: str) -> None:
    runner = load(scripted(tmp_path, 'x + torch.arange(6.0, device="meta")', "torch.Tensor"), device=device)
    with pytest.raises(RunnerError, match="has tensors that its export fixed to another device than c") as caught:
        runner(IMAGE)
    assert "export it on that device" in str(caught.value)


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_b100_a_gpu_frozen_into_a_script(tmp_path: Path) -> None:
    runner = load(scripted(tmp_path, 'x + torch.arange(6.0, device="cuda:0")', "torch.Tensor"), device="auto")
    with pytest.raises(RunnerError, match="; its export fixed tensors to cuda: export it on the device that serves it"):
        runner(IMAGE)


def on_a_gpu(path: Path, name: str) -> Path:
    """Write one of the files in data/ as it would have been saved on a GPU."""
    with zipfile.ZipFile(DATA / name) as cpu, zipfile.ZipFile(path, "w") as gpu:
        for member in cpu.namelist():
            content = cpu.read(member)
            if member.endswith(".pkl"):
                content = content.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0")
            if member.endswith(".json"):
                content = content.replace(b'"type": "cpu", "index": null', b'"type": "cuda", "index": 0')
            assert b'"cpu"' not in content
            gpu.writestr(member, content)
    return path


@pytest.mark.parametrize("name", ["script.pt", "module.pt"])
def test_saved_on_a_gpu_and_loaded_on_the_cpu(tmp_path: Path, name: str) -> None:
    path = on_a_gpu(tmp_path / name, name)
    assert b"cuda:0" in path.read_bytes()
    found, expected = (load(file, device="cpu", allow_pickles=True)(IMAGE) for file in (path, DATA / name))
    np.testing.assert_array_equal(found[0], expected[0])


def test_a_program_of_a_gpu(tmp_path: Path) -> None:
    path = on_a_gpu(tmp_path / "program.pt2", "program.pt2")
    if HAS_GPU:
        np.testing.assert_allclose(
            load(path, device="cpu")(IMAGE)[0], load(DATA / "program.pt2", device="cpu")(IMAGE)[0]
        )
    else:
        version = torch.__version__
        assert message(path) == (
            f"program.pt2: was exported on a GPU, and torch {version} sees none; export it on the CPU"
        )


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
    assert load(DATA / "script.pt").details["fallback"] == f"torch {torch.__version__} sees no GPU"
    assert "fallback" not in load(DATA / "script.pt", device="cpu").details


def test_b90_a_gpu_with_a_number_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    found = load(DATA / "script.pt", device_id=1).details["fallback"]
    assert found == f"torch {torch.__version__} sees only 1, not number 1"


@pytest.mark.parametrize("form", ["script.pt", "program.pt2"])
def test_an_old_torch_runs_torchscript_only(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def module(self: Any) -> Any: ...

    monkeypatch.setattr(torch.export.ExportedProgram, "module", module)
    if form == "script.pt":
        assert load(DATA / form)(IMAGE)[0].shape == (1, 2, 4, 6)
    else:
        assert message(DATA / form) == (
            f"program.pt2: a torch.export program needs torch 2.9 or newer, got {torch.__version__}; "
            "install a newer torch or export TorchScript"
        )


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
