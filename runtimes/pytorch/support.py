"""What the tool must know of PyTorch. Standard library only; loaded by file path, never at run time."""

from __future__ import annotations

import io
import json
import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

NAMES = frozenset({"pytorch", "torch", "torchscript"})
ARTIFACT = "model.pt"
DEFAULTS: dict[str, Any] = {}

Read = Callable[[str, int], bytes]
Facts = Optional[dict[str, Any]]
Found = tuple[Facts, list[str]]

# A zip's listing is at its end; a larger file is looked into by the server only.
_LARGEST = 256 << 20
_PROGRAM_BYTES = 64 << 20
# A pickle names its tensors, whose numbers lie elsewhere: some hundred bytes for each.
_PICKLE_BYTES = 8 << 20
_EXPORT = "export it with torch.jit.trace(...).save or torch.export.save"
_WANTED = "expected TorchScript or a torch.export program, got"
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
# What a pickle of tensors imports; a module's imports its classes too.
_PLAIN = re.compile(
    r"torch\._utils\._rebuild_\w+|torch\.(storage\.)?\w*Storage|torch\.(Size|device|Tensor|b?float\d+|u?int\d+|bool)"
    r"|torch\.nn\.parameter\.Parameter|collections\.OrderedDict|builtins\.dict"
)
# What the standard library raises for damaged zips, JSON of another shape, and unpacking that it cannot do.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)
_PAYLOAD = re.compile(r"(weight|tensor)_\d+")


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


def read_facts(artifact: str, files: Mapping[str, int], read: Read) -> Found:
    """Return ({"inputs", "outputs", "pickles"}, problems) of a model; TorchScript has none of these to read.

    No pickle is loaded: what one imports is seen in its opcodes.

    Args:
        artifact: The model's name in the package.
        files: Name in the package -> size.
        read: (name, limit) -> the first bytes of a file.
    """
    head = read(artifact, 4)
    if head[:1] == b"\x80":
        return _pickled(artifact, _legacy_object(read(artifact, _PICKLE_BYTES)))
    if not head.startswith(b"PK\x03\x04"):
        got = "something else" if head else "an empty file"
        return None, [f"{artifact}: expected a zip of PyTorch's, got {got}; {_EXPORT}"]
    if files[artifact] > _LARGEST:
        return {"pickles": {f"{artifact} is too large to be looked into, it may be a pickle": ""}}, []
    try:
        with zipfile.ZipFile(io.BytesIO(read(artifact, _LARGEST))) as archive:
            return _facts(artifact, archive)
    except _BROKEN:
        return None, [f"{artifact}: is a damaged zip of PyTorch's; {_EXPORT} again"]


def _facts(artifact: str, archive: zipfile.ZipFile) -> Found:
    names = [name.partition("/")[2] for name in archive.namelist()]
    if any(name.endswith((".so", ".cubin", ".hsaco")) or name.startswith("data/aotinductor/") for name in names):
        got = "native code, a package of AOTInductor; save the program with torch.export.save"
        return None, [f"{artifact}: {_WANTED} {got}"]
    if "archive_format" in names:
        return {**(_program_facts(archive) or {}), "pickles": dict(_program_pickles(artifact, archive))}, []
    if {"data.pkl", "constants.pkl"}.issubset(names):
        return None, []
    if "data.pkl" in names:
        return _pickled(artifact, _member(archive, "data.pkl", _PICKLE_BYTES))
    return None, [f"{artifact}: {_WANTED} another zip; {_EXPORT}"]


def _member(archive: zipfile.ZipFile, inner: str, limit: int) -> bytes | None:
    """Return a member by its name below the archive's top folder; None where it is larger than that, or not there."""
    name = next((name for name in archive.namelist() if name.partition("/")[2] == inner), None)
    return None if name is None or archive.getinfo(name).file_size > limit else archive.read(name)


def _program_facts(archive: zipfile.ZipFile) -> Facts:
    content = _member(archive, "models/model.json", _PROGRAM_BYTES)
    if content is None:
        return None
    module = json.loads(content)["graph_module"]
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


def _program_pickles(artifact: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield the pickles of more than tensors that torch.export.load would run, and the line that refuses each."""
    for name in archive.namelist():
        inner, got = name.partition("/")[2], ""
        if inner.endswith(".pt"):
            foreign = _foreign(_member(archive, inner, _LARGEST))
            got = f"a pickle of {foreign[0]}" if foreign else ""
        elif inner.endswith("_config.json"):
            entries = json.loads(_member(archive, inner, _PROGRAM_BYTES) or "")["config"].items()
            odd = [key for key, entry in entries if entry["use_pickle"] or not _PAYLOAD.fullmatch(entry["path_name"])]
            got = f"a pickle in place of the tensor {odd[0]}" if odd else ""
        if got:
            refusal = f"{artifact}: {inner}: expected tensors, got {got}, which is not loaded; "
            yield f"{artifact} holds {got} ({inner})", f"{refusal}save it with torch.export.save"


def _foreign(content: bytes | None) -> list[str]:
    """Return what a file of torch.save imports besides tensors; None is one that is too large."""
    pickled = content
    if content is None:
        pass
    elif content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            pickled = _member(archive, "data.pkl", _PICKLE_BYTES)
    else:
        pickled = _legacy_object(content)
    return ["more than tensors"] if pickled is None else [name for name in _imports(pickled) if _is_foreign(name)]


def _is_foreign(name: str) -> bool:
    return _PLAIN.fullmatch(name) is None


def _legacy_object(content: bytes) -> bytes | None:
    """Return the pickle of the object in a file of torch.save before 1.6: the fourth, after magic, version, system."""
    stream = io.BytesIO(content)
    try:
        for _ in range(3):
            for _ in pickletools.genops(stream):
                pass
    except ValueError:
        # Another pickle than torch's.
        return content
    return content[stream.tell() :]


def _pickled(artifact: str, content: bytes | None) -> Found:
    """Say what may be done with a pickle: modules run code and need the operator's word, tables cannot run at all."""
    try:
        names = None if content is None else list(_imports(content))
    except ValueError:
        names = None
    if names is None:
        what = "a pickled module or a state_dict"
        return _needs_word(artifact, what, f"{artifact} is a pickle")
    foreign = next(filter(_is_foreign, names), None)
    if foreign is None:
        got = "a state_dict or another table of tensors, which is no network"
        return None, [f"{artifact}: {_WANTED} {got}; {_EXPORT}"]
    if _is_foreign(names[0]):
        if foreign.startswith("__main__."):
            got = f"a pickled module of the script that saved it ({foreign}), which cannot be loaded elsewhere"
            return None, [f"{artifact}: {_WANTED} {got}; {_EXPORT}"]
        return _needs_word(artifact, f"a pickled module ({foreign})", f"{artifact} is a pickle of {foreign}")
    return None, [f"{artifact}: {_WANTED} a checkpoint, a dict with {foreign} in it; {_EXPORT} from its module"]


def _needs_word(artifact: str, got: str, what: str) -> Found:
    return {"pickles": {what: f"{artifact}: {_WANTED} {got}, which is not loaded; {_EXPORT}"}}, []


def _imports(content: bytes) -> Iterator[str]:
    """Yield what a pickle imports, in its order; first "builtins.dict" where the whole is a dict. Nothing is loaded.

    Raises:
        ValueError: It is damaged.
    """
    texts: list[str] = []
    memo: dict[int, str] = {}
    is_first = True
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif opcode.name == "STACK_GLOBAL":
            yield ".".join(texts[-2:])
        elif opcode.name == "EMPTY_DICT" and is_first:
            yield "builtins.dict"
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo.get(int(argument or 0), ""))
        elif isinstance(argument, str):
            texts.append(argument)
        is_first = is_first and opcode.name in ("PROTO", "FRAME")
