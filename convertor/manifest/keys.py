"""Every key that is read from manifest.json. docs/manifest.md explains them; a test compares the two."""

from __future__ import annotations

from collections.abc import Mapping

from .kinds import Kind, block, blocks, boolean, choice, fraction, list_of, names, number, side, size, text, whole

Keys = Mapping[str, Kind]

DEVICES = ("auto", "cpu", "gpu", "cuda", "tensorrt")
_class_id = whole(0, 65_535)
_any_class = Kind("a class id or name", lambda value: _class_id.accepts(value) or text.accepts(value))
_thresholds = Kind(
    "an object {class name: threshold from 0 to 1}",
    lambda value: block.accepts(value) and all(fraction.accepts(entry) for entry in value.values()),
)
_per_channel = list_of(number(-1e6, 1e6), "numbers (one per channel)", 1, 4)
_positive_per_channel = list_of(number(1e-9, 1e6), "positive numbers (one per channel)", 1, 4)
_axis = Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))

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
DATASET: Keys = {"image_width": side, "image_height": side, "class_names": names}
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
    "classes": list_of(_any_class, "class ids or names", 1),
    "class_thresholds": _thresholds,
    "network_input": size,
    "box_format": choice("cxcywh", "xyxy"),
    "end_to_end": boolean,
}
MODEL_GRAPH: Keys = {
    "model_graph_type": text,
    "stages": blocks,
    "image_level_classes": block,
    "pixel_level_classes": block,
    "bbox_level_classes": block,
}
CLASS_LIST: Keys = {"names": list_of(text, "names"), "normal_ids": list_of(_class_id, "class ids")}
STAGE: Keys = {
    "type": text,
    "stage_type": text,
    "threshold": number(-1e9, 1e9),
    "image_width": side,
    "image_height": side,
    "input_shape": list_of(_axis, "axes (batch first)", 4, 4),
    "image_range_scale": boolean,
    "normalize": boolean,
    "mean": _per_channel,
    "std": _positive_per_channel,
    "interpolation": choice("area", "linear", "cubic", "nearest"),
    "preserve_aspect": boolean,
    "channel_order": choice("rgb", "bgr"),
    "class_normal_ids": list_of(_class_id, "class ids"),
}
OUTPUT: Keys = {
    "tensor": Kind("an output's name or number", lambda value: text.accepts(value) or whole(0, 1000).accepts(value)),
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
    "queue_delay_us": whole(0, 60_000_000),
    "warmup": boolean,
    "threads": whole(1, 1024),
}
