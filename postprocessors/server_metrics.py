"""A model's numbers on the server's /metrics: `convertor_*`, labelled with model and version.

Payload: runs inside the server's python (3.9 or newer); needs the standard library only.
`triton_python_backend_utils` is an argument because it exists inside the server only.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# Name -> what it counts. Counters, named as Prometheus has it; what is in seconds says so.
_COUNTERS = {
    "stage_calls_total": "Calls of a stage; one call takes the images or the requests of a batch",
    "stage_seconds_total": "Seconds spent in a stage",
    "images_total": "Images whose result was found",
    "detections_total": "Objects that were found",
    "fallbacks_total": "Batches that failed and were run image by image",
    "request_failures_total": "Requests that were answered with an error, by what was wrong",
}


class ServerMetrics:
    """Counts and times; silently nothing where the server has no metrics.

    Args:
        pb_utils: The server's module.
        model: The model's own name (`base_<m>`).
        version: Its version.
    """

    def __init__(self, pb_utils: ModuleType, model: str, version: str) -> None:
        self._pb_utils = pb_utils
        self._labels = {"model": model, "version": version}
        # All are kept to the end: letting a family go takes the other models' series with it.
        self._families: dict[str, Any] = {}
        self._series: dict[tuple[str, ...], Any] = {}
        self.problem = ""

    def device(self, wanted: str, used: str) -> None:
        """Show the device that the engine runs on: a GPU that was wanted and not got should not go unseen."""
        described = "The device that a model's engine runs on, beside the one that was wanted; always 1"
        series = self._make("model_device", described, "GAUGE", {"wanted": wanted, "device": used})
        if series is not None:
            series.set(1)

    def add(self, name: str, value: float, **label: str) -> None:
        """Add to the counter `convertor_<name>_total`, the series of this label where it has one.

        It takes the server some 25 microseconds: once per batch, not once per image.
        """
        counter = f"{name}_total"
        key = counter, *label.values()
        if key not in self._series:
            self._series[key] = self._make(counter, _COUNTERS[counter], "COUNTER", label)
        series = self._series[key]
        if series is not None and value:
            series.increment(value)

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Count a call of a stage and its time, whether it fails or not."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add("stage_seconds", time.perf_counter() - start, stage=name)
            self.add("stage_calls", 1, stage=name)

    def _make(self, name: str, described: str, kind: str, label: Mapping[str, str]) -> Any:  # noqa: ANN401 - untyped
        try:
            if name not in self._families:
                family_kind = getattr(self._pb_utils.MetricFamily, kind)
                self._families[name] = self._pb_utils.MetricFamily(
                    name=f"convertor_{name}", description=described, kind=family_kind
                )
            return self._families[name].Metric(labels={**self._labels, **label})
        # Releases before 23.05 have none, and an operator may have switched metrics off: no reason not to serve.
        except Exception as error:
            self.problem = self.problem or " ".join(str(error).split())
            return None
