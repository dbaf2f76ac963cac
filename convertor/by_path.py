"""Load one Python file as a module, without its package: support.py files and Triton's generated protobuf."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


def load_by_path(name: str, path: Path) -> ModuleType:
    """Execute a file in a module object of its own, which is not entered in sys.modules."""
    module = ModuleType(name)
    module.__file__ = str(path)
    SourceFileLoader(name, str(path)).exec_module(module)
    return module
