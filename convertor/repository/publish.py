"""Publish a plan: stage beside the repository, compare, swap; one publisher at a time, every failure undone.

Staging lies beside the repository, never in it: a polling server takes every directory in it for a model, hidden ones
too, and a server that starts while one lies there may refuse to. So a repository that is itself a mount point (a volume
mounted right at it) is refused, and a folder inside the volume is advised: the volume's own root is no good place for
models anyhow, `lost+found` would be one.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from convertor.errors import RefusedError
from convertor.plan import RepositoryPlan
from convertor.repository.compare import check_plan, same_content
from convertor.repository.lock import locked
from convertor.repository.stage import MemberSource, Progress, Stage
from convertor.repository.state import RepositoryState, resolved, survey
from convertor.repository.steps import Step, nothing, run
from convertor.repository.swap import Swap, make_directory


@dataclass(frozen=True)
class Published:
    """What a publish did.

    Attributes:
        version: The version that is live now.
        already_there: The pinned version had the same content; nothing was changed.
        models: The model directories of that version, in the order in which they went in.
        bytes: The size of that version's files.
    """

    version: int
    already_there: bool
    models: tuple[str, ...]
    bytes: int


def publish(
    plan: RepositoryPlan,
    package: MemberSource,
    repository: Path,
    state: RepositoryState,
    progress: Progress | None = None,
    waiting: Callable[[], None] = nothing,
) -> Published:
    """Publish `plan` in `repository`, of which `state` is the survey; the repository is made when it does not exist.

    Args:
        plan: Its version must be above `state.highest`.
        package: Where the plan's package members come from.
        repository: The model repository.
        state: From `survey`, taken before planning.
        progress: Called with the bytes copied since the last call.
        waiting: Called once when another convert is publishing to this repository: this one then waits for it.

    Raises:
        RefusedError: The plan may not follow the state, the repository changed since, or writing failed; the
            repository is as it was.
    """
    check_plan(plan, state)
    root = resolved(repository)
    with _one_line(root), _parents_of(root), locked(_beside(root, "lock"), waiting):
        if survey(repository, plan.name, state.replace) != state:
            raise RefusedError(f"{root}: {plan.name} was changed by another convert meanwhile; run convert again")
        prefix = _beside(root, "staging-").name
        for entry in root.parent.iterdir():
            if entry.name.startswith(prefix):
                shutil.rmtree(entry, ignore_errors=True)  # of a process that died: a live one would hold the lock
        staging = Path(tempfile.mkdtemp(prefix=prefix, dir=root.parent))
        try:
            return _publish(plan, package, root, state, staging, progress)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _publish(
    plan: RepositoryPlan,
    package: MemberSource,
    root: Path,
    state: RepositoryState,
    staging: Path,
    progress: Progress | None,
) -> Published:
    stage = Stage(staging / "new", plan)
    models = tuple(model.name for model in plan.models)
    run(
        [
            *(Step(f"copy {model.name}", lambda m=model: stage.copy(m, package, progress)) for model in plan.models),
            *(Step(f"describe {model.name}", lambda m=model: stage.describe(m)) for model in plan.models),
        ]
    )
    if state.pinned is not None and same_content(plan, stage.folder, root, state):
        return Published(state.pinned, True, models, _size(stage.folder))
    sizes: list[int] = []
    swap = Swap(plan, state, root, staging)
    run([Step("sync", lambda: sizes.append(stage.sync())), *swap.steps()])
    return Published(plan.version, False, models, sizes[0])


def _beside(root: Path, what: str) -> Path:
    return root.with_name(f".{root.name}.{what}")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def _parents_of(root: Path) -> Generator[None]:
    """Make the directories above the repository; take those that we made away again when publishing fails."""
    missing = [parent for parent in root.parents if not parent.exists()]
    made: list[Path] = []
    try:
        for parent in reversed(missing):
            make_directory(parent)
            made.append(parent)
        yield
    except BaseException:
        for parent in reversed(made):
            with suppress(OSError):
                parent.rmdir()
        raise


@contextmanager
def _one_line(root: Path) -> Generator[None]:
    """Turn a failure of the file system into one line."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EXDEV:
            reason = (
                "staging beside it is on another file system; use a folder inside the mounted one as the repository"
            )
        else:
            where = error.filename2 or error.filename
            reason = f"{error.strerror or error}" + (f" ({os.fsdecode(where)})" if where else "")
        raise RefusedError(f"{root}: nothing was published: {reason}; the repository is as it was") from error
