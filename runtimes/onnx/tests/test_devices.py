"""Which device a graph runs on, and what is said when it is not the one that was wanted.

No GPU is needed: a narrow stand-in for a build with GPU providers says what such builds were seen to say on a machine
without a GPU (onnxruntime-gpu 1.31.1, 1.19's own way from TensorRT to CUDA); its sessions run on the CPU.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes import cpus
from runtimes.onnx.session import CPU, CUDA, TENSORRT
from runtimes.onnx.tests import graphs

onnxruntime: Any = pytest.importorskip("onnxruntime")

Load = Callable[..., Any]
Refused = Callable[..., str]
ECHO = graphs.echo()
IMAGE = np.zeros((1, 3, 4, 6), np.float32)
VERSION = f"onnxruntime {onnxruntime.__version__}"
NO_CUDA, NO_TENSORRT = f"{VERSION} has no {CUDA}", f"{VERSION} has no {TENSORRT}"
AZURE = "AzureExecutionProvider"
ALL = [TENSORRT, CUDA, CPU]
INSTALLED = Path(onnxruntime.__file__).parent
HINT = "; install onnxruntime-gpu and its CUDA libraries, or set device to auto"


class Build:
    """A build of ONNX Runtime.

    Attributes:
        available: The providers that it lists.
        failing: Provider -> what a session with it raises.
        unloadable: Providers that a session leaves out in silence.
        opened: What sessions were asked for: (providers, options of the first, keyword arguments, settings).
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.available: Sequence[str] = ALL
        self.failing: dict[str, str] = {}
        self.unloadable: set[str] = set()
        self.opened: list[tuple[list[str], dict[str, Any], dict[str, Any], Any]] = []
        self.no_fallback_at_run = 0
        self._real: Any = onnxruntime.InferenceSession
        patch.setattr(onnxruntime, "get_available_providers", lambda: list(self.available))
        patch.setattr(onnxruntime, "InferenceSession", self._session)
        patch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
        # Providers' own libraries, where this build has some, are not asked for their reasons.
        patch.setattr(onnxruntime, "__file__", "/nowhere/onnxruntime/__init__.py")

    def _session(self, path: str, settings: Any, providers: Sequence[Any], **keywords: Any) -> Any:
        named = [(one, {}) if isinstance(one, str) else one for one in providers]
        names = [name for name, _ in named]
        self.opened.append((names, named[0][1], keywords, settings))
        for name in names:
            if name in self.failing:
                raise RuntimeError(self.failing[name])
        session = self._real(path, settings, providers=[CPU])
        session.get_providers = lambda: [name for name in names if name not in self.unloadable]
        session.disable_fallback = lambda: setattr(self, "no_fallback_at_run", self.no_fallback_at_run + 1)
        return session


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    return Build(monkeypatch)


@pytest.mark.skipif(CUDA in onnxruntime.get_available_providers(), reason="this onnxruntime knows CUDA")
def test_b90_auto_on_this_machine_takes_the_cpu_and_says_why(load: Load) -> None:
    details = load(ECHO).details
    assert (details["engine"], details["device"], details["providers"]) == (VERSION, "cpu", CPU)
    assert details["fallback"] == NO_CUDA


def test_b90_the_cpu_that_was_asked_for_is_no_fallback(load: Load, build: Build) -> None:
    assert "fallback" not in load(ECHO, device="cpu").details
    assert [names for names, *_ in build.opened] == [[CPU]]


@pytest.mark.parametrize(
    ("failing", "unloadable", "reason"),
    [
        pytest.param({}, {CUDA}, f"{CUDA}: does not load, the log says why", id="left out in silence"),
        pytest.param({CUDA: "CUDA failure 100: none"}, set[str](), f"{CUDA}: CUDA failure 100: none", id="raising"),
    ],
)
def test_b90_a_provider_that_is_listed_need_not_be_usable(
    load: Load, refused: Refused, build: Build, failing: dict[str, str], unloadable: set[str], reason: str
) -> None:
    build.available, build.failing, build.unloadable = [CUDA, CPU], failing, unloadable
    runner = load(ECHO, device="auto")
    assert (runner.details["device"], runner.details["providers"]) == ("cpu", CPU)
    assert runner.details["fallback"] == reason
    assert runner(IMAGE)[0].shape == IMAGE.shape
    assert refused(ECHO, device="gpu") == f"device gpu: no usable GPU: {reason}{HINT}"


def test_b90_the_library_that_is_missing_is_named(
    load: Load, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime itself only logs it."""
    real = INSTALLED / "capi" / "libonnxruntime_providers_shared.so"
    if not real.exists():
        pytest.skip("this onnxruntime has no library for providers")
    build.available, build.unloadable = [CUDA, CPU], {CUDA}
    (tmp_path / "capi").mkdir()
    shutil.copy(real, tmp_path / "capi")
    (tmp_path / "capi/libonnxruntime_providers_cuda.so").write_bytes(b"short")
    monkeypatch.setattr(onnxruntime, "__file__", str(tmp_path / "__init__.py"))
    fallback = load(ECHO).details["fallback"]
    assert fallback.startswith(f"{CUDA}: /")
    assert fallback.endswith("libonnxruntime_providers_cuda.so: file too short")


def test_b90_a_usable_gpu_is_no_fallback(load: Load, build: Build) -> None:
    for device in ("auto", "gpu"):
        details = load(ECHO, device=device, device_id=1).details
        assert (details["device"], details["providers"]) == ("gpu 1", f"{CUDA},{CPU}")
        assert "fallback" not in details
    assert [options for _, options, *_ in build.opened] == [{"device_id": 1, "use_tf32": 0}] * 2


def test_b90_a_graph_that_is_refused_is_not_taken_for_a_missing_gpu(refused: Refused, build: Build) -> None:
    for device in ("auto", "gpu", "tensorrt"):
        assert refused(graphs.echo(ir=99), device=device).startswith("model.onnx: model IR 99, ")
    assert build.opened[-1][0] == [CPU]


def test_b90_the_gpu_is_not_left_in_the_middle_of_a_run(load: Load, build: Build) -> None:
    """A session that may fall back runs on the CPU for good after one failure, with a line on stdout only."""
    load(ECHO)
    assert build.opened[0][2] == {"enable_fallback": 0}
    assert build.no_fallback_at_run == 1


@pytest.mark.parametrize(("tf32", "given"), [(False, 0), (True, 1)])
def test_float32_stays_float32_on_the_gpu_unless_asked_otherwise(
    load: Load, build: Build, tf32: bool, given: int
) -> None:
    load(ECHO, tf32=tf32)
    assert build.opened[0][1]["use_tf32"] == given


def test_an_option_is_not_given_to_a_release_that_does_not_know_it(
    load: Load, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "1.17.3")
    load(ECHO)
    assert build.opened[0][1] == {"device_id": 0}


@pytest.mark.parametrize("device", ["auto", "gpu", "tensorrt"])
def test_b91_a_build_without_gpu_providers(load: Load, refused: Refused, build: Build, device: str) -> None:
    """Both wheels installed: the one for the CPU hides the other, and unknown names may not be passed on."""
    build.available = [AZURE, CPU]
    missing = f"{NO_TENSORRT}; {NO_CUDA}" if device == "tensorrt" else NO_CUDA
    if device == "auto":
        assert load(ECHO).details["fallback"] == missing
    else:
        assert refused(ECHO, device=device) == f"device {device}: no usable GPU: {missing}{HINT}"
    assert [names for names, *_ in build.opened] == [[CPU]]


@pytest.mark.parametrize(
    ("available", "failing", "unloadable", "reason"),
    [
        pytest.param([CUDA, CPU], {}, set[str](), NO_TENSORRT, id="not in this build"),
        pytest.param(
            ALL,
            {TENSORRT: "/onnxruntime_src/a.cc:729 void f(const P&) Please install TensorRT libraries"},
            set[str](),
            f"{TENSORRT}: Please install TensorRT libraries",
            id="raising",
        ),
        pytest.param(ALL, {}, {TENSORRT}, f"{TENSORRT}: does not load, the log says why", id="left out in silence"),
    ],
)
def test_b92_tensorrt_falls_to_cuda_and_says_so(
    load: Load, build: Build, available: list[str], failing: dict[str, str], unloadable: set[str], reason: str
) -> None:
    build.available, build.failing, build.unloadable = available, failing, unloadable
    details = load(ECHO, device="tensorrt", device_id=3).details
    assert (details["device"], details["providers"]) == ("gpu 3", f"{CUDA},{CPU}")
    assert details["fallback"] == reason
    # The session that is used is one that was opened for CUDA, with its device.
    assert build.opened[-1][:2] == ([CUDA, CPU], {"device_id": 3, "use_tf32": 0})


def test_b92_tensorrt_is_used_only_when_asked_for_and_then_is_no_fallback(load: Load, build: Build) -> None:
    details = load(ECHO, device="tensorrt").details
    assert (details["device"], details["providers"]) == ("gpu 0", ",".join(ALL))
    assert "fallback" not in details
    assert build.opened[0][1] == {"device_id": 0}
    for device in ("auto", "gpu"):
        load(ECHO, device=device)
    assert [names for names, *_ in build.opened[1:]] == [[CUDA, CPU]] * 2


def test_b92_neither_tensorrt_nor_cuda_is_a_load_error_with_both_reasons(refused: Refused, build: Build) -> None:
    build.failing, build.unloadable = {TENSORRT: "no nvinfer"}, {CUDA}
    assert refused(ECHO, device="tensorrt") == (
        f"device tensorrt: no usable GPU: {TENSORRT}: no nvinfer; {CUDA}: does not load, the log says why{HINT}"
    )


@pytest.mark.parametrize(
    ("available", "device", "calls"),
    [
        pytest.param([CUDA, CPU], "auto", 1, id="auto"),
        pytest.param(ALL, "tensorrt", 1, id="tensorrt"),
        pytest.param([CUDA, CPU], "cpu", 0, id="the CPU is asked for"),
        pytest.param([AZURE, CPU], "auto", 0, id="no CUDA in this build"),
    ],
)
def test_cuda_is_preloaded_where_it_may_be_used_and_in_silence(
    load: Load,
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    available: list[str],
    device: str,
    calls: int,
) -> None:
    called: list[int] = []

    def preload() -> None:
        called.append(len(build.opened))
        print("Failed to load libcublasLt.so.13: libcublasLt.so.13: cannot open shared object file")

    monkeypatch.setattr(onnxruntime, "preload_dlls", preload, raising=False)
    build.available = available
    load(ECHO, device=device)
    assert called == [0] * calls
    assert capfd.readouterr() == ("", "")


def test_a_release_that_cannot_preload(load: Load, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(onnxruntime, "preload_dlls")
    assert load(ECHO).details["device"] == "gpu 0"
    assert len(build.opened) == 1


@pytest.mark.parametrize(("asked", "given"), [(0, None), (1, 1), (3, 3)])
def test_b93_threads_are_set_not_guessed(load: Load, build: Build, asked: int, given: int | None) -> None:
    details = load(ECHO, threads=asked, device="cpu").details
    settings = build.opened[0][3]
    assert settings.intra_op_num_threads == int(details["threads"]) == (given or cpus.thread_count())
    assert settings.inter_op_num_threads == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_b93_a_cpuset_is_counted(load: Load) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert load(ECHO, device="cpu").details["threads"] == "1"
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("0", "0")], ids=["not set", "the operator's own word"])
def test_the_engine_reports_to_nobody_unless_the_operator_says_so(
    load: Load, monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    if before is None:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    else:
        monkeypatch.setenv("ORT_DISABLE_TELEMETRY", before)
    load(ECHO)
    assert os.environ["ORT_DISABLE_TELEMETRY"] == after
