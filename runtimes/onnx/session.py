"""Open an ONNX Runtime session on the device that is wanted, or on the next best and say why.

ONNX Runtime's own way down is not used: it is silent or prints to stdout, may take CUDA's first device in place of the
one that was asked for, and is taken in the middle of a run, too.

Payload: runs inside the server's python (3.9 or newer); needs nothing but the engine that it is given.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from ..contract import Array, RunnerError, RunnerOptions
from .refusals import explain, one_line

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
# Best first.
PROVIDERS = {
    "cpu": (CPU,),
    "gpu": (CUDA, CPU),
    "auto": (CUDA, CPU),
    "tensorrt": (TENSORRT, CUDA, CPU),
}


class Session(Protocol):
    """What is used of onnxruntime.InferenceSession."""

    def get_inputs(self) -> Sequence[Any]:
        """The graph's inputs: name, type, shape."""
        ...

    def get_outputs(self) -> Sequence[Any]:
        """The graph's outputs."""
        ...

    def get_providers(self) -> list[str]:
        """What it really runs on, best first."""
        ...

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Array]) -> list[Array]:
        """Run one batch."""
        ...


def open_session(engine: ModuleType, options: RunnerOptions, threads: int) -> tuple[Session, str]:
    """Return a session, and why it runs without the providers that come before its own; "" where none does.

    Args:
        engine: The module onnxruntime.
        options: Artifact, device and device id.
        threads: Threads of one run.

    Raises:
        RunnerError: The engine refuses the graph, or a GPU was asked for and none can be used.
    """
    available = engine.get_available_providers()
    wanted = PROVIDERS[options.device]
    missed = [f"onnxruntime {engine.__version__} has no {name}" for name in wanted if name not in available]
    usable = [name for name in wanted if name in available]
    if CUDA in usable:
        _preload(engine)
    session = None
    while session is None:
        try:
            session = _create(engine, options, threads, usable)
        # The engine's exceptions share no base class of their own.
        except Exception as error:
            if len(usable) == 1:
                raise RunnerError(explain(options.artifact, engine.__version__, str(error))) from error
            missed.append(_why(engine, usable.pop(0), one_line(str(error))))
            continue
        running = session.get_providers()[0]
        passed_over = usable[: usable.index(running)]
        missed.extend(_why(engine, name, "does not load, the log says why") for name in passed_over)
        del usable[: len(passed_over)]
        if passed_over and running != CPU:
            # Made anew: ONNX Runtime before 1.20 falls from TensorRT to CUDA's first device, whichever was wanted.
            session = None
    reason = "; ".join(missed)
    if options.device in ("gpu", "tensorrt") and usable == [CPU]:
        raise RunnerError(
            f"device {options.device}: no usable GPU: {reason}; "
            "install onnxruntime-gpu and its CUDA libraries, or set device to auto"
        )
    return session, reason


def _create(engine: ModuleType, options: RunnerOptions, threads: int, names: Sequence[str]) -> Session:
    settings = engine.SessionOptions()
    # Set, not left to be guessed: a guess from the machine's cores ignores the CPUs a container may use.
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    providers = [name if name == CPU else (name, _provider_options(name, engine, options)) for name in names]
    session = engine.InferenceSession(str(options.artifact), settings, providers=providers, enable_fallback=0)
    # Otherwise a failing GPU is left for the CPU in the middle of a run, for good; before 1.20 the keyword is ignored.
    session.disable_fallback()
    return session


def _provider_options(name: str, engine: ModuleType, options: RunnerOptions) -> dict[str, int]:
    """Return a GPU provider's options.

    CUDA's search for the fastest convolutions stays exhaustive: it is made once for every size of input, a model has
    one size, and the trial run at load pays for it.
    """
    chosen = {"device_id": options.device_id}
    # Older ones refuse an option that they do not know; TensorRT's provider has none for it.
    if name == CUDA and tuple(map(int, engine.__version__.split(".")[:2])) >= (1, 18):
        chosen["use_tf32"] = int(options.tf32)
    return chosen


def _preload(engine: ModuleType) -> None:
    """Load CUDA and cuDNN from pip's nvidia-* wheels, where the loader does not look, else from the system."""
    if hasattr(engine, "preload_dlls"):  # from 1.21 on
        # It prints what it does not find, which matters only if the provider then fails: `_why` tells.
        with contextlib.redirect_stdout(io.StringIO()):
            engine.preload_dlls()


def _why(engine: ModuleType, name: str, otherwise: str) -> str:
    """Return why a provider is not used: the library that its own lacks, which ONNX Runtime only logs, if it lacks one.

    Called after ONNX Runtime has tried: what the provider's library runs when it is loaded needs it set up.
    """
    folder = Path(str(engine.__file__)).parent / "capi"
    library = folder / f"libonnxruntime_providers_{name[: -len('ExecutionProvider')].lower()}.so"
    if library.exists():
        try:
            # Its own library takes functions from this one, without naming it.
            ctypes.CDLL(str(folder / "libonnxruntime_providers_shared.so"), ctypes.RTLD_GLOBAL)
            ctypes.CDLL(str(library))
        except OSError as error:
            return f"{name}: {error}"
    return f"{name}: {otherwise}"
