"""Where PyTorch models run: GPUs that are not there, and tensors that their export fixed to a device."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError
from runtimes.pytorch.tests.models import (
    DATA,
    DEVICES,
    HAS_GPU,
    IMAGE,
    Call,
    load,
    message,
    saved,
    scripted,
    torch,
)

# TorchScript is deprecated in torch 2.10 and later; it is what most packages hold.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore::FutureWarning")


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


@pytest.mark.parametrize("tf32", [False, True])
def test_products_are_rounded_to_tf32_only_when_asked(tmp_path: Path, tf32: bool) -> None:
    """So that a model gives the same on every engine; torch's own default is on for convolutions."""
    # Set by hand: monkeypatch cannot put these attributes back.
    places = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = not tf32
        load(saved(tmp_path, "script", lambda y: y)[0], tf32=tf32)
        assert [place.allow_tf32 for place in places] == [tf32, tf32]
    finally:
        for place, value in zip(places, before):
            place.allow_tf32 = value
