"""Which server runs: a `tritonserver` on PATH, else the stock one that nvidia-pytriton's wheel carries.

Only the wheel's server files are used: its python package is located, never imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from convertor.errors import ServerError

STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class Installation:
    """A server that can be started.

    Attributes:
        executable: The tritonserver program.
        environment: The whole environment to start it in.
        flags: Flags it needs to find its own parts.
        embedded: Whether it is the wheel's server; then its models run in this interpreter's environment.
    """

    executable: Path
    environment: dict[str, str]
    flags: tuple[str, ...]
    embedded: bool


def find_server(scratch: Path) -> Installation:
    """Return the server to use.

    Args:
        scratch: An existing empty folder for the embedded server's backend; it must outlive the server.

    Raises:
        ServerError: There is no server here, or the embedded one cannot run models with this interpreter.
    """
    on_path = shutil.which("tritonserver")
    if on_path:
        return Installation(Path(on_path), dict(os.environ), (), embedded=False)
    return _embedded(_wheel_folder(), scratch)


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        raise ServerError(_no_wheel())
    package = Path(next(iter(spec.submodule_search_locations)))
    if not (package / "tritonserver" / "bin" / "tritonserver").is_file():
        raise ServerError(f"{package} holds no tritonserver; reinstall it: {_pip()} --force-reinstall nvidia-pytriton")
    return package


def _no_wheel() -> str:
    system, machine = platform.system(), platform.machine()
    elsewhere = "serve the repository with NVIDIA's container image instead, or put a tritonserver on PATH"
    if (system, machine) != ("Linux", "x86_64"):
        return f"the embedded server exists for Linux x86_64 only, this is {system} {machine}; {elsewhere}"
    libc, version = platform.libc_ver()
    if libc != "glibc" or tuple(map(int, version.split(".")[:2])) < (2, 35):
        got = f"{libc or 'no glibc'} {version}".strip()
        return f"the embedded server needs glibc 2.35 or newer, this system has {got}; {elsewhere}"
    return f"no server here: neither a tritonserver on PATH nor nvidia-pytriton; {_pip()} 'triton-convertor[serve]'"


def _pip() -> str:
    return f"{sys.executable} -m pip install"


def _embedded(package: Path, scratch: Path) -> Installation:
    server = package / "tritonserver"
    environment = _environment(package)
    backends = _assemble_backend(server, scratch)
    _check_stub(backends / "python" / STUB, environment)
    executable = _runnable(server / "bin" / "tritonserver", scratch)
    return Installation(executable, environment, (f"--backend-directory={backends}",), embedded=True)


def _environment(package: Path) -> dict[str, str]:
    """Return this process's environment with the wheel's libraries, libpython and this interpreter in front.

    The stub has no interpreter of its own: it loads libpython and takes the site-packages of the first `python3` on
    PATH.
    """
    interpreter = Path(sys.executable).parent
    if not (interpreter / "python3").exists():
        raise ServerError(f"{interpreter} has no python3 for the server to find packages by; use a virtual environment")
    libpython = f"libpython{sysconfig.get_python_version()}.so*"
    candidates = [Path(str(sysconfig.get_config_var("LIBDIR") or "")), Path(sys.base_prefix) / "lib"]
    libraries = [package.parent / "nvidia_pytriton.libs", *(c for c in candidates if any(c.glob(libpython)))]
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = _prepend([str(folder) for folder in libraries], environment.get("LD_LIBRARY_PATH"))
    environment["PATH"] = _prepend([str(interpreter)], environment.get("PATH"))
    return environment


def _prepend(folders: list[str], path: str | None) -> str:
    return os.pathsep.join([*dict.fromkeys(folders), *([path] if path else [])])


def _assemble_backend(server: Path, scratch: Path) -> Path:
    """Lay out `<scratch>/backends/python` as Triton wants it: the backend's files and one stub, side by side."""
    stubs = server / "python_backend_stubs"
    stub = stubs / sysconfig.get_python_version() / STUB
    if not stub.is_file():
        known = sorted((p.name for p in stubs.iterdir()), key=lambda name: [int(part) for part in name.split(".")])
        raise ServerError(
            f"the embedded server cannot run models on Python {sysconfig.get_python_version()}, "
            f"only on {', '.join(known)}; make a virtual environment with one of these"
        )
    backend = scratch / "backends" / "python"
    backend.mkdir(parents=True)
    for part in (server / "backends" / "python").iterdir():
        if part.is_file():
            (backend / part.name).symlink_to(part)
    (backend / STUB).symlink_to(_runnable(stub, scratch))
    return backend.parent


def _runnable(program: Path, scratch: Path) -> Path:
    """Return `program`, or a copy with its run bit set: some installers drop it, and the original may be read-only."""
    if os.access(program, os.X_OK):
        return program
    copy = scratch / program.name
    shutil.copyfile(program, copy)
    copy.chmod(0o755)
    return copy


def _check_stub(stub: Path, environment: dict[str, str]) -> None:
    """Start the stub without arguments: it complains and ends, unless the loader cannot even start it (status 127)."""
    try:
        done = subprocess.run(  # noqa: S603 - the wheel's own program
            [str(stub)], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise ServerError(f"{stub}: {error.strerror}; is {stub.parent} on a file system mounted noexec?") from error
    if done.returncode != 127:
        return
    if "libpython" in done.stderr:
        library = f"libpython{sysconfig.get_python_version()}"
        raise ServerError(
            f"{library}.so is not installed, and the server runs models with it; "
            f"Debian, Ubuntu: apt-get install {library}; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install"
        )
    raise ServerError(f"the server's python stub does not start: {done.stderr.strip().splitlines()[-1]}")


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution in this interpreter's environment, or None; nothing is imported."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
