"""What a PyTorch file is, told without torch, and what a program may not hold; convert and server alike."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from runtimes.contract import RunnerError
from runtimes.pytorch.archive import kind_of
from runtimes.pytorch.program_checks import UnsafeProgramError, check_program
from runtimes.pytorch.support import check, read_facts

DATA = Path(__file__).parent / "data"


def facts_of(path: Path) -> tuple[Any, list[str]]:
    """What convert sees, and every line with which it refuses the file when pickles are not allowed."""
    content = path.read_bytes()
    facts, problems = read_facts(path.name, {path.name: len(content)}, lambda name, limit: content[:limit])
    pickles: dict[str, str] = (facts or {}).pop("pickles", {})
    return facts or None, [*problems, *pickles.values()]


def pickles_of(path: Path) -> list[str]:
    """What needs the operator's word."""
    content = path.read_bytes()
    facts, _ = read_facts(path.name, {path.name: len(content)}, lambda name, limit: content[:limit])
    return list((facts or {}).get("pickles", {}))


def zipped(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return path


@pytest.mark.parametrize(("name", "kind"), [("script.pt", "torchscript"), ("program.pt2", "program")])
def test_what_is_loaded(name: str, kind: str) -> None:
    assert kind_of(DATA / name) == kind
    assert facts_of(DATA / name)[1] == []


@pytest.mark.parametrize(
    ("name", "by_the_server", "by_convert"),
    [
        pytest.param(
            "module.pt",
            "got a pickled module or a state_dict, which is not loaded; export it with torch.jit.trace",
            "got a pickled module (torch.nn.modules.conv.Conv2d), which is not loaded; export it with torch.jit.trace",
            id="B97",
        ),
        pytest.param(
            "state_dict.pt",
            "got a pickled module or a state_dict, which is not loaded; export it with",
            "got a state_dict or another table of tensors, which is no network; export it with",
            id="state",
        ),
        pytest.param(
            "legacy.pt",
            "got a pickle, which is not loaded; export it with",
            "got a state_dict or another table of tensors, which is no network; export it with",
            id="B99-legacy",
        ),
    ],
)
def test_pickles_are_refused_without_unpickling(
    monkeypatch: pytest.MonkeyPatch, name: str, by_the_server: str, by_convert: str
) -> None:
    monkeypatch.setattr(pickle, "Unpickler", None)
    with pytest.raises(RunnerError, match=re.escape(by_the_server)):
        kind_of(DATA / name)
    assert kind_of(DATA / name, allow_pickles=True) == "pickle"
    facts, (problem,) = facts_of(DATA / name)
    assert facts is None
    assert by_convert in problem


class Thing:
    """Something that has a class and is no network."""


def torch_zip(path: Path, pickled: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickled)
    return path


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_what_needs_the_operators_word(tmp_path: Path, protocol: int) -> None:
    path = torch_zip(tmp_path / "model.pt", pickle.dumps(Thing(), protocol))
    if protocol:
        assert pickles_of(path) == [f"model.pt is a pickle of {Thing.__module__}.Thing"]
    (refusal,) = facts_of(path)[1]
    assert "which is not loaded; export it" in refusal
    (tmp_path / "legacy.pt").write_bytes(pickle.dumps(Thing(), protocol or 2))
    assert len(pickles_of(tmp_path / "legacy.pt")) == 1
    # What torch.save wrote before 1.6: magic number, protocol, system, and then the object.
    torchs = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, Thing())]
    (tmp_path / "legacy.pt").write_bytes(b"".join(torchs))
    assert pickles_of(tmp_path / "legacy.pt") == [f"legacy.pt is a pickle of {Thing.__module__}.Thing"]
    checkpoint = torch_zip(tmp_path / "dict.pt", pickle.dumps({"epoch": 1, "model": Thing()}, protocol or 2))
    assert pickles_of(checkpoint) == []
    assert f"got a checkpoint, a dict with {Thing.__module__}.Thing in it; export" in facts_of(checkpoint)[1][0]


def test_a_class_of_the_script_that_saved_it_is_never_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = torch_zip(tmp_path / "model.pt", b"\x80\x02c__main__\nNet\n)\x81.")
    assert pickles_of(path) == []
    assert "(__main__.Net), which cannot be loaded elsewhere; export" in facts_of(path)[1][0]


def test_a_pickle_that_cannot_be_looked_into_needs_the_operators_word(tmp_path: Path) -> None:
    path = torch_zip(tmp_path / "model.pt", b"\x80\x02junk")
    assert pickles_of(path) == ["model.pt is a pickle"]
    assert "got a pickled module or a state_dict, which is not loaded" in facts_of(path)[1][0]
    facts, problems = read_facts("big.pt", {"big.pt": 1 << 40}, lambda name, limit: b"PK\x03\x04")
    assert problems == []
    assert facts == {"pickles": {"big.pt is too large to be looked into, it may be a pickle": ""}}


def program_with(path: Path, changed: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**members(), **changed}.items():
            archive.writestr(f"model/{name}", content)
    return path


def test_a_program_with_pickles_is_refused_by_convert_too(tmp_path: Path) -> None:
    inner = torch_zip(tmp_path / "inner.pt", pickle.dumps(Thing(), 2)).read_bytes()
    sample = "data/sample_inputs/model.pt"
    for content in (inner, pickle.dumps(Thing(), 2)):
        path = program_with(tmp_path / "model.pt2", {sample: content})
        assert pickles_of(path) == [f"model.pt2 holds a pickle of {Thing.__module__}.Thing ({sample})"]
        assert facts_of(path)[1] == [
            f"model.pt2: {sample}: expected tensors, got a pickle of {Thing.__module__}.Thing, which is not loaded; "
            "save it with torch.export.save"
        ]
    config = "data/weights/model_weights_config.json"
    said = members()[config].replace(b'"use_pickle": false', b'"use_pickle": true', 1)
    (problem,) = facts_of(program_with(tmp_path / "model.pt2", {config: said}))[1]
    assert f"{config}: expected tensors, got a pickle in place of the tensor weight" in problem
    assert pickles_of(DATA / "program.pt2") == []


@pytest.mark.parametrize(
    ("names", "got"),
    [
        pytest.param(("m/archive_format", "m/data/aotinductor/model/a.so"), "package of AOTInductor", id="native"),
        pytest.param(("a/readme",), "another zip", id="zip"),
    ],
)
def test_other_zips(tmp_path: Path, names: tuple[str, ...], got: str) -> None:
    path = zipped(tmp_path / "model.pt", *names)
    with pytest.raises(RunnerError, match=got):
        kind_of(path)
    assert got in facts_of(path)[1][0]


@pytest.mark.parametrize(
    ("content", "got"), [(b"", "an empty file"), (b"PK\x03\x04junk", "damaged"), (b"hello", "else")]
)
def test_junk(tmp_path: Path, content: bytes, got: str) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    with pytest.raises(RunnerError, match=got):
        kind_of(path)
    assert got in facts_of(path)[1][0]


def test_facts_of_a_program() -> None:
    facts, _ = facts_of(DATA / "program.pt2")
    assert facts == {
        "inputs": [{"name": "input", "dtype": "float32", "shape": [1, 3, 4, 6]}],
        "outputs": [{"name": "conv2d", "dtype": "float32", "shape": [1, 2, 4, 6]}],
    }
    assert check({"artifact": "m"}, facts) == []
    assert "got 2: input, input" in check({"artifact": "m"}, {"inputs": facts["inputs"] * 2})[0]


def members() -> dict[str, bytes]:
    with zipfile.ZipFile(DATA / "program.pt2") as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def problem(changed: dict[str, bytes], plain: bool = True) -> str:
    files = {**members(), **changed}
    with pytest.raises(UnsafeProgramError) as caught:
        check_program(list(files), files.__getitem__, lambda _: plain)
    return str(caught.value)


def program(old: str, new: str) -> dict[str, bytes]:
    text = members()["models/model.json"].decode()
    assert old in text
    return {"models/model.json": text.replace(old, new, 1).encode()}


def test_a_real_program_passes() -> None:
    files = members()
    asked: list[bytes] = []
    check_program(list(files), files.__getitem__, lambda content: not asked.append(content))
    assert asked == [files["data/sample_inputs/model.pt"]]


def test_pickles_in_a_program() -> None:
    assert problem({}, plain=False) == "data/sample_inputs/model.pt is a pickle of more than tensors"
    config = "data/weights/model_weights_config.json"
    said = members()[config].replace(b'"use_pickle": false', b'"use_pickle": true', 1)
    assert problem({config: said}) == f"{config}: weight says use_pickle"
    custom = json.dumps({"config": {"c": {"path_name": "opaque_obj_0", "use_pickle": False}}}).encode()
    assert problem({"data/constants/model_constants_config.json": custom}).endswith("c is no tensor but opaque_obj_0")
    assert "is no part of" in problem({"data/constants/opaque_obj_0": b""})
    assert "is no part of" in problem({"serialized_state_dict.pt": b""})
    assert problem({"models/model.json": b"{"}) == "models/model.json is no JSON"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("torch.ops.aten.conv2d.default", "torch.os.system", id="target"),
        pytest.param("torch.ops.aten.conv2d.default", "torch.ops.aten.from_file.default", id="maps-a-file"),
        pytest.param("torch.ops.aten.conv2d.default", "torch.ops.aten.from_file.out", id="maps-a-file-out"),
        pytest.param("torch.ops.aten.conv2d.default", "torch.ops.aten.save.default", id="saves-a-file"),
        pytest.param("torch.ops.aten.conv2d.default", "torch.ops.torchvision.write_file.default", id="writes-a-file"),
        pytest.param('{"as_int": 6}', '{"as_expr": {"expr_str": "eval(chr(95))", "hint": null}}', id="expression"),
        pytest.param('"forward_arg_names": ["input"]', '"forward_arg_names": ["x=print(1)"]', id="argument"),
        pytest.param("builtins.tuple", "os.path", id="structure"),
    ],
)
def test_what_torch_would_execute(old: str, new: str) -> None:
    assert problem(program(old, new)).startswith("models/model.json: ")


def test_expressions_of_torch_pass() -> None:
    expression = "FloorDiv(Add(Symbol('s53', positive=True, integer=True), Integer(1)), Integer(2))"
    files = {**members(), **program('{"as_int": 6}', json.dumps({"as_expr": {"expr_str": expression, "hint": None}}))}
    check_program(list(files), files.__getitem__, lambda _: True)
