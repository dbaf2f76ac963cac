"""The directory names that one served model takes in a repository (the wire contract's names)."""

from __future__ import annotations

STEP_PREFIXES = ("base_", "marshal_", "decode_")
ENCODED_SUFFIX = "_encoded"


def steps_of(name: str) -> tuple[str, ...]:
    """Return the step models that belong to the ensemble `name`, whether its profile uses them or not."""
    return tuple(f"{prefix}{name}" for prefix in STEP_PREFIXES)


def ensembles_of(name: str) -> tuple[str, ...]:
    """Return the ensembles of the model `name`, the one that holds the commit first."""
    return (name, f"{name}{ENCODED_SUFFIX}")


def reserved_by(name: str) -> tuple[str, ...]:
    """Return every directory name that the model `name` takes: steps, then ensembles."""
    return (*steps_of(name), *ensembles_of(name))


def possible_owners(name: str) -> tuple[str, ...]:
    """Return the models that would reserve the directory `name`: `y` for `base_y`, `decode_y`, `y_encoded`, ..."""
    owners = [name[len(prefix) :] for prefix in STEP_PREFIXES if name.startswith(prefix)]
    if name.endswith(ENCODED_SUFFIX):
        owners.append(name[: -len(ENCODED_SUFFIX)])
    return tuple(owner for owner in owners if owner)
