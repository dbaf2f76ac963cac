"""What a plan is made of: engine, decoder, artifact and settings, checked together: every problem at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from convertor import payload, tensors
from convertor.artifact import find_artifact
from convertor.errors import RefusedError, refuse_if
from convertor.facts import ArtifactFacts, TensorFact
from convertor.families import Family, find_families, nearest, owner_of
from convertor.manifest.keys import TOP
from convertor.manifest.parse import MANIFEST, Manifest, device_word
from convertor.network import network_input
from convertor.notes import Notes
from convertor.package import Package
from convertor.plan import Ingredients
from convertor.presets import settle
from convertor.serving import Asked, check_profile, serving_settings
from convertor.settings import check_outputs, class_names, decode_settings, preprocess_settings


def collect(
    package: Package,
    manifest: Manifest,
    profile: str | None,
    instances: int | None,
    device: str | None,
    allow_pickles: bool = False,
    max_batch_size: int | None = None,
) -> tuple[Ingredients, list[str]]:
    """Return what a plan needs, and warnings; what the command line leaves open (None) is the manifest's.

    Raises:
        RefusedError: It cannot work; every problem.
    """
    notes = Notes()
    asked = Asked(profile, max_batch_size, instances)
    runtime = _runtime(manifest, notes)
    decoder = _decoder(manifest, notes) if check_profile(asked, manifest, notes) else None
    artifact = find_artifact(package, manifest, runtime, notes) if runtime else None
    if runtime is None or decoder is None or artifact is None:
        raise RefusedError(*notes.problems)
    if not allow_pickles:
        notes.problems.extend(filter(None, artifact.pickles.values()))
    manifest = settle(manifest, decoder, _plain(artifact.facts), artifact.name, notes)
    network = network_input(manifest, artifact.facts, artifact.name, notes)
    names = class_names(manifest, artifact.facts)
    decode = decode_settings(manifest, decoder, names, notes)
    check_outputs(manifest, artifact.facts, notes)
    device = device_word(device or manifest.device)
    described = {
        **asdict(manifest),
        "artifact": artifact.name,
        "settings": decode,
        "class_names": names,
        "device": device,
    }
    _ask((runtime, decoder), described, artifact.facts, notes)
    facts = artifact.facts
    serving = serving_settings(asked, manifest, device, facts, decoder.engine_batch(_plain(facts) or {}), notes)
    preprocess: dict[str, Any] = {}
    if serving.profile == tensors.PROFILE:
        decode = tensors.settle(manifest.task, decode, manifest.outputs, facts, notes)
    if network:
        # In capture packages as the capture world has it.
        interpolation = "linear" if serving.profile == tensors.PROFILE else "area"
        preprocess = preprocess_settings(manifest, network, notes, interpolation)
    refuse_if(notes.problems)
    parts = Ingredients(
        manifest=manifest,
        runtime=runtime,
        decoder=decoder,
        artifact=artifact,
        preprocess=preprocess,
        decode=decode,
        class_names=names,
        device=device,
        serving=serving,
        allow_pickles=allow_pickles and bool(artifact.pickles),
    )
    return parts, notes.warnings


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
    families = [family for family in find_families(payload.POSTPROCESSORS) if manifest.task in family.tasks]
    layout, stage_type = manifest.detection.get("layout"), manifest.stage_type
    wanted = layout or stage_type
    owner = owner_of(wanted or manifest.task, families)
    if owner is None and layout is None:
        # An anomaly model's stage type is a code name of its trainer. A layout that is asked for has no substitute.
        owner = owner_of(manifest.task, families)
    if owner is None:
        field = "model_graph.stages[0].type" if stage_type and not layout else "detection.layout"
        got = repr(wanted) if wanted else "nothing"
        notes.problems.append(
            f"{MANIFEST}: {field}: expected a decoder of task {manifest.task}, got {got}; "
            f"{nearest(wanted or '', families)}"
        )
    return owner


def _ask(families: Sequence[Family], described: Mapping[str, Any], facts: ArtifactFacts | None, notes: Notes) -> None:
    """Note what the families' own support.py files say."""
    plain = _plain(facts)
    for family in families:
        notes.problems.extend(map(_in_manifest, family.check(described, plain)))
        notes.warnings.extend(map(_in_manifest, family.advise(described, plain)))


def _plain(facts: ArtifactFacts | None) -> dict[str, Any] | None:
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
