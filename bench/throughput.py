"""Images per second of the 320-pixel detector: 4 clients through the whole ensemble, over a bare `session.run` loop."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.timing import Row
from convertor.serve.process import running_server
from training.scenes import draw_parts

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tests/packages/parts_yolo"
CLIENTS = 4
SECONDS = 6.0
ROUNDS = 3


def served_over_bare() -> list[Row]:
    """Alternate the bare loop and the served clients; quote the median ratio of one run."""
    image = draw_parts(500_000, (320, 320), "evaluation").image
    rows: list[Row] = []
    # Both sides have the same number of engine threads in all.
    for instances, threads in ((1, 1), (1, 2), (2, 1)):
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            repository = _repository(Path(name), instances, threads)
            with running_server(repository) as server:
                pairs = [(_bare(instances * threads), _served(server.grpc_url, image)) for _ in range(ROUNDS)]
        ratio = statistics.median(served / bare for bare, served in pairs)
        bare, served = (statistics.median(side) for side in zip(*pairs))
        bound = "CPU: engine, JPEG, gRPC and clients share 2 cores; the bare loop has them to itself"
        name = f"served / bare, 320 px, {CLIENTS} clients, instances {instances} x threads {threads}"
        rows.append(Row(name, f"{ratio:.2f} ({served:.0f} / {bare:.0f} images/s)", "0.85", bound))
    return rows


def _repository(folder: Path, instances: int, threads: int) -> Path:
    package = folder / "parts_yolo"
    shutil.copytree(PACKAGE, package)
    manifest = json.loads((package / "manifest.json").read_text("utf-8"))
    manifest["serving"] = {"instances": instances, "threads": threads}
    (package / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    command = [sys.executable, "-m", "convertor", "convert", str(package), "-o", str(folder / "repository")]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return folder / "repository"


def _bare(threads: int) -> float:
    """Return images per second of `session.run` alone, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_bare_loop, (threads,))


def _bare_loop(threads: int) -> float:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(PACKAGE / "model.onnx"), options, providers=["CPUExecutionProvider"])
    batch = np.zeros((1, 3, 320, 320), np.float32)
    for _ in range(20):
        session.run(None, {"images": batch})
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        session.run(None, {"images": batch})
        count += 1
    return count / (time.perf_counter() - started)


def _served(url: str, image: np.ndarray[Any, Any]) -> float:
    with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
        return sum(pool.starmap(_client_loop, [(url, image)] * CLIENTS))


def _client_loop(url: str, image: np.ndarray[Any, Any]) -> float:
    import tritonclient.grpc as triton

    client = triton.InferenceServerClient(url)
    inputs: list[Any] = []
    for name, value in (("input", image), ("METADATA", np.frombuffer(b"{}", np.uint8))):
        inputs.append(triton.InferInput(name, list(value.shape), "UINT8"))
        inputs[-1].set_data_from_numpy(value)
    for _ in range(20):
        client.infer("parts_yolo", inputs)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        client.infer("parts_yolo", inputs)
        count += 1
    return count / (time.perf_counter() - started)
