"""--allow-pickles: only the operator says it, only where it is needed, and loudly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from convertor import artifact, cli
from convertor.plan import describe_plan
from tests.convertor.conversions import model_json, prepared, refused
from tests.convertor.packages import anomaly_manifest, onnx_bytes, write_zip, yolo_manifest

DATA = Path(__file__).parents[2] / "runtimes" / "pytorch" / "tests" / "data"
CLASS = "torch.nn.modules.conv.Conv2d"
RUNS_CODE = "loading it runs code of the package's author with the server's rights; allowed by --allow-pickles"


def pytorch(name: str, **top: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A manifest and its files, of one of the engine's test models."""
    manifest = anomaly_manifest() if name == "program.pt2" else yolo_manifest()
    return {**manifest, "runtime": "pytorch", "runtime_artifact": name, **top}, {name: (DATA / name).read_bytes()}


def test_b97_a_pickled_module_is_refused_by_its_class(tmp_path: Path) -> None:
    assert refused(tmp_path, *pytorch("module.pt")) == [
        f"module.pt: expected TorchScript or a torch.export program, got a pickled module ({CLASS}), which is not "
        "loaded; export it with torch.jit.trace(...).save or torch.export.save"
    ]


def test_it_is_refused_together_with_everything_else(tmp_path: Path) -> None:
    manifest, files = pytorch("module.pt")
    manifest["detection"]["classes"] = ["horse"]
    pickled, classes = refused(tmp_path, manifest, files)
    assert "which is not loaded" in pickled
    assert "detection.classes" in classes


def test_the_package_cannot_allow_it(tmp_path: Path) -> None:
    manifest, files = pytorch("module.pt", execution={"allow_pickles": True})
    assert "which is not loaded" in refused(tmp_path, manifest, files)[0]
    one = prepared(tmp_path, *pytorch("script.pt", execution={"allow_pickles": True}))
    assert "allow_pickles" not in model_json(one)["execution"]
    assert any("execution.allow_pickles: unknown key, ignored" in line for line in one.warnings)


def test_the_operator_allows_it(tmp_path: Path) -> None:
    one = prepared(tmp_path, *pytorch("module.pt", execution={"allow_pickles": False}), allow_pickles=True)
    assert model_json(one)["execution"]["allow_pickles"] is True
    assert one.warnings[0] == f"module.pt is a pickle of {CLASS}: {RUNS_CODE}"
    assert describe_plan(one.plan)["allow_pickles"] is True


@pytest.mark.parametrize("name", ["script.pt", "program.pt2"])
def test_what_needs_no_permission_gets_none(tmp_path: Path, name: str) -> None:
    one = prepared(tmp_path, *pytorch(name), allow_pickles=True)
    assert "allow_pickles" not in model_json(one)["execution"]
    assert not any("pickle" in line for line in one.warnings)
    assert describe_plan(one.plan)["allow_pickles"] is False


@pytest.mark.parametrize("allow", [False, True])
def test_what_is_too_large_to_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow: bool) -> None:
    what = "script.pt is too large to be looked into, it may be a pickle"
    monkeypatch.setattr(artifact, "_facts", lambda *_: (None, {what: ""}))
    one = prepared(tmp_path, *pytorch("script.pt"), allow_pickles=allow)
    assert ("allow_pickles" in model_json(one)["execution"]) is allow
    assert (f"{what}: {RUNS_CODE}" in one.warnings) is allow


def test_another_engine_needs_none(tmp_path: Path) -> None:
    one = prepared(tmp_path, yolo_manifest(), {"model.onnx": onnx_bytes()}, allow_pickles=True)
    assert "allow_pickles" not in model_json(one)["execution"]


@pytest.mark.parametrize("name", ["state_dict.pt", "legacy.pt"])
def test_a_state_dict_is_refused_all_the_same(tmp_path: Path, name: str) -> None:
    (problem,) = refused(tmp_path, *pytorch(name), allow_pickles=True)
    assert problem == (
        f"{name}: expected TorchScript or a torch.export program, got a state_dict or another table of tensors, "
        "which is no network; export it with torch.jit.trace(...).save or torch.export.save"
    )


def test_the_command_says_it_loudly_for_each_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x.zip", "y.zip"):
        write_zip(tmp_path / name, *pytorch("module.pt"))
    write_zip(tmp_path / "plain.zip", *pytorch("script.pt"))
    packages = ["x.zip", "y.zip", "plain.zip"]
    assert cli.convert_main([*packages, "-o", "models"]) == 1
    capsys.readouterr()
    options = ["-o", "models", "--allow-pickles", "--no-native", "--json"]
    assert cli.convert_main([*packages, *options]) == 0
    out, err = capsys.readouterr()
    for name in ("x.zip", "y.zip"):
        assert f"warning: {name}: module.pt is a pickle of {CLASS}: {RUNS_CODE}\n" in err
    assert err.count("warning: ") == 2
    assert [result["allow_pickles"] for result in json.loads(out)] == [True, True, False]
    for name, allowed in (("x", True), ("plain", None)):
        model = json.loads((tmp_path / "models" / f"base_{name}" / "1" / "model.json").read_text("utf-8"))
        assert model["execution"].get("allow_pickles") is allowed
