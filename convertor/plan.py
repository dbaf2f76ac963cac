"""Pure planning: what a repository will hold, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from convertor import capture, payload, tensors
from convertor.artifact import Artifact
from convertor.families import Family
from convertor.manifest.parse import Manifest
from convertor.render import render_config
from convertor.serving import Serving
from convertor.wire import Batching

MODEL_FORMAT = 1
# Every release of Triton's image so far installs NumPy 1.x for the python backend, and OpenCV 5 needs NumPy 2.
PAYLOAD_REQUIREMENTS = ["numpy<2", "opencv-python-headless<5"]


@dataclass(frozen=True)
class Text:
    """A file whose content is known now."""

    content: str


@dataclass(frozen=True)
class PayloadFile:
    """A file copied byte for byte from the payload."""

    path: Path


@dataclass(frozen=True)
class PackageMember:
    """A file streamed from the package, by its name there."""

    name: str


Source = Union[Text, PayloadFile, PackageMember]


@dataclass(frozen=True)
class PlannedFile:
    """One file of a version folder: `path` is relative to `<model>/<version>/`, with forward slashes."""

    path: str
    source: Source


@dataclass(frozen=True)
class PlannedModel:
    """One model directory: its config.pbtxt and the files of the version that is being published."""

    name: str
    config: str
    files: tuple[PlannedFile, ...]
    is_ensemble: bool = False


@dataclass(frozen=True)
class RepositoryPlan:
    """Everything `convert` will publish for one package.

    Attributes:
        name: The ensemble's name.
        version: The version to publish, > 0.
        profile: The serving profile.
        task: What the outputs mean.
        models: In the order in which they are put into place: steps first, ensembles last.
        requirements: What the server's python needs.
        allow_pickles: The artifact runs code of its own when it is loaded, and the operator allows it.
    """

    name: str
    version: int
    profile: str
    task: str
    models: tuple[PlannedModel, ...]
    requirements: tuple[str, ...] = ()
    allow_pickles: bool = False


@dataclass(frozen=True)
class Ingredients:
    """What a plan is made of, all of it checked.

    Attributes:
        manifest: The package's manifest.
        runtime: The engine's family.
        decoder: The decoder's family.
        artifact: The engine's file and its companions.
        preprocess: model.json's `preprocess`.
        decode: model.json's `decode`.
        class_names: Names by class id.
        device: auto, cpu, gpu or tensorrt.
        serving: Profile, batches, instances and warm-up.
        allow_pickles: The artifact runs code of its own when it is loaded, and the operator allows it.
    """

    manifest: Manifest
    runtime: Family
    decoder: Family
    artifact: Artifact
    preprocess: Mapping[str, Any]
    decode: Mapping[str, Any]
    class_names: tuple[str, ...]
    device: str
    serving: Serving
    allow_pickles: bool


def build_plan(name: str, version: int, parts: Ingredients, any_image: bool = False) -> RepositoryPlan:
    """Return the plan that publishes `parts` as `name`, version `version`.

    Args:
        name: The ensemble's name.
        version: The version to publish.
        parts: What it is made of.
        any_image: Take images of any size although the package states one: clients of this name may send others.
    """
    described = _model_json(name, version, parts)
    requirements = tuple(PAYLOAD_REQUIREMENTS + parts.runtime.requirements())
    common = (
        PlannedFile("model.json", Text(json.dumps(described, indent=1, ensure_ascii=False) + "\n")),
        PlannedFile("requirements.txt", Text("".join(f"{line}\n" for line in requirements))),
    )
    profile = parts.serving.profile
    configs = (
        _tensors(name, version, parts) if profile == tensors.PROFILE else _capture(name, version, parts, any_image)
    )
    models = tuple(_planned(kind, values, common, parts) for kind, values in configs)
    return RepositoryPlan(name, version, profile, parts.manifest.task, models, requirements, parts.allow_pickles)


def _planned(
    kind: str, values: Mapping[str, Any], common: tuple[PlannedFile, PlannedFile], parts: Ingredients
) -> PlannedModel:
    config = render_config(kind, values)
    if kind == "ensemble":
        # Its version folder needs no file, but git and object stores drop empty folders.
        return PlannedModel(values["name"], config, common[:1], is_ensemble=True)
    files = _base_files(parts) if kind == "base" else _code(kind)
    return PlannedModel(values["name"], config, (*common, *files))


def _capture(name: str, version: int, parts: Ingredients, any_image: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return (folder of templates/, what its config needs) of every model, in the order of publishing."""
    dims = capture.ANY_IMAGE if any_image else _image_dims(parts)
    return [
        ("base", capture.base_config(name, dims, parts.serving.instances, _kind(parts))),
        ("marshal", capture.marshal_config(name, dims, 1)),
        ("ensemble", capture.ensemble_config(name, dims, version)),
    ]


def _tensors(name: str, version: int, parts: Ingredients) -> list[tuple[str, dict[str, Any]]]:
    """Return the same for the tensors profile."""
    task, decode, serving = parts.manifest.task, parts.decode, parts.serving
    size = serving.max_batch_size
    warmup = (parts.preprocess["height"], parts.preprocess["width"]) if serving.warmup else None
    instances = {"instances": serving.instances, "kind": _kind(parts), "gpus": serving.gpus}
    batching = Batching(serving.queue_delay_us, list(serving.preferred_batch_sizes))
    outputs = tensors.base_outputs(task, decode)
    marshal = [("marshal", tensors.marshal_config(name, size, warmup))] if tensors.has_overlay(task) else []
    return [
        ("decode", tensors.decode_config(name, size)),
        ("base", tensors.base_config(name, outputs, instances, size, batching, warmup)),
        *marshal,
        *(("ensemble", values) for values in tensors.ensemble_configs(name, version, task, decode, size)),
    ]


def _kind(parts: Ingredients) -> str:
    if parts.serving.gpus:
        return "KIND_GPU"
    return "KIND_CPU" if parts.device == "cpu" else "KIND_AUTO"


def _image_dims(parts: Ingredients) -> capture.Dims:
    """Return the image's dims: fixed only where the capture world has them fixed."""
    size = parts.manifest.dataset_size
    if parts.runtime.fixed_image and parts.manifest.task == "anomaly" and parts.manifest.pixel_classes and size:
        return (*size, 3)
    return capture.ANY_IMAGE


def _model_json(name: str, version: int, parts: Ingredients) -> dict[str, Any]:
    return {
        "format": MODEL_FORMAT,
        "name": name,
        "version": version,
        "task": parts.manifest.task,
        "profile": parts.serving.profile,
        **({"max_batch_size": parts.serving.max_batch_size} if parts.serving.max_batch_size else {}),
        "runtime": parts.runtime.name,
        "family": parts.decoder.name,
        "device": parts.device,
        "artifact": parts.artifact.path,
        "preprocess": dict(parts.preprocess),
        "decode": dict(parts.decode),
        "class_names": list(parts.class_names),
        "outputs": {meaning: dict(source) for meaning, source in parts.manifest.outputs.items()},
        "execution": _execution(parts),
        # Filled in by the publisher, which hashes the files while it copies them.
        "source_sha256": "",
    }


def _execution(parts: Ingredients) -> dict[str, Any]:
    execution = {**parts.manifest.execution, "threads": parts.manifest.serving.get("threads", 0)}
    if parts.manifest.serving.get("tf32"):
        execution["tf32"] = True
    if parts.allow_pickles:
        execution["allow_pickles"] = True
    if parts.serving.max_engine_batch is not None:
        execution["max_engine_batch"] = parts.serving.max_engine_batch
    return execution


def _base_files(parts: Ingredients) -> list[PlannedFile]:
    artifact = [
        PlannedFile(f"artifact/{path}", PackageMember(member)) for path, member in sorted(parts.artifact.files.items())
    ]
    return artifact + _code("base", parts.runtime.name, parts.decoder.name)


def _code(kind: str, *families: str) -> list[PlannedFile]:
    """Return the payload's files of a model: its template, the shared payload and the named families."""
    selected = frozenset(families)
    copied = [*payload.template_files(kind)]
    for root in (payload.RUNTIMES, payload.POSTPROCESSORS):
        copied.extend(payload.code_files(root, selected))
    return [PlannedFile(path, PayloadFile(file)) for path, file in copied]


def describe_plan(plan: RepositoryPlan) -> dict[str, Any]:
    """Return the plan as plain values, for --dry-run and --json."""
    return {
        "name": plan.name,
        "version": plan.version,
        "profile": plan.profile,
        "task": plan.task,
        "requirements": list(plan.requirements),
        "allow_pickles": plan.allow_pickles,
        "models": [
            {
                "name": model.name,
                "config": model.config,
                "files": [f"{plan.version}/{file.path}" for file in model.files],
            }
            for model in plan.models
        ],
    }
