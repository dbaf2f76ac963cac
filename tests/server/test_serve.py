"""`serve` against the stock server: hand-written models that load, and models that fail in every way people meet."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from convertor.errors import ServerError, UsageError
from convertor.serve import command, process
from convertor.serve.process import Server, Settings, running_server
from tests.server.processes import alive_in_session, children, shared_memory_of_this_process
from tests.server.python_models import CONFIG, ECHO, add_ensemble, add_model, at_load

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("mixed")
    add_model(repository, "echo", ECHO)
    add_ensemble(repository, "twice", "echo")
    add_ensemble(repository, "orphan", "refuses")
    add_ensemble(repository, "lost", "nowhere")
    add_model(repository, "refuses", at_load("raise pb_utils.TritonModelException('IR 13, expected 10; export again')"))
    add_model(repository, "leaves", at_load("sys.exit('no engine here')"))
    add_model(repository, "crashes", at_load("ctypes.string_at(0)"))
    needs = add_model(repository, "needs", at_load("import no_such_engine"))
    (needs / "requirements.txt").write_text("no-such-engine\n")
    add_model(repository, "misnamed", ECHO)
    (repository / "misnamed" / "config.pbtxt").write_text(CONFIG.format(name="other", engine='backend: "python"'))
    (repository / "bare").mkdir()
    (repository / "bare" / "config.pbtxt").write_text(CONFIG.format(name="bare", engine='backend: "python"'))
    return repository


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("one")
    add_model(repository, "echo", ECHO)
    return repository


@pytest.fixture(scope="module")
def served(mixed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(mixed, settings=Settings(log=tmp_path_factory.mktemp("log") / "server.log")) as server:
        yield server


def test_every_model_is_ready_or_told_in_one_line(served: Server, mixed: Path) -> None:
    assert served.ready == ("echo", "twice")
    crash = "its python process died while loading: a crash in native code, or the system ran out of memory"
    pip = f"{sys.executable} -m pip install -r {mixed}/needs/1/requirements.txt"
    assert dict(served.failed) == {
        "bare": "at least one version must be available under the version policy of model 'bare'",
        "crashes": crash,
        "leaves": "SystemExit: no engine here",
        "lost": "needs nowhere, which is not in the repository",
        "misnamed": "unexpected directory name 'misnamed' for model 'other', directory name must equal model name",
        "needs": f"ModuleNotFoundError: No module named 'no_such_engine'; in the server's python: {pip}",
        "orphan": "needs refuses, which failed",
        "refuses": "IR 13, expected 10; export again",
    }


@pytest.mark.parametrize("model", ["echo", "twice"])
def test_ready_models_answer_over_http_and_grpc(served: Server, model: str) -> None:
    import tritonclient.grpc as grpc_client
    import tritonclient.http as http_client

    array = np.array([1.5, -2.0, 0.25], np.float32)
    for module, url in ((http_client, served.http_url), (grpc_client, served.grpc_url)):
        value = module.InferInput("x", [3], "FP32")
        value.set_data_from_numpy(array)
        with module.InferenceServerClient(url) as client:
            np.testing.assert_array_equal(client.infer(model, [value]).as_numpy("y"), array)


def test_the_server_is_ready_although_models_failed(served: Server) -> None:
    with urllib.request.urlopen(f"http://{served.http_url}/v2/health/ready", timeout=30) as answer:
        assert answer.status == 200


def test_only_this_machine_can_connect(served: Server) -> None:
    ports = {
        int(url.split("/metrics")[0].rpartition(":")[2])
        for url in (served.http_url, served.grpc_url, served.metrics_url)
    }
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    listening: dict[int, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = row.split()
            address, port = local.split(":")
            if state == "0A" and int(port, 16) in ports:
                listening[int(port, 16)] = address
    assert listening.keys() == ports
    assert set(listening.values()) <= loopback


def arguments(*argv: str) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_known_args(["serve", *argv])


def test_none_loaded_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_model(tmp_path / "r", "refuses", at_load("raise pb_utils.TritonModelException('no')"))
    with pytest.raises(ServerError) as refusal:
        command.run(*arguments(str(tmp_path / "r"), "--log", str(tmp_path / "log")))
    assert refusal.value.lines() == [
        f"no model was loaded from {tmp_path / 'r'}",
        f"the server's log: {tmp_path / 'log'}",
    ]
    out, err = capsys.readouterr()
    assert (out, err) == ("", "not served: refuses: no\n")


def test_strict_ends_when_one_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_model(tmp_path / "r", "echo", ECHO)
    add_ensemble(tmp_path / "r", "lost", "nowhere")
    with pytest.raises(ServerError, match="--strict: 1 not served, 1 ready"):
        command.run(*arguments(str(tmp_path / "r"), "--strict", "--log", str(tmp_path / "log")))
    assert capsys.readouterr().err == "not served: lost: needs nowhere, which is not in the repository\n"


def test_models_that_take_too_long_are_named(tmp_path: Path) -> None:
    before = shared_memory_of_this_process()
    add_model(tmp_path / "r", "slow", at_load("time.sleep(600)"))
    with pytest.raises(ServerError, match="still loading after 2 s: slow; allow more time with --timeout"):
        command.run(*arguments(str(tmp_path / "r"), "--timeout", "2", "--log", str(tmp_path / "log")))
    assert shared_memory_of_this_process() == before


def test_flags_go_to_tritonserver_and_its_refusal_is_one_line(one: Path, tmp_path: Path) -> None:
    line = "ended while starting: unrecognized option '--no-such-flag=1'"
    with pytest.raises(ServerError, match=line) as refusal:
        command.run(*arguments(str(one), "--no-such-flag=1", "--log", str(tmp_path / "log")))
    assert len(refusal.value.lines()) == 2


def test_a_taken_port_is_refused_before_anything_starts(one: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ServerError, match=f"port {port} on 127.0.0.1 is taken .* --metrics-port"):
            command.run(*arguments(str(one), "--metrics-port", str(port)))


@pytest.mark.parametrize(
    ("extra", "line"),
    [
        pytest.param("other", "'other' is neither a flag nor the repository", id="second repository"),
        pytest.param("--http-address=0.0.0.0", "--http-address: use --host", id="an address of its own"),
        pytest.param("--allow-http=false", "--allow-http: serve itself watches", id="no HTTP"),
    ],
)
def test_what_serve_sets_itself_is_a_usage_error(one: Path, extra: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        command.run(*arguments(str(one), extra))


def test_a_server_that_dies_is_an_error_and_leaves_nothing(one: Path, tmp_path: Path) -> None:
    before = shared_memory_of_this_process()
    with running_server(one, settings=Settings(log=tmp_path / "log")) as server:
        assert shared_memory_of_this_process() != before
        threading.Timer(0.2, server.process.kill).start()
        with pytest.raises(ServerError, match=r"the server ended \(SIGKILL\)"):
            server.wait()
    assert shared_memory_of_this_process() == before
    assert alive_in_session(server.process.pid) == []


def test_a_server_that_does_not_stop_in_time_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_model(tmp_path / "r", "parent", at_load("import subprocess; subprocess.Popen(['sleep', '600'])"))
    monkeypatch.setattr(process, "_STOP_SECONDS", 0.05)
    before = shared_memory_of_this_process()
    with running_server(tmp_path / "r", settings=Settings(log=tmp_path / "log")) as server:
        assert len(alive_in_session(server.process.pid)) == 3  # the server, its stub and the model's own process
    assert server.process.returncode == -signal.SIGKILL
    assert alive_in_session(server.process.pid) == []
    assert shared_memory_of_this_process() == before


def test_stopping_while_models_load_waits_for_none_of_them(tmp_path: Path) -> None:
    add_model(tmp_path / "r", "slow", at_load(f"open({str(tmp_path / 'loading')!r}, 'w'); time.sleep(600)"))
    before, running = shared_memory_of_this_process(), children(os.getpid())
    started: list[int] = []

    def stop_when_loading() -> None:
        while not (tmp_path / "loading").exists():
            time.sleep(0.02)
        started.extend(set(children(os.getpid())) - set(running))
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop_when_loading, daemon=True)
    stopper.start()
    assert command.run(*arguments(str(tmp_path / "r"), "--timeout", "60", "--log", str(tmp_path / "log"))) == 0
    stopper.join()
    assert shared_memory_of_this_process() == before
    assert [alive_in_session(pid) for pid in started] == [[]]


@pytest.mark.parametrize(
    ("number", "flags", "told"),
    [
        pytest.param(signal.SIGINT, ["--host=localhost", "--model-control-mode=poll"], "ready; ", id="Ctrl-C, poll"),
        pytest.param(signal.SIGTERM, ["--host", "0.0.0.0"], "listening on 0.0.0.0: ", id="SIGTERM, open to all"),
    ],
)
def test_the_command_prints_endpoints_and_stops_cleanly(one: Path, number: int, flags: list[str], told: str) -> None:
    ports = [flag for service in ("http", "grpc", "metrics") for flag in (f"--{service}-port", "0")]
    with subprocess.Popen(
        [sys.executable, "-m", "convertor", "serve", str(one), *ports, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        printed = [serving.stdout.readline() for _ in range(4)]
        (server,) = children(serving.pid)
        serving.send_signal(number)
        _, err = serving.communicate(timeout=60)
    assert serving.returncode == 0
    assert re.fullmatch(
        r"http     http://127\.0\.0\.1:\d+\ngrpc     127\.0\.0\.1:\d+\n"
        r"metrics  http://127\.0\.0\.1:\d+/metrics\nmodels   echo\n",
        "".join(printed),
    )
    assert told in err
    assert err.endswith("stopped\n")
    assert "Traceback" not in err
    assert alive_in_session(server) == []


def test_a_tritonserver_on_path_is_used(one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper stands in for a system's server: the real one, which finds its backends by itself."""
    wrapper = tmp_path / "bin" / "tritonserver"
    wrapper.parent.mkdir()
    installation = process.embedded.find_server(tmp_path)
    wrapper.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/flags\n'
        f"export LD_LIBRARY_PATH={installation.environment['LD_LIBRARY_PATH']}\n"
        f'exec {installation.executable} {" ".join(installation.flags)} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{installation.environment['PATH']}")
    with running_server(one, settings=Settings(log=tmp_path / "log")) as server:
        assert server.ready == ("echo",)
    assert "--backend-directory" not in (tmp_path / "flags").read_text()
