"""Name every system package that is missing for the Makefile's commands, with the line that installs them all.

Standard library only, Python 3.6 or newer: it runs before anything is installed.
"""

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig

DEBIAN = "apt-get install -y git make python3-venv libpython3.11"


def missing():
    # type: () -> list[str]
    """Return one line for each thing that is missing."""
    lines = []
    if sys.version_info < (3, 10):
        lines.append("python3: expected 3.10 or newer, got {}".format(platform.python_version()))
    if not shutil.which("git"):
        lines.append("git is missing (Debian package git)")
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        lines.append("python3 cannot make virtual environments (Debian package python3-venv)")
    if sys.platform.startswith("linux") and not has_libpython():
        name = "libpython{}.{}".format(*sys.version_info[:2])
        lines.append("{}.so is missing, which the server's python stub needs (Debian package {})".format(name, name))
    return lines


def has_libpython():
    # type: () -> bool
    """Return whether the shared library of this interpreter is where the server will look for it."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if not name.endswith(".so") and ".so." not in name:
        name = "libpython{}.{}.so.1.0".format(*sys.version_info[:2])
    folders = [sysconfig.get_config_var("LIBDIR") or "", "/usr/lib/" + (sysconfig.get_config_var("MULTIARCH") or "")]
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders if folder)


def main():
    # type: () -> int
    """Print what is missing; return 1 if anything is."""
    lines = missing()
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        print("on Debian 12: " + DEBIAN, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
