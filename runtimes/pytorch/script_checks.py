"""What TorchScript must not say before torch.jit.load may see it.

TorchScript is stored as source text, which torch compiles; a `__setstate__` runs already while the file is loaded. Two
of torch's operators touch files, and a few call other machines. Whatever way they are called, their name stands in
the text, or is made of pieces for `getattr`.

Payload: runs inside the server's python (3.9 or newer); needs nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

Read = Callable[[str], bytes]

# Of torch 2.13's operators; the last two are torchvision's.
FILES_AND_NETWORK = re.compile(rb"\b(save|from_file|rpc_sync|rpc_async|rpc_remote|read_file|write_file)\b")
_TOKEN = re.compile(
    rb"\s+|\\\n|#[^\n]*"
    rb'|(?P<text>"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|\w+|.',
    re.DOTALL,
)
_DEVICE = re.compile(rb"torch\.device\([\"'](\w+)")
_PLAIN_TEXT = re.compile(rb"\"[^\"\\\n]+\"|'[^'\\\n]+'")


class UnsafeScriptError(Exception):
    """The script could touch files or the network; the text says where."""


def check_script(names: Sequence[str], read: Read) -> None:
    """Refuse a script that could touch files or the network.

    Args:
        names: The members, without the archive's top folder.
        read: Name -> content; the very reader that will load the script.

    Raises:
        UnsafeScriptError: It could.
    """
    for name in names:
        # torch looks members up without regard to case. In its first format code lay anywhere.
        if name.lower() == "model.json":
            raise UnsafeScriptError(f"{name} is of a format before torch 1.0")
        if name.lower().endswith(".py"):
            for problem in _problems(read(name)):
                raise UnsafeScriptError(f"{name} {problem}")


def fixed_devices(names: Sequence[str], read: Read) -> frozenset[str]:
    """Return the kinds of device ("cpu", "cuda") that a script names: tracing writes down where tensors were made."""
    code = b"".join(read(name) for name in names if name.lower().endswith(".py"))
    return frozenset(device.decode() for device in _DEVICE.findall(code))


def _problems(code: bytes) -> Iterator[str]:
    for word in FILES_AND_NETWORK.finditer(code):
        yield f"says {word[0].decode()!r}, which can touch files or the network"
    for call in re.finditer(rb"\bgetattr\b", code):
        if not _has_plain_name(code, call.end()):
            yield "has a getattr whose name is not plain"


def _has_plain_name(code: bytes, start: int) -> bool:
    """Say whether the call that begins there ends in `, "name")`: one text, without escapes."""
    depth, tail = 0, [b"", b"", b""]
    for token in _TOKEN.finditer(code, start):
        if token["text"] is None and (token[0].isspace() or token[0].startswith((b"#", b"\\"))):
            continue
        tail = [*tail[1:], token[0]]
        depth += (token[0] in b"([{") - (token[0] in b")]}")
        if depth <= 0:
            return tail[0] == b"," and tail[2] == b")" and _PLAIN_TEXT.fullmatch(tail[1]) is not None
    return False
