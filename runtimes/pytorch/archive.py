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
EXPORT = "export it with torch.jit.trace(...).save or torch.export.save"


def kind_of(path: Path) -> str:
    """Return TORCHSCRIPT or PROGRAM.

    Raises:
        RunnerError: It is neither; the line says what it is and which export to use.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except FileNotFoundError:
        raise RunnerError(
            f"{path.name}: expected the model's file, got nothing there; convert the package again"
        ) from None
    except zipfile.BadZipFile:
        raise RunnerError(f"{path.name}: expected a zip of PyTorch's, got {_other(path)}; {EXPORT}") from None
    return _kind(path.name, names)


def _other(path: Path) -> str:
    with path.open("rb") as stream:
        head = stream.read(4)
    if not head:
        return "an empty file"
    if head.startswith(b"PK\x03\x04"):
        return "a damaged one"
    return "a pickle, which is not loaded" if head[:1] == b"\x80" else "something else"


def _kind(artifact: str, names: Sequence[str]) -> str:
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
        raise RunnerError(
            f"{artifact}: expected TorchScript or a torch.export program, got a pickled module or a state_dict, "
            f"which is not loaded; {EXPORT}"
        )
    raise RunnerError(f"{artifact}: expected TorchScript or a torch.export program, got another zip; {EXPORT}")
