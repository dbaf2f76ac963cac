"""The whole command in this process: what it prints where, what it leaves on the disk, how it ends."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from convertor import cli, console, convert_command
from tests.convertor.packages import anomaly_manifest, onnx_bytes, tree, write_zip, yolo_manifest

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edited(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    manifest = yolo_manifest()
    change(manifest)
    return manifest


def stages(*given: dict[str, Any]) -> dict[str, Any]:
    return edited(lambda manifest: manifest["model_graph"].update(stages=list(given)))


def detection(**given: Any) -> dict[str, Any]:
    return edited(lambda manifest: manifest["detection"].update(given))


def graph(*shape: Any) -> dict[str, bytes]:
    return {"model.onnx": onnx_bytes({"images": shape})}


# Manifest, files (None: a good model.onnx), and what each line must hold: the place, what was expected or wrong.
REFUSED = {
    "no manifest": (None, None, ["manifest.json: not found"]),
    "manifest not JSON": (b"{", None, ["manifest.json: not JSON"]),
    "manifest UTF-16": ("{}".encode("utf-16"), None, ["manifest.json: not UTF-8"]),
    "manifest a list": (b"[]", None, ["manifest.json: expected a JSON object"]),
    "wrong types": (
        detection(num_classes="3", top_k=1.5, class_names="cat"),
        None,
        ["detection.num_classes: expected", "detection.class_names: expected", "detection.top_k: expected"],
    ),
    "wrong ranges": (
        detection(score_threshold=1.5, num_classes=0),
        None,
        ["detection.num_classes: expected", "detection.score_threshold: expected a number from 0 to 1, got 1.5"],
    ),
    "missing artifact": (yolo_manifest(), {"readme.txt": b"x"}, ["runtime_artifact: expected model.onnx"]),
    "Git LFS pointer": (
        yolo_manifest(),
        {"model.onnx": POINTER},
        ["model.onnx: expected the file itself, got a Git LFS"],
    ),
    "artifact climbing out": (
        yolo_manifest(runtime_artifact="../x"),
        None,
        ["runtime_artifact: expected a file inside"],
    ),
    "unknown runtime": (yolo_manifest(runtime="onix"), None, ["runtime: expected an engine that is here, got 'onix'"]),
    "unknown layout": (detection(layout="yollo"), None, ["got 'yollo'; did you mean yolo?"]),
    "unknown task": (yolo_manifest(task="detect"), None, ["task: expected one of anomaly, classification, "]),
    "unknown task in tensors": (
        yolo_manifest(task="detect", serving={"profile": "tensors"}),
        None,
        ["task: expected one of anomaly, classification, "],
    ),
    "task of another profile": (
        yolo_manifest(task="classification"),
        None,
        ["task: expected one of anomaly, object_detection in profile capture, got classification"],
    ),
    "batches without images": (
        yolo_manifest(serving={"profile": "tensors", "max_batch_size": 0}),
        None,
        ["serving.max_batch_size: expected a whole number from 1 to 1024 in profile tensors, got 0"],
    ),
    "preferred sizes above the largest": (
        yolo_manifest(serving={"profile": "tensors", "preferred_batch_sizes": [4, 16]}),
        None,
        ["serving.preferred_batch_sizes: expected sizes up to max_batch_size, 8, got [4, 16]"],
    ),
    "GPUs": (
        yolo_manifest(device="cpu", serving={"profile": "tensors", "gpus": [1, 1]}),
        None,
        ["serving.gpus: expected each GPU once, got [1, 1]", "serving.gpus: expected none with device cpu"],
    ),
    "more than one stage": (stages({}, {}), None, ["model_graph.stages: expected one stage, got 2"]),
    "another graph": (
        edited(lambda manifest: manifest["model_graph"].update(model_graph_type="chain")),
        None,
        ["model_graph.model_graph_type: expected single_stage_model_graph"],
    ),
    "external data missing": (
        yolo_manifest(),
        {"model.onnx": onnx_bytes(external="w.bin")},
        ["external data: expected w.bin beside it"],
    ),
    "external data climbing": (
        yolo_manifest(),
        {"model.onnx": onnx_bytes(external="../w.bin")},
        ["external data: expected a file inside"],
    ),
    "two inputs": (
        yolo_manifest(),
        {"model.onnx": onnx_bytes({"a": (1, 3, 64, 64), "b": (1, 3, 64, 64)})},
        ["model.onnx: expected one input (the image), got 2: a, b"],
    ),
    "dynamic graph without sizes": (stages({}), graph("b", 3, "h", "w"), ["input_shape: expected the network's size"]),
    "class count": (detection(num_classes=4, class_names=[]), None, ["detection.num_classes: expected a head with 8"]),
    "bad model name": (yolo_manifest(model_name="../x"), None, ["model_name: expected letters"]),
    "everything at once": (
        {**yolo_manifest(model_name="a b", runtime="x", task="object_detection"), "detection": {"layout": "y"}},
        None,
        ["model_name: expected letters", "runtime: expected an engine", "detection.layout: expected a decoder"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_package_is_one_line_per_problem(work: Path, capsys: Capture, case: str) -> None:
    manifest, files, expected = REFUSED[case]
    write_zip(work / "bad.zip", manifest, files)
    write_zip(work / "good.zip", yolo_manifest())
    before = tree(work)
    for packages in (["bad.zip"], ["good.zip", "bad.zip"]):
        assert cli.convert_main([*packages, "-o", "models"]) == 1
        out, err = capsys.readouterr()
        lines = err.splitlines()
        assert out == ""
        assert len(lines) == len(expected)
        for line, part in zip(lines, expected):
            assert line.startswith("error: bad.zip: ")
            assert part in line
            assert "; " in line, "no next step"
            assert "Traceback" not in line
        assert tree(work) == before


def break_zip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def damage_member(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b'"task"') + 2] ^= 0x20
    path.write_bytes(bytes(data))


def to_text(path: Path) -> None:
    path.write_text("not a zip")


def to_pointer(path: Path) -> None:
    path.write_bytes(POINTER)


@pytest.mark.parametrize("spoil", [break_zip, damage_member, to_text, to_pointer, Path.unlink])
def test_a_broken_file(work: Path, capsys: Capture, spoil: Callable[[Path], object]) -> None:
    spoil(write_zip(work / "bad.zip", yolo_manifest()))
    before = tree(work)
    assert cli.convert_main(["bad.zip", "-o", "models"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: bad.zip: ")
    assert line.count("bad.zip") == 1
    assert "; " in line
    assert tree(work) == before


def test_damage_that_only_copying_shows(work: Path, capsys: Capture) -> None:
    path = write_zip(work / "bad.zip", yolo_manifest(), {"model.onnx": onnx_bytes(), "w.bin": b"WEIGHTS" * 99})
    path.write_bytes(path.read_bytes().replace(b"WEIGHTS", b"weights", 1))
    before = tree(work)
    assert cli.convert_main(["bad.zip", "-o", "sub/models"]) == 1
    assert "w.bin" in capsys.readouterr().err
    assert tree(work) == before


@pytest.mark.parametrize(
    ("output", "expected"),
    [("file", "not a directory"), ("file/models", "not a directory"), ("file/a/b", "not a directory")],
)
def test_an_output_that_is_or_lies_below_a_file(work: Path, capsys: Capture, output: str, expected: str) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    (work / "file").write_text("x")
    before = tree(work)
    assert cli.convert_main(["p.zip", "-o", output]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
    assert tree(work) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], "the following arguments are required: PACKAGE, -o/--output", id="nothing"),
        pytest.param(["p.zip"], "the following arguments are required: -o/--output", id="no repository"),
        pytest.param(
            ["p.zip", "p.zip", "-o", "m", "--name", "x"],
            "--name: expected one package with it, got 2",
            id="a name for two",
        ),
        pytest.param(["p.zip", "-o", "m", "--version", "0"], "--version: expected", id="version 0"),
        pytest.param(["p.zip", "-o", "m", "--version", "-1"], "--version", id="version -1"),
        pytest.param(["p.zip", "-o", "m", "--version", "latest"], "--version: expected", id="version latest"),
        pytest.param(["p.zip", "-o", "m", "--version", "9" * 30], "--version: expected", id="version too large"),
        pytest.param(
            ["p.zip", "-o", "m", "--instances", "0"],
            "--instances: expected a whole number from 1 to 256, got '0'",
            id="no instances",
        ),
        pytest.param(
            ["p.zip", "-o", "m", "--instances", "²"],
            "--instances: expected a whole number from 1 to 256",
            id="not a number",
        ),
        pytest.param(
            ["p.zip", "-o", "m", "--max-batch-size", "0"],
            "--max-batch-size: expected a whole number from 1 to 1024, got '0'",
            id="no batch",
        ),
        pytest.param(["p.zip", "-o", "m", "--device", "tpu"], "--device: invalid choice: 'tpu'", id="device"),
        pytest.param(["p.zip", "-o", "m", "--profile", "x"], "--profile: invalid choice: 'x'", id="profile"),
        pytest.param(["p.zip", "-o", "m", "--outputs", "x"], "unrecognized arguments: --outputs", id="unknown option"),
        pytest.param(["p.zip", "--out", "m"], "required: -o/--output", id="an abbreviation"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(
    work: Path, capsys: Capture, arguments: list[str], expected: str
) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    before = tree(work)
    try:
        status = cli.convert_main(arguments)
    except SystemExit as exit_:
        status = exit_.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert expected in err
    assert len(err.splitlines()) == 1
    assert tree(work) == before


def test_publish_then_already_there_then_next(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "p version 1: published in models (base_p, marshal_p, p; " in err
    assert "pip install 'numpy<2' 'opencv-python-headless<5' 'onnxruntime" in err
    assert err.endswith("next: convertor serve models\n")
    published = tree(work)
    assert json.loads(published["models/p/1/model.json"] or b"")["source_sha256"] != ""

    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert "p version 1: already there, nothing changed" in capsys.readouterr().err
    assert tree(work) == published

    write_zip(work / "p.zip", detection(score_threshold=0.9))
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert "p version 2: published" in capsys.readouterr().err
    assert (work / "models/p/2/model.json").is_file()


@pytest.mark.parametrize(
    ("asked", "published"),
    [("next", 3), ("3", 3), ("7", 7), ("7.9", 7), ("2", "exists already"), ("1", "exists already")],
)
def test_version(work: Path, capsys: Capture, asked: str, published: int | str) -> None:
    for threshold in (0.1, 0.2):
        write_zip(work / "p.zip", detection(score_threshold=threshold))
        assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    write_zip(work / "p.zip", detection(score_threshold=0.3))
    before = tree(work)
    capsys.readouterr()
    status = cli.convert_main(["p.zip", "-o", "models", "--version", asked])
    if isinstance(published, int):
        assert status == 0
        assert (work / "models" / "base_p" / str(published) / "model.py").is_file()
    else:
        assert status == 1
        assert published in capsys.readouterr().err
        assert tree(work) == before


def test_another_task_under_the_same_name_needs_replace(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    write_zip(work / "q.zip", anomaly_manifest(), {"model.onnx": onnx_bytes(outputs={"score": (1, 2)})})
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    before = tree(work)
    assert cli.convert_main(["q.zip", "-o", "models", "--name", "p"]) == 1
    assert "task object_detection -> anomaly" in capsys.readouterr().err
    assert tree(work) == before
    assert cli.convert_main(["q.zip", "-o", "models", "--name", "p", "--replace"]) == 0


def test_several_packages(work: Path, capsys: Capture) -> None:
    write_zip(work / "a.zip", yolo_manifest())
    write_zip(work / "b.zip", yolo_manifest(model_name="cam"))
    assert cli.convert_main(["a.zip", "b.zip", "-o", "models", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [(one["name"], one["version"], one["already_there"]) for one in json.loads(out)] == [
        ("a", 1, False),
        ("cam", 1, False),
    ]
    assert "a version 1: published" in err
    assert sorted(path.name for path in (work / "models").iterdir()) == [
        "a",
        "base_a",
        "base_cam",
        "cam",
        "marshal_a",
        "marshal_cam",
    ]


def test_a_folder_with_warnings_and_odd_names_as_json(work: Path, capsys: Capture) -> None:
    folder = work / "päckage\udcff"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({**yolo_manifest(), "runtimes": 1}))
    (folder / "model.onnx").write_bytes(onnx_bytes())
    (folder / "decode.py").write_text("")
    assert cli.convert_main([str(folder), "-o", "models", "--json", "--name", "m"]) == 0
    out, err = capsys.readouterr()
    (result,) = json.loads(out)
    assert out.isascii()
    assert set(result) == {
        "package",
        "repository",
        "name",
        "version",
        "already_there",
        "models",
        "bytes",
        "requirements",
        "allow_pickles",
        "warnings",
    }
    assert result["models"] == ["base_m", "marshal_m", "m"]
    size = sum(len(content or b"") for path, content in tree(work / "models").items() if path.count("/") > 1)
    configs = sum((work / "models" / name / "config.pbtxt").stat().st_size for name in result["models"])
    assert result["bytes"] == size + configs
    assert len(result["warnings"]) == 2
    assert err.count("warning: ") == 2


def test_dry_run_writes_nothing(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    before = tree(work)
    assert cli.convert_main(["p.zip", "-o", "models", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "p version 1 (profile capture, task object_detection)"
    planned = {line.strip() for line in lines[1:]}
    assert cli.convert_main(["p.zip", "-o", "models", "--dry-run", "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan["models"][0]["config"].startswith('name: "base_p"')
    assert tree(work) == before
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert planned == {path for path, content in tree(work / "models").items() if content is not None}


def test_dry_run_refuses_too(work: Path) -> None:
    write_zip(work / "p.zip", yolo_manifest(runtime="x"))
    assert cli.convert_main(["p.zip", "-o", "models", "--dry-run"]) == 1


def test_profile_of_the_command_line_wins(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    assert cli.convert_main(["p.zip", "-o", "models", "--profile", "tensors", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("p version 1 (profile tensors, task object_detection)\n")
    write_zip(work / "p.zip", yolo_manifest(serving={"profile": "tensors"}))
    assert cli.convert_main(["p.zip", "-o", "models", "--profile", "capture", "--max-batch-size", "4"]) == 0
    assert "--max-batch-size: not used, because profile capture takes one image" in capsys.readouterr().err


def test_the_tensors_profile_is_published_and_another_profile_needs_replace(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest(serving={"profile": "tensors"}))
    assert cli.convert_main(["p.zip", "-o", "models", "--json"]) == 0
    out, err = capsys.readouterr()
    (result,) = json.loads(out)
    assert result["models"] == ["decode_p", "base_p", "marshal_p", "p_encoded", "p"]
    assert "published in models (decode_p, base_p, marshal_p, p_encoded, p; " in err
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert "already there" in capsys.readouterr().err

    assert cli.convert_main(["p.zip", "-o", "models", "--profile", "capture"]) == 1
    assert "p: profile tensors -> capture; " in capsys.readouterr().err
    assert cli.convert_main(["p.zip", "-o", "models", "--profile", "capture", "--replace"]) == 0
    assert sorted(path.name for path in (work / "models").iterdir()) == ["base_p", "marshal_p", "p"]


def test_control_characters_never_reach_the_terminal(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest(runtime="\u202eevil\u009b2J", serving={"\x1b[2J": 1}))
    assert cli.convert_main(["p.zip", "-o", "models"]) == 1
    write_zip(work / "p.zip", yolo_manifest(serving={"\x1b[2J": 1}))
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().err.splitlines())


def test_no_progress_without_a_terminal(work: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "QUIET_SECONDS", -1.0)
    write_zip(work / "p.zip", yolo_manifest())
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert "copying" not in capsys.readouterr().err


def test_progress_on_a_terminal_counts_what_is_copied(
    work: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    totals: list[tuple[str, int]] = []
    counts: list[int] = []

    class Bar(console._Bar):
        def __init__(self, label: str, total: int) -> None:
            super().__init__(label, total)
            totals.append((label, total))

        def advance(self, count: int) -> None:
            super().advance(count)
            counts.append(count)

    monkeypatch.setattr(console, "_Bar", Bar)
    files = {"mochi/model.onnx": onnx_bytes(outputs={"score": (1, 2)}), "unused": b"x" * 999}
    write_zip(work / "p.zip", anomaly_manifest(), files)
    assert cli.convert_main(["p.zip", "-o", "models"]) == 0
    assert totals == [("copying p", len(files["mochi/model.onnx"]))]
    assert sum(counts) == totals[0][1]


def test_help_of_both_fits_a_terminal_and_has_examples(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in (cli.convert_main, cli.main):
        with pytest.raises(SystemExit) as caught:
            command(["--help"])
        assert caught.value.code == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert "examples:" in out
        assert max(map(len, out.splitlines())) <= 80


def test_convertor_convert_is_convert(work: Path, capsys: Capture) -> None:
    write_zip(work / "p.zip", yolo_manifest())
    assert cli.main(["convert", "p.zip", "-o", "models", "--dry-run"]) == 0
    one = capsys.readouterr().out
    assert cli.convert_main(["p.zip", "-o", "models", "--dry-run"]) == 0
    assert capsys.readouterr().out == one


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["invert"], "invalid choice: 'invert'"),
        (["convert", "p.zip", "-o", "m", "--fast"], "unknown arguments: --fast"),
    ],
)
def test_wrong_command_lines_of_convertor(capsys: Capture, arguments: list[str], expected: str) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_an_interrupt_is_one_line(work: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(convert_command, "prepare", interrupt)
    assert cli.convert_main(["p.zip", "-o", "models"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_fault_of_ours_keeps_its_traceback(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(convert_command, "prepare", fail)
    with pytest.raises(ZeroDivisionError):
        cli.convert_main(["p.zip", "-o", "models"])


def test_the_current_folder_is_a_package(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(write_zip(work / "p.zip", yolo_manifest())) as archive:
        archive.extractall(work / "line 4")
    monkeypatch.chdir(work / "line 4")
    assert cli.convert_main([".", "-o", os.fspath(work / "models")]) == 0
    assert (work / "models" / "line_4" / "config.pbtxt").is_file()


def test_what_a_package_makes_us_say_is_bounded(work: Path, capsys: Capture) -> None:
    manifest = yolo_manifest()
    manifest["detection"].update({f"key {number}": 1 for number in range(50)})
    write_zip(work / "many.zip", manifest)
    assert cli.convert_main([str(work / "many.zip"), "-o", str(work / "models"), "--dry-run"]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 21
    assert warned[-1] == "warning: many.zip: ... and 30 more"
    write_zip(work / "long.zip", yolo_manifest(runtime="x" * 100_000))
    assert cli.convert_main([str(work / "long.zip"), "-o", str(work / "models")]) == 1
    assert len(capsys.readouterr().err) < 6000
