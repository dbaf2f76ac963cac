"""Decide what a plan means for a repository: the same content, a legal successor, or a refusal."""

from __future__ import annotations

import filecmp
import re
from pathlib import Path

from convertor.errors import refuse_if
from convertor.model_config import TensorDims, inputs_of, outputs_of, parse_config
from convertor.plan import PlannedModel, RepositoryPlan
from convertor.repository import names
from convertor.repository.state import CONFIG, MODEL_JSON, Identity, RepositoryState, read_model_json

_CACHE = "__pycache__"
_PINNED_VERSION = re.compile(r"(\bmodel_version\s*:\s*)\d+")


def check_plan(plan: RepositoryPlan, state: RepositoryState) -> None:
    """Refuse a plan that may not follow what the repository holds; reads nothing but its arguments.

    Raises:
        RefusedError: Another task, profile, input or output set without `replace`, or input dims that narrow.
        ValueError: The plan and the state are not about the same model: a fault of the caller.
    """
    stray = [model.name for model in plan.models if model.name not in names.reserved_by(state.name)]
    if plan.name != state.name or stray or plan.version <= state.highest:
        raise ValueError(f"{plan.name} {plan.version}: planned for another state: {state.name} {state.highest} {stray}")
    if state.identity is None or state.replace:
        return
    planned = _planned_identity(plan)
    problems = [
        f"{what} {old} -> {new}"
        for what, old, new in (
            ("task", state.identity.task, planned.task),
            ("profile", state.identity.profile, planned.profile),
            ("outputs", _joined(state.identity.outputs), _joined(planned.outputs)),
            ("inputs", _joined(_names(state.identity.inputs)), _joined(_names(planned.inputs))),
        )
        if old != new
    ]
    if not problems:
        problems = _narrowed(state.identity.inputs, planned.inputs)
    advice = "clients of this name would break; take another --name, or --replace to replace it"
    refuse_if([f"{problem}; {advice}" for problem in problems], plan.name)


def same_content(plan: RepositoryPlan, staged: Path, root: Path, state: RepositoryState) -> bool:
    """Tell whether the pinned version is what was staged, the version's number and `__pycache__` aside."""
    if state.pinned is None or set(state.existing) != {model.name for model in plan.models}:
        return False
    pinned = state.pinned
    return all(
        _same_config(model, root, pinned)
        and _same_folder(staged / model.name / str(plan.version), root / model.name / str(pinned))
        for model in plan.models
    )


def _planned_identity(plan: RepositoryPlan) -> Identity:
    """Read the ensemble's tensors from the very text that will be published."""
    (config,) = (parse_config(model.config, model.name) for model in plan.models if model.name == plan.name)
    return Identity(plan.task, plan.profile, inputs_of(config), _names(outputs_of(config)))


def _names(tensors: tuple[TensorDims, ...]) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in tensors)


def _joined(values: tuple[str, ...]) -> str:
    return ", ".join(values)


def _narrowed(old: tuple[TensorDims, ...], new: tuple[TensorDims, ...]) -> list[str]:
    """Name the inputs that no longer take every shape they took; both tuples have the same names in the same order."""
    return [
        f"input {before.name}: dims {list(before.dims)} -> {list(after.dims)}, may only widen"
        for before, after in zip(old, new)
        if len(before.dims) != len(after.dims) or any(b not in (a, -1) for a, b in zip(before.dims, after.dims))
    ]


def _same_config(model: PlannedModel, root: Path, pinned: int) -> bool:
    config = _PINNED_VERSION.sub(rf"\g<1>{pinned}", model.config) if model.is_ensemble else model.config
    path = root / model.name / CONFIG
    return path.is_file() and path.read_bytes() == config.encode()


def _same_folder(staged: Path, published: Path) -> bool:
    files = _files(staged)
    return files == _files(published) and all(_same_file(staged / name, published / name) for name in files)


def _files(folder: Path) -> list[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return sorted(path.as_posix() for path in paths if _CACHE not in path.parts)


def _same_file(staged: Path, published: Path) -> bool:
    if staged.name == MODEL_JSON:
        ours, theirs = read_model_json(staged.parent), read_model_json(published.parent)
        if ours is not None and theirs is not None:
            return {**ours, "version": None} == {**theirs, "version": None}
    return filecmp.cmp(staged, published, shallow=False)
