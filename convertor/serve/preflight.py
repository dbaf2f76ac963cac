"""What can be seen before a server starts, told in one line each with the next step."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from convertor.errors import RefusedError, ServerError, refuse_if
from convertor.serve.embedded import installed_version

_SHM = Path("/dev/shm")  # noqa: S108 - POSIX shared memory lies there
_SHM_ROOM = 128 * 1024 * 1024


def check_repository(repository: Path) -> None:
    """Check that `repository` is a folder with at least one model in it.

    Raises:
        RefusedError: It is missing, unreadable, no folder, a single model, empty, has an entry in it on which Triton
            hangs or that it cannot list, or Triton cannot load models from its path: with a blank in it Triton hangs,
            and its python backend takes every path for ASCII.
    """
    try:
        _check_repository(repository)
    except OSError as error:
        raise RefusedError(
            f"{repository}: cannot be read ({error.strerror}); check the path and its permissions"
        ) from error


def _check_repository(repository: Path) -> None:
    if not repository.is_dir():
        what = "is not a folder" if repository.exists() else "is not there"
        raise RefusedError(f"{repository}: {what}; make a model repository with: convert package.zip -o {repository}")
    if (repository / "config.pbtxt").exists():
        raise RefusedError(f"{repository}: is the folder of one model; give the one above it: {repository.parent}")
    unfit = next((character for character in str(repository) if character.isspace() or not character.isascii()), None)
    if unfit is not None:
        raise RefusedError(
            f"{repository}: Triton cannot load models from a path with {unfit!r}; move the repository to a path of "
            "ASCII letters without blanks"
        )
    models = sorted(model_names(repository))
    if not models:
        raise RefusedError(f"{repository}: holds no model; add one with: convert package.zip -o {repository}")
    spaced = [name for name in models if any(character.isspace() for character in name)]
    refuse_if([f"{repository / name}: Triton hangs on a name with a space; rename it" for name in spaced])
    # Over a dead link it gives up on the whole repository, opens no port and does not end.
    dead = sorted(entry.name for entry in repository.iterdir() if entry.is_symlink() and not entry.exists())
    refuse_if(
        [f"{repository / name}: is a link to nothing, over which Triton serves no model; remove it" for name in dead]
    )
    # With such a name its index is no JSON.
    odd = [name for name in models if not name.isprintable()]
    refuse_if([f"{repository / name}: Triton cannot list a name with such characters; rename it" for name in odd])


def model_names(repository: Path) -> frozenset[str]:
    """Return the names of every folder in `repository`: Triton takes each for a model, hidden ones too."""
    return frozenset(entry.name for entry in repository.iterdir() if entry.is_dir())


def check_numpy() -> None:
    """Check the NumPy that models will import in this interpreter's environment.

    Raises:
        ServerError: It is missing or 2.x: with the embedded server every tensor made from a 2.x array comes out empty.
    """
    version = installed_version("numpy")
    if version is not None and int(version.split(".")[0]) < 2:
        return
    got = "no NumPy here" if version is None else f"NumPy {version} here"
    raise ServerError(
        f"{got}, and the embedded server (Triton 2.51) needs NumPy 1.x; {sys.executable} -m pip install 'numpy<2'"
    )


def shared_memory_warning() -> str | None:
    """Return a line when /dev/shm has so little room that large images will fail, else None."""
    try:
        status = os.statvfs(_SHM)
    except OSError:
        return None
    free = status.f_bavail * status.f_frsize
    if free >= _SHM_ROOM:
        return None
    return (
        f"{_SHM} has {free // 2**20} MB free: each python model instance takes 1 MB, a 4000x3000 image 36 MB per step; "
        "in a container: docker run --shm-size=1g"
    )
