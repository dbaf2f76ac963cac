"""Make page.png and page.json from page.html with headless Chromium. For developers: the demo uses the committed files.

picture.jpg was ray-marched for this page from a few lines of geometry; it is ours, as is the text.
Needs Debian's packages chromium, fonts-lato and fonts-ebgaramond. Run: `python demo/typeset.py`.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
PAGE_SIZE = (1240, 1754)  # width, height: A4 at 150 dots per inch
WHITE = 245  # a pixel below this is ink

# Reads where the browser laid each marked element out: the union of its lines for text, its own box for the rest.
MEASURE = """<script>
addEventListener("load", () => document.fonts.ready.then(() => {
  const found = [...document.querySelectorAll("[data-label]")].map(element => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const own = ["IMG", "TABLE"].includes(element.tagName);
    const { left, top, right, bottom } = (own ? element : range).getBoundingClientRect();
    return { label: element.dataset.label, box: [left, top, right, bottom] };
  });
  const list = document.createElement("pre");
  list.id = "positions";
  list.textContent = JSON.stringify(found);
  list.hidden = true;
  document.body.append(list);
}));
</script>"""


def run_chromium(page: Path, *flags: str) -> str:
    """Render `page` in a window of the page's size and return what Chromium prints."""
    width, height = PAGE_SIZE
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=5000",
    ]
    command += ["--force-device-scale-factor=1", f"--window-size={width},{height}", *flags, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def to_ink(image: npt.NDArray[np.uint8], box: list[float]) -> list[int]:
    """Shrink a laid-out box (x1, y1, x2, y2) to the ink inside it: a line's box also holds its unused leading."""
    left, top = (int(np.floor(value)) for value in box[:2])
    right, bottom = (int(np.ceil(value)) for value in box[2:])
    rows, columns = np.nonzero(image[top:bottom, left:right].min(axis=2) < WHITE)
    return [left + int(columns.min()), top + int(rows.min()), left + int(columns.max()) + 1, top + int(rows.max()) + 1]


def typeset(folder: Path) -> tuple[npt.NDArray[np.uint8], list[dict[str, Any]]]:
    """Return the page, BGR, and where each marked element lies on it, pixels; work files go to `folder`."""
    source = (HERE / "page.html").read_text(encoding="utf-8").replace("picture.jpg", (HERE / "picture.jpg").as_uri())
    page, shot = folder / "page.html", folder / "page.png"
    page.write_text(source.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    dump = re.search(r'<pre id="positions"[^>]*>(.*?)</pre>', run_chromium(page, "--dump-dom"), re.S)
    run_chromium(page, f"--screenshot={shot}")
    image = np.asarray(cv2.imread(str(shot), cv2.IMREAD_COLOR))
    if dump is None or image.shape[:2] != PAGE_SIZE[::-1]:
        raise SystemExit("typeset: Chromium gave no positions or no page of the expected size")
    elements = json.loads(html.unescape(dump.group(1)))
    image = image.astype(np.uint8)
    return image, [{"label": e["label"], "box": to_ink(image, e["box"])} for e in elements]


def main() -> None:
    """Write page.png and page.json beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        image, elements = typeset(Path(folder))
    cv2.imwrite(str(HERE / "page.png"), image, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    lines = ",\n  ".join(json.dumps(element) for element in elements)
    (HERE / "page.json").write_text(f"[\n  {lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
