"""Tells what a PyTorch file is from the names of its zip's members: nothing is unpickled.

Payload: runs inside the server's python (3.9 or newer); needs nothing more.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from ..contract import RunnerError

TORCHSCRIPT = "torchscript"
PROGRAM = "program"
PICKLE = "pickle"
EXPORT = "export it with torch.jit.trace(...).save or torch.export.save"


def kind_of(path: Path, allow_pickles: bool = False) -> str:
    """Return TORCHSCRIPT or PROGRAM, or where pickles are allowed PICKLE.

    Raises:
        RunnerError: It is neither; the line says what it is and which export to use.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
        # Anything in front of the zip could be another file of torch's own.
        if not head.startswith(b"PK\x03\x04"):
            return _other(path.name, head, allow_pickles)
        with zipfile.ZipFile(path) as archive:
            return _kind(path.name, archive.namelist(), allow_pickles)
    except FileNotFoundError:
        raise RunnerError(
            f"{path.name}: expected the model's file, got nothing there; convert the package again"
        ) from None
    except zipfile.BadZipFile:
        raise _no_zip(path.name, "a damaged one") from None


def _other(artifact: str, head: bytes, allow_pickles: bool) -> str:
    if head[:1] == b"\x80":
        if allow_pickles:
            return PICKLE
        raise _no_zip(artifact, "a pickle, which is not loaded")
    raise _no_zip(artifact, "something else" if head else "an empty file")


def _no_zip(artifact: str, got: str) -> RunnerError:
    return RunnerError(f"{artifact}: expected a zip of PyTorch's, got {got}; {EXPORT}")


def _kind(artifact: str, names: Sequence[str], allow_pickles: bool) -> str:
    inner = [name.partition("/")[2] for name in names]
    if any(name.endswith((".so", ".cubin", ".hsaco")) or "/aotinductor/" in f"/{name}" for name in names):
        raise RunnerError(
            f"{artifact}: expected no native code, got a package of AOTInductor; save it with torch.export.save"
        )
    if len({name.casefold() for name in names}) != len(names):
        raise RunnerError(f"{artifact}: has members with the same name; {EXPORT} again")
    if "archive_format" in inner or any(name.startswith("models/") for name in inner):
        return PROGRAM
    if "serialized_exported_program.json" in names:
        raise RunnerError(
            f"{artifact}: is a program of torch 2.7 or older; save it again with a newer torch.export.save"
        )
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return TORCHSCRIPT
    if "data.pkl" in inner:
        if allow_pickles:
            return PICKLE
        raise RunnerError(
            f"{artifact}: expected TorchScript or a torch.export program, got a pickled module or a state_dict, "
            f"which is not loaded; {EXPORT}"
        )
    raise RunnerError(f"{artifact}: expected TorchScript or a torch.export program, got another zip; {EXPORT}")
