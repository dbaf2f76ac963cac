"""The artifact and its companions: where they are looked for, what is copied, what is refused."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from convertor.cli import main
from convertor.plan import PackageMember
from runtimes.contract import RunnerOptions, make_runner
from runtimes.onnx.tests import graphs
from tests.convertor.conversions import model_json, prepared, refused
from tests.convertor.packages import anomaly_manifest, onnx_bytes, write_zip, yolo_manifest

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12536001\n"
FIELD = "manifest.json: runtime_artifact"
EXTERNAL = onnx_bytes(external="weights/model.data")


def copied(one: Any) -> dict[str, str]:
    files = one.plan.models[0].files
    return {file.path: file.source.name for file in files if isinstance(file.source, PackageMember)}


@pytest.mark.parametrize(
    ("manifest", "files", "expected"),
    [
        pytest.param({}, {"model.onnx": onnx_bytes()}, {"model.onnx": "model.onnx"}, id="default name at the root"),
        pytest.param(
            {},
            {"yolo_object_detection/model.onnx": onnx_bytes()},
            {"model.onnx": "yolo_object_detection/model.onnx"},
            id="in the stage's folder",
        ),
        pytest.param(
            {},
            {"model.onnx": onnx_bytes(), "yolo_object_detection/model.onnx": b"?"},
            {"model.onnx": "model.onnx", "yolo_object_detection/model.onnx": "yolo_object_detection/model.onnx"},
            id="the root first",
        ),
        pytest.param(
            {"runtime_artifact": "best.onnx"}, {"best.onnx": onnx_bytes()}, {"best.onnx": "best.onnx"}, id="a name"
        ),
        pytest.param(
            {"runtime_artifact": "./weights//best.onnx"},
            {"weights/best.onnx": onnx_bytes()},
            {"best.onnx": "weights/best.onnx"},
            id="a path",
        ),
        pytest.param(
            {"runtime_artifact": "Best.ONNX"}, {"Best.ONNX": onnx_bytes()}, {"Best.ONNX": "Best.ONNX"}, id="capitals"
        ),
        pytest.param(
            {},
            {"model.onnx": EXTERNAL, "weights/model.data": b"x"},
            {"model.onnx": "model.onnx", "weights/model.data": "weights/model.data"},
            id="external data",
        ),
        pytest.param(
            {},
            {"yolo_object_detection/model.onnx": onnx_bytes(), "readme.txt": b"x", "other/y": b"y"},
            {"model.onnx": "yolo_object_detection/model.onnx"},
            id="nothing beside the stage's folder",
        ),
    ],
)
def test_what_is_copied(
    tmp_path: Path, manifest: dict[str, Any], files: dict[str, bytes], expected: dict[str, str]
) -> None:
    one = prepared(tmp_path, yolo_manifest(**manifest), files)
    assert copied(one) == {f"artifact/{path}": member for path, member in expected.items()}
    assert model_json(one)["artifact"] in copied(one)
    assert one.warnings == ()


def test_python_code_is_left_out_and_named(tmp_path: Path) -> None:
    files = {"model.onnx": onnx_bytes(), "model.py": b"", "src/Decode.PY": b"", "src/x.pyc": b"", "labels.txt": b"x"}
    one = prepared(tmp_path, yolo_manifest(), files)
    assert copied(one) == {"artifact/model.onnx": "model.onnx", "artifact/labels.txt": "labels.txt"}
    assert sorted(one.warnings) == [
        f"{name}: not copied, a package may not bring Python code"
        for name in ("model.py", "src/Decode.PY", "src/x.pyc")
    ]


@pytest.mark.parametrize(
    ("manifest", "files", "line"),
    [
        pytest.param(
            {},
            {},
            f"{FIELD}: expected model.onnx or yolo_object_detection/model.onnx in the package, got manifest.json; ",
            id="missing",
        ),
        pytest.param(
            {},
            {f"f{n}.onnx": b"" for n in range(8)},
            "got f0.onnx, f1.onnx, f2.onnx, f3.onnx, f4.onnx and 4 more; ",
            id="missing among many",
        ),
        pytest.param(
            {"runtime_artifact": "../model.onnx"},
            None,
            f'{FIELD}: expected a file inside the package, got "../model.onnx"; ',
            id="climbing",
        ),
        pytest.param(
            {"runtime_artifact": "a/../../model.onnx"},
            None,
            f"{FIELD}: expected a file inside the package",
            id="climbing later",
        ),
        pytest.param(
            {"runtime_artifact": "a\\..\\model.onnx"},
            None,
            f"{FIELD}: expected a file inside the package",
            id="climbing with backslashes",
        ),
        pytest.param(
            {"runtime_artifact": "/etc/passwd"}, None, f"{FIELD}: expected a file inside the package", id="absolute"
        ),
        pytest.param(
            {"runtime_artifact": "C:\\model.onnx"},
            None,
            f"{FIELD}: expected a file inside the package",
            id="with a drive",
        ),
        pytest.param(
            {"runtime_artifact": "manifest.json"},
            None,
            f"{FIELD}: expected the engine's file, got manifest.json; ",
            id="the manifest",
        ),
        pytest.param(
            {"runtime_artifact": "model.py"},
            {"model.py": b"import os"},
            f"{FIELD}: expected the engine's file, got model.py; ",
            id="Python code",
        ),
        pytest.param(
            {"runtime_artifact": "."},
            None,
            f"{FIELD}: expected . or yolo_object_detection in the package",
            id="a folder",
        ),
        pytest.param(
            {},
            {"model.onnx": POINTER},
            "model.onnx: expected the file itself, got a Git LFS pointer; run `git lfs pull`",
            id="LFS pointer",
        ),
        pytest.param(
            {},
            {"model.onnx": onnx_bytes(), "w.bin": POINTER},
            "w.bin: expected the file itself, got a Git LFS pointer",
            id="LFS pointer beside it",
        ),
        pytest.param(
            {},
            {"model.onnx": EXTERNAL},
            "model.onnx: external data: expected weights/model.data beside it, got model.onnx; ",
            id="B86-external data missing",
        ),
        pytest.param(
            {},
            {"model.onnx": onnx_bytes(external="../model.data")},
            'model.onnx: external data: expected a file inside the package, got "../model.data"; ',
            id="B86-external data climbing",
        ),
        pytest.param(
            {},
            {"model.onnx": onnx_bytes(external="/data/w")},
            "model.onnx: external data: expected a file inside the package",
            id="B86-external data absolute",
        ),
        pytest.param(
            {},
            {"model.onnx": onnx_bytes(external="")},
            "model.onnx: external data: expected a file inside the package",
            id="B86-external data nowhere",
        ),
        pytest.param(
            {},
            {"model.onnx": onnx_bytes(external="*/_ORT_MEM_ADDR_/*"), "*/_ORT_MEM_ADDR_/*": b"x"},
            'model.onnx: external data: expected a file inside the package, got "*/_ORT_MEM_ADDR_/*"; ',
            id="B86-external data in the server's memory",
        ),
        pytest.param({}, {"model.onnx": b""}, "model.onnx: not an ONNX file", id="empty"),
        pytest.param({}, {"model.onnx": b"PK\x03\x04 a zip"}, "model.onnx: not an ONNX file", id="something else"),
    ],
)
def test_what_is_refused(tmp_path: Path, manifest: dict[str, Any], files: dict[str, bytes] | None, line: str) -> None:
    (found,) = refused(tmp_path, yolo_manifest(**manifest), files)
    assert line in found


def test_an_onnx_ending_means_nothing_to_another_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from convertor import payload

    engine = tmp_path / "payload" / "runtimes" / "dlr"
    engine.mkdir(parents=True)
    (engine / "support.py").write_text(
        'NAMES, ARTIFACT, DEFAULTS = {"dlr"}, "compiled.so", {}\ndef check(manifest, facts):\n    return []\n'
    )
    monkeypatch.setattr(payload, "RUNTIMES", engine.parent)
    folder = tmp_path / "work"
    folder.mkdir()
    manifest = yolo_manifest(runtime="dlr", runtime_artifact="net.onnx")
    assert prepared(folder, manifest, {"net.onnx": b"not ONNX at all"}).facts == ()


@pytest.mark.parametrize(
    ("artifact", "locations"),
    [
        pytest.param("model.onnx", ["model.onnx_data"], id="beside it"),
        pytest.param("model.onnx", ["weights/w.bin"], id="in a sub-folder"),
        pytest.param("net.onnx", ["net.onnx_data"], id="a model of another name"),
        pytest.param("export 1/größe.onnx", ["a b/w 1.bin", "./w.bin", "deep/er/w.bin"], id="blanks, letters, several"),
        pytest.param("model.onnx", ["w.bin", "v.bin", "w.bin"], id="a file twice"),
    ],
)
def test_b86_external_data_from_the_package_to_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, artifact: str, locations: list[str]
) -> None:
    pytest.importorskip("onnxruntime")
    folder = PurePosixPath(artifact).parent
    files = {artifact: graphs.with_weights(*locations)}
    for number, location in enumerate(locations):
        name = (folder / location).as_posix()
        files[name] = files.get(name, b"") + np.float32(10**number).tobytes()
    write_zip(
        tmp_path / "model.zip", anomaly_manifest(input_shape=[1, 3, 4, 6]) | {"runtime_artifact": artifact}, files
    )
    assert main(["convert", str(tmp_path / "model.zip"), "-o", str(tmp_path / "models")]) == 0
    version = tmp_path / "models/base_model/1"
    said = json.loads((version / "model.json").read_text("utf-8"))
    assert said["artifact"] == f"artifact/{PurePosixPath(artifact).name}"
    monkeypatch.chdir("/")
    runner = make_runner("onnx", RunnerOptions(version / said["artifact"], "cpu"))
    expected = sum(10**number for number in range(len(locations)))
    np.testing.assert_array_equal(runner(np.zeros((1, 3, 4, 6), np.float32))[0], np.full((1, 3, 4, 6), expected))
