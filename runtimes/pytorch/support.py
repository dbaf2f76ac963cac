"""What the tool must know of PyTorch. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

NAMES = frozenset({"pytorch", "torch", "torchscript"})
ARTIFACT = "model.pt"
DEFAULTS: dict[str, Any] = {}

Read = Callable[[str, int], bytes]
Facts = Optional[dict[str, Any]]

# A zip's listing is at its end; a larger file is looked into by the server only.
_LARGEST = 256 << 20
_PROGRAM_BYTES = 64 << 20
_EXPORT = "export it with torch.jit.trace(...).save or torch.export.save"
# torch._export.serde.schema.ScalarType; NumPy has no bfloat16, which is fed from float32.
_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "float32",
}


def check(manifest: Mapping[str, Any], facts: Mapping[str, Any] | None) -> list[str]:
    """Return what cannot work, field first.

    Args:
        manifest: {"artifact": the artifact's name in the package, ...}.
        facts: What `read_facts` found; None when unknown.
    """
    inputs = (facts or {}).get("inputs", [])
    if facts is None or len(inputs) == 1:
        return []
    names = ", ".join(tensor["name"] for tensor in inputs) or "none"
    return [
        f"{manifest['artifact']}: expected one input (the image), got {len(inputs)}: {names}; "
        "export the model with the image as its only input"
    ]


def read_facts(artifact: str, files: Mapping[str, int], read: Read) -> tuple[Facts, list[str]]:
    """Return ({"inputs", "outputs"}, problems) of a model; facts are None for TorchScript, which has none to read.

    Args:
        artifact: The model's name in the package.
        files: Name in the package -> size.
        read: (name, limit) -> the first bytes of a file.
    """
    head = read(artifact, 4)
    if not head.startswith(b"PK\x03\x04"):
        got = "a pickle, which is not loaded" if head[:1] == b"\x80" else "something else"
        return None, [f"{artifact}: expected a zip of PyTorch's, got {got if head else 'an empty file'}; {_EXPORT}"]
    if files[artifact] > _LARGEST:
        return None, []
    try:
        with zipfile.ZipFile(io.BytesIO(read(artifact, _LARGEST))) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
            problems = _problems(artifact, names)
            facts = None if problems else _program_facts(archive)
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ):
        return None, [f"{artifact}: is a damaged zip of PyTorch's; {_EXPORT} again"]
    return facts, problems


def _problems(artifact: str, names: Sequence[str]) -> list[str]:
    if any(name.endswith((".so", ".cubin", ".hsaco")) or name.startswith("data/aotinductor/") for name in names):
        got = "native code, a package of AOTInductor; save the program with torch.export.save"
    elif "archive_format" in names or {"data.pkl", "constants.pkl"}.issubset(names):
        return []
    elif "data.pkl" in names:
        got = f"a pickled module or a state_dict, which is not loaded; {_EXPORT}"
    else:
        got = f"another zip; {_EXPORT}"
    return [f"{artifact}: expected TorchScript or a torch.export program, got {got}"]


def _program_facts(archive: zipfile.ZipFile) -> Facts:
    member = next((name for name in archive.namelist() if name.partition("/")[2] == "models/model.json"), None)
    if member is None or archive.getinfo(member).file_size > _PROGRAM_BYTES:
        return None
    module = json.loads(archive.read(member))["graph_module"]
    values, signature = module["graph"]["tensor_values"], module["signature"]

    def tensors(kind: str) -> list[dict[str, Any]]:
        args = [spec[f"user_{kind}"]["arg"] for spec in signature[f"{kind}_specs"] if f"user_{kind}" in spec]
        names = [str(arg["as_tensor"]["name"]) for arg in args if "as_tensor" in arg]
        return [{"name": name, **_tensor(values[name])} for name in names]

    return {"inputs": tensors("input"), "outputs": tensors("output")}


def _tensor(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dtype": _DTYPES.get(value["dtype"], "unknown"),
        "shape": [axis.get("as_int") for axis in value["sizes"]],
    }
