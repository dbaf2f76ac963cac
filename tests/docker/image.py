"""docker/Dockerfile as its tests read it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
REQUIREMENT_FILES = sorted(path.name for path in DOCKER.glob("requirements*.txt"))


def instructions() -> list[tuple[str, str]]:
    """Return every (keyword, rest) of the Dockerfile, continued lines joined."""
    lines = (line for line in (DOCKER / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line.strip()]


def values(keyword: str) -> list[str]:
    return [rest for found, rest in instructions() if found == keyword]


def arguments() -> dict[str, str]:
    """Return the build arguments and their defaults."""
    return dict(argument.split("=", 1) for argument in values("ARG"))


def command() -> list[str]:
    (only,) = values("CMD")
    return json.loads(only)


def install_step() -> str:
    """Return the shell line of the only RUN."""
    (only,) = values("RUN")
    return only


def copy_into(folder: Path) -> None:
    """Carry out the Dockerfile's COPY."""
    (only,) = values("COPY")
    *patterns, _ = only.split()
    for pattern in patterns:
        for path in DOCKER.glob(pattern):
            shutil.copy(path, folder)


def requirements(name: str) -> list[str]:
    """Return the lines of a requirements file, without comments."""
    lines = (line.split("#")[0].strip() for line in (DOCKER / name).read_text().splitlines())
    return [line for line in lines if line]
