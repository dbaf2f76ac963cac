"""A folder with a support.py is a family: found, selected, copied and checked without a line elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from convertor import payload
from convertor.families import find_families, nearest, owner_of
from convertor.model_config import parse_config
from tests.convertor.conversions import model_json, prepared, refused
from tests.convertor.packages import anomaly_manifest, onnx_bytes, yolo_manifest

SUPPORT = """
NAMES = frozenset({names!r})
TASKS = frozenset({{{task!r}}})
DEFAULTS = {{"score_threshold": 0.125, "num_classes": None, "reach": 7}}


def check(manifest, facts):
    return {problems!r}
"""
ENGINE = """
NAMES = frozenset({{"dlr", "neo"}})
ARTIFACT = "compiled.so"
FIXED_IMAGE = {fixed}
DEFAULTS = {{}}


def check(manifest, facts):
    assert facts is None
    return []
"""
DECODER = "expected a decoder of task object_detection"


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of runtimes/ and postprocessors/ that a test may change."""
    for name in ("RUNTIMES", "POSTPROCESSORS"):
        source = getattr(payload, name)
        copy = tmp_path / "payload" / source.name
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(payload, name, copy)
    return tmp_path / "payload"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def few(roots: Path) -> None:
    """Of all families only those that are named here, so that what is known does not change with what is added."""
    for folder in (*(roots / "runtimes").iterdir(), *(roots / "postprocessors").iterdir()):
        if (folder / "support.py").is_file():
            shutil.rmtree(folder)
    add_engine(roots, fixed=False)
    add_decoder(roots, "centre", {"centre", "centre_object_detection"})
    add_decoder(roots, "corner", {"corner"})
    add_decoder(roots, "heat", {"heat", "anomaly"}, task="anomaly")


def add_decoder(
    roots: Path, name: str, names: set[str], problems: tuple[str, ...] = (), task: str = "object_detection"
) -> Path:
    folder = roots / "postprocessors" / name
    (folder / "kernels").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "support.py").write_text(SUPPORT.format(names=sorted(names), task=task, problems=list(problems)))
    (folder / "decode.py").write_text("# decodes\n")
    (folder / "kernels" / "fused.so").write_bytes(b"\x7fELF")
    (folder / "tests" / "test_it.py").write_text("")
    (folder / "requirements.txt").write_text("numpy>=1.24\n")
    return folder


def add_engine(roots: Path, fixed: bool) -> None:
    folder = roots / "runtimes" / "dlr"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "support.py").write_text(ENGINE.format(fixed=fixed))
    (folder / "runner.py").write_text("# runs\n")
    (folder / "requirements.txt").write_text("# the engine\ndlr==1.10.0  # Neo's\n\n")


def copied(one: Any) -> set[str]:
    return {file.path for file in one.plan.models[0].files}


def detector(layout: str) -> dict[str, Any]:
    manifest = yolo_manifest(detection={"layout": layout, "num_classes": 3})
    manifest["model_graph"]["stages"] = [{}]
    return manifest


@pytest.mark.parametrize("name", ["centre", "centre_object_detection"])
def test_a_new_folder_is_a_decoder(roots: Path, work: Path, name: str) -> None:
    add_decoder(roots, "centre", {"centre", "centre_object_detection"})
    one = prepared(work, detector(name))
    written = model_json(one)
    assert written["family"] == "centre"
    assert written["decode"] == {"score_threshold": 0.125, "num_classes": 3, "reach": 7}
    assert {"postprocessors/centre/decode.py", "postprocessors/centre/kernels/fused.so"} <= copied(one)
    left_out = {"support.py", "test_it.py", "requirements.txt"}
    assert not left_out.intersection(path.rpartition("/")[2] for path in copied(one) if "/" in path)
    assert not any(path.startswith(("postprocessors/yolo", "postprocessors/rf_detr")) for path in copied(one))
    assert {"postprocessors/contract.py", "runtimes/contract.py"} <= copied(one)


def test_a_new_folder_is_an_engine(roots: Path, work: Path) -> None:
    add_engine(roots, fixed=False)
    manifest = anomaly_manifest()
    del manifest["runtime"]
    files = {"mochi/compiled.so": b"so", "mochi/compiled.params": b"p", "mochi/manifest": b"m", "notes.txt": b"n"}
    one = prepared(work, manifest, files)
    assert (model_json(one)["runtime"], model_json(one)["artifact"]) == ("dlr", "artifact/compiled.so")
    artifact = {path for path in copied(one) if path.startswith("artifact/")}
    assert artifact == {"artifact/compiled.so", "artifact/compiled.params", "artifact/manifest"}
    assert "runtimes/dlr/runner.py" in copied(one)
    assert not any(path.startswith("runtimes/onnx") for path in copied(one))
    assert one.plan.requirements[-1] == "dlr==1.10.0"


def test_a_family_refuses_in_its_own_words(roots: Path, work: Path) -> None:
    add_decoder(roots, "centre", {"centre"}, ("detection.reach: expected 8, got 7; set it", "other: one; two"))
    assert refused(work, detector("centre")) == [
        "manifest.json: detection.reach: expected 8, got 7; set it",
        "other: one; two",
    ]


def test_two_owners_of_one_name_are_an_error(roots: Path, work: Path) -> None:
    add_decoder(roots, "centre", {"centre", "yolo"})
    assert refused(work, detector("yolo")) == [
        "postprocessors: expected one owner of 'yolo', got centre and yolo; take it out of one support.py"
    ]


@pytest.mark.parametrize(
    ("family", "manifest", "outputs"),
    [
        pytest.param("yolo", detector("yolo"), {"output0": (1, 7, 21)}, id="yolo"),
        pytest.param("rf_detr", detector("rf_detr"), {"dets": (1, 9, 4), "labels": (1, 9, 3)}, id="rf_detr"),
        pytest.param("anomaly", anomaly_manifest(), {"score": (1, 1)}, id="anomaly"),
    ],
)
def test_a_family_needs_none_of_its_siblings(
    roots: Path, work: Path, family: str, manifest: dict[str, Any], outputs: dict[str, Any]
) -> None:
    for folder in (roots / "postprocessors").iterdir():
        if (folder / "support.py").is_file() and folder.name != family:
            shutil.rmtree(folder)
    for folder in (roots / "runtimes").iterdir():
        if (folder / "support.py").is_file() and folder.name != "onnx":
            shutil.rmtree(folder)
    assert model_json(prepared(work, manifest, {"model.onnx": onnx_bytes(outputs=outputs)}))["family"] == family


def unknown(layout: str | None, stage_type: str | None = None) -> dict[str, Any]:
    stage = {} if stage_type is None else {"type": stage_type}
    detection = {} if layout is None else {"layout": layout}
    return {"task": "object_detection", "detection": detection, "model_graph": {"stages": [stage]}}


ALL = "known: centre, centre_object_detection, corner"


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("manifest", "line"),
    [
        pytest.param(
            unknown("center"), f"detection.layout: {DECODER}, got 'center'; did you mean centre? {ALL}", id="near"
        ),
        pytest.param(unknown("ssd"), f"detection.layout: {DECODER}, got 'ssd'; {ALL}", id="far"),
        pytest.param(unknown("heat"), f"detection.layout: {DECODER}, got 'heat'; {ALL}", id="of another task"),
        pytest.param(unknown(None), f"detection.layout: {DECODER}, got nothing; {ALL}", id="nothing said"),
        pytest.param(
            unknown(None, "center_object"),
            f"model_graph.stages[0].type: {DECODER}, got 'center_object'; did you mean centre_object_detection? {ALL}",
            id="stage type",
        ),
        pytest.param(
            {"runtime": "dl"},
            "runtime: expected an engine that is here, got 'dl'; did you mean dlr? known: dlr, neo",
            id="runtime",
        ),
    ],
)
def test_an_unknown_name_lists_the_nearest_known(work: Path, manifest: dict[str, Any], line: str) -> None:
    assert refused(work, manifest, {"compiled.so": b"so"}) == [f"manifest.json: {line}"]


def test_an_absent_runtime_is_dlr_and_says_so(tmp_path: Path, roots: Path, work: Path) -> None:
    shutil.rmtree(roots / "runtimes" / "dlr", ignore_errors=True)
    (line,) = refused(work, {})
    assert "got 'dlr' (the default)" in line


def test_the_stage_type_of_an_anomaly_model_is_any_word(tmp_path: Path) -> None:
    assert model_json(prepared(tmp_path, anomaly_manifest(type="crème brûlée")))["family"] == "anomaly"


def test_a_layout_that_is_asked_for_has_no_substitute(roots: Path, work: Path) -> None:
    add_decoder(roots, "any", {"object_detection"})
    (line,) = refused(work, detector("centre"))
    assert line.startswith(f"manifest.json: detection.layout: {DECODER}, got 'centre'; ")
    manifest = detector("centre")
    del manifest["detection"]["layout"]
    assert model_json(prepared(work, manifest))["family"] == "any"


def test_the_layout_wins_over_the_stage_type(tmp_path: Path) -> None:
    manifest = yolo_manifest()
    manifest["model_graph"]["stages"] = [{"type": "rf_detr_object_detection"}]
    assert model_json(prepared(tmp_path, manifest))["family"] == "yolo"


@pytest.mark.parametrize(
    ("fixed", "change", "dims"),
    [
        pytest.param(True, {}, [480, 640, 3], id="fixed"),
        pytest.param(False, {}, [-1, -1, -1], id="an engine of any size"),
        pytest.param(True, {"dataset": {"image_width": 640}}, [-1, -1, -1], id="no size in dataset"),
        pytest.param(True, {"dataset": {}}, [-1, -1, -1], id="no dataset"),
        pytest.param(True, {"model_graph": {}}, [-1, -1, -1], id="no pixel classes"),
    ],
)
def test_image_dims(roots: Path, work: Path, fixed: bool, change: dict[str, Any], dims: list[int]) -> None:
    add_engine(roots, fixed)
    manifest = {**anomaly_manifest(), "runtime": "dlr", **change}
    manifest["model_graph"].setdefault("stages", [{"input_shape": [1, 3, 64, 64]}])
    one = prepared(work, manifest, {"compiled.so": b"so"})
    configs = [parse_config(model.config, model.name) for model in one.plan.models]
    images = [tensor for config in configs for tensor in config.input if tensor.name in ("input", "inference_mask")]
    masks = [tensor for tensor in configs[0].output if tensor.name == "mask"]
    assert [list(tensor.dims) for tensor in images + masks] == [dims] * 5


def test_the_families_that_are_here() -> None:
    engines, decoders = find_families(payload.RUNTIMES), find_families(payload.POSTPROCESSORS)
    assert {"onnx"} <= {family.name for family in engines}
    assert {"anomaly", "rf_detr", "yolo"} <= {family.name for family in decoders}
    canele = owner_of("canele", decoders)
    assert canele is not None
    assert canele.name == "rf_detr"
    assert owner_of("nobody", decoders) is None
    assert nearest("x", []) == "known: none"


DOCUMENT = Path(__file__).parents[2] / "docs" / "families.md"


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of docs/families.md, without its first two lines."""
    section = DOCUMENT.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_lists_every_decoder_and_preset() -> None:
    decoders = find_families(payload.POSTPROCESSORS)
    listed = {(name.strip("`"), tasks) for name, tasks, _ in rows_of("Decoders")}
    assert listed == {(family.name, ", ".join(sorted(family.tasks))) for family in decoders}
    presets = [(row[0].strip("`"), row[1]) for row in rows_of("Presets")]
    assert presets == sorted((preset, family.name) for family in decoders for preset in family.presets)
