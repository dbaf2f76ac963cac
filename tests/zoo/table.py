"""`ZOO=<folder> python -m tests.zoo.table` runs the zoo and writes docs/measurements/zoo.md."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.zoo.cases import Case, cases
from tests.zoo.compare import BOX, HALF_PRECISION_BOX, KEYPOINT, MASK, SCORE, Tally
from tests.zoo.pipeline import serve_every_task
from tests.zoo.run import EXPLAINED, Outcome, run

DOCUMENT = Path(__file__).parents[2] / "docs" / "measurements" / "zoo.md"
HEADS = (
    "case",
    "decoder, preset",
    "pictures",
    "lists",
    "vendor's",
    "clipped",
    "without area",
    "moved",
    "compared",
    "box, px",
    "score",
    "mask",
    "keypoint, px",
    "inputs",
    "remains",
)


def main() -> None:
    """Write the document."""
    serve_every_task()
    found = cases()
    assert found, "set ZOO to the folder with the vendors' outputs"
    outcomes = [(case, _run(case)) for case in found]
    DOCUMENT.write_text(document(outcomes), "utf-8")


def document(outcomes: Sequence[tuple[Case, Outcome]]) -> str:
    """Return the whole page."""
    total = sum((outcome.tally for _, outcome in outcomes), Tally())
    rows = [_row(case, outcome) for case, outcome in outcomes]
    lines = [HEADS, ["---"] * len(HEADS), *rows]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    remains = "".join(
        f"- `{case.name}`: {EXPLAINED[case.name][1]}.\n" for case, _ in outcomes if case.name in EXPLAINED
    )
    allowed = f"corners {BOX} px, or {HALF_PRECISION_BOX} px for half-precision inputs and outputs; scores {SCORE}"
    return f"""# Vendors' exports, decoded here and by their vendors

Written by `ZOO=<folder> python -m tests.zoo.table`. Each case is one vendor's export of a model. Its raw output tensors
go through `convert` (a manifest with the preset and the vendor's parameters, and what the graph says of itself) and the
decoder that it chooses. The result is compared with what the vendor's own pipeline found in the same tensors.

Our rules are applied to the vendor's list first: boxes are clipped to the image, those without area go, the best score
comes first; lists are compared as sets. A rotated box is where the box around it is, but its corners are compared.
Allowed at source size: {allowed};
keypoints {KEYPOINT} px; a mask's pixels {MASK:.0%} (counted in the network's input, where the vendor counts them).

{total.sets} lists with {total.vendors} detections of the vendors: {total.clipped} boxes reach beyond the image,
{total.dropped} have no area, {total.moved} change places; {total.compared} compared.

{table}
- vendor's, clipped, without area, moved, compared: the vendor's detections, what each rule changes, what is left.
- box, score, mask, keypoint: the largest difference.
- inputs: network inputs that our preprocessing makes of the picture, equal bit for bit / compared.
- remains: detections, ours or the vendor's, that have no partner.

## What remains, and why

{remains or "Nothing."}"""


def _run(case: Case) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return run(case, Path(folder))


def _row(case: Case, outcome: Outcome) -> list[str]:
    tally = outcome.tally
    layout, preset = case.convention
    equal = outcome.inputs - len(outcome.inputs_that_differ)
    counts = (tally.sets, tally.vendors, tally.clipped, tally.dropped, tally.moved, tally.compared)
    return [
        f"`{case.name}`",
        f"{layout}, `{preset}`",
        ", ".join(outcome.pictures),
        *map(str, counts),
        f"{tally.box:.4f}" if case.task != "classification" else "",
        f"{tally.score:.6f}",
        "" if tally.mask is None else f"{tally.mask:.2%}",
        "" if tally.keypoint is None else f"{tally.keypoint:.4f}",
        f"{equal} / {outcome.inputs}" if outcome.inputs else "",
        str(len(tally.problems) or ""),
    ]


if __name__ == "__main__":
    main()
