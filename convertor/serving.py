"""How a model is served: profile, batches, instances, warm-up. The command line wins, then `serving`, then defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convertor import capture, tensors
from convertor.facts import ArtifactFacts
from convertor.manifest.keys import TASKS
from convertor.manifest.parse import MANIFEST, Manifest
from convertor.notes import Notes

PROFILES = (capture.PROFILE, tensors.PROFILE)
MAX_BATCH_SIZE = 8
# While base is busy, requests gather by themselves, and a delay makes batches smaller: 16 clients, half of them with
# files, and a base of 20 ms per call had 7.9 requests per call without, 6.0 with 0.5 ms, 6.9 with 2 ms.
QUEUE_DELAY_US = 0


@dataclass(frozen=True)
class Asked:
    """What the command line says; None leaves it to the manifest."""

    profile: str | None = None
    max_batch_size: int | None = None
    instances: int | None = None


@dataclass(frozen=True)
class Serving:
    """How a model is served.

    Attributes:
        profile: capture or tensors.
        instances: Copies of base that serve at the same time; on each of the GPUs.
        max_batch_size: The most images in one call of a step; 0 in the capture profile, whose requests are one image.
        queue_delay_us: How long base may wait for further requests.
        preferred_batch_sizes: Sizes with which base does not wait any longer; () leaves it to the server.
        gpus: The GPUs that base runs on; () leaves it to the server.
        warmup: Whether the server tries a full batch before it says that it is ready.
        max_engine_batch: The most images in one call of the engine for which its results are right; None: any number.
    """

    profile: str
    instances: int = 1
    max_batch_size: int = 0
    queue_delay_us: int = 0
    preferred_batch_sizes: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    warmup: bool = False
    max_engine_batch: int | None = None


def check_profile(asked: Asked, manifest: Manifest, notes: Notes) -> bool:
    """Return whether the task is one that the profile serves; note it if not."""
    profile, task = _profile(asked, manifest), manifest.task
    if task in (TASKS if profile == tensors.PROFILE else capture.TASKS):
        return True
    if task in TASKS:
        notes.problems.append(
            f"{MANIFEST}: task: expected one of {', '.join(sorted(capture.TASKS))} in profile {profile}, got {task}, "
            f"which only profile {tensors.PROFILE} serves; set serving.profile to {tensors.PROFILE}, or give "
            f"--profile {tensors.PROFILE}"
        )
    else:
        notes.problems.append(f"{MANIFEST}: task: expected one of {', '.join(sorted(TASKS))}, got {task!r}; correct it")
    return False


def serving_settings(
    asked: Asked,
    manifest: Manifest,
    device: str,
    facts: ArtifactFacts | None,
    engine_batch: int | None,
    notes: Notes,
) -> Serving:
    """Return how the model is served.

    Args:
        asked: What the command line says.
        manifest: The package's manifest.
        device: auto, cpu, gpu or tensorrt.
        facts: What the graph says of itself; None when it says nothing.
        engine_batch: `Family.engine_batch` of this graph.
        notes: Takes problems and warnings.
    """
    given, profile = manifest.serving, _profile(asked, manifest)
    instances = asked.instances or given.get("instances", 1)
    if profile == capture.PROFILE:
        if asked.max_batch_size is not None:
            notes.warnings.append("--max-batch-size: not used, because profile capture takes one image per request")
        return Serving(profile, instances)
    max_batch_size = asked.max_batch_size or given.get("max_batch_size", MAX_BATCH_SIZE)
    serving = Serving(
        profile,
        instances,
        max_batch_size=max_batch_size,
        queue_delay_us=given.get("queue_delay_us", QUEUE_DELAY_US),
        preferred_batch_sizes=tuple(given.get("preferred_batch_sizes") or _full_slices(max_batch_size, facts)),
        gpus=tuple(given.get("gpus", ())),
        warmup=given.get("warmup", True),
        max_engine_batch=engine_batch,
    )
    notes.problems.extend(_problems(serving, device))
    if engine_batch is not None and engine_batch < serving.max_batch_size:
        notes.warnings.append(
            f"serving.max_batch_size: the graph's own NMS is right for at most {engine_batch} "
            f"image{'s' if engine_batch > 1 else ''} at once; a batch of {serving.max_batch_size} runs in parts"
        )
    return serving


def _profile(asked: Asked, manifest: Manifest) -> str:
    return asked.profile or manifest.serving.get("profile", capture.PROFILE)


def _problems(serving: Serving, device: str) -> Iterator[str]:
    if serving.max_batch_size < 1:
        yield (
            f"{MANIFEST}: serving.max_batch_size: expected a whole number from 1 to 1024 in profile "
            f"{tensors.PROFILE}, got {serving.max_batch_size}; correct it"
        )
    elif any(size > serving.max_batch_size for size in serving.preferred_batch_sizes):
        yield (
            f"{MANIFEST}: serving.preferred_batch_sizes: expected sizes up to max_batch_size, "
            f"{serving.max_batch_size}, got {list(serving.preferred_batch_sizes)}; correct one of them"
        )
    if len(set(serving.gpus)) < len(serving.gpus):
        yield f"{MANIFEST}: serving.gpus: expected each GPU once, got {list(serving.gpus)}; raise instances instead"
    if serving.gpus and device == "cpu":
        yield f"{MANIFEST}: serving.gpus: expected none with device cpu, got {list(serving.gpus)}; drop one of them"


def _full_slices(max_batch_size: int, facts: ArtifactFacts | None) -> tuple[int, ...]:
    """Return the sizes that fill a graph's fixed batch, of which a part costs as much as all of it."""
    shape = facts.inputs[0].shape if facts and facts.inputs else None
    fixed = shape[0] if shape else None
    return tuple(range(fixed, max_batch_size + 1, fixed)) if isinstance(fixed, int) and fixed > 1 else ()
