"""The renames that put a staged plan into the repository: a kill between any two leaves the old state or the new one.

The order is the wire contract's: leftovers out, the steps' configs and version folders in, the ensembles' version
folders, and then each ensemble's config.pbtxt, which pins the version: that is the commit. A model's first publish
renames whole directories, the ensemble last. Models that a replaced profile leaves behind go out after the commit.

With `--replace` and another profile the step configs that the pinned version needs are replaced some renames before the
commit; a kill in between leaves the old version unable to load until convert is run again. No order of renames avoids
that: the pinned and the new version share one config in each step.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from convertor.plan import PlannedModel, RepositoryPlan
from convertor.repository import names
from convertor.repository.stage import DIRECTORY_MODE, flush
from convertor.repository.state import CONFIG, RepositoryState
from convertor.repository.steps import Step, nothing


class Swap:
    """The renames that put a staged plan into the repository, in the contract's order."""

    def __init__(self, plan: RepositoryPlan, state: RepositoryState, root: Path, staging: Path) -> None:
        self.plan = plan
        self.state = state
        self.root = root
        self.new, self.old, self.gone = (staging / part for part in ("new", "old", "gone"))
        # With nothing committed, whatever is there goes, and every directory is new.
        self.kept = frozenset(state.existing if state.pinned is not None else ())

    def steps(self) -> Iterator[Step]:
        """Yield every step; the commit of the ensemble that bears the model's name makes the new version live."""
        planned = {model.name for model in self.plan.models}
        ensembles = [model for model in self.plan.models if model.is_ensemble]
        if not self.root.exists():
            yield Step("create repository", lambda: make_directory(self.root), self.root.rmdir)
        yield Step("keep", self._keep)
        for path in self.state.leftovers:
            yield self._remove(path)
        for model in self.plan.models:
            if model.name not in self.kept:
                if not model.is_ensemble:
                    yield self._move(f"place {model.name}", Path(model.name))
                continue
            if not model.is_ensemble and self._config_differs(model):
                yield self._configure("configure", model)
            yield self._move(f"place {model.name}/{self.plan.version}", Path(model.name, str(self.plan.version)))
        for model in ensembles:
            new = model.name not in self.kept
            yield self._move(f"commit {model.name}", Path(model.name)) if new else self._configure("commit", model)
        for name in reversed(names.reserved_by(self.plan.name)):  # ensembles before the steps that they name
            if name in self.kept - planned:
                yield self._remove(name, "retire")

    def _keep(self) -> None:
        """Copy the configs that will be replaced, so that an undo needs nothing but a rename."""
        self.old.mkdir()
        self.gone.mkdir()
        for name in self.kept:
            shutil.copy(self.root / name / CONFIG, self.old / name)

    def _config_differs(self, model: PlannedModel) -> bool:
        path = self.root / model.name / CONFIG
        return not path.is_file() or path.read_bytes() != model.config.encode()

    def _configure(self, verb: str, model: PlannedModel) -> Step:
        live = self.root / model.name / CONFIG
        return Step(
            f"{verb} {model.name}",
            lambda: _rename(self.new / model.name / CONFIG, live),
            lambda: (self.old / model.name).rename(live),
        )

    def _move(self, step: str, path: Path) -> Step:
        source, target = self.new / path, self.root / path
        return Step(step, lambda: _rename(source, target), lambda: target.rename(source))

    def _remove(self, path: str, verb: str = "remove") -> Step:
        """Take a directory out of the repository in one rename; it is deleted with the staging folder."""
        source, target = self.root / path, self.gone / path.replace("/", ".")
        undo = nothing if verb == "remove" else lambda: target.rename(source)
        return Step(f"{verb} {path}", lambda: _rename(source, target, flushed=source.parent), undo)


def _rename(source: Path, target: Path, flushed: Path | None = None) -> None:
    """Rename, and flush the directory in the repository, so that the commit is never on disk before what it pins."""
    source.rename(target)
    flush(flushed or target.parent)


def make_directory(path: Path) -> None:
    """Make one directory that other users may read, whatever the umask."""
    path.mkdir()
    path.chmod(DIRECTORY_MODE)
