"""What a torch.export program (.pt2) must be before torch.export.load may see it.

Loading one can run code: pickles (`use_pickle`, legacy weights, sample inputs), sympy's `eval` on dimensions, targets
looked up in torch by name, and Python source made of names. All of these are looked at first.

Payload: runs inside the server's python (3.9 or newer); needs nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from .script_checks import FILES_AND_NETWORK

Read = Callable[[str], bytes]

# What torch.export.save of 2.8 to 2.13 writes for one program named "model".
_MEMBERS = re.compile(
    r"models/model\.json|data/weights/(weight_\d+|model_weights_config\.json|model\.pt)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json|model\.pt)|data/sample_inputs/model\.pt"
    r"|archive_format|archive_version|version|byteorder|\.data/(version|serialization_id)|\.format_version"
    r"|\.storage_alignment|extra/[\w./-]+"
)
_NAME = re.compile(r"[\w.]*")
_TARGET = re.compile(r"torch\.ops\.(aten|prims|torchvision)\.\w+\.\w+|_operator\.[a-z]+|math\.[a-z]+|torch\.sym_[a-z]+")
_NO_TARGETS = frozenset({"_operator.attrgetter", "_operator.methodcaller", "_operator.itemgetter", "_operator.call"})
_TOKEN = re.compile(r"'(?:[A-Za-z]+\d*|[-+.\d]+)'|[A-Za-z_]\w*|\d[\d.]*|[\s(),=*+/<>&|~-]")
_WORDS = re.compile(
    "Add|Mul|Pow|Mod|Max|Min|Abs|Integer|Float|Rational|Symbol|Eq|Ne|Ge|Gt|Le|Lt|And|Or|Not|True|False|oo|int_oo"
    "|Equality|Unequality|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan|positive|nonnegative|integer|precision"
    "|FloorDiv|ModularIndexing|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift|PowByNatural"
    r"|FloatPow|FloatTrueDiv|IntTrueDiv|TruncToFloat|TruncToInt|RoundToInt|RoundDecimal|ToFloat|Identity|[suz]f?\d+"
)
_CONTAINERS = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})


class UnsafeProgramError(Exception):
    """Loading the program could run code; the text says where."""


def check_program(names: Sequence[str], read: Read, is_plain: Callable[[bytes], bool]) -> None:
    """Refuse a program that could run code while it is loaded.

    Args:
        names: The members, without the archive's top folder.
        read: Name -> content; the very reader that will load the program.
        is_plain: Whether torch.load(weights_only=True) takes a pickle.

    Raises:
        UnsafeProgramError: It could, or has what is not known to be harmless.
    """
    for name in names:
        if not _MEMBERS.fullmatch(name):
            raise UnsafeProgramError(f"{name} is no part of a program that torch.export.save writes")
        if name.endswith(".pt") and not is_plain(read(name)):
            raise UnsafeProgramError(f"{name} is a pickle of more than tensors")
        if name.endswith("_config.json"):
            _check_payload(name, _parsed(name, read(name)))
        if name == "models/model.json":
            for problem in _program_problems(_parsed(name, read(name))):
                raise UnsafeProgramError(f"{name}: {problem}")


def _parsed(name: str, content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise UnsafeProgramError(f"{name} is no JSON") from None


def _check_payload(name: str, config: object) -> None:
    try:
        table: dict[str, Any] = cast("Any", config)["config"]
        entries = [(key, entry["use_pickle"], entry["path_name"]) for key, entry in table.items()]
    except (AttributeError, LookupError, TypeError):
        raise UnsafeProgramError(f"{name} is no table of payloads") from None
    for key, use_pickle, path in entries:
        if use_pickle is not False:
            raise UnsafeProgramError(f"{name}: {key} says use_pickle")
        if not re.fullmatch(r"(weight|tensor)_\d+", str(path)):
            raise UnsafeProgramError(f"{name}: {key} is no tensor but {path}")


def _program_problems(value: object) -> Iterator[str]:
    """Yield what is not harmless in a program's JSON, depth first."""
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _program_problems(entry)
    elif isinstance(value, dict):
        for key, entry in cast("dict[str, Any]", value).items():
            if key in _RULES and not _RULES[key](entry):
                yield f"{key} {str(entry)[:80]!r}"
            elif key != "metadata":  # stack traces and module paths, which are text only
                yield from _program_problems(entry)


def _is_expression(value: object) -> bool:
    """Say whether a text is an expression of sizes: sympy evaluates it as Python."""
    position = 0
    while isinstance(value, str) and position < len(value):
        token = _TOKEN.match(value, position)
        if token is None:
            return False
        word = token[0]
        if (word[0].isalpha() or word[0] == "_") and not _WORDS.fullmatch(word):
            return False
        position = token.end()
    return isinstance(value, str)


def _is_target(value: object) -> bool:
    if not isinstance(value, str) or value in _NO_TARGETS or not _TARGET.fullmatch(value):
        return False
    # Among torch's operators, too, are some that map a file into memory, to be written to, or make one.
    return FILES_AND_NETWORK.search(value.encode()) is None


def _is_name(value: object) -> bool:
    return value is None or isinstance(value, dict) or (isinstance(value, str) and _NAME.fullmatch(value) is not None)


def _are_names(value: object) -> bool:
    names = cast("list[object]", value) if isinstance(value, list) else [value]
    return value is None or all(isinstance(name, str) and name.isidentifier() for name in names)


def _is_structure(value: object) -> bool:
    """Say whether a text is a structure of tuples, lists and dicts: others may import modules."""
    try:
        return value == "" or ("__" not in str(value) and _are_containers(json.loads(str(value))[1]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _are_containers(spec: Mapping[str, Any]) -> bool:
    return spec["type"] in _CONTAINERS and all(map(_are_containers, spec["children_spec"]))


_RULES: dict[str, Callable[[Any], bool]] = {
    "expr_str": _is_expression,
    "target": _is_target,
    "name": _is_name,
    "forward_arg_names": _are_names,
    "in_spec": _is_structure,
    "out_spec": _is_structure,
}
