"""What goes wrong with an engine's file or device, and the line that a person gets: from convert, and from serve.

A `*` in a line stands for the engine's own words, which change with its versions; {name} for the version of a package.
What convert refuses may still turn up on a server, copied over a good model: both lines are here then.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtimes.dlr.tests import neo, wheels
from runtimes.onnx.tests import graphs
from tests.builders import anomaly_manifest

Files = Mapping[str, bytes]
DATA = Path(__file__).resolve().parents[2] / "runtimes" / "pytorch" / "tests" / "data"
SHAPE = (1, 3, 4, 6)
X, Y = graphs.tensor("x", graphs.FLOAT, SHAPE), graphs.tensor("y", graphs.FLOAT, SHAPE)
EXPORT = "export it with torch.jit.trace(...).save or torch.export.save"
BUILD = "build one on the target with trtexec or tensorrt's Builder"


@dataclass(frozen=True)
class Failure:
    """A package that cannot be served.

    Attributes:
        runtime: Its engine.
        files: Makes the package's files; the first is the artifact.
        served: What serve says of its base model.
        refused: What convert says, after the package's name; empty where it cannot know.
        device: The manifest's `device`.
        removed: A file that goes missing after convert.
        needs: Modules that the server's python must have for this line.
    """

    runtime: str
    files: Callable[[], Files]
    served: str
    refused: str = ""
    device: str = "auto"
    removed: str = ""
    needs: tuple[str, ...] = ()

    def manifest(self) -> dict[str, Any]:
        said = anomaly_manifest(input_shape=list(SHAPE))
        return {**said, "runtime": self.runtime, "runtime_artifact": next(iter(self.files())), "device": self.device}


def onnx(content: bytes, served: str, **more: Any) -> Failure:
    return Failure("onnx", lambda: {"model.onnx": content}, served, needs=("onnxruntime",), **more)


def torch(name: str, content: bytes, served: str, refused: str = "", device: str = "auto") -> Failure:
    return Failure("pytorch", lambda: {name: content}, served, refused, device, needs=("torch",))


def dlr(served: str, refused: str = "", device: str = "auto", **changed: bytes) -> Failure:
    def files() -> Files:
        library = wheels.library().read_bytes()
        good = {**neo.copier(SHAPE).files(library), "libdlr.so": library}
        return {**good, **{name.replace("__", "."): content for name, content in changed.items()}}

    return Failure("dlr", files, served, refused, device, needs=("dlr",))


def tensorrt(content: bytes, served: str, refused: str = "", needs: tuple[str, ...] = ()) -> Failure:
    return Failure("tensorrt", lambda: {"model.plan": content}, served, refused, needs=needs)


def good(runtime: str, name: str) -> Files:
    """Return files of an artifact of that name which convert accepts."""
    if runtime == "dlr":
        return dlr("").files()
    if runtime == "tensorrt":
        return {name: plan()}
    if runtime == "onnx":
        return {name: graphs.echo()}
    return {name: (DATA / ("program.pt2" if name.endswith(".pt2") else "script.pt")).read_bytes()}


def plan(magic: bytes = b"vtrt", version: tuple[int, ...] = (1, 7, 1, 116), cut: int = 0) -> bytes:
    """Return a plan as its header tells; the engine in it is none."""
    body = b"the engine"
    content = struct.pack("<4s4xQQ4B", magic, 2, 28 + len(body), *version) + body
    return content[: len(content) - cut]


def changed_zip(name: str, change: Callable[[str, bytes], bytes]) -> bytes:
    """Return a file of DATA whose members went through `change`."""
    target = io.BytesIO()
    with zipfile.ZipFile(DATA / name) as source, zipfile.ZipFile(target, "w") as copy:
        for member in source.namelist():
            copy.writestr(member, change(member, source.read(member)))
    return target.getvalue()


def old_plan() -> bytes:
    """Return the head of a plan of TensorRT 8.2: its version's parts lie each behind a tag."""
    parts = b"".join(b"\x02\x80\x01\x00" + bytes([part]) for part in (8, 2, 1, 8))
    return struct.pack("<4s4xQQ", b"ptrt", 205, 16) + parts + b"the engine"


def of_version(name: str, member: str, version: bytes) -> bytes:
    return changed_zip(name, lambda inner, content: version if inner.partition("/")[2] == member else content)


def says_use_pickle(member: str, content: bytes) -> bytes:
    if not member.endswith("model_weights_config.json"):
        return content
    return content.replace(b'"use_pickle": false', b'"use_pickle": true', 1)


def inductor() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("model/archive_format", b"pt2")
        archive.writestr("model/data/aotinductor/model/kernels.so", b"\x7fELF")
    return target.getvalue()


def on_a_gpu(member: str, content: bytes) -> bytes:
    """Change a script's code into what tracing on a GPU leaves: a tensor that is made there, wherever the module is."""
    if not member.endswith(".py"):
        return content
    zeros = b'torch.zeros([1], dtype=None, layout=None, device=torch.device("cuda:0"))'
    return content.replace(b"return _0", b"return torch.add(_0, " + zeros + b")")
