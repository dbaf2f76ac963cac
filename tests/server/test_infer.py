"""`convertor infer` on the stock server: odd image files, tables, JSON, overlays, and one line for what goes wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from convertor.cli import main
from convertor.errors import one_line
from convertor.serve.process import Server
from tests.convertor.infer.colour_probe import SCORE
from tests.convertor.infer.odd_images import TABLE, Odd, saved, stored
from tests.convertor.infer.scene import HEIGHT, WIDTH, boxes, scene

pytestmark = pytest.mark.server

PROTOCOLS = ("http", "grpc")


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


Infer = Callable[..., Ran]


def ran(*arguments: object) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["infer", *map(str, arguments)])
    return Ran(status, out.getvalue(), err.getvalue())


def address(server: Server, protocol: str) -> list[str]:
    url = server.grpc_url if protocol == "grpc" else f"http://{server.http_url}"
    return ["--url", url, "--protocol", protocol]


@pytest.fixture(params=PROTOCOLS)
def infer(request: pytest.FixtureRequest, server: Server) -> Infer:
    return lambda *arguments: ran(*arguments, *address(server, request.param))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    path.write_bytes(saved(scene(), "PNG"))
    return path


@pytest.fixture
def golden_size(tmp_path: Path) -> Path:
    """Return a picture of the golden models' network input, so that they answer with their golden values."""
    path = tmp_path / "golden.png"
    path.write_bytes(saved(np.zeros((320, 240, 3), np.uint8), "PNG"))
    return path


@pytest.fixture(scope="module")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    for odd in TABLE:
        if odd.content is not None:
            (folder / odd.name).write_bytes(odd.content())
    return folder


@pytest.fixture(scope="module", params=PROTOCOLS)
def answers(request: pytest.FixtureRequest, server: Server, odd_folder: Path) -> tuple[dict[str, Any], str]:
    """Return one call's record of every odd file, by name, and its stderr."""
    files = [odd_folder / odd.name for odd in TABLE]
    call = ran("colour_probe", *files, "--json", *address(server, request.param))
    assert call.status == 1
    records = json.loads(call.out)
    assert [record["image"] for record in records] == [str(file) for file in files]
    return {Path(record["image"]).name: record for record in records}, call.err


@pytest.mark.parametrize("odd", [odd for odd in TABLE if odd.shows], ids=lambda odd: odd.name)
def test_odd_files_are_upright_and_right_in_colour(answers: tuple[dict[str, Any], str], odd: Odd) -> None:
    record = answers[0][odd.name]
    assert "error" not in record
    assert (record["width"], record["height"]) == (WIDTH, HEIGHT)
    found = {detection["label"]: detection["box"] for detection in record["detections"]}
    expected = boxes(*odd.shows or ())
    assert found.keys() == expected.keys()
    for label, box in expected.items():
        np.testing.assert_allclose(found[label], box, atol=0.01, err_msg=label)
    assert {detection["confidence"] for detection in record["detections"]} == {SCORE}


@pytest.mark.parametrize("odd", [odd for odd in TABLE if odd.shows is None], ids=lambda odd: odd.name)
def test_what_is_no_image_is_one_line(answers: tuple[dict[str, Any], str], odd: Odd, odd_folder: Path) -> None:
    records, err = answers
    assert odd.line in records[odd.name]["error"]
    told = [line for line in err.splitlines() if line.startswith(one_line(f"error: {odd_folder / odd.name}: "))]
    assert told == [f"error: {odd_folder / odd.name}: {records[odd.name]['error']}"]


def test_nothing_but_one_line_per_refused_file(answers: tuple[dict[str, Any], str]) -> None:
    assert len(answers[1].splitlines()) == sum(odd.shows is None for odd in TABLE)


def test_plain_table_of_detections(infer: Infer, golden_size: Path) -> None:
    call = infer("detection_found", golden_size)
    assert (call.status, call.err) == (0, "")
    assert call.out.splitlines() == [
        f"{golden_size} (240 x 320), detection_found version 3: 2 detections",
        "  label   class  confidence    x1    y1     x2     y2",
        "  gasket     17      93.8 %  10.5  20.0  110.2  220.0",
        "  bolt        0      50.0 %   0.0   0.0   50.0   60.0",
        "",
    ]


def test_nothing_detected_is_said(infer: Infer, picture: Path) -> None:
    assert infer("detection_none", picture).out.splitlines() == [
        f"{picture} (160 x 128), detection_none version 3: nothing detected",
        "",
    ]


def test_anomaly_verdicts(infer: Infer, picture: Path, golden_size: Path) -> None:
    assert infer("anomaly_with_mask", golden_size).out.splitlines() == [
        f"{golden_size} (240 x 320), anomaly_with_mask version 3: Anomaly, score 0.8750, confidence 87.5 %",
        "  class          area  colour",
        "  background  98.75 %  #ffffff",
        "  scratch      1.25 %  #23a436",
        "",
    ]
    call = infer("anomaly_without_mask", picture, "--json")
    assert json.loads(call.out) == [
        {
            "image": str(picture),
            "model": "anomaly_without_mask",
            "version": "3",
            "width": WIDTH,
            "height": HEIGHT,
            "task": "anomaly",
            "label": "Normal",
            "is_anomalous": False,
            "score": 0.25,
            "confidence": 0.75,
            "classes": [],
        }
    ]


def test_overlay_shows_the_upright_image(infer: Infer, tmp_path: Path) -> None:
    turned = tmp_path / "turned.jpg"
    turned.write_bytes(saved(stored(scene(), 6), "JPEG", 6))
    target = tmp_path / "new folder" / "drawn.jpg"
    call = infer("colour_probe", turned, "--overlay", target)
    assert (call.status, call.err) == (0, f"{turned}: overlay saved as {target}\n")
    drawn = cv2.cvtColor(cv2.imread(str(target)), cv2.COLOR_BGR2RGB)
    assert drawn.shape == (HEIGHT, WIDTH, 3)
    middle = drawn[100:109, 20:44].reshape(-1, 3).mean(axis=0)  # inside the blue patch, below its label
    assert np.abs(middle - (30, 50, 210)).max() < 40


def test_overlays_of_several_images(infer: Infer, picture: Path, tmp_path: Path) -> None:
    other = tmp_path / "picture.jpg"
    other.write_bytes(saved(scene(), "JPEG"))
    call = infer("colour_probe", picture, other, "--overlay", f"{tmp_path}/{{stem}}-drawn.jpg", "--json")
    saved_as = [record["overlay"] for record in json.loads(call.out)]
    assert saved_as == [f"{tmp_path}/picture-drawn.jpg", f"{tmp_path}/picture-2-drawn.jpg"]
    assert all(Path(path).read_bytes()[:2] == b"\xff\xd8" for path in saved_as)


def test_no_overlay_is_said(infer: Infer, picture: Path, tmp_path: Path) -> None:
    call = infer("anomaly_without_mask", picture, "--overlay", tmp_path / "drawn.jpg", "--json")
    assert (call.status, call.err) == (0, f"{picture}: the server sent no overlay, nothing was saved\n")
    assert json.loads(call.out)[0]["overlay"] is None
    assert not (tmp_path / "drawn.jpg").exists()


def test_an_overlay_that_cannot_be_written_fails(infer: Infer, picture: Path) -> None:
    call = infer("colour_probe", picture, "--overlay", picture / "drawn.jpg")
    assert call.status == 1
    assert "5 detections" in call.out
    assert call.err == f"error: {picture}/drawn.jpg: the overlay cannot be written (File exists)\n"


def test_an_unknown_model_lists_the_known_ones(infer: Infer, picture: Path) -> None:
    call = infer("colour_prob", picture)
    assert (call.status, call.out) == (1, "")
    assert call.err.startswith("error: no model 'colour_prob' on the server (did you mean colour_probe?); it has ")
    assert "detection_found" in call.err
    assert "base_" not in call.err
    assert len(call.err.splitlines()) == 1


def test_another_profile_is_refused(infer: Infer, picture: Path) -> None:
    call = infer("base_colour_probe", picture)
    assert (call.status, call.out) == (1, "")
    assert call.err == (
        "error: model base_colour_probe is not of the capture profile: expected the inputs "
        "input UINT8 [-1, -1, -1] and METADATA UINT8 [-1], got input UINT8 [-1, -1, -1]; "
        "call colour_probe, the ensemble that it is a part of\n"
    )


def test_a_request_that_the_server_refuses_is_a_line_of_its_own(infer: Infer, picture: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.png"
    wide.write_bytes(saved(np.zeros((1, 70_000, 3), np.uint8), "PNG"))
    call = infer("colour_probe", wide, picture)
    assert call.status == 1
    assert call.err.startswith(f"error: {wide}: ")
    assert len(call.err.splitlines()) == 1
    assert "5 detections" in call.out


def test_the_other_protocols_port(server: Server, picture: Path) -> None:
    call = ran("colour_probe", picture, "--url", server.grpc_url)
    assert call.status == 1
    assert f"no Triton server answers at http://{server.grpc_url} (it does not speak HTTP; for gRPC say" in call.err
    call = ran("colour_probe", picture, "--url", f"grpc://{server.http_url}")
    assert call.status == 1
    assert f"no Triton server answers at grpc://{server.http_url} (" in call.err
    assert len(call.err.splitlines()) == 1
