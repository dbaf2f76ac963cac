"""The main job: packages -> plans -> a published repository. All packages are checked before one is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from convertor.artifact import Artifact
from convertor.errors import ConvertorError, RefusedError, refuse_if
from convertor.facts import OnnxFacts
from convertor.ingredients import collect
from convertor.listing import shown
from convertor.manifest.parse import MANIFEST, MAX_BYTES, parse_manifest
from convertor.naming import model_name
from convertor.package import Package, open_package
from convertor.plan import RepositoryPlan, build_plan
from convertor.repository import Published, RepositoryState, check_plan, next_version, publish, survey
from convertor.repository.names import reserved_by

Value = TypeVar("Value")
_RUNS_CODE = "loading it runs code of the package's author with the server's rights; allowed by --allow-pickles"


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
    no_native: bool = False
    allow_pickles: bool = False
    max_batch_size: int | None = None


@dataclass(frozen=True)
class Prepared:
    """A package that can be published: nothing is written yet.

    Attributes:
        package: It stays open.
        plan: What will be published.
        state: What the repository holds.
        warnings: What is likely a mistake; one line each.
        facts: What is worth knowing of the artifact; one line each.
    """

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
            problems.extend(_of_package(path, line) for line in error.problems)
    refuse_if([*problems, *_clashes(prepared)])
    return prepared


def publish_prepared(
    one: Prepared, options: Options, progress: Callable[[int], None] | None, waiting: Callable[[], None]
) -> Published:
    """Write one prepared package into the repository.

    Args:
        one: The package.
        options: As it was prepared with.
        progress: Called with the bytes copied since the last call.
        waiting: Called once if another convert is publishing there and has to be waited for.
    """
    return publish(one.plan, one.package, options.repository, one.state, progress, waiting)


def _prepare(package: Package, options: Options) -> Prepared:
    manifest = parse_manifest(package.read(MANIFEST, MAX_BYTES))
    problems: list[str] = []
    name = _tried(problems, lambda: model_name(options.name, manifest.model_name, package.stem))
    asked = (options.profile, options.instances, options.device, options.allow_pickles, options.max_batch_size)
    collected = _tried(problems, lambda: collect(package, manifest, *asked))
    state = _tried(problems, lambda: survey(options.repository, name, options.replace)) if name else None
    version = _tried(problems, lambda: next_version(state, options.version)) if state else None
    if name is None or collected is None or state is None or version is None:
        raise RefusedError(*problems)
    parts, warnings = collected
    if options.no_native and parts.artifact.native:
        raise RefusedError(
            f"--no-native: expected a model without native code, got {_listed(parts.artifact.native)}; "
            "convert without the flag if you trust where the package comes from"
        )
    # Input dims may only widen: a fleet that goes back to an engine of fixed dims keeps the wider ones.
    any_image = state.identity is not None and state.identity.takes_any_image and not options.replace
    plan = build_plan(name, version, parts, any_image)
    check_plan(plan, state)
    loud = [f"{what}: {_RUNS_CODE}" for what in parts.artifact.pickles if options.allow_pickles]
    # First, because only the first few of many warnings are shown.
    warnings = [*loud, *manifest.warnings, *warnings]
    return Prepared(package, plan, state, tuple(warnings), tuple(_described(parts.artifact)))


def _tried(problems: list[str], check: Callable[[], Value]) -> Value | None:
    try:
        return check()
    except ConvertorError as error:
        problems.extend(error.problems)
        return None


def _described(artifact: Artifact) -> Iterator[str]:
    facts = artifact.facts
    if isinstance(facts, OnnxFacts):
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(facts.opsets.items()))
        yield f"{artifact.name}: ONNX IR {facts.ir_version}, opset {opsets}"
    if artifact.native:
        yield f"{_listed(artifact.native)}: native code, which the server's python will run; --no-native refuses it"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names))


def _of_package(path: Path, line: str) -> str:
    """Return a line with the package's name in front, once."""
    name = path.name or str(path)
    if line.startswith((f"{name}: ", f"{path}: ")):
        return line
    return f"{name}: {line}"


def _clashes(prepared: Sequence[Prepared]) -> list[str]:
    """Return a line for every two packages that want the same directory of the repository."""
    taken: dict[str, str] = {}
    problems: list[str] = []
    for one in prepared:
        name = one.plan.name
        others = {taken[entry] for entry in reserved_by(name) if entry in taken}
        problems.extend(
            f"{one.package.path.name}: expected a name of its own, got {name!r}, which clashes with "
            f"{other!r} of another package; convert them one by one with --name"
            for other in sorted(others)
        )
        taken.update(dict.fromkeys(reserved_by(name), name))
    return problems
