"""What is refused before a server starts."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from convertor.errors import RefusedError, ServerError
from convertor.serve import preflight


def test_a_repository_with_a_model_passes(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "README.md").touch()
    preflight.check_repository(tmp_path)
    assert preflight.model_names(tmp_path) == {"m"}


@pytest.mark.parametrize(
    ("make", "line"),
    [
        pytest.param(lambda root: root / "absent", "is not there; make a model repository with: convert", id="missing"),
        pytest.param(lambda root: _file(root), "is not a folder", id="a file"),
        pytest.param(lambda root: root, "holds no model; add one with: convert", id="empty"),
        pytest.param(
            lambda root: _folder(root, "a b"), "a b: Triton hangs on a name with a space", id="space in a name"
        ),
        pytest.param(
            lambda root: _dangling(root),
            r"gone: is a link to nothing, over which Triton serves no model",
            id="dead link",
        ),
        pytest.param(
            lambda root: _folder(root, os.fsdecode(b"n\xff")), r"n.*: Triton cannot list a name", id="not UTF-8"
        ),
        pytest.param(lambda root: _file(root, "config.pbtxt").parent, "is the folder of one model", id="a model"),
        pytest.param(lambda root: root / ("a" * 300), r"cannot be read \(File name too long\)", id="name too long"),
        pytest.param(
            lambda root: _repository(root, "my models"), "models from a path with ' '", id="space in the path"
        ),
        pytest.param(lambda root: _repository(root, "modèles"), "models from a path with 'è'", id="accent in the path"),
    ],
)
def test_no_repository(tmp_path: Path, make: Callable[[Path], Path], line: str) -> None:
    with pytest.raises(RefusedError, match=line):
        preflight.check_repository(make(tmp_path))


def _file(root: Path, name: str = "package.zip") -> Path:
    (root / name).touch()
    return root / name


def _dangling(root: Path) -> Path:
    _folder(root, "m")
    (root / "gone").symlink_to("nowhere")
    return root


def _folder(root: Path, name: str) -> Path:
    (root / name).mkdir()
    return root


def _repository(root: Path, name: str) -> Path:
    (root / name / "m").mkdir(parents=True)
    return root / name


@pytest.mark.parametrize(
    ("version", "line"),
    [
        pytest.param("2.3.4", r"NumPy 2\.3\.4 here, and .* needs NumPy 1\.x; .* -m pip install 'numpy<2'", id="2.x"),
        pytest.param(None, "no NumPy here", id="missing"),
    ],
)
def test_numpy_that_does_not_fit(monkeypatch: pytest.MonkeyPatch, version: "str | None", line: str) -> None:
    monkeypatch.setattr(preflight, "installed_version", lambda _: version)
    with pytest.raises(ServerError, match=line):
        preflight.check_numpy()


def test_numpy_1_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "installed_version", lambda _: "1.26.4")
    preflight.check_numpy()


@pytest.mark.parametrize(("free_mb", "warned"), [(64, True), (1024, False)])
def test_shared_memory(monkeypatch: pytest.MonkeyPatch, free_mb: int, warned: bool) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free_mb * 256, f_frsize=4096))
    warning = preflight.shared_memory_warning()
    assert (warning is not None) == warned
    assert warning is None or "has 64 MB free" in warning
