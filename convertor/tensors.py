"""The tensors profile: every tensor name once, per task; the steps' and the ensembles' maps follow from it.

What marshal takes of base is never an ensemble's output: a server (2.51, measured) fails a request for a subset of an
ensemble's outputs when none of a step's is asked for although one of them feeds a later step. So base returns what
clients see and what marshal draws as two tensors, and the server does not even run marshal unless the overlay is asked
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convertor.facts import ArtifactFacts, TensorFact
from convertor.manifest.parse import MANIFEST
from convertor.notes import Notes
from convertor.wire import Batching, Tensor, Warmup, ensemble_step, ensemble_values, step_values

PROFILE = "tensors"
INPUT = "input"
ENCODED = "input_encoded"
IMAGE = "image"  # decode's output: what `input` is to the ensemble of raw images
DRAWN = "overlay_detections"
OVERLAY = "overlay"
# COCO's persons: what the decoders take a head without `detection.keypoints` for.
KEYPOINTS = [17, 3]
MAX_DET = 300

_DETECTORS = ("object_detection", "instance_segmentation", "keypoint_detection", "oriented_detection")
_TASKS_WITH_OVERLAY = (*_DETECTORS, "anomaly", "semantic_segmentation")


def _image(name: str) -> Tensor:
    return Tensor(name, "TYPE_UINT8", [-1, -1, 3], ragged=True)


def _bytes(name: str, ragged: bool = False) -> Tensor:
    return Tensor(name, "TYPE_UINT8", [-1], ragged)


def _numbers(name: str, *dims: int) -> Tensor:
    return Tensor(name, "TYPE_FP32", list(dims))


def _whole(name: str, *dims: int) -> Tensor:
    return Tensor(name, "TYPE_INT32", list(dims))


def task_outputs(task: str, decode: Mapping[str, Any]) -> list[Tensor]:
    """Return what base tells clients of one image.

    Args:
        task: One of keys.TASKS.
        decode: model.json's `decode` after `settle`, whose sizes are the outputs' dims.
    """
    if task == "classification":
        return [_numbers("class_scores", decode["top_k"]), _whole("class_ids", decode["top_k"])]
    if task == "anomaly":
        verdict = Tensor("is_anomalous", "TYPE_UINT8", [1])
        return [_numbers("anomaly_score", 1), verdict, _numbers("anomaly_map", -1, -1)]
    if task == "semantic_segmentation":
        return [Tensor("class_map", "TYPE_UINT8", [-1, -1])]
    rows: int = decode["max_det"]
    found = [
        _whole("num_dets", 1),
        _numbers("det_boxes", rows, 4),
        _numbers("det_scores", rows),
        _whole("det_classes", rows),
        _bytes("detections"),
    ]
    if task == "instance_segmentation":
        found.append(_bytes("det_masks"))
    if task == "keypoint_detection":
        found.append(_numbers("det_keypoints", rows, decode["keypoints"][0], 3))
    if task == "oriented_detection":
        found.append(_numbers("det_rboxes", rows, 5))
    return found


def settle(
    task: str, decode: Mapping[str, Any], outputs: Mapping[str, Any], facts: ArtifactFacts | None, notes: Notes
) -> dict[str, Any]:
    """Return model.json's `decode` with every size that an output's dims state.

    Args:
        task: One of keys.TASKS.
        decode: The settings, of which a size may be None.
        outputs: The manifest's output adapter.
        facts: What the graph says of itself; None when it says nothing.
        notes: Takes a problem for a size that nobody states.
    """
    settled = dict(decode)
    if task in _DETECTORS:
        settled["max_det"] = decode.get("max_det") or MAX_DET
    if task == "keypoint_detection":
        settled["keypoints"] = decode.get("keypoints") or KEYPOINTS
    if task == "classification":
        classes = decode.get("num_classes") or _class_count(outputs, facts)
        if classes is None:
            notes.problems.append(
                f"{MANIFEST}: detection.num_classes: expected the number of classes, which the graph leaves open, got "
                "nothing; set it, or list detection.class_names"
            )
        settled["top_k"] = min(decode["top_k"], classes or 1)
    return settled


def _class_count(outputs: Mapping[str, Any], facts: ArtifactFacts | None) -> int | None:
    """Return the columns of a classifier's only output, or of the one that the manifest names."""
    found: Sequence[TensorFact] = facts.outputs if facts else ()
    if "scores" in outputs:
        tensor = outputs["scores"]["tensor"]
        found = [output for index, output in enumerate(found) if tensor in (index, output.name)]
    # As classification/support.py has them: [batch, classes], or that of a global pooling.
    shapes = [output.shape or () for output in found]
    heads = [shape[1] for shape in shapes if len(shape) == 2 or (len(shape) == 4 and shape[2:] == (1, 1))]
    return heads[0] if len(heads) == 1 and isinstance(heads[0], int) and heads[0] > 0 else None


def decode_config(name: str, max_batch_size: int) -> dict[str, Any]:
    """Return what templates/decode/config.pbtxt.j2 needs: files in, images out."""
    return step_values(
        f"decode_{name}",
        [_bytes(ENCODED, ragged=True)],
        [Tensor(IMAGE, "TYPE_UINT8", [-1, -1, 3])],
        max_batch_size=max_batch_size,
        # Only what waits anyhow is batched: base's delay is the only one that a request sees.
        batching=Batching(0, []),
    )


def base_config(
    name: str,
    outputs: Sequence[Tensor],
    instances: Mapping[str, Any],
    max_batch_size: int,
    batching: Batching,
    warmup: Sequence[int] | None,
) -> dict[str, Any]:
    """Return what templates/base/config.pbtxt.j2 needs.

    Args:
        name: The ensemble's name.
        outputs: From `base_outputs`.
        instances: `instances`, `kind` and `gpus` of `wire.step_values`.
        max_batch_size: The most images of one call.
        batching: How long requests wait.
        warmup: The network's height and width, to try a full batch of such images; None: do not.
    """
    # Noise: some networks divide by an image's variance, and a request that fails keeps the model from loading.
    warmups = [Warmup("a full batch", max_batch_size, {INPUT: [*warmup, 3]}, random=True)] if warmup else []
    return step_values(
        f"base_{name}",
        [_image(INPUT)],
        outputs,
        **instances,
        max_batch_size=max_batch_size,
        batching=batching,
        warmups=warmups,
    )


def marshal_config(name: str, max_batch_size: int, warmup: Sequence[int] | None) -> dict[str, Any]:
    """Return what templates/marshal/config.pbtxt.j2 needs; its warm-up is an image on which nothing was found."""
    warmups = [Warmup("an image", 1, {INPUT: [*warmup, 3], DRAWN: [0]}, random=False)] if warmup else []
    return step_values(
        f"marshal_{name}",
        [_image(INPUT), _bytes(DRAWN, ragged=True)],
        [_bytes(OVERLAY)],
        max_batch_size=max_batch_size,
        batching=Batching(0, []),
        warmups=warmups,
    )


def has_overlay(task: str) -> bool:
    """Whether there is anything to draw, and so a marshal step."""
    return task in _TASKS_WITH_OVERLAY


def base_outputs(task: str, decode: Mapping[str, Any]) -> list[Tensor]:
    """Return what base returns: what clients see, and what marshal draws."""
    return [*task_outputs(task, decode), *([_bytes(DRAWN)] if has_overlay(task) else [])]


def ensemble_configs(
    name: str, version: int, task: str, decode: Mapping[str, Any], max_batch_size: int
) -> list[dict[str, Any]]:
    """Return what templates/ensemble/config.pbtxt.j2 needs, of `<m>_encoded` and of `<m>`.

    Every step is pinned to `version`; both share base and marshal, so raw and encoded images share batches.
    """
    decoding = ensemble_step(f"decode_{name}", version, {ENCODED: ENCODED}, {IMAGE: IMAGE})
    raw = Tensor(INPUT, "TYPE_UINT8", [-1, -1, 3])
    outputs = [*task_outputs(task, decode), *([_bytes(OVERLAY)] if has_overlay(task) else [])]
    encoded_steps = [decoding, *_shared_steps(name, version, task, decode, IMAGE)]
    raw_steps = _shared_steps(name, version, task, decode, INPUT)
    return [
        ensemble_values(f"{name}_encoded", [_bytes(ENCODED)], outputs, encoded_steps, max_batch_size),
        ensemble_values(name, [raw], outputs, raw_steps, max_batch_size),
    ]


def _shared_steps(name: str, version: int, task: str, decode: Mapping[str, Any], image: str) -> list[dict[str, Any]]:
    inner = {tensor.name: tensor.name for tensor in base_outputs(task, decode)}
    steps = [ensemble_step(f"base_{name}", version, {INPUT: image}, inner)]
    if has_overlay(task):
        drawn = {INPUT: image, DRAWN: DRAWN}
        steps.append(ensemble_step(f"marshal_{name}", version, drawn, {OVERLAY: OVERLAY}))
    return steps
