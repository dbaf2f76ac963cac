"""README.md and docs: the code blocks do what they say, and links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from convertor.cli import main
from convertor.serve.process import Server
from tests.builders import constant_graph, write_package, yolo_head
from tests.server.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert len(found) == 1
    return found[0]


def test_readme_is_at_most_150_lines() -> None:
    assert len(README.splitlines()) <= 150


def test_every_link_leads_to_a_file() -> None:
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docker").glob("*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_manifest_of_the_readme_converts(tmp_path: Path) -> None:
    graph = constant_graph({"output0": yolo_head([], 3)}, (1, 3, 640, 640))
    package = write_package(tmp_path / "parts.zip", json.loads(block("json")), {"model.onnx": graph})
    assert main(["convert", str(package), "-o", str(tmp_path / "repository")]) == 0
    assert {path.name for path in (tmp_path / "repository").iterdir()} == {"base_parts", "marshal_parts", "parts"}


@pytest.mark.server
def test_the_client_of_the_readme_runs(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cv2.imwrite("image.jpg", np.full((240, 320, 3), 90, np.uint8))
    code = block("python").replace("127.0.0.1:8001", server.grpc_url).replace('"parts"', '"parts_yolo"')
    exec(compile(code, "README.md", "exec"), {})
    assert cv2.imread("found.jpg") is not None
