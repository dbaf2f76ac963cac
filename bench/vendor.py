"""Our decode against Ultralytics' own NMS on this CPU: in turn in one process, on the same head, for the same result.

The vendor's function suppresses in Python, and by torchvision's compiled nms once torchvision has been imported, as its
predictor does: both are measured. Needs torch, torchvision and ultralytics; without them it measures nothing.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.payload import SETTINGS, yolo_head
from bench.timing import Row
from postprocessors.contract import DecoderConfig, make_decoder
from postprocessors.geometry import FrameGeometry
from postprocessors.results import Detections

FRAME = FrameGeometry((1280, 1280), (640, 640), (640, 640))
WARM_UP, RUNS = 10, 150
Call = Callable[[], Any]


def nms() -> list[Row]:
    """Time both with 20 and 300 objects, without torchvision and with it, with as many threads as torch takes and one.

    At 0.7, the vendor's IoU threshold in its predictor, and 0.45, its function's default.
    """
    try:
        torch = importlib.import_module("torch")
        for name in ("ultralytics.utils.nms", "ultralytics.utils.ops"):
            importlib.import_module(name)
        rows = [] if "torchvision" in sys.modules else _rows(torch, torch.get_num_threads(), "without torchvision")
        importlib.import_module("torchvision")
    except ImportError as error:
        print(f"bench: nms is left out: {error}; install torch, torchvision and ultralytics", file=sys.stderr)
        return []
    for threads in dict.fromkeys((torch.get_num_threads(), 1)):
        rows += _rows(torch, threads, "with torchvision")
    return rows


def _rows(torch: Any, threads: int, how: str) -> list[Row]:  # noqa: ANN401 - an optional package
    torch.set_num_threads(threads)
    with torch.inference_mode():
        return [_row(objects, iou, f"{how}, {threads} threads") for objects in (20, 300) for iou in (0.7, 0.45)]


def _row(objects: int, iou: float, how: str) -> Row:
    head = yolo_head(objects)
    settings = {**SETTINGS, "score_threshold": 0.25, "iou_threshold": iou, "compare": "greater"}
    decode = make_decoder("yolo", DecoderConfig(settings))

    def ours() -> Any:  # noqa: ANN401 - Detections, as _check_alike finds
        return decode([head], [FRAME])[0]

    suppress, in_source = _vendor(head, iou)
    found = _check_alike(ours(), in_source().numpy())
    mine, suppressed, whole = _in_turn(ours, suppress, in_source)
    ratio = statistics.median(theirs / own for own, theirs in zip(mine, suppressed))
    least = f"least {min(suppressed) / min(mine):.1f}, to source pixels {min(whole) / min(mine):.1f}"
    return Row(
        f"vendor's NMS {how}, over decode: {objects} objects, IoU {iou} ({found} found)",
        f"{ratio:.1f} x ({least})",
        "5 x",
        f"{statistics.median(suppressed):.2f} ms (least {min(suppressed):.2f}, to source pixels {min(whole):.2f}) "
        f"over {statistics.median(mine):.2f} (least {min(mine):.2f})",
    )


def _vendor(head: np.ndarray[Any, np.dtype[np.float32]], iou: float) -> tuple[Call, Call]:
    """Return the vendor's NMS, and the same with its way back to source pixels, which decode has behind it as well."""
    nms, ops = (sys.modules[f"ultralytics.utils.{name}"] for name in ("nms", "ops"))
    tensor = sys.modules["torch"].from_numpy(head)

    def suppress() -> Any:  # noqa: ANN401 - a tensor of an optional package
        return nms.non_max_suppression(tensor, conf_thres=0.25, iou_thres=iou, max_det=SETTINGS["max_det"])[0]

    def in_source() -> Any:  # noqa: ANN401
        rows = suppress()
        ops.scale_boxes(FRAME.network, rows[:, :4], FRAME.source)
        return rows

    return suppress, in_source


def _check_alike(found: object, rows: np.ndarray[Any, np.dtype[np.float32]]) -> int:
    """Return how many were found; raise where the vendor's rows [n, 6] say something else."""
    assert isinstance(found, Detections)  # noqa: S101
    order, theirs = np.lexsort((found.boxes[:, 0], -found.scores)), rows[np.lexsort((rows[:, 0], -rows[:, 4]))]
    np.testing.assert_array_equal(found.class_ids[order], theirs[:, 5])
    np.testing.assert_allclose(found.scores[order], theirs[:, 4], atol=1e-6)
    np.testing.assert_allclose(found.boxes[order], theirs[:, :4], atol=1e-2)
    return len(found)


def _in_turn(*calls: Call) -> list[list[float]]:
    """Return each call's times in milliseconds; they take turns, so that all meet the same noise."""
    taken: list[list[float]] = [[] for _ in calls]
    for lap in range(WARM_UP + RUNS):
        for call, times in zip(calls, taken):
            started = time.perf_counter()
            call()
            if lap >= WARM_UP:
                times.append((time.perf_counter() - started) * 1e3)
    return taken
