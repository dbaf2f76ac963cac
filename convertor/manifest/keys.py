"""Every key that is read from manifest.json. docs/manifest.md explains them; a test compares the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .kinds import (
    Kind,
    block,
    blocks,
    boolean,
    choice,
    class_id,
    class_ids,
    either,
    fraction,
    list_of,
    map_of,
    names,
    number,
    side,
    size,
    text,
    whole,
)

Keys = Mapping[str, Kind]

DEVICES = ("auto", "cpu", "gpu", "cuda", "tensorrt")
# Decoders are there for all of them; which are served depends on the profile.
TASKS = (
    "anomaly",
    "object_detection",
    "instance_segmentation",
    "keypoint_detection",
    "oriented_detection",
    "classification",
    "semantic_segmentation",
)
_per_channel = list_of(number(-1e6, 1e6), "numbers (one per channel)", 1, 4)
_positive_per_channel = list_of(number(1e-9, 1e6), "positive numbers (one per channel)", 1, 4)
_axis = whole(-(2**31), 2**31 - 1)

TOP: Keys = {
    "runtime": text,
    "runtime_artifact": text,
    "device": choice(*DEVICES),
    "task": text,
    "model_name": text,
    "class_names": names,
    "dataset": block,
    "detection": block,
    "outputs": block,
    "model_graph": block,
    "execution": block,
    "serving": block,
}
LABELS: Keys = {"class_names": names}
DATASET: Keys = {"image_width": side, "image_height": side, **LABELS}
DETECTION: Keys = {
    "layout": text,
    "num_classes": whole(1, 65_536),
    "class_names": names,
    "score_threshold": fraction,
    "iou_threshold": fraction,
    "top_k": whole(1, 100_000),
    "max_det": whole(1, 100_000),
    "use_softmax": boolean,
    "background_class": whole(-65_536, 65_535),
    "class_agnostic": boolean,
    "compare": choice("greater_equal", "greater"),
    "classes": list_of(either(class_id, text), "class ids or names, not empty", 1),
    "class_thresholds": map_of(fraction, "an object {class name: threshold from 0 to 1}"),
    "network_input": size,
    "box_format": choice("cxcywh", "xyxy"),
    "boxes_normalized": boolean,
    "channels_first": boolean,
    "objectness": boolean,
    "multi_label": boolean,
    "clip_before_nms": boolean,
    "keypoints": list_of(whole(1, 1000), "whole numbers from 1 to 1000 (points, numbers per point)", 2, 2),
    "end_to_end": boolean,
}
MODEL_GRAPH: Keys = {"model_graph_type": text, "stages": blocks}
ANOMALY_GRAPH: Keys = {**MODEL_GRAPH, "image_level_classes": block, "pixel_level_classes": block}
CLASS_LIST: Keys = {"names": list_of(text, "names"), "normal_ids": class_ids}
STAGE: Keys = {
    "type": text,
    "stage_type": text,
    "preset": text,
    "image_width": side,
    "image_height": side,
    "input_shape": list_of(_axis, "axes (batch first)", 4, 4),
    "image_range_scale": boolean,
    "normalize": boolean,
    "mean": _per_channel,
    "std": _positive_per_channel,
    "interpolation": choice("area", "linear", "cubic", "nearest", "antialias"),
    "resize_dtype": choice("uint8", "float32"),
    "preserve_aspect": boolean,
    "resize": choice("stretch", "letterbox", "shortest_edge_crop"),
    "letterbox": choice("centre", "top_left"),
    "letterbox_margin": whole(0, 1024),
    "resize_rounding": choice("half_even", "floor"),
    "pad_value": whole(0, 255),
    "box_gain": choice("exact", "unrounded", "unrounded_pad", "unrounded_gain"),
    "channel_order": choice("rgb", "bgr"),
}
# A stage may say for itself what `detection` says for all stages; `threshold` is its score_threshold.
DETECTION_STAGE: Keys = {**DETECTION, **STAGE, "threshold": fraction}
ANOMALY_STAGE: Keys = {**STAGE, "threshold": number(-1e9, 1e9), "class_normal_ids": class_ids}
OUTPUT: Keys = {
    "tensor": Kind("an output's name or number", either(text, whole(0, 1000)).accepts),
    "activation": choice("none", "sigmoid", "softmax", "argmax"),
}
EXECUTION: Keys = {
    "preprocessor_id": text,
    "buffer_strategy_id": text,
    "scheduler_id": text,
    "postprocessor_id": text,
    "engine_plugin_id": text,
    "allow_compatibility_fallback": boolean,
}
SERVING: Keys = {
    "profile": choice("capture", "tensors"),
    "max_batch_size": whole(0, 1024),
    "instances": whole(1, 256),
    "gpus": list_of(whole(0, 255), "GPU numbers (whole numbers from 0 to 255)", 1, 256),
    "queue_delay_us": whole(0, 60_000_000),
    "preferred_batch_sizes": list_of(whole(1, 1024), "whole numbers from 1 to 1024", 1, 1024),
    "warmup": boolean,
    "threads": whole(1, 1024),
    "tf32": boolean,
}


@dataclass(frozen=True)
class TaskKeys:
    """The tables that a task reads; what is not read is not checked."""

    dataset: Keys
    detection: Keys
    model_graph: Keys
    stage: Keys


OF_ANOMALY = TaskKeys(DATASET, {}, ANOMALY_GRAPH, ANOMALY_STAGE)
OF_DETECTOR = TaskKeys(LABELS, DETECTION, MODEL_GRAPH, DETECTION_STAGE)
