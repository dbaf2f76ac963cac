"""Server pythons that lack an engine: this one's packages by links, but for some."""

from __future__ import annotations

import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def without(folder: Path, *packages: str, beside: Sequence[Path] = ()) -> Path:
    """Return the python of a new virtual environment, which also imports what lies in this checkout.

    Args:
        folder: Where it is made.
        packages: Starts of names in site-packages that it shall not have ("torch" also covers torch-2.13.0.dist-info).
        beside: Folders whose content it has besides.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for source in (Path(sysconfig.get_path("purelib")), *beside):
        for entry in source.iterdir():
            if not entry.name.startswith(packages) and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    (site / "this_checkout.pth").write_text(f"{ROOT}\n")
    return folder / "bin" / "python"
