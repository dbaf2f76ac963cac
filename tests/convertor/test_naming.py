"""Where a model's name comes from, and what becomes of file names that are no model names."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from convertor.convert import Options, prepare
from convertor.errors import RefusedError
from convertor.naming import model_name
from tests.convertor.packages import write_zip, yolo_manifest


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        pytest.param("detector", "detector", id="legal as it is"),
        pytest.param("my model(1)", "my_model_1", id="blanks and brackets"),
        pytest.param(".hidden", "hidden", id="leading dot"),
        pytest.param("-rf", "rf", id="leading dash"),
        pytest.param(".-.x", "x", id="leading dots and dashes"),
        pytest.param('a"b', "a_b", id="quote"),
        pytest.param("a\nb", "a_b", id="line break"),
        pytest.param("a/b", "a_b", id="slash"),
        pytest.param("a\\b", "a_b", id="backslash"),
        pytest.param("v1.2-rc_3", "v1.2-rc_3", id="dots, dashes, underscores"),
        pytest.param("模型v2", "v2", id="letters of another script around legal ones"),
        pytest.param("é", None, id="no legal letter"),
        pytest.param("模型", None, id="another script"),
        pytest.param("..", None, id="dots"),
        pytest.param("", None, id="empty"),
        pytest.param("x" * 300, "x" * 200, id="too long"),
        pytest.param("_x_", "x", id="underscores around"),
        pytest.param("2024", "2024", id="digits"),
    ],
)
def test_a_name_from_the_file(stem: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(RefusedError, match="give the model a --name"):
            model_name(None, None, stem)
        return
    assert model_name(None, None, stem) == expected
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", expected)
    assert model_name(None, None, expected) == expected


BAD_NAMES = [
    "",
    ".",
    "..",
    ".x",
    "-x",
    "a b",
    "a/b",
    "../x",
    "a\\b",
    'a"b',
    "a\n",
    "é",
    "模型",
    "x" * 201,
    "a\x00b",
    "a:b",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_given_name_is_legal_or_refused(name: str) -> None:
    with pytest.raises(RefusedError) as caught:
        model_name(name, "good", "good")
    (line,) = caught.value.lines()
    assert line.startswith("--name: expected letters")
    with pytest.raises(RefusedError, match=r"^manifest\.json: model_name: expected letters"):
        model_name(None, name, "good")


def test_precedence() -> None:
    assert model_name("given", "manifest", "file") == "given"
    assert model_name(None, "manifest", "file") == "manifest"
    assert model_name(None, None, "file") == "file"
    assert model_name("x" * 200, None, "file") == "x" * 200


def test_two_packages_that_map_to_one_name_are_refused(tmp_path: Path) -> None:
    packages = [write_zip(tmp_path / name, yolo_manifest()) for name in ("a b.zip", "a(b.zip", "base_a_b.zip")]
    with ExitStack() as stack, pytest.raises(RefusedError) as caught:
        prepare(packages, Options(tmp_path / "repository"), stack)
    assert [line.split(":")[0] for line in caught.value.problems] == ["a(b.zip", "base_a_b.zip"]
    assert "got 'a_b', which clashes with 'a_b' of another package" in caught.value.problems[0]
    assert "got 'base_a_b', which clashes with 'a_b' of another package" in caught.value.problems[1]
    assert not (tmp_path / "repository").exists()
