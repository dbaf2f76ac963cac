from __future__ import annotations

import threading
from pathlib import Path

import pytest

from convertor.repository.lock import locked


def test_who_waited_holds_the_file_that_is_there(tmp_path: Path) -> None:
    """The first holder removes its file: a lock on that file alone would keep nobody out."""
    path = tmp_path / "lock"
    waits = threading.Event()
    there: list[bool] = []

    def second() -> None:
        with locked(path, waits.set):
            there.append(path.exists())

    with locked(path, lambda: pytest.fail("nobody holds it")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
    thread.join()
    assert there == [True]
    assert not path.exists()


def test_freed_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "lock", lambda: None):
        raise KeyError
    with locked(tmp_path / "lock", lambda: pytest.fail("still held")):
        pass


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "lock", lambda: None):
        pass
    assert not (tmp_path / "elsewhere").exists()
