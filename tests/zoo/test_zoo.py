"""Every case of the zoo, decoded as the product decodes it, against the vendor's own detections."""

from __future__ import annotations

from pathlib import Path

import pytest

from convertor import capture
from convertor.manifest.keys import TASKS
from tests.zoo.cases import Case, cases
from tests.zoo.run import EXPLAINED, run


@pytest.mark.skipif(not cases(), reason="set ZOO to the folder with the vendors' outputs")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_finds_what_the_vendor_finds(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tasks that no profile serves yet too: it is their decoders that are compared.
    monkeypatch.setattr(capture, "TASKS", frozenset(TASKS))
    outcome = run(case, tmp_path)
    assert outcome.tally.sets > 0
    assert outcome.inputs_that_differ == []
    problems = outcome.tally.problems
    assert len(problems) == EXPLAINED.get(case.name, (0, ""))[0], "\n".join(problems[:20])
