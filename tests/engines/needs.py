"""Which engines are in this environment, told without importing them: `import dlr` reports to its maker."""

from __future__ import annotations

import importlib.util

import pytest

from runtimes.dlr.tests import neo

NO_COMPILER = "no C compiler here, which makes DLR's kernels"


def installed(*modules: str) -> bool:
    return all(_is_there(module) for module in modules)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    # Of a dotted name the packages are imported to look inside.
    except ModuleNotFoundError:
        return False


def need(*modules: str) -> None:
    """Skip the module of tests that calls this where one of these is not installed."""
    missing = [module for module in modules if not installed(module)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; run: make test-engines", allow_module_level=True)


def need_compiler() -> None:
    if neo.compiler() is None:
        pytest.skip(NO_COMPILER)
