"""What the tool must know of DLR (SageMaker Neo). Standard library only; loaded by file path, never at run time.

DLR finds its files by their endings, in one folder: the graph `*.json`, the kernels `*.so`, the weights `*.params`,
names `*.meta`. When something is wrong with them it fails without a reason, takes the wrong file or ends the process,
so they are checked here.
"""

from __future__ import annotations

import json
import posixpath
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

NAMES = frozenset({"dlr", "neo"})
ARTIFACT = "compiled.so"
FIXED_IMAGE = True
DEFAULTS: dict[str, Any] = {}

Read = Callable[[str, int], bytes]
Facts = Optional[dict[str, Any]]

RUNTIME_LIBRARY = "libdlr.so"
# What SageMaker puts beside a model and DLR passes over.
_NOT_THE_GRAPH = frozenset({"model-shapes.json", "hyperparams.json"})
_ROLES = {".json": "the graph", ".so": "the compiled kernels", ".params": "the weights", ".meta": "the metadata"}
_OPTIONAL = ".meta"
_GRAPH_BYTES = 64 << 20
_NAMES_BYTES = 16 << 20
_ELF = b"\x7fELF"
_PARAMS = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0)


class _BadFileError(Exception):
    """A file is not what it has to be; the text is the line."""


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
        "compile the model with the image as its only input"
    ]


def native(files: Sequence[str]) -> list[str]:
    """Return those of the package's files that are native code, which the server's process will run."""
    return [name for name in files if name.endswith(".so")]


def read_facts(artifact: str, files: Mapping[str, int], read: Read) -> tuple[Facts, list[str]]:
    """Return ({"inputs", "outputs"}, problems) of a compiled model.

    Args:
        artifact: The kernels' name in the package.
        files: Name in the package -> size, of everything that will lie in the artifact's folder.
        read: (name, limit) -> the first bytes of a file.

    Returns:
        Facts, None where they cannot be read: a list of {"name", "dtype", "shape"} each. Problems, file first.
    """
    folder = posixpath.dirname(artifact)
    here = {name: size for name, size in files.items() if posixpath.dirname(name) == folder}
    problems = list(_listing_problems(artifact, here))
    if problems:
        return None, problems
    (kernels,), graphs, params, metas = (_of(ending, here) for ending in (".so", ".json", ".params", ".meta"))
    facts: Facts = None
    try:
        if read(kernels, 4) != _ELF:
            raise _BadFileError(f"{kernels}: expected a shared library (ELF), got something else; compile it again")
        names = _output_names(metas[0], read) if metas else []
        if graphs and params:
            facts = _graph_facts(graphs[0], _weights(params[0], read), names, read)
    except _BadFileError as error:
        problems.append(str(error))
    return facts, problems


def _of(ending: str, here: Mapping[str, int]) -> list[str]:
    return sorted(
        name
        for name in here
        if name.endswith(ending)
        and not (ending == ".json" and posixpath.basename(name) in _NOT_THE_GRAPH)
        and not (ending == ".so" and name.endswith(RUNTIME_LIBRARY))
    )


def _listing_problems(artifact: str, here: Mapping[str, int]) -> Iterator[str]:
    for name in _of(".tensorrt", here):
        yield f"{name}: DLR newer than 1.1 refuses every model with such a file; compile the model again with Neo"
    if artifact not in _of(".so", here):
        yield f"{artifact}: expected {_ROLES['.so']} (a name that ends in .so, other than {RUNTIME_LIBRARY}); name them"
    # A model for Relay's VM has bytecode (*.ro) in place of graph and weights.
    needed = [".so"] if _of(".ro", here) else [ending for ending in _ROLES if ending != _OPTIONAL]
    for ending, role in _ROLES.items():
        found = _of(ending, here)
        if len(found) > 1:
            got = ", ".join(found)
            yield f"{artifact}: expected one *{ending} ({role}) in its folder, got {got}; take the others out"
        elif not found and ending in needed:
            got = ", ".join(sorted(here))
            yield f"{artifact}: expected *{ending} ({role}) beside it, got {got}; pack all of Neo's files"
        elif found and not here[found[0]] and ending != _OPTIONAL:
            yield f"{found[0]}: is empty, expected {role}; pack Neo's files again"


def _output_names(name: str, read: Read) -> list[str]:
    """Return the outputs' names in .meta, none if it is no JSON: DLR does without, but dies of odd lists."""
    try:
        value: Any = json.loads(read(name, _GRAPH_BYTES))
        model: Any = value.get("Model", {})
        inputs, outputs = ([str(tensor["name"]) for tensor in model.get(key, [])] for key in ("Inputs", "Outputs"))
        if not isinstance(value.get("Requirements", {}).get("TargetDeviceType", ""), str):
            raise TypeError
    except ValueError:
        return []
    except (AttributeError, LookupError, TypeError, RecursionError):
        raise _BadFileError(
            f"{name}: expected Model.Inputs and Model.Outputs to be lists of tensors with names, and "
            "Requirements.TargetDeviceType a text, got something else, "
            "on which DLR crashes; take the file out or compile again"
        ) from None
    del inputs
    return outputs


def _weights(name: str, read: Read) -> frozenset[str]:
    """Return the names of the weights, from the head of TVM's parameter file."""
    head = read(name, _NAMES_BYTES)
    if not head.startswith(_PARAMS):
        raise _BadFileError(f"{name}: expected TVM's parameter file, got something else; pack Neo's files again")
    try:
        (count,) = struct.unpack_from("<Q", head, 16)
        names, position = list[str](), 24
        for _ in range(min(count, len(head))):
            (length,) = struct.unpack_from("<Q", head, position)
            names.append(head[position + 8 : position + 8 + length].decode())
            position += 8 + length
    except (struct.error, ValueError, OverflowError):
        raise _BadFileError(f"{name}: is damaged: its table of names ends early; pack Neo's files again") from None
    return frozenset(names)


def _graph_facts(name: str, weights: frozenset[str], names: Sequence[str], read: Read) -> dict[str, Any]:
    try:
        graph = json.loads(read(name, _GRAPH_BYTES))
        tensor = _entries(graph)
        nodes = graph["nodes"]
        inputs = [tensor(node, 0) for node in graph["arg_nodes"] if nodes[node]["name"] not in weights]
        outputs = [tensor(head[0], head[1]) for head in graph["heads"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _BadFileError(
            f"{name}: expected the graph that TVM's executor reads, got something else "
            f"({type(error).__name__}: {' '.join(str(error).split())[:80]}); pack Neo's files again"
        ) from None
    if len(names) == len(outputs):
        outputs = [{**output, "name": known} for output, known in zip(outputs, names)]
    return {"inputs": inputs, "outputs": outputs}


def _entries(graph: Mapping[str, Any]) -> Callable[[int, int], dict[str, Any]]:
    """Return a function (node, output number) -> that tensor of the graph."""
    first, shapes, dtypes = graph["node_row_ptr"], graph["attrs"]["shape"][1], graph["attrs"]["dltype"][1]

    def tensor(node: int, number: int) -> dict[str, Any]:
        entry = first[node] + number
        shape = [int(axis) for axis in shapes[entry]]
        return {"name": str(graph["nodes"][node]["name"]), "dtype": str(dtypes[entry]), "shape": shape}

    return tensor
