"""What ONNX Runtime says when it refuses a graph, as one line that says what to do.

Payload: runs inside the server's python (3.9 or newer). The texts are those of ONNX Runtime 1.14 to 1.32.
"""

from __future__ import annotations

import re
from pathlib import Path

# Pattern in the engine's text -> what follows "<artifact>: "; the pattern's groups and {version} may be used.
_KNOWN = (
    (
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        "model IR {0}, onnxruntime {version} reads at most IR {1}; export again with an older IR or update onnxruntime",
    ),
    (
        r"Opset (\d+) is under development.*? for domain (?:ai\.onnx )?.*?till opset (\d+)",
        "opset {0}, onnxruntime {version} reads at most opset {1}; "
        "export again with an older opset or update onnxruntime",
    ),
    (
        r"(?:Fatal error: |No Op registered for )(\S+?)(?:\(-?\d+\))? (?:is not a registered|with domain_version)",
        "onnxruntime {version} has no operator {0}; export again without it",
    ),
    (
        r"External data path does not exist: \"([^\"]+)\"",
        "its weights are in {0}, which is not there; pack the file beside it and convert again",
    ),
    (
        r"No opset import for domain '([^']+)'",
        "onnxruntime {version} has no operators of the domain {0}; export again without them",
    ),
)
# "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model from /a/path/model.onnx failed:" tells nobody anything, nor
# does "/onnxruntime_src/a/file.cc:165 onnxruntime::Model::Model(a, whole, signature) [with T = a] ".
_PREAMBLE = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from .*? failed:)?\s*|/\S+:\d+ .*?[\])] (?=[A-Z/]|\[ONNX))+"
)
# Nor does " ; GPU=0 ; hostname=here ; file=/onnxruntime_src/a/file.cc ; line=1 ; expr=cudaSetDevice(id); ".
_CUDA_ORIGIN = re.compile(r" ; GPU=-?\d+ ; hostname=.*")
_LONGEST = 300
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: what a repository in git holds until `git lfs pull`.
_POINTER = b"version https://git-lfs.github.com/spec/"


def explain(path: Path, version: str, message: str) -> str:
    """Return one line for the engine's `message` on loading the artifact `path`."""
    artifact = path.name
    if _is_pointer(path):
        return f"{artifact}: expected the file itself, got a Git LFS pointer; run `git lfs pull`"
    for pattern, answer in _KNOWN:
        match = re.search(pattern, message)
        if match:
            groups = (group.removeprefix(f"{path.parent}/") for group in match.groups())
            return f"{artifact}: " + answer.format(*groups, version=version)
    return f"{artifact}: onnxruntime {version} refuses it: {one_line(message)}"


def _is_pointer(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def one_line(message: str) -> str:
    """Return the engine's message without where it comes from and line breaks, at most 300 characters."""
    return _CUDA_ORIGIN.sub("", _PREAMBLE.sub("", " ".join(message.split())))[:_LONGEST]
