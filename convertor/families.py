"""Finds engines and decoders: a folder with a support.py is a family; nothing else registers it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convertor import payload
from convertor.by_path import load_by_path
from convertor.errors import RefusedError

Check = Callable[[Mapping[str, Any], "Mapping[str, Any] | None"], "list[str]"]
Read = Callable[[str, int], bytes]
Derive = Callable[[Mapping[str, Any], Mapping[str, Any]], "dict[str, Any]"]
ReadFacts = Callable[[str, Mapping[str, int], Read], "tuple[dict[str, Any] | None, list[str]]"]
EngineBatch = Callable[[Mapping[str, Any]], "int | None"]
Native = Callable[[Sequence[str]], "list[str]"]


@dataclass(frozen=True)
class Family:
    """An engine or a decoder.

    Attributes:
        name: The folder's name.
        folder: Where it lies.
        names: Every spelling it owns in a manifest.
        tasks: The tasks it decodes; empty for an engine.
        artifact: The engine's default artifact name; empty for a decoder.
        defaults: Defaults of its manifest block.
        presets: Name -> {"stage": ..., "detection": ...}, what stands between the defaults and what a manifest says;
            optional in a decoder's support.py.
        derive: (manifest as plain values, graph facts) -> settings that the graph's own metadata tells, which stand
            between the preset and what the manifest says; optional in a decoder's support.py.
        check: (manifest as plain values, graph facts or None) -> problems.
        advise: The same arguments -> what is likely a mistake, but may be meant; optional in a support.py.
        engine_batch: Graph facts -> the most images in one call for which the graph's results are right, None: any
            number; optional in a decoder's support.py.
        read_facts: (artifact, {name: size} of what lies in its folder, (name, limit) -> first bytes) -> what the graph
            says of itself, {"inputs", "outputs"} or None, and problems; optional in an engine's support.py. With or
            without the two there may be "pickles": {what runs code when it is loaded: the line that refuses it}; the
            line is empty where that is not known and left to the server.
        native: Names of the artifact's files -> those that are native code; optional in an engine's support.py.
        fixed_image: The engine takes images of one size only, the one the dataset was made with.
    """

    name: str
    folder: Path
    names: frozenset[str]
    tasks: frozenset[str]
    artifact: str
    defaults: Mapping[str, Any]
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]]
    derive: Derive
    check: Check
    advise: Check
    engine_batch: EngineBatch
    read_facts: ReadFacts
    native: Native
    fixed_image: bool

    def requirements(self) -> list[str]:
        """Return what the server's python needs for it."""
        return payload.requirements(self.folder)


def find_families(root: Path) -> list[Family]:
    """Return every family below `runtimes/` or `postprocessors/`, by folder name.

    Raises:
        RefusedError: Two families own the same name.
    """
    families = [_load(path) for path in sorted(root.glob(f"*/{payload.SUPPORT}"))]
    owners: dict[str, str] = {}
    for family in families:
        for name in sorted(family.names):
            if name in owners:
                raise RefusedError(
                    f"{root.name}: expected one owner of {name!r}, got {owners[name]} and {family.name}; "
                    f"take it out of one support.py"
                )
            owners[name] = family.name
    return families


def owner_of(name: str, families: Sequence[Family]) -> Family | None:
    """Return the family that owns a spelling, or None."""
    return next((family for family in families if name in family.names), None)


def nearest(name: str, families: Sequence[Family]) -> str:
    """Return what to say of an unknown name: the nearest known spelling and all of them."""
    known = sorted({spelling for family in families for spelling in family.names})
    close = difflib.get_close_matches(name.lower(), known, 1, 0.5)
    return (f"did you mean {close[0]}? " if close else "") + f"known: {', '.join(known) or 'none'}"


def _load(path: Path) -> Family:
    module = load_by_path(f"_support_{path.parent.parent.name}_{path.parent.name}", path)
    return Family(
        name=path.parent.name,
        folder=path.parent,
        names=frozenset(module.NAMES),
        tasks=frozenset(getattr(module, "TASKS", ())),
        artifact=getattr(module, "ARTIFACT", ""),
        defaults=dict(module.DEFAULTS),
        presets=dict(getattr(module, "PRESETS", {})),
        derive=getattr(module, "derive", _no_settings),
        check=module.check,
        advise=getattr(module, "advise", _no_advice),
        engine_batch=getattr(module, "engine_batch", _any_batch),
        read_facts=getattr(module, "read_facts", _no_facts),
        native=getattr(module, "native", _no_native),
        fixed_image=bool(getattr(module, "FIXED_IMAGE", False)),
    )


def _no_advice(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    del manifest, facts
    return []


def _any_batch(facts: Mapping[str, Any]) -> int | None:
    del facts
    return None


def _no_settings(manifest: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    del manifest, facts
    return {}


def _no_facts(artifact: str, files: Mapping[str, int], read: Read) -> tuple[dict[str, Any] | None, list[str]]:
    del artifact, files, read
    return None, []


def _no_native(files: Sequence[str]) -> list[str]:
    del files
    return []
