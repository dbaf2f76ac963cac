"""Who may import whom: every rule of the two worlds, tool and payload, read from the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

pytestmark = pytest.mark.skipif(sys.version_info < (3, 10), reason="needs sys.stdlib_module_names")

ROOT = Path(__file__).parents[2]
TREES = ("convertor", "templates", "runtimes", "postprocessors")
PAYLOAD = frozenset(TREES[1:])
SERVER = "triton_python_backend_utils"
STDLIB = getattr(sys, "stdlib_module_names", frozenset())

TOOL_IMPORTS_PAYLOAD = "the tool never imports payload"
PAYLOAD_IMPORTS_TOOL = "payload never imports the tool"
SUPPORT_NEEDS_MORE = "support.py is standard library only"
SUPPORT_IMPORTED = "support.py is never imported"
OTHER_TREE = "runtimes and postprocessors never import each other"
OTHER_FAMILY = "no family is imported but by itself"
ABSOLUTE = "payload imports its own tree relatively"
TEMPLATE = "a template is flat: it imports its siblings by their names"
COMPOSES = "only templates/base composes runtimes and decoders"
ENGINE = "payload needs numpy and cv2 only; an engine is imported inside a function of its runner.py"


def test_every_file_keeps_the_rules() -> None:
    sources = list(source_files())
    assert len(sources) > 40
    found = [
        f"{path}: {problem}"
        for path in sources
        for problem in problems(path, (ROOT / path).read_text("utf-8"), known())
    ]
    assert found == []


def source_files() -> Iterator[PurePosixPath]:
    for tree in TREES:
        for path in sorted((ROOT / tree).rglob("*.py")):
            relative = PurePosixPath(path.relative_to(ROOT).as_posix())
            if not {"tests", "_payload"}.intersection(relative.parts):
                yield relative


def known() -> frozenset[str]:
    """Return the families, "runtimes/onnx" and so on: the folders with a support.py."""
    files = [path for tree in ("runtimes", "postprocessors") for path in (ROOT / tree).glob("*/support.py")]
    return frozenset(path.parent.relative_to(ROOT).as_posix() for path in files)


def problems(importer: PurePosixPath, source: str, families: frozenset[str]) -> list[str]:
    """Return "line N: <rule>" for each import of a file that breaks one."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    found: list[str] = []
    for node in ast.walk(tree):
        for target, is_relative in targets(importer, node):
            rule = broken_rule(importer, target, is_relative, id(node) in inside, families)
            if rule:
                found.append(f"line {getattr(node, 'lineno', 0)}: {target}: {rule}")
    return found


def targets(importer: PurePosixPath, node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield (absolute dotted name down to what is imported, whether the import is relative)."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, False
    elif isinstance(node, ast.ImportFrom):
        package = importer.parts[: len(importer.parts) - node.level] if node.level else ()
        module = ".".join([*package, *([node.module] if node.module else [])])
        for alias in node.names:
            yield f"{module}.{alias.name}", node.level > 0


def broken_rule(
    importer: PurePosixPath, target: str, is_relative: bool, in_function: bool, families: frozenset[str]
) -> str | None:
    tree, (head, *rest) = importer.parts[0], target.split(".")
    if tree == "convertor":
        return TOOL_IMPORTS_PAYLOAD if head in PAYLOAD else None
    if importer.name == "support.py":
        return None if head in STDLIB and not is_relative else SUPPORT_NEEDS_MORE
    if head == "convertor":
        return PAYLOAD_IMPORTS_TOOL
    if head in PAYLOAD and "support" in rest:
        return SUPPORT_IMPORTED
    if head in PAYLOAD:
        return own_code_rule(importer, head, rest[0] if rest else "", is_relative, families)
    if head in STDLIB or head in {"numpy", "cv2"}:
        return None
    if tree == "templates":
        return None if head == SERVER or (ROOT / importer.parent / f"{head}.py").is_file() else ENGINE
    return None if tree == "runtimes" and importer.name == "runner.py" and in_function else ENGINE


def own_code_rule(
    importer: PurePosixPath, head: str, module: str, is_relative: bool, families: frozenset[str]
) -> str | None:
    """Return the rule that an import of `head`.`module`, both payload of ours, breaks."""
    tree, folder = importer.parts[0], importer.parts[1]
    if head == "templates" or (tree == "templates" and is_relative):
        return TEMPLATE
    if tree == "templates" and head == "runtimes" and folder != "base":
        return COMPOSES
    if tree != "templates" and head != tree:
        return OTHER_TREE
    if tree != "templates" and not is_relative:
        return ABSOLUTE
    if f"{head}/{module}" in families and (tree == "templates" or module != folder):
        return OTHER_FAMILY
    return None


FAMILIES = frozenset({"runtimes/onnx", "runtimes/dlr", "postprocessors/yolo", "postprocessors/rf_detr"})


@pytest.mark.parametrize(
    ("path", "source", "rule"),
    [
        pytest.param("convertor/plan.py", "import runtimes.contract", TOOL_IMPORTS_PAYLOAD, id="tool-payload"),
        pytest.param("convertor/a/b.py", "def f():\n  from postprocessors import x", TOOL_IMPORTS_PAYLOAD, id="lazily"),
        pytest.param("convertor/plan.py", "from templates.base import model", TOOL_IMPORTS_PAYLOAD, id="tool-template"),
        pytest.param("runtimes/contract.py", "import convertor", PAYLOAD_IMPORTS_TOOL, id="payload-tool"),
        pytest.param("templates/base/model.py", "from convertor import plan", PAYLOAD_IMPORTS_TOOL, id="template-tool"),
        pytest.param("runtimes/onnx/support.py", "import numpy", SUPPORT_NEEDS_MORE, id="support-numpy"),
        pytest.param("runtimes/onnx/support.py", "from . import runner", SUPPORT_NEEDS_MORE, id="support-family"),
        pytest.param("runtimes/onnx/support.py", "import runtimes", SUPPORT_NEEDS_MORE, id="support-payload"),
        pytest.param("runtimes/onnx/runner.py", "from .support import DEFAULTS", SUPPORT_IMPORTED, id="own-support"),
        pytest.param("runtimes/onnx/runner.py", "from . import support", SUPPORT_IMPORTED, id="own-support-module"),
        pytest.param(
            "runtimes/onnx/runner.py", "from postprocessors import contract", OTHER_TREE, id="runtime-decoder"
        ),
        pytest.param("runtimes/onnx/runner.py", "from ...postprocessors import contract", OTHER_TREE, id="by-dots"),
        pytest.param("postprocessors/palette.py", "import runtimes.contract", OTHER_TREE, id="decoder-runtime"),
        pytest.param(
            "postprocessors/yolo/decode.py", "from ..rf_detr.decode import x", OTHER_FAMILY, id="family-family"
        ),
        pytest.param("postprocessors/yolo/decode.py", "from .. import rf_detr", OTHER_FAMILY, id="family-folder"),
        pytest.param("postprocessors/contract.py", "from .yolo import decode", OTHER_FAMILY, id="shared-family"),
        pytest.param("templates/base/model.py", "import runtimes.onnx.runner", OTHER_FAMILY, id="template-family"),
        pytest.param("postprocessors/yolo/decode.py", "from postprocessors.yolo import nms", ABSOLUTE, id="absolute"),
        pytest.param("runtimes/contract.py", "import runtimes", ABSOLUTE, id="the-tree-itself"),
        pytest.param(
            "runtimes/onnx/runner.py", "from runtimes.contract import Array", ABSOLUTE, id="absolute-contract"
        ),
        pytest.param("templates/base/model.py", "from . import capture_outputs", TEMPLATE, id="template-relative"),
        pytest.param("runtimes/contract.py", "import templates.base.model", TEMPLATE, id="payload-template"),
        pytest.param(
            "templates/marshal/model.py", "from runtimes.contract import Runner", COMPOSES, id="marshal-runtime"
        ),
        pytest.param("runtimes/onnx/runner.py", "import onnxruntime", ENGINE, id="engine-at-the-top"),
        pytest.param("runtimes/onnx/other.py", "def f():\n  import onnxruntime", ENGINE, id="engine-in-another-file"),
        pytest.param("postprocessors/yolo/runner.py", "def f():\n  import torch", ENGINE, id="engine-in-a-decoder"),
        pytest.param("runtimes/preprocessors/base.py", "from PIL import Image", ENGINE, id="another-library"),
        pytest.param("postprocessors/palette.py", "import triton_python_backend_utils", ENGINE, id="server-in-payload"),
        pytest.param("templates/base/model.py", "import overlay", ENGINE, id="sibling-of-another-template"),
    ],
)
def test_each_rule_finds_what_breaks_it(path: str, source: str, rule: str) -> None:
    (found,) = problems(PurePosixPath(path), source, FAMILIES)
    assert found.endswith(f": {rule}")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        pytest.param("convertor/plan.py", "import numpy, convertor.payload", id="tool"),
        pytest.param("runtimes/onnx/support.py", "import json", id="support"),
        pytest.param("runtimes/onnx/runner.py", "def f():\n  import onnxruntime", id="engine-in-a-function"),
        pytest.param("runtimes/onnx/runner.py", "from ..contract import Array\nfrom .refusals import x", id="relative"),
        pytest.param("postprocessors/yolo/decode.py", "import cv2\nimport numpy as np\nfrom . import nms", id="family"),
        pytest.param("postprocessors/yolo/decode.py", "from ..yolo.nms import suppress", id="itself-by-the-long-way"),
        pytest.param("templates/marshal/model.py", f"import overlay, {SERVER}", id="template"),
        pytest.param("templates/base/model.py", "from runtimes.contract import make_runner", id="base"),
    ],
)
def test_what_is_allowed(path: str, source: str) -> None:
    assert problems(PurePosixPath(path), source, FAMILIES) == []
