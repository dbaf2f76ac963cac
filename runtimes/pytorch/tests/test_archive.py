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
    content = path.read_bytes()
    return read_facts(path.name, {path.name: len(content)}, lambda name, limit: content[:limit])


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
    ("name", "got"),
    [
        pytest.param("module.pt", "a pickled module or a state_dict, which is not loaded; export it with", id="B97"),
        pytest.param(
            "state_dict.pt", "a pickled module or a state_dict, which is not loaded; export it with", id="state"
        ),
        pytest.param("legacy.pt", "a pickle, which is not loaded; export it with", id="B99-legacy"),
    ],
)
def test_pickles_are_refused_without_unpickling(monkeypatch: pytest.MonkeyPatch, name: str, got: str) -> None:
    monkeypatch.setattr(pickle, "Unpickler", None)
    with pytest.raises(RunnerError, match=re.escape(got)):
        kind_of(DATA / name)
    facts, (problem,) = facts_of(DATA / name)
    assert facts is None
    assert got in problem


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
