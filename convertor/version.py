"""The installed version."""

from __future__ import annotations


def version() -> str:
    """Return the distribution's version, or "unknown" in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("triton-convertor")
    except PackageNotFoundError:
        return "unknown"
