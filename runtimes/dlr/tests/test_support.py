"""What convert knows and refuses of a compiled model, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtimes.dlr.tests import neo
from runtimes.dlr.tests.neo import Model, Node
from tests.convertor.conversions import model_json, prepared, refused

ELF = b"\x7fELF kernels"
WEIGHTS = {"w": np.ones(2, np.float32)}
IMAGE = {"input": ((1, 3, 48, 64), "float32")}
MODEL = Model(IMAGE, [Node("score", (1,), ["w"])], ["score"], WEIGHTS)


def manifest(**top: Any) -> dict[str, Any]:
    """A package that says nothing of its engine, as they all did before there were several."""
    return {"model_graph": {"stages": [{"type": "mochi", "threshold": 0.702}]}, **top}


def package(model: Model = MODEL, **changed: bytes | None) -> dict[str, bytes]:
    files: dict[str, bytes | None] = {**model.files(ELF), "libdlr.so": ELF}
    files.update({name.replace("__", "."): content for name, content in changed.items()})
    return {f"mochi/{name}": content for name, content in files.items() if content is not None}


def test_a_package_without_a_runtime_is_dlr_and_its_graph_gives_the_size(tmp_path: Path) -> None:
    one = prepared(tmp_path, manifest(), package())
    written = model_json(one)
    assert (written["runtime"], written["artifact"]) == ("dlr", "artifact/compiled.so")
    assert (written["preprocess"]["height"], written["preprocess"]["width"]) == (48, 64)
    assert one.plan.requirements[-1] == "dlr==1.10.0"
    native = "native code, which the server's python will run; --no-native refuses it"
    assert one.facts == (f"mochi/compiled.so, mochi/libdlr.so: {native}",)


def test_an_nhwc_graph(tmp_path: Path) -> None:
    model = Model({"input": ((1, 48, 64, 3), "uint8")}, MODEL.nodes, MODEL.outputs, WEIGHTS, order=["w", "input"])
    preprocess = model_json(prepared(tmp_path, manifest(), package(model)))["preprocess"]
    assert (preprocess["layout"], preprocess["height"], preprocess["width"]) == ("NHWC", 48, 64)
    assert preprocess["image_range_scale"] is False


def test_b103_the_folder_is_copied_as_it_is(tmp_path: Path) -> None:
    """Also what DLR does not read; nothing of ours lies in it."""
    extra = {"dlr__h": b"#", "manifest": b"m", "model-shapes__json": b"{}", "hyperparams__json": b"{}", "x__bin": b""}
    files = package(**extra)
    copied = {file.path for file in prepared(tmp_path, manifest(), files).plan.models[0].files}
    assert {path for path in copied if path.startswith("artifact/")} == {
        name.replace("mochi/", "artifact/") for name in files
    }


def test_no_native_refuses_it(tmp_path: Path) -> None:
    assert refused(tmp_path, manifest(), package(), no_native=True) == [
        "--no-native: expected a model without native code, got mochi/compiled.so, mochi/libdlr.so; "
        "convert without the flag if you trust where the package comes from"
    ]


TWO_INPUTS = Model({**IMAGE, "size": ((2,), "int64")}, MODEL.nodes, MODEL.outputs, WEIGHTS)
GRAPH = MODEL.graph()


@pytest.mark.parametrize(
    ("files", "line"),
    [
        pytest.param(
            package(compiled__params=None), "expected *.params (the weights) beside it, got ", id="no weights"
        ),
        pytest.param(package(compiled_model__json=None), "expected *.json (the graph) beside it", id="no graph"),
        pytest.param(
            package(b__json=b"{}"), "one *.json (the graph) in its folder, got mochi/b.json, ", id="two graphs"
        ),
        pytest.param(
            package(b__so=ELF), "one *.so (the compiled kernels) in its folder, got mochi/b.so, ", id="two so"
        ),
        pytest.param(package(b__params=b"x"), "one *.params (the weights) in its folder", id="two weights"),
        pytest.param(package(a__tensorrt=b"x"), "mochi/a.tensorrt: DLR newer than 1.1 refuses", id="tensorrt"),
        pytest.param(package(compiled__so=b""), "mochi/compiled.so: is empty", id="empty kernels"),
        pytest.param(package(compiled__so=b"MZ"), "mochi/compiled.so: expected a shared library (ELF)", id="no ELF"),
        pytest.param(package(compiled_model__json=b""), "mochi/compiled_model.json: is empty", id="empty graph"),
        pytest.param(package(compiled_model__json=b"{"), "compiled_model.json: expected the graph", id="junk graph"),
        pytest.param(
            package(compiled_model__json=json.dumps({**GRAPH, "heads": [[9, 0, 0]]}).encode()),
            "compiled_model.json: expected the graph",
            id="a graph that points nowhere",
        ),
        pytest.param(package(compiled__params=b"junk"), "compiled.params: expected TVM's parameter", id="junk weights"),
        pytest.param(
            package(compiled__params=neo.params(WEIGHTS)[:30]), "compiled.params: is damaged", id="truncated weights"
        ),
        pytest.param(package(compiled__meta=b'{"Model": {"Outputs": 3}}'), "on which DLR crashes", id="odd metadata"),
        pytest.param(package(compiled__meta=b"[]"), "on which DLR crashes", id="a list as metadata"),
        pytest.param(
            package(compiled__meta=b'{"Requirements": {"TargetDeviceType": null}}'),
            "on which DLR crashes",
            id="no target",
        ),
        pytest.param(
            package(compiled__meta=b"[" * 100_000 + b"]" * 100_000), "on which DLR crashes", id="metadata without end"
        ),
        pytest.param(package(TWO_INPUTS), "expected one input (the image), got 2: input, size", id="two inputs"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: dict[str, bytes], line: str) -> None:
    said = manifest()
    said["model_graph"]["stages"][0]["input_shape"] = [1, 3, 48, 64]
    (found,) = refused(tmp_path, said, files)
    assert line in found


@pytest.mark.parametrize("content", [None, b"", b"{"], ids=["none", "empty", "junk"])
def test_metadata_may_be_missing_or_junk(tmp_path: Path, content: bytes | None) -> None:
    assert prepared(tmp_path, manifest(), package(compiled__meta=content)).warnings == ()
