"""The real DLR, downloaded once into .cache/dlr: the wrapper of wheel 1.10.0, libdlr.so of wheel 1.6.0.

Neither is installed into the environment of the tests: the wrapper would bring packages that it does not need, and the
wheel of the library an older wrapper.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "dlr"
LIBRARY = "dlr-1.6.0.data/data/dlr/libdlr.so"


def wrapper() -> Path:
    """Return a folder to put on sys.path."""
    target = CACHE / "wrapper-1.10.0"
    if not target.exists():
        with _downloaded("dlr==1.10.0") as wheel, tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            members = [name for name in wheel.namelist() if name.startswith("dlr")]
            wheel.extractall(Path(fresh, "w"), members)
            Path(fresh, "w").rename(target)
    return target


def library() -> Path:
    """Return libdlr.so 1.6.0."""
    target = CACHE / "libdlr-1.6.0" / "libdlr.so"
    if not target.exists():
        with _downloaded("dlr==1.6.0", "--only-binary=:all:", "--platform=manylinux1_x86_64") as wheel:
            target.parent.mkdir(exist_ok=True)
            target.with_suffix(".part").write_bytes(wheel.read(LIBRARY))
            target.with_suffix(".part").rename(target)
    return target


def environment(folder: Path, with_library: bool = False) -> Path:
    """Return the python of a new virtual environment: this one's packages and the wrapper, with or without a libdlr.so.

    It is as if `pip install --no-deps dlr==1.10.0` had been run, and a libdlr.so been put where DLR's wheels put it.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "this_one.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n{ROOT}\n")
    shutil.copytree(wrapper(), site, dirs_exist_ok=True)
    if with_library:
        (folder / "dlr").mkdir()
        shutil.copy(library(), folder / "dlr")
    return folder / "bin" / "python"


def _downloaded(requirement: str, *options: str) -> zipfile.ZipFile:
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / requirement.replace("==", "-")
    if not list(folder.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, *options, "--dest", folder, requirement], check=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)
