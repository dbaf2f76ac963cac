"""Whatever a manifest holds, it is read or refused in lines; nothing else comes out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convertor.convert import Options, prepare
from convertor.errors import RefusedError
from convertor.manifest import keys
from convertor.manifest.parse import parse_manifest
from convertor.plan import describe_plan
from tests.convertor.packages import onnx_bytes, write_zip

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 700)
    | st.integers()
    | st.floats(-2, 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
    | st.sampled_from(["yolo", "rf_detr", "anomaly", "object_detection", "onnx", "cpu", "area", "softmax", "capture"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def block(known: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(sorted(known)) | st.text(max_size=8), VALUES, max_size=5)


MANIFESTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(keys.TOP, VALUES),
        "task": st.sampled_from(["anomaly", "object_detection"]) | VALUES,
        "detection": block(keys.DETECTION) | VALUES,
        "dataset": block(keys.DATASET) | VALUES,
        "serving": block(keys.SERVING) | VALUES,
        "execution": block(keys.EXECUTION) | VALUES,
        "outputs": st.dictionaries(st.text(max_size=5), block(keys.OUTPUT) | VALUES, max_size=3) | VALUES,
        "model_graph": st.fixed_dictionaries(
            {},
            optional={
                "stages": st.lists(block({**keys.DETECTION_STAGE, **keys.ANOMALY_STAGE}), max_size=2) | VALUES,
                "image_level_classes": block(keys.CLASS_LIST) | VALUES,
                "pixel_level_classes": block(keys.CLASS_LIST) | VALUES,
            },
        ),
    },
)


def lines_are_fit_to_print(error: RefusedError) -> None:
    assert error.problems
    assert all(line.isprintable() and line for line in error.lines())


@settings(max_examples=300, deadline=None)
@given(MANIFESTS | VALUES)
def test_a_manifest_is_read_or_refused(manifest: Any) -> None:
    try:
        parsed = parse_manifest(json.dumps(manifest).encode("utf-8", "surrogatepass"))
    except RefusedError as error:
        lines_are_fit_to_print(error)
    else:
        assert all(line.isprintable() for line in parsed.warnings)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_manifest(data)
    except RefusedError as error:
        lines_are_fit_to_print(error)


AXES = st.none() | st.integers(-1, 5) | st.sampled_from(["b", 64, 32])
SHAPES = st.none() | st.lists(AXES, max_size=5) | st.tuples(st.just(1), st.just(3), AXES, AXES)
# Values of the right kind, so that most packages get past the manifest.
FRACTIONS, COUNTS, FLAGS = st.floats(0, 1), st.integers(1, 400), st.booleans()
NAMES = st.lists(st.text("abc", min_size=1, max_size=3), max_size=4)
PLAUSIBLE = st.fixed_dictionaries(
    {"task": st.sampled_from(["anomaly", "object_detection"])},
    optional={
        "class_names": NAMES,
        "detection": st.fixed_dictionaries(
            {"layout": st.sampled_from(["yolo", "rf_detr"])},
            optional={
                "num_classes": COUNTS,
                "classes": st.lists(COUNTS | st.sampled_from("abc"), min_size=1, max_size=3),
                "class_thresholds": st.dictionaries(st.sampled_from("abc"), FRACTIONS, max_size=2),
                "network_input": COUNTS | st.lists(COUNTS, min_size=2, max_size=2),
                "background_class": st.integers(-2, 4),
            },
        ),
        "model_graph": st.fixed_dictionaries(
            {
                "stages": st.lists(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "threshold": FRACTIONS,
                            "input_shape": st.lists(st.integers(-1, 64), min_size=4, max_size=4),
                            "image_width": COUNTS,
                            "image_height": COUNTS,
                            "normalize": FLAGS,
                            "image_range_scale": FLAGS,
                            "mean": st.lists(FRACTIONS, min_size=1, max_size=4),
                        },
                    ),
                    max_size=1,
                )
            }
        ),
        "outputs": st.dictionaries(
            st.sampled_from(["boxes", "logits", "map", "x"]),
            st.fixed_dictionaries({"tensor": st.integers(0, 2) | st.sampled_from("ab")}),
            max_size=2,
        ),
    },
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    PLAUSIBLE,
    st.just((1, 3, 64, 64)) | SHAPES,
    st.dictionaries(st.text("ab", min_size=1, max_size=2), SHAPES, max_size=3),
)
def test_a_package_is_planned_or_refused(manifest: dict[str, Any], image: Any, outputs: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        graph = onnx_bytes({"images": image}, outputs)
        package = write_zip(Path(folder) / "p.zip", {"runtime": "onnx", **manifest}, {"model.onnx": graph})
        try:
            (one,) = prepare([package], Options(Path(folder) / "models"), stack)
        except RefusedError as error:
            lines_are_fit_to_print(error)
        else:
            json.dumps(describe_plan(one.plan), allow_nan=False)
