"""Every failure of an engine's file or device, as people meet it: the line of convert, and the line of serve."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from convertor.cli import main
from runtimes.onnx.tests import graphs
from tests.builders import anomaly_manifest, constant_graph, write_package
from tests.clients import Client
from tests.engines import needs
from tests.engines.failures import (
    BUILD,
    DATA,
    EXPORT,
    Failure,
    X,
    Y,
    changed_zip,
    dlr,
    good,
    inductor,
    of_version,
    old_plan,
    on_a_gpu,
    onnx,
    plan,
    says_use_pickle,
    tensorrt,
    torch,
)
from tests.engines.serving import Served, convertor_serve
from tests.server.conftest import convert

needs.need("pytriton", "onnxruntime")

pytestmark = pytest.mark.server

TRT = ("cuda.bindings", "tensorrt_rtx_bindings")

ORT = "onnxruntime {onnxruntime}"
TORCH = "torch {torch}"
ONE_INPUT = "expected one input (the image), got 2: x, size; export the model with the image as its only input"
KINDS = "expected TorchScript or a torch.export program, got"
NO_FILE = (
    "model.onnx: its weights are in model.onnx_data, which is not there; pack the file beside it and convert again"
)
REFUSED_KERNELS = "compiled.so: dlr refuses the model: *compiled.so: *; in its folder: compiled.meta (*), *"
OTHER_TORCH = "export it with torch *, or install the torch that wrote it"
STATE_DICT = f"model.pt: {KINDS} a state_dict or another table of tensors, which is no network; {EXPORT}"
PICKLE = f"model.pt: {KINDS} a pickled module or a state_dict, which is not loaded; {EXPORT}"

TWO_INPUTS = graphs.graph(
    [graphs.node("Add", ["x", "size"], ["y"])], [X, graphs.tensor("size", graphs.FLOAT, (1,))], [Y]
)
PLUGIN = graphs.graph([graphs.node("EfficientNMS_TRT", ["x"], ["y"], "TRT")], [X], [Y])
SCRIPT = (DATA / "script.pt").read_bytes()

FAILURES: Mapping[str, Failure] = {
    "B84-onnx-newer-ir": onnx(
        graphs.echo(ir=99),
        f"model.onnx: model IR 99, {ORT} reads at most IR *; export again with an older IR or update onnxruntime",
    ),
    "B85-onnx-newer-opset": onnx(
        graphs.echo(opset=99),
        f"model.onnx: opset 99, {ORT} reads at most opset *; export again with an older opset or update onnxruntime",
    ),
    "B89-onnx-custom-operator": onnx(
        PLUGIN, f"model.onnx: {ORT} has no operator TRT:EfficientNMS_TRT; export again without it"
    ),
    "B87-onnx-two-inputs": onnx(TWO_INPUTS, f"model.onnx: {ONE_INPUT}", refused=f"model.onnx: {ONE_INPUT}"),
    "B90-onnx-no-gpu": onnx(
        graphs.echo(),
        f"device gpu: no usable GPU: {ORT} has no CUDAExecutionProvider; "
        "install onnxruntime-gpu and its CUDA libraries, or set device to auto",
        device="gpu",
    ),
    "onnx-truncated": onnx(
        graphs.echo()[:-20],
        f"model.onnx: {ORT} refuses it: Protobuf parsing failed.",
        refused="model.onnx: not an ONNX file: it is cut short or damaged: the field at byte 2 ends 5 bytes late; "
        "export or copy it again",
    ),
    "B86-onnx-external-data-not-packed": onnx(
        graphs.with_weights("model.onnx_data"),
        NO_FILE,
        refused="model.onnx: external data: expected model.onnx_data beside it, got model.onnx; add the file",
    ),
    "B86-onnx-external-data-lost": Failure(
        "onnx",
        lambda: {"model.onnx": graphs.with_weights("model.onnx_data"), "model.onnx_data": bytes(4)},
        NO_FILE,
        removed="model.onnx_data",
        needs=("onnxruntime",),
    ),
    "dlr-junk-kernels": dlr(
        REFUSED_KERNELS,
        "compiled.so: expected a shared library (ELF), got something else; compile it again",
        compiled__so=b"junk",
    ),
    "dlr-damaged-kernels": dlr(REFUSED_KERNELS, compiled__so=b"\x7fELF junk"),
    "dlr-empty-weights": dlr(
        "compiled.so: dlr refuses the model: *; in its folder: compiled.meta (*), compiled.params (0 bytes), *",
        "compiled.params: is empty, expected the weights; pack Neo's files again",
        compiled__params=b"",
    ),
    "B102-dlr-its-library-does-not-load": dlr(
        "libdlr.so could not be loaded: *libdlr.so: file too short; "
        "take it out of the package to use the server's own, or pack the one for this device",
        libdlr__so=b"\x7fELF junk",
    ),
    "dlr-no-gpu": dlr(
        "device gpu: compiled.so was compiled for cpu; compile it for gpu, or set device to auto", device="gpu"
    ),
    "B97-pytorch-pickled-module": torch(
        "model.pt",
        (DATA / "module.pt").read_bytes(),
        PICKLE,
        f"model.pt: {KINDS} a pickled module (torch.nn.modules.conv.Conv2d), which is not loaded; {EXPORT}",
    ),
    "B99-pytorch-pickle-of-old-times": torch(
        "model.pt",
        (DATA / "legacy.pt").read_bytes(),
        f"model.pt: expected a zip of PyTorch's, got a pickle, which is not loaded; {EXPORT}",
        STATE_DICT,
    ),
    "pytorch-state-dict": torch("model.pt", (DATA / "state_dict.pt").read_bytes(), PICKLE, STATE_DICT),
    "pytorch-unsafe-program": torch(
        "model.pt2",
        changed_zip("program.pt2", says_use_pickle),
        "model.pt2: data/weights/model_weights_config.json: weight says use_pickle; "
        "it is not loaded, save it with torch.export.save",
        "model.pt2: data/weights/model_weights_config.json: expected tensors, "
        "got a pickle in place of the tensor weight, which is not loaded; save it with torch.export.save",
    ),
    "pytorch-aotinductor": torch(
        "model.pt2",
        inductor(),
        "model.pt2: expected no native code, got a package of AOTInductor; save it with torch.export.save",
        f"model.pt2: {KINDS} native code, a package of AOTInductor; save the program with torch.export.save",
    ),
    "B100-pytorch-device-frozen-into-it": torch(
        "model.pt",
        changed_zip("script.pt", on_a_gpu),
        "model.pt: torch failed on a batch [1, 3, 4, 6]: *; "
        "its export fixed tensors to cuda: export it on the device that serves it",
    ),
    "pytorch-newer-script": torch(
        "model.pt",
        of_version("script.pt", "version", b"99\n"),
        f"model.pt: {TORCH} refuses it: *with version 99, but the maximum *; {OTHER_TORCH}",
    ),
    "pytorch-newer-program": torch(
        "model.pt2",
        of_version("program.pt2", "archive_version", b"99\n"),
        f"model.pt2: {TORCH} refuses it: *version 99 does not match our current archive version *; {OTHER_TORCH}",
    ),
    "pytorch-truncated": torch(
        "model.pt",
        SCRIPT[:-99],
        f"model.pt: expected a zip of PyTorch's, got a damaged one; {EXPORT}",
        f"model.pt: is a damaged zip of PyTorch's; {EXPORT} again",
    ),
    "B90-pytorch-no-gpu": torch(
        "model.pt",
        SCRIPT,
        f"device gpu: no usable GPU 0, {TORCH} sees 0; "
        "install a CUDA build of torch and its driver, or set device to auto",
        device="gpu",
    ),
    "B95-tensorrt-junk": tensorrt(
        b"junk" * 99,
        f"model.plan: expected a plan of TensorRT, got something else; {BUILD}",
        f"model.plan: expected a plan of TensorRT, got something else; {BUILD}",
    ),
    "B95-tensorrt-truncated": tensorrt(
        plan(cut=4),
        "model.plan: is cut short, expected 38 bytes by its header, got 34; copy it again or rebuild it on the target",
        "model.plan: is damaged, expected a plan of 38 bytes by its header, got 34; "
        "copy it again, or build it again on the target",
    ),
    "B95-tensorrt-too-old": tensorrt(
        old_plan(),
        "model.plan: built with TensorRT 8.2.1.8, TensorRT 10 and newer cannot read it; rebuild it on the target",
        f"model.plan: expected a plan of TensorRT 10 or newer, got one of 8.5 or older; {BUILD}",
    ),
    "B95-tensorrt-of-the-other-kind": tensorrt(
        plan(b"ftrt", (10, 15, 1, 29)),
        "model.plan: built with TensorRT 10.15.1.29, here is only TensorRT-RTX {tensorrt_rtx_cu13_bindings}, "
        "which cannot run it; pip install tensorrt==10.15.1.29, "
        "or rebuild it on the target with TensorRT-RTX {tensorrt_rtx_cu13_bindings}",
        needs=TRT,
    ),
    "tensorrt-no-gpu": tensorrt(
        plan(),
        "device auto: no usable GPU (CUDA: *), and runtime tensorrt runs on nothing else; "
        "install NVIDIA's driver and give the server a GPU, or serve the ONNX model with runtime onnx",
        needs=TRT,
    ),
}


def model_name(row: str) -> str:
    return row.lower().replace("-", "_")


def package(folder: Path, row: str) -> Path:
    failure = FAILURES[row]
    return write_package(folder / f"{model_name(row)}.zip", failure.manifest(), failure.files())


def publish(folder: Path, row: str) -> None:
    """Publish a row's model, of which convert sees nothing wrong; what it refuses is copied over a good one."""
    failure, repository, name = FAILURES[row], folder / "repository", model_name(row)
    artifact = repository / f"base_{name}" / "1" / "artifact"
    if not failure.refused:
        convert(package(folder, row), "-o", repository)
    else:
        files = good(failure.runtime, next(iter(failure.files())))
        convert(write_package(folder / f"{name}.zip", failure.manifest(), files), "-o", repository)
        for file, content in failure.files().items():
            (artifact / file).write_bytes(content)
    if failure.removed:
        (artifact / failure.removed).unlink()
    # Of the others a line says that they need base, which failed; test_missing_engine.py looks at it.
    for other in (f"marshal_{name}", name):
        shutil.rmtree(repository / other)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`convertor serve` on a repository of every failure that this environment can show, and a good model."""
    folder = tmp_path_factory.mktemp("failures")
    score = {"score": np.array([0.25], np.float32)}
    healthy = write_package(folder / "healthy.zip", anomaly_manifest(), {"model.onnx": constant_graph(score)})
    convert(healthy, "-o", folder / "repository")
    for row, failure in FAILURES.items():
        if needs.installed(*failure.needs):
            publish(folder, row)
    with convertor_serve(folder / "repository") as running:
        yield running


def check_line(line: str, expected: str) -> None:
    versions = {name: importlib.metadata.version(name) for name in re.findall(r"{(\w+)}", expected)}
    pattern = re.escape(expected.format(**versions)).replace(r"\*", ".*")
    assert re.fullmatch(pattern, line), f"{line}\nis not\n{expected}"


@pytest.mark.parametrize("row", FAILURES)
def test_the_line_of_serve(served: Served, row: str) -> None:
    if not needs.installed(*FAILURES[row].needs):
        pytest.skip(f"not installed: {', '.join(FAILURES[row].needs)}; run: make test-engines")
    if row.endswith("no-gpu") and Path("/proc/driver/nvidia").exists():
        pytest.skip("there is a GPU")
    check_line(served.reason(f"base_{model_name(row)}"), FAILURES[row].served)


@pytest.mark.parametrize("row", [row for row, failure in FAILURES.items() if failure.refused])
def test_the_line_of_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str) -> None:
    path = package(tmp_path, row)
    assert main(["convert", str(path), "-o", str(tmp_path / "repository")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    check_line(line, f"error: {path.name}: {FAILURES[row].refused}")
    assert not (tmp_path / "repository").exists()


def test_a_healthy_model_serves_beside_them_all(served: Served) -> None:
    assert served.models == {"healthy", "base_healthy", "marshal_healthy"}
    with Client(served) as client:
        assert client.capture("healthy", np.zeros((4, 6, 3), np.uint8))["output_anomalous"].tolist() == [0]
