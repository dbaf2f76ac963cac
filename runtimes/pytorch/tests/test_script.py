"""TorchScript that would touch files is not loaded, however it says so; honest TorchScript is."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035 - TorchScript reads it

import numpy as np
import pytest

from runtimes.contract import RunnerError, RunnerOptions, make_runner
from runtimes.pytorch.script_checks import UnsafeScriptError, check_script, fixed_devices

DATA = Path(__file__).parent / "data"
IMAGE = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6) / 72


def problem(code: str, name: str = "code/__torch__.py") -> str:
    with pytest.raises(UnsafeScriptError) as caught:
        check_script([name], lambda _: code.encode())
    return str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('torch.save(x, "f")', id="save"),
        pytest.param('ops.aten.save(x, "f")', id="operator"),
        pytest.param('t = torch\nt.save(x, "f")', id="renamed module"),
        pytest.param("f = torch.save", id="renamed function"),
        pytest.param("torch . \\\n save(x)", id="continued line"),
        pytest.param('getattr(torch, "save")(x)', id="by name"),
        pytest.param('torch.from_file("f")', id="from_file"),
        pytest.param("ops.image.read_file(x)", id="torchvision"),
        pytest.param("rpc_async(x)", id="rpc"),
    ],
)
def test_words(code: str) -> None:
    assert "which can touch files or the network" in problem(code)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('getattr(torch, "sa\\166e")(x)', id="escaped"),
        pytest.param('getattr(torch, "sa" "ve")(x)', id="in two texts"),
        pytest.param('getattr(torch, "sa"\n  # comment\n  "ve")(x)', id="with a comment between"),
        pytest.param("getattr(torch, 'sa' \"ve\")(x)", id="in two quotes"),
        pytest.param('getattr(torch, """sa\\166e""")(x)', id="three quotes"),
        pytest.param('getattr(f(", \\"x\\")"), "sa\\166e")(x)', id="after a text that looks like an end"),
        pytest.param("f = getattr", id="no call"),
        pytest.param('getattr(torch, "a"', id="no end"),
    ],
)
def test_names_that_are_made_of_pieces(code: str) -> None:
    assert problem(code) == "code/__torch__.py has a getattr whose name is not plain"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('getattr(getattr(self.c, "0"), "conv-1")', id="nested"),
        pytest.param('_0 = getattr(self, "0")\n_1 = f("a" + "b\\n", )', id="texts elsewhere"),
        pytest.param("saved = self.save_mean\nx = torch.unsafe(from_file_name)", id="longer words"),
    ],
)
def test_what_honest_scripts_say(code: str) -> None:
    check_script(["code/a.py"], lambda _: code.encode())


def test_every_place_where_code_may_lie() -> None:
    assert "CODE/A.PY says 'save'" in problem("save", "CODE/A.PY")
    assert problem("", "Model.json").startswith("Model.json is of a format before torch 1.0")
    check_script(["code/a.py.debug_pkl", "data.pkl"], lambda _: b"save")


def test_devices() -> None:
    code = b'a = torch.device("cuda:0"); b = torch.device("cpu")'
    assert fixed_devices(["code/a.py", "data.pkl"], lambda _: code) == {"cuda", "cpu"}


torch: Any = pytest.importorskip("torch")
# TorchScript is deprecated in torch 2.10 and later; it is what most packages hold.
ignored = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def rewritten(path: Path, module: Any, old: str, new: str) -> Path:
    """Save a script and change its text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(str(path.with_suffix(".good")))
    changed = 0
    with zipfile.ZipFile(path.with_suffix(".good")) as good, zipfile.ZipFile(path, "w") as bad:
        for name in good.namelist():
            content = good.read(name)
            changed += name.endswith(".py") and old.encode() in content
            bad.writestr(name, content.replace(old.encode(), new.encode()) if name.endswith(".py") else content)
    assert changed == 1
    return path


class Stateful(torch.nn.Module):
    """Something that torch.jit.load runs while it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.zeros(1)

    @torch.jit.export
    def __getstate__(self) -> Tuple[torch.Tensor, bool]:  # noqa: UP006
        return self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]) -> None:  # noqa: UP006
        self.weight = state[0].neg()
        self.training = state[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs() + self.weight


@ignored
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        pytest.param("self.weight = torch.neg(", "state[0]", id="while it loads"),
        pytest.param("_0 = torch.abs(", "x", id="when it runs"),
    ],
)
def test_nothing_is_run_before_the_check(tmp_path: Path, statement: str, what: str) -> None:
    ran = tmp_path / "ran"
    evil = f'torch.save({what}, "{ran}")\n    {statement}'
    path = rewritten(tmp_path / "model.pt", Stateful(), statement, evil)
    with pytest.raises(RunnerError) as caught:
        make_runner("pytorch", RunnerOptions(path))
    assert "says 'save', which can touch files or the network; it is not loaded" in str(caught.value)
    assert not ran.exists()


@ignored
def test_an_honest_script_with_state(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "model.pt", Stateful(), "torch.abs(", "torch.sigmoid(")
    runner = make_runner("pytorch", RunnerOptions(path, device="cpu"))
    np.testing.assert_allclose(runner(IMAGE)[0], 1 / (1 + np.exp(-IMAGE)), atol=1e-6)
