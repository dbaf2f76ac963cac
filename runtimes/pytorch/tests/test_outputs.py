"""What the PyTorch runner makes of outputs: order, names, types, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.contract import RunnerError
from runtimes.pytorch.tests.models import (
    IMAGE,
    load,
    saved,
    scripted,
)

# TorchScript is deprecated in torch 2.10 and later; it is what most packages hold.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore::FutureWarning")


def test_nested_outputs_in_order(tmp_path: Path) -> None:
    def nested(y: Any) -> Any:
        return {"b": (y.sigmoid(), y + 1), "a": [(y * 2).long(), None]}

    path, expected = saved(tmp_path, "program", nested)
    with pytest.raises(RunnerError, match="expected tensors in and out"):
        load(path)
    path, expected = saved(tmp_path, "program", lambda y: {"b": (y.sigmoid(), y + 1), "a": [(y * 2).long()]})
    found = load(path)(IMAGE)
    assert [value.dtype for value in found] == [np.float32, np.float32, np.int64]
    np.testing.assert_allclose(found[1], expected["b"][1].detach().numpy(), atol=1e-5)
    path, expected = saved(tmp_path, "script", lambda y: (y, (y + 1, [y * 2, y * 3])))
    runner = load(path)
    assert len(runner.outputs) == 0
    assert len(runner(IMAGE)) == len(runner.outputs) == 4


@pytest.mark.parametrize(
    ("body", "returns", "names"),
    [
        pytest.param('{"logits": x, "boxes": x + 1}', "Dict[str, torch.Tensor]", ["logits", "boxes"], id="dict"),
        pytest.param("{7: x, 2: x + 1}", "Dict[int, torch.Tensor]", ["7", "2"], id="numbers"),
        pytest.param(
            '{"a": {"b": x}, "c": {"d": x + 1}}', "Dict[str, Dict[str, torch.Tensor]]", ["a.b", "c.d"], id="nested"
        ),
        pytest.param('{"a": [x, x + 1]}', "Dict[str, List[torch.Tensor]]", ["a.0", "a.1"], id="list in dict"),
        pytest.param("[x, x + 1]", "List[torch.Tensor]", ["", ""], id="list"),
        pytest.param('(x, {"a": x + 1})', "Tuple[torch.Tensor, Dict[str, torch.Tensor]]", ["", "a"], id="in tuple"),
    ],
)
def test_a_dict_names_outputs_after_the_first_run(tmp_path: Path, body: str, returns: str, names: list[str]) -> None:
    runner = load(scripted(tmp_path, body, returns), device="cpu")
    assert len(runner.outputs) == 0
    first, second = runner(np.concatenate([IMAGE] * 2))
    np.testing.assert_allclose(second, first + 1, atol=1e-5)
    assert [spec.name for spec in runner.outputs] == names
    assert [spec.dtype for spec in runner.outputs] == ["float32", "float32"]


@pytest.mark.parametrize(
    ("body", "returns", "got"),
    [
        pytest.param("(x, 3)", "Tuple[torch.Tensor, int]", "got int", id="number"),
        pytest.param('{"a": "b"}', "Dict[str, str]", "got str", id="text"),
    ],
)
def test_outputs_that_are_no_tensors(tmp_path: Path, body: str, returns: str, got: str) -> None:
    runner = load(scripted(tmp_path, body, returns))
    with pytest.raises(RunnerError, match=f"expected tensors as outputs, {got}; export it with tensors only"):
        runner(IMAGE)


@pytest.mark.parametrize(
    ("body", "returns", "shapes", "dtypes"),
    [
        pytest.param(
            "(x[:, :0], x.new_zeros([0, 6]))", "Tuple[torch.Tensor, torch.Tensor]", [(1, 0, 4, 6), (0, 6)], "ff"
        ),
        pytest.param("[x > 0, x.int(), x.double()]", "List[torch.Tensor]", [IMAGE.shape] * 3, "?if"),
        pytest.param("torch.jit.annotate(List[torch.Tensor], [])", "List[torch.Tensor]", [], ""),
        pytest.param("x.sum()", "torch.Tensor", [()], "f"),
        pytest.param("x[:, :1]", "torch.Tensor", [(1, 1, 4, 6)], "f"),
    ],
    ids=["without elements", "other types", "none", "a number", "one channel"],
)
def test_odd_outputs(tmp_path: Path, body: str, returns: str, shapes: list[tuple[int, ...]], dtypes: str) -> None:
    runner = load(scripted(tmp_path, body, returns), device="cpu")
    for _ in range(2):
        found = runner(IMAGE)
        assert [value.shape for value in found] == shapes
        assert "".join(value.dtype.char for value in found) == dtypes


def test_b36c_nameless_outputs_stay_in_order(tmp_path: Path) -> None:
    path, (boxes, _) = saved(tmp_path, "script", lambda y: (y.sigmoid(), y * 9))
    runner = load(path)
    assert [spec.name for spec in runner.outputs] == ["", ""]
    np.testing.assert_allclose(runner(IMAGE)[0], boxes.detach().numpy(), atol=1e-5)
