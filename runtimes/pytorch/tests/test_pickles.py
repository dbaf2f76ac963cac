"""Pickles: what loads once the operator allows it, and what does not load even then."""

from __future__ import annotations

import logging
import os
import sys
import types
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner

torch: Any = pytest.importorskip("torch")
DATA = Path(__file__).parent / "data"
IMAGE = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6) / 72
RUNS_CODE = "loading it runs code of the package's author with the server's rights; allowed by convert --allow-pickles"


def load(path: Path, allow: bool = True, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_runner("pytorch", RunnerOptions(path, allow_pickles=allow, **{"device": "cpu", **options}))


def message(path: Path, allow: bool = True) -> str:
    with pytest.raises(RunnerError) as caught:
        load(path, allow)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("gpu", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
@pytest.mark.parametrize("new_zip", [True, False], ids=["zip", "legacy"])
def test_b97_a_module_that_the_operator_allows(tmp_path: Path, new_zip: bool, device: str) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 1), torch.nn.Dropout(0.9)).half().train()
    torch.save(module, tmp_path / "model.pt", _use_new_zipfile_serialization=new_zip)
    assert "which is not loaded" in message(tmp_path / "model.pt", allow=False)
    runner = load(tmp_path / "model.pt", device=device)
    assert runner.details["format"] == "pickle"
    assert runner.details["warning"] == f"model.pt is a pickle: {RUNS_CODE}"
    assert runner.inputs[0].dtype == "float16"
    (found,) = runner(np.concatenate([IMAGE] * 3))
    expected = module.eval().float()(torch.from_numpy(IMAGE)).detach().numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.concatenate([expected] * 3), atol=0.01)


def test_a_load_that_fails_says_that_code_may_have_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(torch.nn.Conv2d(3, 2, 1), tmp_path / "model.pt")

    def fails(*_: object, **__: object) -> None:
        raise ValueError("not enough values to unpack")

    monkeypatch.setattr(torch, "load", fails)
    line = message(tmp_path / "model.pt")
    assert "refuses it (code of the file may have run: --allow-pickles): not enough values to unpack; " in line


def test_what_needs_no_permission_warns_of_nothing() -> None:
    for name in ("script.pt", "program.pt2"):
        assert "warning" not in load(DATA / name).details


def saved_with_module(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> types.ModuleType:
    """Save a module whose class lives in `name`, which is not there any more afterwards."""
    module = types.ModuleType(name)
    exec("import torch\nclass Net(torch.nn.Identity):\n  pass", module.__dict__)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        torch.save(module.__dict__["Net"](), path)
    return module


def test_b99_a_module_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pt"
    module = saved_with_module(path, monkeypatch, "ultralytics")
    assert "which is not loaded; export it with" in message(path, allow=False)
    assert message(path) == (
        "model.pt: needs the python module 'ultralytics', which is not in the server's python; "
        "pip install it or export TorchScript"
    )
    del module.__dict__["Net"]
    monkeypatch.setitem(sys.modules, "ultralytics", module)
    assert "needs what the server's python does not have: " in message(path)
    assert "'Net'" in message(path)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        pytest.param({"w": 1}, "a state_dict or a checkpoint (a dict)", id="dict"),
        pytest.param([1], "list", id="list"),
    ],
)
def test_what_is_no_module(tmp_path: Path, value: Any, got: str) -> None:
    torch.save(value, tmp_path / "model.pt")
    assert f"expected a pickled module, got {got}; export it with" in message(tmp_path / "model.pt")
    assert "got a state_dict or a checkpoint" in message(DATA / "state_dict.pt")
    assert "got a state_dict or a checkpoint" in message(DATA / "legacy.pt")


def program_with_a_pickle(folder: Path, value: Any) -> Path:
    torch.save(value, folder / "inner.pt")
    with zipfile.ZipFile(DATA / "program.pt2") as good, zipfile.ZipFile(folder / "model.pt2", "w") as bad:
        for name in good.namelist():
            inner = name.endswith("sample_inputs/model.pt")
            bad.writestr(name, (folder / "inner.pt").read_bytes() if inner else good.read(name))
    return folder / "model.pt2"


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_a_pickle_in_a_program_runs_only_when_it_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # torch 2.13's own line about it has an argument too few, which pytest takes for an error.
    monkeypatch.setattr(logging.getLogger("torch._export.serde.serialize"), "disabled", True)
    path = program_with_a_pickle(tmp_path, ((torch.from_numpy(IMAGE),), {"x": Runs(tmp_path / "ran")}))
    assert message(path, allow=False) == (
        "model.pt2: data/sample_inputs/model.pt is a pickle of more than tensors; it is not loaded, "
        "save it with torch.export.save"
    )
    assert not (tmp_path / "ran").exists()
    runner = load(path)
    assert (tmp_path / "ran").exists()
    what = "model.pt2: data/sample_inputs/model.pt is a pickle of more than tensors"
    assert runner.details["warning"] == f"{what}: {RUNS_CODE}"
    np.testing.assert_array_equal(runner(IMAGE)[0], load(DATA / "program.pt2")(IMAGE)[0])


def test_native_code_is_refused_all_the_same(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("m/archive_format", b"pt2")
        archive.writestr("m/data/aotinductor/model/a.so", b"\x7fELF")
    assert "got a package of AOTInductor" in message(tmp_path / "model.pt2")
