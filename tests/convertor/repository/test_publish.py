from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convertor.errors import RefusedError
from convertor.repository import Published, publish, steps, survey
from tests.convertor.repository.forks import as_nobody
from tests.convertor.repository.plans import FakePackage, live_weights, make_plan, put, tree


def test_first_then_same_then_other(tmp_path: Path) -> None:
    repository = tmp_path / "new" / "repository"
    first = put(repository, make_plan(1), b"a")
    assert (first.version, first.already_there, first.models) == (1, False, ("base_cam", "marshal_cam", "cam"))
    content = tree(repository)
    assert first.bytes == sum(len(data) for data in content.values() if data is not None)

    (repository / "base_cam/1/__pycache__").mkdir()
    (repository / "base_cam/1/__pycache__/model.cpython-311.pyc").write_bytes(b"made by the server")
    before = tree(tmp_path)
    assert put(repository, make_plan(2), b"a") == Published(1, True, first.models, first.bytes)
    assert tree(tmp_path) == before

    assert put(repository, make_plan(2), b"b").version == 2
    assert live_weights(repository) == b"b"
    assert {
        name: data for name, data in tree(repository).items() if name in content and "config" not in name
    }.items() <= (content.items())
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["repository"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("base_cam/1/artifact/model.onnx", b"X", id="artifact"),
        pytest.param("base_cam/1/model.py", b"", id="payload"),
        pytest.param("marshal_cam/1/model.json", b'{"format": 1, "name": "cam", "version": 1}', id="facts"),
        pytest.param("base_cam/1/extra", b"", id="one-more-file"),
        pytest.param("marshal_cam/config.pbtxt", b"# edited", id="step-config"),
    ],
)
def test_a_pinned_version_that_differs_is_not_the_same(path: str, content: bytes, tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1), b"a")
    (tmp_path / "r" / path).write_bytes(content)
    assert not put(tmp_path / "r", make_plan(2), b"a").already_there
    assert live_weights(tmp_path / "r") == b"a"


def test_source_digest(tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(1), b"a")
    line = f"{hashlib.sha256(b'a').hexdigest()}  weights\n"
    for model in ("base_cam", "marshal_cam", "cam"):
        described = json.loads((tmp_path / "r" / model / "1/model.json").read_text())
        assert described["source_sha256"] == hashlib.sha256(line.encode()).hexdigest()


@pytest.mark.parametrize("umask", [0o000, 0o077], ids=oct)
def test_modes_do_not_depend_on_the_umask(umask: int, tmp_path: Path) -> None:
    previous = os.umask(umask)
    try:
        put(tmp_path / "a" / "b", make_plan(1), b"a")
        put(tmp_path / "a" / "b", make_plan(2), b"b")
    finally:
        os.umask(previous)
    for path in ((tmp_path / "a"), *(tmp_path / "a").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_progress_counts_the_copied_bytes(tmp_path: Path) -> None:
    told: list[int] = []
    publish(make_plan(1), FakePackage(weights=b"abc"), tmp_path / "r", survey(tmp_path / "r", "cam"), told.append)
    assert told == [3]


def test_everything_is_on_disk_before_the_first_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.add(os.fstat(descriptor).st_ino))
    seen: dict[str, set[int]] = {}

    def run_step(step: steps.Step) -> None:
        seen[step.name] = set(flushed)
        step.do()

    monkeypatch.setattr(steps, "run_step", run_step)
    put(tmp_path / "r", make_plan(1), b"a")
    staged = {path.stat().st_ino for path in (tmp_path / "r").rglob("*")}
    assert staged <= seen["create repository"]
    flushed.clear()
    put(tmp_path / "r", make_plan(2), b"b")
    placed = {(tmp_path / "r" / model).stat().st_ino for model in ("base_cam", "marshal_cam", "cam")}
    assert placed <= seen["commit cam"]


def test_plan_for_another_state_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path / "r", make_plan(3))
    with pytest.raises(ValueError, match="planned for another state"):
        put(tmp_path / "r", make_plan(3))


def test_damaged_member_leaves_nothing(tmp_path: Path) -> None:
    def broken(name: str) -> None:
        raise RefusedError(f"package.zip: {name}: damaged")

    with pytest.raises(RefusedError, match="damaged"):
        publish(make_plan(1), FakePackage(broken, weights=b""), tmp_path / "a/b/r", survey(tmp_path / "a/b/r", "cam"))
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        pytest.param("cam", "was changed by another convert meanwhile; run convert again", id="same-model"),
        pytest.param("cam2", "2 models", id="another-model"),
    ],
)
def test_a_second_publisher_waits(name: str, outcome: str, tmp_path: Path) -> None:
    repository = tmp_path / "r"
    holds, waits = threading.Event(), threading.Event()
    results: list[Any] = []

    def copy(_: str) -> None:
        # What is copied is copied under the lock.
        holds.set()
        assert waits.wait(60), "the second did not wait"

    def publish_first() -> None:
        first = FakePackage(copy, weights=b"first")
        results.append(publish(make_plan(1), first, repository, survey(repository, "cam")))

    thread = threading.Thread(target=publish_first)
    state = survey(repository, name)
    thread.start()
    assert holds.wait(60)
    try:
        publish(make_plan(1, name=name), FakePackage(weights=b"second"), repository, state, waiting=waits.set)
        said = f"{len(list(repository.iterdir())) // 3} models"
    except RefusedError as refused:
        said = str(refused)
    thread.join()
    assert outcome in said
    assert results[0].version == 1
    assert live_weights(repository) == b"first"
    assert live_weights(repository, name) == (b"second" if name != "cam" else b"first")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]


def test_stale_staging_is_cleaned_and_nothing_else(tmp_path: Path) -> None:
    for name in (".r.staging-dead", ".r[x].staging-dead", ".rr.staging-other", "r.staging-mine"):
        (tmp_path / name / "new").mkdir(parents=True)
    (tmp_path / ".r.lock").write_text("")
    put(tmp_path / "r[x]", make_plan(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".r.lock", ".r.staging-dead", ".rr.staging-other", "r.staging-mine", "r[x]",
    ]  # fmt: skip
    put(tmp_path / "r", make_plan(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".rr.staging-other", "r", "r.staging-mine", "r[x]"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    yield from _mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "tmpfs")


def _mounted(place: Path, *options: str) -> Iterator[Path]:
    place.mkdir()
    try:
        done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True)
        failure = done.stderr if done.returncode else ""
    except FileNotFoundError as error:
        failure = str(error)
    if failure:
        pytest.skip(f"cannot mount here: {failure}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_full_disk(small_disk: Path) -> None:
    repository = small_disk / "a" / "repository"
    with pytest.raises(RefusedError) as refused:
        put(repository, make_plan(1), bytes(2 << 20))
    assert refused.value.lines() == [
        f"{repository}: nothing was published: No space left on device; the repository is as it was"
    ]
    assert tree(small_disk) == {}

    put(repository, make_plan(1), bytes(400 << 10))
    before = tree(small_disk)
    with pytest.raises(RefusedError, match="No space left on device"):
        put(repository, make_plan(2), bytes(600 << 10))
    assert tree(small_disk) == before
    assert put(repository, make_plan(2), b"small").version == 2


def test_read_only_disk(small_disk: Path) -> None:
    put(small_disk / "r", make_plan(1))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for place in (small_disk / "r", small_disk / "other"):
        with pytest.raises(RefusedError, match="not writable"):
            survey(place, "cam")


def test_repository_that_is_a_mount_point(small_disk: Path) -> None:
    with pytest.raises(RefusedError, match=f"is a mount point.*use a folder in it, as in `-o {small_disk}/models`"):
        survey(small_disk, "cam")
    assert put(small_disk / "models", make_plan(1)).version == 1


def test_repository_that_is_a_bind_mount(tmp_path: Path) -> None:
    """The device number is the parent's, and yet no rename leads in."""
    put(tmp_path / "there", make_plan(1), b"a")
    before = tree(tmp_path / "there")
    for repository in _mounted(tmp_path / "r", "--bind", str(tmp_path / "there")):
        try:
            with pytest.raises(RefusedError, match="use a folder inside"):
                put(repository, make_plan(2), b"b")
        finally:
            assert tree(tmp_path / "there") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "there"]


@pytest.mark.parametrize(
    ("mode_of", "says"),
    [
        pytest.param("r", "r: not writable; give another folder", id="repository"),
        pytest.param(
            ".", "not writable, and versions are staged beside the repository; use a folder in it", id="parent"
        ),
        pytest.param("r/cam", "config.pbtxt: cannot be read: Permission denied", id="model"),
    ],
)
def test_permissions(mode_of: str, says: str, open_path: Path) -> None:
    place = open_path / "p"
    put(place / "r", make_plan(1))
    for path in (place, *place.rglob("*")):
        path.chmod(0o777)
    (place / mode_of).chmod(0o000 if mode_of == "r/cam" else 0o555)
    told = as_nobody(lambda: survey(place / "r", "cam"))
    (place / mode_of).chmod(0o755)
    assert told.startswith("RefusedError: ")
    assert says in told


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may enter, which tmp_path is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_error_numbers_are_told_in_words(tmp_path: Path) -> None:
    def full(name: str) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), f"/somewhere/{name}")

    with pytest.raises(RefusedError, match=r"nothing was published: Disk quota exceeded \(/somewhere/weights\)"):
        publish(make_plan(1), FakePackage(full, weights=b""), tmp_path / "r", survey(tmp_path / "r", "cam"))
    assert tree(tmp_path) == {}


def test_a_version_that_lost_a_file_while_it_was_staged_is_not_published(tmp_path: Path) -> None:
    """Somebody removes the repository's folder, staging and all, while a convert is writing there."""
    put(tmp_path / "r", make_plan(1), b"a")
    before = tree(tmp_path)

    def lose(step: steps.Step) -> None:
        if step.name == "sync":
            next(tmp_path.glob(".r.staging-*/new/base_cam/2/artifact/model.onnx")).unlink()
        step.do()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "run_step", lose)
        with pytest.raises(RefusedError, match=r"nothing was published: No such file.*artifact/model\.onnx"):
            put(tmp_path / "r", make_plan(2), b"b")
    assert tree(tmp_path) == before
