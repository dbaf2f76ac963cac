"""Makes the files in data/ with the real torch (2.13.0); the checks of archives then need none.

python -m runtimes.pytorch.tests.make_files
"""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"


def main() -> None:
    import torch

    torch.manual_seed(0)
    module = torch.nn.Conv2d(3, 2, 1).eval()
    image = torch.rand(1, 3, 4, 6)
    torch.jit.script(module).save(str(DATA / "script.pt"))
    torch.export.save(torch.export.export(module, (image,)), DATA / "program.pt2")
    torch.save(module, DATA / "module.pt")
    torch.save(module.state_dict(), DATA / "state_dict.pt")
    torch.save(module.state_dict(), DATA / "legacy.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
