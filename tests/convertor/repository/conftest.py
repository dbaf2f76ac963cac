from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_disk_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote: only a test about power loss needs the flush, which is slow."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
