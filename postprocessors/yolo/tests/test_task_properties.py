"""What holds for masks, keypoints and rotated boxes, whatever the numbers of the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.contract import DecodeError
from postprocessors.geometry import FrameGeometry
from postprocessors.yolo.tests.task_heads import check, task_decoder

TASKS = {"instance_segmentation": 3, "keypoint_detection": 6, "oriented_detection": 1}
CLASSES = 3
ANY_FLOAT = st.floats(width=32, allow_nan=True, allow_infinity=True)
PIXELS = st.floats(-50, 700, width=32)
ORDINARY = st.floats(-4, 4, width=32)
FRAMES = st.sampled_from(
    [
        FrameGeometry((64, 64), (64, 64), (64, 64)),
        FrameGeometry((11, 300), (2, 64), (64, 64), (31, 0)),
        FrameGeometry((300, 7), (64, 1), (64, 64), (0, 31)),
        FrameGeometry((90, 200), (64, 64), (64, 64)),
        FrameGeometry((33, 50), (64, 97), (64, 64), (0, -16), (1.9, 1.9), (0.5, -16.2)),
    ]
)


@st.composite
def batches(draw: st.DrawFn, numbers: Any) -> tuple[str, list[np.ndarray], dict[str, Any]]:
    """Draw a task, its outputs and settings for them."""
    task = draw(st.sampled_from(list(TASKS)))
    extras, count = TASKS[task], draw(st.integers(0, 12))
    scores = draw(hnp.arrays(np.float32, (1, CLASSES, count), elements=st.floats(0, 1, width=32)))
    boxes = draw(hnp.arrays(np.float32, (1, 4, count), elements=PIXELS | numbers))
    more = draw(hnp.arrays(np.float32, (1, extras, count), elements=numbers))
    if draw(st.booleans()):
        head = np.concatenate([boxes, scores, more], axis=1)
        stated = {"end_to_end": False, "objectness": False, "channels_first": True}
    else:
        class_ids = draw(hnp.arrays(np.float32, (1, 1, count), elements=st.integers(0, CLASSES - 1)))
        head = np.concatenate([boxes, scores[:, :1], class_ids, more], axis=1).transpose(0, 2, 1)
        stated = {"end_to_end": True}
    outputs = [head.astype(np.float16) if draw(st.booleans()) and numbers is ORDINARY else head]
    if task == "instance_segmentation":
        sides = draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
        outputs.insert(draw(st.integers(0, 1)), draw(hnp.arrays(np.float32, (1, extras, *sides), elements=numbers)))
    return task, outputs, {**stated, "boxes_normalized": False, "keypoints": [2, 3]}


@settings(deadline=None, max_examples=200)
@given(batches(ORDINARY) | batches(ANY_FLOAT), FRAMES, st.sampled_from([0.0, 0.25]), st.floats(0, 1), st.booleans())
def test_every_result_is_sane(
    batch: tuple[str, list[np.ndarray], dict[str, Any]],
    frame: FrameGeometry,
    threshold: float,
    iou: float,
    agnostic: bool,
) -> None:
    task, outputs, stated = batch
    decode = task_decoder(
        task, CLASSES, score_threshold=threshold, iou_threshold=iou, class_agnostic=agnostic, **stated
    )
    (found,) = decode(outputs, [frame])
    check(found, frame, CLASSES, threshold)
    assert (found.masks is None) == (task != "instance_segmentation")
    assert (found.keypoints is None) == (task != "keypoint_detection")
    assert (found.rotated is None) == (task != "oriented_detection")


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(list(TASKS)),
    st.lists(
        hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=9), fill=st.nothing()),
        max_size=4,
    ),
)
def test_other_shapes_are_decode_errors(task: str, outputs: list[np.ndarray]) -> None:
    tensors = [np.clip(np.nan_to_num(output), 0, 1) for output in outputs]
    frame = FrameGeometry((64, 64), (64, 64), (64, 64))
    try:
        check(task_decoder(task, 2)(tensors, [frame])[0], frame, 2)
    except DecodeError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize("task", list(TASKS))
def test_no_images_are_no_results(task: str) -> None:
    assert task_decoder(task, 1)([np.zeros((0, 56, 8400), np.float32)], []) == []
