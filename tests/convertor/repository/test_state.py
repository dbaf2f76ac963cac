from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from convertor.errors import RefusedError, UsageError
from convertor.repository import check_plan, next_version, parse_version, survey
from tests.convertor.repository.plans import make_plan, put


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("next", None),
        ("1", 1),
        ("3.2.1", 3),
        ("7.", 7),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_version_text(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text", ["", "0", "0.9", "-1", "+1", "1e3", "v2", ".5", " 1", "1_0", "²", "٣", "NEXT", str(2**63)]
)
def test_version_text_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--version: expected `next` or a whole number > 0"):
        parse_version(text)


def test_no_repository_yet(tmp_path: Path) -> None:
    state = survey(tmp_path / "a" / "b", "cam")
    assert (state.pinned, state.versions, state.highest, state.identity, state.leftovers) == (None, (), 0, None, ())
    assert next_version(state, None) == 1
    assert next_version(state, 5) == 5
    assert list(tmp_path.iterdir()) == []


def test_versions(tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(2), b"a")
    put(tmp_path / "r", make_plan(5), b"b")
    shutil.copytree(tmp_path / "r/base_cam/5", tmp_path / "r/base_cam/6")
    state = survey(tmp_path / "r", "cam")
    assert (state.pinned, state.versions, state.highest, state.leftovers) == (5, (2, 5), 5, ("base_cam/6",))
    assert state.identity is not None
    assert (state.identity.task, state.identity.profile) == ("anomaly", "capture")
    assert state.identity.outputs == ("output_capture", "output_mask")
    assert next_version(state, None) == 6  # what is left over above the pinned version is no version
    assert next_version(state, 9) == 9
    with pytest.raises(RefusedError, match="version 5 exists already; take --version 6 or higher"):
        next_version(state, 5)
    with pytest.raises(RefusedError, match="version 3 is below the highest, 5"):
        next_version(state, 3)


def test_a_model_json_that_nests_too_deeply_is_none_of_ours(tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1), b"a")
    (tmp_path / "r/base_cam/1/model.json").write_text("[" * 100_000)
    with pytest.raises(RefusedError, match="base_cam: was not written by convert"):
        survey(tmp_path / "r", "cam")


def test_no_version_follows_the_highest_that_triton_can_count(tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(2**63 - 1), b"a")
    with pytest.raises(RefusedError, match=f"cam: version {2**63 - 1} is the highest there can be; .*move the model"):
        next_version(survey(tmp_path / "r", "cam"), None)


def test_two_ensembles_of_which_one_is_committed(tmp_path: Path) -> None:
    """A kill between two commits: nothing that either pins may be taken for a leftover."""
    put(tmp_path / "r", make_plan(1, profile="tensors"), b"a")
    committed = (tmp_path / "r/cam/config.pbtxt").read_bytes()
    put(tmp_path / "r", make_plan(2, profile="tensors"), b"b")
    (tmp_path / "r/cam/config.pbtxt").write_bytes(committed)
    state = survey(tmp_path / "r", "cam")
    assert (state.pinned, state.highest, state.leftovers) == (1, 2, ())
    assert put(tmp_path / "r", make_plan(3, profile="tensors"), b"a").version == 3


@pytest.mark.parametrize(
    ("there", "name", "says"),
    [
        pytest.param("cam", "base_cam", "this name belongs to the model cam", id="base-of-another"),
        pytest.param("cam", "marshal_cam", "this name belongs to the model cam", id="marshal-of-another"),
        pytest.param("cam", "decode_cam", "this name belongs to the model cam", id="decode-of-another-not-used-yet"),
        pytest.param("cam", "cam_encoded", "this name belongs to the model cam", id="encoded-of-another-not-used-yet"),
        pytest.param("base_cam", "cam", "base_cam: belongs to the model base_cam", id="base-is-another"),
        pytest.param("marshal_cam", "cam", "marshal_cam: belongs to the model marshal_cam", id="marshal-is-another"),
        pytest.param("decode_cam", "cam", "decode_cam: belongs to the model decode_cam", id="decode-is-another"),
        pytest.param("cam_encoded", "cam", "cam_encoded: belongs to the model cam_encoded", id="encoded-is-another"),
    ],
)
def test_name_of_another_model(there: str, name: str, says: str, tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1, name=there))
    with pytest.raises(RefusedError, match=says):
        survey(tmp_path / "r", name, replace=True)
    assert survey(tmp_path / "r", there).pinned == 1


@pytest.mark.parametrize("name", ["cam_base_", "based", "encoded", "base_", "_encoded", "cam2", "ca"])
def test_names_that_only_look_like_it(name: str, tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1))
    assert put(tmp_path / "r", make_plan(1, name=name)).version == 1


@pytest.mark.parametrize("name", ["cam", "base_cam", "marshal_cam", "decode_cam", "cam_encoded"])
@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="empty"),
        pytest.param({"config.pbtxt": 'name: "cam" backend: "python"'}, id="config-only"),
        pytest.param({"config.pbtxt": "{{{"}, id="no-config"),
        pytest.param({"config.pbtxt": "\udcff"}, id="config-of-bytes"),
        pytest.param({"1/model.json": "{"}, id="broken-model-json"),
        pytest.param({"1/model.json": "[1]"}, id="list-as-model-json"),
        pytest.param({"1/model.json": '{"format": 2, "name": "cam"}'}, id="newer-format"),
        pytest.param({"1/model.json": '{"name": "cam"}'}, id="foreign-model-json"),
        pytest.param({"one/model.json": '{"format": 1, "name": "cam"}'}, id="no-version-folder"),
    ],
)
def test_directory_that_convert_did_not_write(name: str, files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    for path, text in files.items():
        (tmp_path / name / path).parent.mkdir(exist_ok=True)
        (tmp_path / name / path).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RefusedError, match=f"{name}: was not written by convert"):
        survey(tmp_path, "cam", replace=True)


def test_all_foreign_directories_are_named_at_once(tmp_path: Path) -> None:
    for name in ("base_cam", "cam"):
        (tmp_path / name).mkdir()
    (tmp_path / "marshal_cam").write_text("a file")
    (tmp_path / "cam_encoded").symlink_to("nowhere")
    with pytest.raises(RefusedError) as refused:
        survey(tmp_path, "cam")
    assert len(refused.value.problems) == 4


@pytest.mark.parametrize(
    ("config", "says"),
    [
        pytest.param(("model_version: 1", "model_version: -1"), "pins -1", id="any-version"),
        pytest.param(
            ('"marshal_cam" model_version: 1', '"marshal_cam" model_version: 2'), "pins 1, 2", id="two-versions"
        ),
        pytest.param(("model_version: 1", "model_version: 4"), "base_cam/4/model.json: missing", id="missing-version"),
    ],
)
def test_pin_that_cannot_be_used(config: tuple[str, str], says: str, tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1))
    path = tmp_path / "r/cam/config.pbtxt"
    path.write_text(path.read_text().replace(*config))
    with pytest.raises(RefusedError, match=says):
        survey(tmp_path / "r", "cam")


@pytest.mark.parametrize("below", ["", "repository", "deep/er/repository"])
def test_regular_file_in_the_way(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError, match="not a directory; give another folder"):
        survey(tmp_path / "file" / below, "cam")


def test_link_to_a_repository_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "repository")
    assert put(tmp_path / "link", make_plan(1)).version == 1
    assert survey(tmp_path / "disk" / "repository", "cam").pinned == 1
    assert (tmp_path / "link").is_symlink()


WIDE, FIXED = (-1, -1, -1), (480, 640, 3)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param({}, {"task": "object_detection"}, ["task anomaly -> object_detection"], id="task"),
        pytest.param({}, {"profile": "tensors"}, ["profile capture -> tensors"], id="profile"),
        pytest.param(
            {}, {"outputs": ("output_mask",)}, ["outputs output_capture, output_mask -> output_mask"], id="outputs"
        ),
        pytest.param(
            {},
            {"task": "t", "profile": "tensors"},
            ["task anomaly -> t", "profile capture -> tensors"],
            id="everything-at-once",
        ),
        pytest.param(
            {"dims": WIDE}, {"dims": FIXED}, ["input input: dims [-1, -1, -1] -> [480, 640, 3]"], id="narrower"
        ),
        pytest.param(
            {"dims": FIXED},
            {"dims": (480, 640, 1)},
            ["input input: dims [480, 640, 3] -> [480, 640, 1]"],
            id="size",
        ),
        pytest.param({"dims": WIDE}, {"dims": (-1, -1)}, ["input input: dims [-1, -1, -1] -> [-1, -1]"], id="rank"),
        pytest.param({"dims": FIXED}, {"dims": WIDE}, [], id="wider"),
        pytest.param({"dims": FIXED}, {"dims": (-1, -1, 3)}, [], id="wider-in-part"),
        pytest.param({"outputs": ("a", "b")}, {"outputs": ("b", "a")}, [], id="outputs-in-other-order"),
    ],
)
def test_what_clients_rely_on(old: dict[str, Any], new: dict[str, Any], says: list[str], tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1, **old))
    plan = make_plan(2, **new)
    if says:
        with pytest.raises(RefusedError) as refused:
            check_plan(plan, survey(tmp_path / "r", "cam"))
        assert len(refused.value.problems) == len(says)
        for problem, said in zip(refused.value.problems, says):
            assert problem.startswith(f"cam: {said}")
            assert "--replace" in problem
    else:
        check_plan(plan, survey(tmp_path / "r", "cam"))
    assert put(tmp_path / "r", plan, replace=True).version == 2
