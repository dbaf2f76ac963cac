"""Each engine of this python: loading a model, and a call of our runner, beside the bare library's own loop."""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import demo.model
from bench import networks
from bench.timing import Row
from runtimes.contract import RunnerOptions, make_runner

Array = np.ndarray[Any, Any]
Call = Callable[[Array], Any]
SIDE = 32
LOADS, LARGE_LOADS = 15, 5
BLOCKS, CALLS = 60, 50
TARGET = "0.2 ms"


def runner_over_bare() -> list[Row]:
    """Return a row of latency and one of loading per engine, then loading of models of YOLOv8n's size.

    Every engine runs in a process of its own, with one thread; runner and bare library take turns in blocks.
    """
    rows: list[Row] = []
    kinds = networks.available()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for kind, runtime in kinds.items():
            artifact = networks.write(kind, folder / kind, SIDE)
            rows += _alone(_latency, kind, runtime, artifact)
            rows += _alone(_loading, kind, runtime, artifact, "tiny", LOADS)
        for kind, runtime in kinds.items():
            if runtime == "pytorch":
                artifact = networks.write_large(kind, folder / f"large-{kind}")
                rows += _alone(_loading, kind, runtime, artifact, f"{networks.LAYERS} convolutions", LARGE_LOADS)
            elif kind == "onnx":
                rows += _alone(_loading, kind, runtime, demo.model.fetch()[0], "yolov8n-doclaynet", LARGE_LOADS)
    return rows


def _alone(measure: Callable[..., Row], *arguments: object) -> list[Row]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return [pool.apply(measure, arguments)]


def _latency(kind: str, runtime: str, artifact: Path) -> Row:
    runner, bare = make_runner(runtime, RunnerOptions(artifact, "cpu", threads=1)), _BARE[kind](artifact)
    batch = np.random.default_rng(1).random((1, 3, SIDE, SIDE), np.float32)
    pairs: list[tuple[list[float], list[float]]] = []
    for block in range(BLOCKS + 2):
        pair = (_block(bare, batch), _block(runner, batch))
        if block >= 2:  # the engine has warmed up
            pairs.append(pair)
    bare_ms, ours_ms = ([time for block in side for time in block] for side in zip(*pairs))
    extra = statistics.median(statistics.median(ours) - statistics.median(bare) for bare, ours in pairs)
    figure = (
        f"{extra:+.3f} ms ({statistics.median(ours_ms):.3f} over {statistics.median(bare_ms):.3f}; "
        f"least {min(ours_ms):.3f} over {min(bare_ms):.3f})"
    )
    return Row(f"{kind}: runner - bare per call, {SIDE} px", figure, TARGET, runner.details["engine"])


def _block(call: Call, batch: Array) -> list[float]:
    taken: list[float] = []
    for _ in range(CALLS):
        started = time.perf_counter()
        call(batch)
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def _loading(kind: str, runtime: str, artifact: Path, model: str, loads: int) -> Row:
    """Time loading from the file cache, without the engine's import."""

    def load() -> object:
        return make_runner(runtime, RunnerOptions(artifact, "cpu", threads=1))

    load(), _BARE[kind](artifact)
    pairs = [(_once(lambda: _BARE[kind](artifact)), _once(load)) for _ in range(loads)]
    bare_ms, ours_ms = zip(*pairs)
    extra = statistics.median(ours - bare for bare, ours in pairs)
    figure = (
        f"{extra:+.1f} ms ({statistics.median(ours_ms):.1f} over {statistics.median(bare_ms):.1f}; "
        f"least {min(ours_ms):.1f} over {min(bare_ms):.1f})"
    )
    return Row(f"{kind}: runner - bare to load, {model}", figure, "-", f"{artifact.stat().st_size / 1e6:.1f} MB")


def _once(load: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    kept = load()
    taken = (time.perf_counter() - started) * 1e3
    del kept
    return taken


def _bare_onnx(artifact: Path) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(artifact), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch})


def _bare_torch(load: Callable[[Any, str], Any]) -> Callable[[Path], Call]:
    def open_module(artifact: Path) -> Call:
        import torch

        torch.set_num_threads(1)
        module = load(torch, str(artifact))

        def call(batch: Array) -> list[Array]:
            with torch.inference_mode():
                found = module(torch.from_numpy(batch))
            return [tensor.numpy() for tensor in (found if isinstance(found, tuple) else (found,))]

        return call

    return open_module


def _bare_dlr(artifact: Path) -> Call:
    # Imported by the runner before: on its own it would report the load to its maker.
    import dlr

    model = dlr.DLRModel(str(artifact.parent), "cpu", 0)
    name = model.get_input_names()[0]
    return lambda batch: model.run({name: batch})


_BARE: dict[str, Callable[[Path], Call]] = {
    "onnx": _bare_onnx,
    "torchscript": _bare_torch(lambda torch, path: torch.jit.load(path, map_location="cpu").eval()),
    "pt2": _bare_torch(lambda torch, path: torch.export.load(path).module()),
    "dlr": _bare_dlr,
}
