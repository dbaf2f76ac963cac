"""Which server is found, and the one line for each way in which it cannot run here. A stand-in wheel, no server."""

import os
import platform
import sys
import sysconfig
from pathlib import Path

import pytest

from convertor.errors import ServerError
from convertor.serve import embedded


def program(path: Path, script: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `pytriton` with the wheel's layout, first on sys.path; importing it fails."""
    package = tmp_path / "site" / "pytriton"
    server = package / "tritonserver"
    program(server / "bin" / "tritonserver", "exit 0")
    program(server / "python_backend_stubs" / sysconfig.get_python_version() / embedded.STUB, "exit 1")
    backend = server / "backends" / "python"
    backend.mkdir(parents=True)
    (backend / "libtriton_python.so").write_bytes(b"so")
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package.parent / "nvidia_pytriton.libs").mkdir()
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "pytriton", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return package


def stub_of(wheel: Path) -> Path:
    return wheel / "tritonserver" / "python_backend_stubs" / sysconfig.get_python_version() / embedded.STUB


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_the_wheel_is_laid_out_for_this_interpreter(wheel: Path, scratch: Path) -> None:
    found = embedded.find_server(scratch)
    assert found.embedded
    assert found.executable == wheel / "tritonserver" / "bin" / "tritonserver"
    assert found.flags == (f"--backend-directory={scratch / 'backends'}",)
    assert sorted(part.name for part in (scratch / "backends" / "python").iterdir()) == [
        "libtriton_python.so",
        embedded.STUB,
    ]
    assert found.environment["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert found.environment["LD_LIBRARY_PATH"].split(os.pathsep)[0] == str(wheel.parent / "nvidia_pytriton.libs")


def test_programs_that_lost_their_run_bit_are_copied(wheel: Path, scratch: Path) -> None:
    original = wheel / "tritonserver" / "bin" / "tritonserver"
    for path in (original, stub_of(wheel)):
        path.chmod(0o644)
    found = embedded.find_server(scratch)
    assert found.executable.parent == scratch
    assert os.access(found.executable, os.X_OK)
    assert os.access(scratch / "backends" / "python" / embedded.STUB, os.X_OK)
    assert not os.access(original, os.X_OK)


def test_a_tritonserver_on_path_comes_first_with_its_own_backends(
    wheel: Path, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = program(tmp_path / "bin" / "tritonserver", "exit 0")
    monkeypatch.setenv("PATH", f"{own.parent}:/usr/bin")
    found = embedded.find_server(scratch)
    assert (found.executable, found.flags, found.embedded) == (own, (), False)
    assert found.environment == dict(os.environ)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        pytest.param(
            "echo 'stub: error while loading shared libraries: libpython3.x.so.1.0: cannot open' >&2; exit 127",
            r"libpython3\.\d+\.so is not installed.*apt-get install libpython3\.\d+; pyenv: .*--enable-shared",
            id="no libpython",
        ),
        pytest.param(
            "echo \"stub: version 'GLIBC_2.99' not found\" >&2; exit 127",
            "python stub does not start: .*GLIBC_2.99",
            id="another library",
        ),
    ],
)
def test_a_stub_that_the_loader_cannot_start(wheel: Path, scratch: Path, script: str, line: str) -> None:
    program(stub_of(wheel), script)
    with pytest.raises(ServerError, match=line):
        embedded.find_server(scratch)


def test_an_interpreter_without_a_stub(wheel: Path, scratch: Path) -> None:
    stub_of(wheel).parent.rename(stub_of(wheel).parent.with_name("3.8"))
    program(stub_of(wheel).parent.parent / "3.10" / embedded.STUB, "exit 1").chmod(0o755)
    if sysconfig.get_python_version() == "3.10":
        pytest.skip("3.10 stands in for another version here")
    with pytest.raises(
        ServerError, match=r"cannot run models on Python 3\.\d+, only on 3\.8, 3\.10; make a virtual env"
    ):
        embedded.find_server(scratch)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "line"),
    [
        pytest.param("Darwin", "arm64", ("", ""), "Linux x86_64 only, this is Darwin arm64; .*container", id="macOS"),
        pytest.param("Linux", "aarch64", ("glibc", "2.36"), "this is Linux aarch64", id="aarch64"),
        pytest.param(
            "Linux", "x86_64", ("glibc", "2.31"), "needs glibc 2.35 or newer, this system has glibc 2.31", id="old"
        ),
        pytest.param("Linux", "x86_64", ("", ""), "this system has no glibc; ", id="musl"),
        pytest.param(
            "Linux", "x86_64", ("glibc", "2.36"), r"pip install 'triton-convertor\[serve\]'", id="not installed"
        ),
    ],
)
def test_no_wheel(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: "tuple[str, str]", line: str
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setitem(sys.modules, "pytriton", None)
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    with pytest.raises(ServerError, match=line):
        embedded.find_server(scratch)
