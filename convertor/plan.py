"""Pure planning: what a repository will hold, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Union


@dataclass(frozen=True)
class Text:
    """A file whose content is known now."""

    content: str


@dataclass(frozen=True)
class PayloadFile:
    """A file copied byte for byte from the payload."""

    path: Path


@dataclass(frozen=True)
class PackageMember:
    """A file streamed from the package, by its name there."""

    name: str


Source = Union[Text, PayloadFile, PackageMember]


@dataclass(frozen=True)
class PlannedFile:
    """One file of a version folder: `path` is relative to `<model>/<version>/`, with forward slashes."""

    path: str
    source: Source


@dataclass(frozen=True)
class PlannedModel:
    """One model directory: its config.pbtxt and the files of the version that is being published."""

    name: str
    config: str
    files: tuple[PlannedFile, ...]
    is_ensemble: bool = False


@dataclass(frozen=True)
class RepositoryPlan:
    """Everything `convert` will publish for one package.

    Attributes:
        name: The ensemble's name.
        version: The version to publish, > 0.
        models: In the order in which they are put into place: steps first, ensembles last.
        profile: The serving profile.
        task: What the outputs mean.
    """

    name: str
    version: int
    profile: str
    task: str
    models: tuple[PlannedModel, ...]
