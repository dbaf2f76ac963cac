"""`convertor infer` against a channel that fails in ways a healthy server does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from convertor.cli import main
from convertor.infer import call
from convertor.infer.channel import RequestError, SilentError
from tests.convertor.infer.odd_images import saved
from tests.convertor.infer.scene import scene

CAPTURES = Path(__file__).resolve().parents[2] / "data/capture"
METADATA = {
    "inputs": [{"name": name, "datatype": "UINT8", "shape": ["-1"]} for name in ("input", "METADATA")],
    "outputs": [{"name": name} for name in ("output_capture", "output_overlay")],
}


class Failing:
    """A server that is well until its second request."""

    def __init__(self, error: Exception, *, live_after: bool, index: Sequence[Mapping[str, str]] | None = None) -> None:
        self.error, self.live_after, self.closed, self.sent = error, live_after, False, 0
        self._index = [{"name": "parts", "state": "READY"}] if index is None else index

    def live(self) -> bool:
        return self.sent < 2 or self.live_after

    def index(self) -> list[Any]:
        return list(self._index)

    def metadata(self, model: str) -> Any:
        return METADATA

    def infer(self, model: str, inputs: Any, outputs: Any) -> tuple[str, dict[str, bytes]]:
        self.sent += 1
        if self.sent == 2:
            raise self.error
        document = json.loads((CAPTURES / "detection-none.json").read_text())["output_capture"]
        return "1", dict.fromkeys(outputs, json.dumps(document).encode())

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pictures(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{name}.png" for name in "abcd"]
    for path in paths:
        path.write_bytes(saved(scene(), "PNG"))
    return [str(path) for path in paths]


def connected(monkeypatch: pytest.MonkeyPatch, channel: Failing) -> Failing:
    monkeypatch.setattr(call, "open_channel", lambda _: channel)
    return channel


@pytest.mark.parametrize("error", [RequestError("no\nmemory"), SilentError("timed out")], ids=["refused", "silent"])
def test_one_failed_request_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pictures: list[str], error: Exception
) -> None:
    channel = connected(monkeypatch, Failing(error, live_after=True))
    assert main(["infer", "parts", *pictures, "--json"]) == 1
    out, err = capsys.readouterr()
    assert ["error" in record for record in json.loads(out)] == [False, True, False, False]
    assert len(err.splitlines()) == 1
    assert channel.closed


def test_a_server_that_goes_away_ends_it_and_keeps_what_was_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pictures: list[str]
) -> None:
    connected(monkeypatch, Failing(SilentError("Connection refused"), live_after=False))
    assert main(["infer", "parts", *pictures, "--json"]) == 1
    out, err = capsys.readouterr()
    assert ["error" in record for record in json.loads(out)] == [False, True]
    assert err.splitlines() == [
        f"error: {pictures[1]}: the server at http://127.0.0.1:8000 has gone (Connection refused)",
        "error: 2 more not sent",
    ]


def test_a_model_that_is_not_ready_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pictures: list[str]
) -> None:
    index = [{"name": "parts", "version": "1", "state": "UNAVAILABLE", "reason": "Internal: no\n such file"}]
    channel = connected(monkeypatch, Failing(RequestError(""), live_after=True, index=index))
    assert main(["infer", "parts", *pictures]) == 1
    assert capsys.readouterr() == ("", "error: model parts is not ready: no such file\n")
    assert channel.closed


def test_a_server_that_hides_its_index_is_asked_for_the_model(
    monkeypatch: pytest.MonkeyPatch, pictures: list[str]
) -> None:
    connected(monkeypatch, Failing(RequestError(""), live_after=True, index=[]))
    assert main(["infer", "parts", pictures[0]]) == 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_no_server(capsys: pytest.CaptureFixture[str], pictures: list[str], protocol: str) -> None:
    # Port 1 is reserved and needs root to listen on.
    assert main(["infer", "parts", pictures[0], "--url", "127.0.0.1:1", "--protocol", protocol]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: no Triton server answers at {protocol}://127.0.0.1:1 (Connection refused")
    assert "convertor serve REPOSITORY" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "the following arguments are required: MODEL, IMAGE"),
        (["parts"], "the following arguments are required: IMAGE"),
        (["parts", "a.png", "--protocol", "ftp"], "invalid choice: 'ftp'"),
        (["parts", "a.png", "b.png", "--overlay", "out.jpg"], "there are 2 images"),
        (["parts", "a.png", "--url", "ftp://x"], "expected http, https, grpc or grpcs"),
        (["parts", "a.png", "--colour", "x"], "unknown arguments: --colour"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], line: str) -> None:
    try:
        status: object = main(["infer", *arguments])
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["numpy", "PIL", "tritonclient.http"])
def test_a_missing_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pictures: list[str], missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["infer", "parts", pictures[0], "--url", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: infer needs {missing}")
    assert err.endswith("pip install 'triton-convertor[client]'\n")


def test_the_command_line_stays_light() -> None:
    code = (
        "import sys; from convertor.cli import main\n"
        "try: main(['infer', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'PIL', 'grpc', 'cv2', 'rich', 'tritonclient'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
