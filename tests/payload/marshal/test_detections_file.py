"""Where marshal writes files, and where not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from capture_request import Metadata
from detections_file import NotWrittenError, capture_roots, write_detections

CONTENT = b'{"detections": {}}'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with captures/line-a, outside/, and links between them."""
    (tmp_path / "captures/line-a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "captures-2").mkdir()
    (tmp_path / "captures/escape").symlink_to(tmp_path / "outside")
    (tmp_path / "link-in").symlink_to(tmp_path / "captures/line-a")
    (tmp_path / "captures/file").write_text("")
    return tmp_path


def files_of(tree: Path) -> set[str]:
    found = (path for path in tree.rglob("*") if path.is_file() and path.name != "file")
    return {str(path.relative_to(tree)) for path in found}


@pytest.mark.parametrize(
    ("roots", "folder", "written"),
    [
        pytest.param(["captures"], "captures/line-a", "captures/line-a", id="below a root"),
        pytest.param(["captures"], "captures", "captures", id="the root itself"),
        pytest.param(["outside", "captures"], "captures/line-a", "captures/line-a", id="second root"),
        pytest.param(["captures"], "captures/line-a/../line-a", "captures/line-a", id="dots that stay inside"),
        pytest.param(["captures"], "link-in", "captures/line-a", id="link into a root"),
        pytest.param(["link-in"], "captures/line-a", "captures/line-a", id="root is a link"),
        pytest.param(["captures"], "outside", None, id="outside"),
        pytest.param(["captures"], "captures-2", None, id="only the name begins alike"),
        pytest.param(["captures"], "captures/../outside", None, id="dots that climb out"),
        pytest.param(["captures"], "captures/escape", None, id="link that leaves"),
        pytest.param(["captures/line-a"], "captures", None, id="above the root"),
        pytest.param(["captures"], "captures/missing", None, id="no such folder"),
        pytest.param(["captures"], "captures/file", None, id="not a folder"),
        pytest.param([], "captures", None, id="no roots"),
    ],
)
def test_folders(tree: Path, roots: list[str], folder: str, written: str | None) -> None:
    allowed = capture_roots({"CAPTURE_ROOTS": os.pathsep.join(str(tree / root) for root in roots)})
    metadata = Metadata("cam1", str(tree / folder))
    if written is None:
        with pytest.raises(NotWrittenError) as caught:
            write_detections(CONTENT, metadata, allowed)
        assert "\n" not in str(caught.value)
        assert files_of(tree) == set()
    else:
        path = write_detections(CONTENT, metadata, allowed)
        assert path.read_bytes() == CONTENT
        assert files_of(tree) == {f"{written}/cam1.detections.json"}


@pytest.mark.parametrize(
    "capture_id",
    ["", ".", "..", "../x", "a/b", "/abs", "a\\b", "a\0b", pytest.param("\ud800", id="lone surrogate"), "x" * 300],
)
def test_ids(tree: Path, capture_id: str) -> None:
    with pytest.raises(NotWrittenError):
        write_detections(CONTENT, Metadata(capture_id, str(tree / "captures")), [tree])
    assert files_of(tree) == set()


def test_names_beyond_ascii_where_python_takes_file_names_for_ascii(tree: Path) -> None:
    # Triton starts its pythons so, whatever the locale says.
    (tree / "captures/línea").mkdir()
    script = (
        "import os; from capture_request import Metadata; from detections_file import *; "
        f"write_detections(b'', Metadata({'模型1'!a}, {str(tree / 'captures/línea')!a}), capture_roots(os.environ))"
    )
    environment = {
        "CAPTURE_ROOTS": str(tree / "captures/línea"),
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONUTF8": "0",
    }
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert files_of(tree) == {"captures/línea/模型1.detections.json"}


@pytest.mark.parametrize("folder", ["", "captures", "cap\0tures"])
def test_folders_that_are_no_place(tree: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    with pytest.raises(NotWrittenError):
        write_detections(CONTENT, Metadata("a", folder), [tree])
    assert files_of(tree) == set()


def test_a_folder_of_a_megabyte_is_refused_unread_and_told_in_short(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resolving one takes minutes, quadratic in its parts, and one request must not hold up the others."""
    monkeypatch.setattr(os.path, "realpath", lambda _: pytest.fail("resolved"))
    with pytest.raises(NotWrittenError, match=r"^METADATA's capture folder has 1000000 bytes, expected at most 4096$"):
        write_detections(CONTENT, Metadata("a", "/a" * 500_000), [tree])
    with pytest.raises(NotWrittenError, match="has 4098 bytes"):
        write_detections(CONTENT, Metadata("a", "/" + "é" * 2048 + "a"), [tree])


def test_a_link_in_the_files_place_is_replaced(tree: Path) -> None:
    victim = tree / "outside/victim"
    victim.write_text("keep")
    target = tree / "captures/cam1.detections.json"
    target.symlink_to(victim)
    write_detections(CONTENT, Metadata("cam1", str(tree / "captures")), [tree / "captures"])
    assert victim.read_text() == "keep"
    assert not target.is_symlink()
    assert target.read_bytes() == CONTENT


def test_a_failed_rename_leaves_no_temporary_file(tree: Path) -> None:
    (tree / "captures/cam1.detections.json").mkdir()
    with pytest.raises(NotWrittenError):
        write_detections(CONTENT, Metadata("cam1", str(tree / "captures")), [tree])
    assert files_of(tree) == set()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, (), id="unset"),
        pytest.param("", (), id="empty"),
        pytest.param(os.pathsep, (), id="only separators"),
        pytest.param("relative", (), id="relative"),
        pytest.param("/", (Path("/"),), id="everything"),
    ],
)
def test_roots(value: str | None, expected: tuple[Path, ...]) -> None:
    assert capture_roots({} if value is None else {"CAPTURE_ROOTS": value}) == expected
