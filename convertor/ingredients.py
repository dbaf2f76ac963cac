"""What a plan is made of: engine, decoder, artifact and settings, checked together: every problem at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from convertor import capture, payload
from convertor.artifact import find_artifact
from convertor.errors import RefusedError, refuse_if
from convertor.facts import OnnxFacts, TensorFact
from convertor.families import Family, find_families, nearest, owner_of
from convertor.manifest.keys import TOP
from convertor.manifest.parse import MANIFEST, Manifest, device_word
from convertor.network import network_input
from convertor.notes import Notes
from convertor.package import Package
from convertor.plan import Ingredients
from convertor.settings import check_outputs, class_names, decode_settings, preprocess_settings


def collect(
    package: Package, manifest: Manifest, profile: str | None, instances: int | None, device: str | None
) -> tuple[Ingredients, list[str]]:
    """Return what a plan needs, and warnings.

    Args:
        package: The open package.
        manifest: Its manifest.
        profile: As asked for on the command line, None for the manifest's; so are `instances` and `device`.
        instances: See `profile`.
        device: See `profile`.

    Raises:
        RefusedError: It cannot work; every problem.
    """
    notes = Notes()
    _check_profile(profile, manifest, notes)
    runtime = _runtime(manifest, notes)
    decoder = _decoder(manifest, notes)
    artifact = find_artifact(package, manifest, runtime, notes) if runtime else None
    if runtime is None or decoder is None or artifact is None:
        raise RefusedError(*notes.problems)
    network = network_input(manifest, artifact.facts, artifact.name, notes)
    names = class_names(manifest, artifact.facts)
    decode = decode_settings(manifest, decoder, names, notes)
    check_outputs(manifest, artifact.facts, notes)
    described = {**asdict(manifest), "artifact": artifact.name, "settings": decode, "class_names": names}
    facts = _plain(artifact.facts)
    for family in (runtime, decoder):
        notes.problems.extend(map(_in_manifest, family.check(described, facts)))
        notes.warnings.extend(map(_in_manifest, family.advise(described, facts)))
    preprocess = preprocess_settings(manifest, network, notes) if network else {}
    refuse_if(list(dict.fromkeys(notes.problems)))
    parts = Ingredients(
        manifest=manifest,
        runtime=runtime,
        decoder=decoder,
        artifact=artifact,
        preprocess=preprocess,
        decode=decode,
        class_names=names,
        device=device_word(device or manifest.device),
        instances=instances or manifest.serving.get("instances", 1),
    )
    return parts, notes.warnings


def _check_profile(asked: str | None, manifest: Manifest, notes: Notes) -> None:
    profile = asked or manifest.serving.get("profile", capture.PROFILE)
    if profile != capture.PROFILE:
        where = "--profile" if asked else f"{MANIFEST}: serving.profile"
        notes.problems.append(
            f"{where}: expected {capture.PROFILE}, got {profile}; it is the only one that is served yet"
        )
    elif manifest.task not in capture.TASKS:
        notes.problems.append(
            f"{MANIFEST}: task: expected one of {', '.join(sorted(capture.TASKS))} (profile {profile}), "
            f"got {manifest.task!r}; correct it"
        )


def _runtime(manifest: Manifest, notes: Notes) -> Family | None:
    families = find_families(payload.RUNTIMES)
    owner = owner_of(manifest.runtime, families)
    if owner is None:
        default = " (the default)" if manifest.runtime == "dlr" else ""
        notes.problems.append(
            f"{MANIFEST}: runtime: expected an engine that is here, got {manifest.runtime!r}{default}; "
            f"{nearest(manifest.runtime, families)}"
        )
    return owner


def _decoder(manifest: Manifest, notes: Notes) -> Family | None:
    """Return the decoder's family: `detection.layout`, else the stage type, else the one named like the task."""
    if manifest.task not in capture.TASKS:
        return None
    families = [family for family in find_families(payload.POSTPROCESSORS) if manifest.task in family.tasks]
    owners = ((field, name, owner_of(name, families)) for field, name in _decoder_names(manifest))
    first = next(owners, None)
    if first is not None and first[2] is not None:
        return first[2]
    # An anomaly model's stage type is a code name of its trainer; a layout that is asked for has no substitute.
    by_task = None if "layout" in manifest.detection else owner_of(manifest.task, families)
    if by_task is None:
        field, name, _ = first or ("detection.layout", None, None)
        got = "nothing" if name is None else repr(name)
        notes.problems.append(
            f"{MANIFEST}: {field}: expected a decoder of task {manifest.task}, got {got}; "
            f"{nearest(name or '', families)}"
        )
    return by_task


def _decoder_names(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if "layout" in manifest.detection:
        yield "detection.layout", manifest.detection["layout"]
    if manifest.stage_type is not None:
        yield "model_graph.stages[0].type", manifest.stage_type


def _plain(facts: OnnxFacts | None) -> dict[str, Any] | None:
    """Return facts as a support.py gets them: plain values, a shape of unknown rank as an empty one."""
    if facts is None:
        return None

    def tensors(found: tuple[TensorFact, ...]) -> list[dict[str, Any]]:
        return [{"name": fact.name, "dtype": fact.dtype, "shape": list(fact.shape or ())} for fact in found]

    return {**asdict(facts), "inputs": tensors(facts.inputs), "outputs": tensors(facts.outputs)}


def _in_manifest(line: str) -> str:
    """Return a support.py's line with the file's name in front when it begins with a key of the manifest."""
    field = line.partition(":")[0].partition(".")[0]
    return f"{MANIFEST}: {line}" if field in TOP else line
