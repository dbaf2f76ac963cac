"""The main job: packages -> plans -> a published repository. All packages are checked before one is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import capture, payload
from .artifact import Artifact, find_artifact
from .errors import ConvertorError, RefusedError, refuse_if
from .families import Family, find_families, nearest, owner_of
from .manifest.parse import MANIFEST, MAX_BYTES, Manifest, device_word, parse_manifest
from .naming import model_name
from .package import Package, open_package
from .plan import Ingredients, RepositoryPlan, build_plan
from .repository import Published, RepositoryState, check_plan, next_version, publish, survey
from .settings import Notes, class_names, decode_settings, network_input, preprocess_settings


@dataclass(frozen=True)
class Options:
    """What the command line asks for; None leaves it to the manifest."""

    repository: Path
    name: str | None = None
    version: int | None = None
    profile: str | None = None
    instances: int | None = None
    device: str | None = None
    replace: bool = False


@dataclass(frozen=True)
class Prepared:
    """A package that can be published: nothing is written yet."""

    package: Package
    plan: RepositoryPlan
    state: RepositoryState
    warnings: tuple[str, ...]
    facts: tuple[str, ...]


def prepare(paths: Sequence[Path], options: Options, stack: ExitStack) -> list[Prepared]:
    """Open, check and plan every package; the packages stay open in `stack`.

    Raises:
        RefusedError: Something of any of them cannot work: every problem of every package at once.
    """
    prepared: list[Prepared] = []
    problems: list[str] = []
    for path in paths:
        try:
            prepared.append(_prepare(stack.enter_context(open_package(path)), options))
        except ConvertorError as error:
            problems.extend(f"{path.name}: {_without(path.name, line)}" for line in error.problems)
    names = [one.plan.name for one in prepared]
    problems.extend(
        f"{name}: two packages have this name; convert them one by one with --name" for name in _twice(names)
    )
    refuse_if(problems)
    return prepared


def publish_prepared(one: Prepared, options: Options, progress: Callable[[int], None] | None = None) -> Published:
    """Write one prepared package into the repository."""
    return publish(one.plan, one.package, options.repository, one.state, progress)


def _prepare(package: Package, options: Options) -> Prepared:
    manifest = parse_manifest(package.read(MANIFEST, MAX_BYTES))
    name = model_name(options.name, manifest.model_name, package.stem)
    parts, warnings = _ingredients(package, manifest, options)
    state = survey(options.repository, name, options.replace)
    plan = build_plan(name, next_version(state, options.version), parts)
    check_plan(plan, state)
    return Prepared(package, plan, state, (*manifest.warnings, *warnings), _facts_line(parts.artifact))


def _ingredients(package: Package, manifest: Manifest, options: Options) -> tuple[Ingredients, list[str]]:
    """Return everything a plan needs, and warnings; refuse with every problem at once."""
    notes = Notes([], [])
    _check_profile(options.profile or manifest.serving.get("profile", "capture"), manifest.task, notes)
    runtime = _runtime(manifest, notes)
    decoder = _decoder(manifest, notes)
    artifact = find_artifact(package, manifest, runtime, notes.problems) if runtime else None
    if runtime is None or decoder is None or artifact is None:
        raise RefusedError(*notes.problems)
    network = network_input(manifest, artifact.facts, notes)
    names = class_names(manifest, artifact.facts)
    decode = decode_settings(manifest, decoder, names, notes)
    described = {**asdict(manifest), "artifact": artifact.name, "settings": decode, "class_names": names}
    facts: dict[str, Any] | None = asdict(artifact.facts) if artifact.facts else None
    for family in (runtime, decoder):
        notes.problems.extend(family.check(described, facts))
    notes.warnings.extend(f"{member}: not copied, a package may not bring Python code" for member in artifact.left_out)
    preprocess = preprocess_settings(manifest, network, artifact.facts, notes) if network else {}
    refuse_if(notes.problems)
    parts = Ingredients(
        manifest=manifest,
        runtime=runtime,
        decoder=decoder,
        artifact=artifact,
        preprocess=preprocess,
        decode=decode,
        class_names=names,
        device=device_word(options.device or manifest.device),
        instances=options.instances or manifest.serving.get("instances", 1),
    )
    return parts, notes.warnings


def _check_profile(profile: str, task: str, notes: Notes) -> None:
    if profile != "capture":
        notes.problems.append(f"serving.profile: expected capture, got {profile}; other profiles cannot be served yet")
    elif task not in capture.TASKS:
        notes.problems.append(
            f"{MANIFEST}: task: expected one of {', '.join(sorted(capture.TASKS))} in profile capture, got {task!r}"
            "; correct it"
        )


def _runtime(manifest: Manifest, notes: Notes) -> Family | None:
    families = find_families(payload.RUNTIMES)
    owner = owner_of(manifest.runtime, families)
    if owner is None:
        absent = " (the default when absent)" if manifest.runtime == "dlr" else ""
        notes.problems.append(
            f"{MANIFEST}: runtime: expected an engine that is here, got {manifest.runtime!r}{absent}; "
            f"{nearest(manifest.runtime, families)}"
        )
    return owner


def _decoder(manifest: Manifest, notes: Notes) -> Family | None:
    """Return the decoder's family: `detection.layout`, else the stage type, else the one named like the task."""
    families = [family for family in find_families(payload.POSTPROCESSORS) if manifest.task in family.tasks]
    layout = manifest.detection.get("layout") if manifest.task != "anomaly" else None
    wanted = layout or manifest.stage_type or manifest.task
    owner = owner_of(wanted, families) or (None if layout else owner_of(manifest.task, families))
    if owner is None and manifest.task in capture.TASKS:
        field = "detection.layout" if layout or not manifest.stage_type else "model_graph.stages[0].type"
        notes.problems.append(
            f"{MANIFEST}: {field}: expected a decoder of task {manifest.task}, got {wanted!r}; "
            f"{nearest(wanted, families)}"
        )
    return owner


def _facts_line(artifact: Artifact) -> tuple[str, ...]:
    facts = artifact.facts
    if facts is None:
        return ()
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(facts.opsets.items()))
    return (f"{artifact.name}: ONNX IR {facts.ir_version}, opset {opsets}",)


def _without(prefix: str, line: str) -> str:
    return line.removeprefix(f"{prefix}: ")


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
