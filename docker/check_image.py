"""The last step of the image's build: the packages are there, fit together and can be loaded.

Runs in the image's python (3.10 or newer), standard library and the installed packages only. Without it a mismatch
shows at the first request, and a wrong CUDA version not at all: ONNX Runtime then quietly runs on the CPU.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

# The driver's own library comes from the host when a container with a GPU starts; no build has it.
FROM_THE_HOST = ("libcuda.so.1",)


def problems(requirements: str) -> list[str]:
    """Return one line for each thing that is wrong; `requirements` is the text of the installed requirements file."""
    found: list[str] = []
    modules: dict[str, Any] = {}
    for name in ("numpy", "cv2", "onnxruntime"):
        try:
            modules[name] = importlib.import_module(name)
        except ImportError as error:
            found.append(f"{name} cannot be imported: {error}")
    numpy = modules.get("numpy")
    if numpy is not None and not numpy.__version__.startswith("1."):
        found.append(f"NumPy {numpy.__version__}: the python backend of NVIDIA's images is built for NumPy 1.x")
    onnxruntime = modules.get("onnxruntime")
    if onnxruntime is not None and "onnxruntime-gpu" in requirements:
        found += cuda_problems(Path(onnxruntime.__file__).parent / "capi/libonnxruntime_providers_cuda.so")
    return found


def cuda_problems(provider: Path) -> list[str]:
    """Return a line when ONNX Runtime's CUDA part is absent or misses libraries of another CUDA version."""
    if not provider.is_file():
        return ["onnxruntime has no CUDA part: both onnxruntime and onnxruntime-gpu are installed, or only the first"]
    done = subprocess.run(["ldd", str(provider)], capture_output=True, text=True, check=True)  # noqa: S603, S607 - fixed
    missing = missing_libraries(done.stdout)
    if not missing:
        return []
    return [
        f"onnxruntime-gpu needs {', '.join(missing)}, which this image does not have; "
        "build with the other REQUIREMENTS=requirements-cuda*.txt"
    ]


def missing_libraries(ldd: str) -> list[str]:
    """Return the libraries that `ldd` did not find, without those that the host brings."""
    names = [line.split()[0] for line in ldd.splitlines() if line.endswith("=> not found")]
    return [name for name in names if name not in FROM_THE_HOST]


def main() -> None:
    """Exit with 1 and the problems on stderr, else say what is installed."""
    found = problems(Path(sys.argv[1]).read_text("utf-8"))
    if found:
        sys.exit("\n".join(f"check_image: {line}" for line in found))
    sys.stdout.write("check_image: numpy, opencv and onnxruntime fit together\n")


if __name__ == "__main__":
    main()
