from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True)
def _no_disk_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote: only a test about power loss needs the flush, which is slow."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory where there is one: ext4 writes data at once when a rename replaces a file, which is slow."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)
