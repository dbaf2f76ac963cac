"""Eight clients at once on every engine: every answer is the one given alone, and nothing grows per request.

`python -m bench soak` does the same for a minute each and says what it found.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("pytriton")

from bench import checked_load, memory, networks, soak
from convertor.serve.process import running_server

KINDS = networks.available()
CLIENTS = 8
WARM_UP, ANSWERS = 1500, 4000
# KB per 1000 answers; an image is 57 KB, so keeping each would be 57,000. The stubs' memory is flat once they are warm;
# that of the server, Triton's own, goes up and down by a MB with the requests in flight.
STUBS_GROW, ALL_GROW = 512, 2048


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "torchscript", "pt2", "dlr"])
def test_no_wrong_answer_and_no_growth(kind: str, tmp_path: Path) -> None:
    if kind not in KINDS:
        pytest.skip(f"this python cannot serve {kind}")
    found = soak.soak(kind, tmp_path, CLIENTS, lambda: soak.after_answers(WARM_UP), lambda: soak.after_answers(ANSWERS))
    assert found.wrong == []
    assert "device " in found.ran
    assert found.samples[-1].answers >= ANSWERS
    assert set(found.samples[-1].resident) == {"server", "base_soaked_0_0", "marshal_soaked_0_0"}
    assert found.growth_per_1000("base", "marshal") < STUBS_GROW
    assert found.growth_per_1000() < ALL_GROW
    before, after = found.shared
    assert before.entries > 0
    assert after == before


@pytest.mark.server
@pytest.mark.slow
def test_a_mix_up_of_two_answers_is_seen(tmp_path: Path) -> None:
    with running_server(soak.convert("onnx", tmp_path)) as server:
        pictures = checked_load.images(soak.IMAGE, 3)
        known = checked_load.cases(server, soak.MODEL, pictures)
        expected = [case.expected for case in known]
        turned = [checked_load.Case(case.image, other) for case, other in zip(known, expected[1:] + expected[:1])]
        with checked_load.checked_load(server, soak.MODEL, turned, clients=2) as tally:
            while tally.answers < 2 * checked_load.MOST_WRONG and len(tally.wrong) < checked_load.MOST_WRONG:
                time.sleep(0.05)
    assert "client 0: got the answer to image 2, not to 0" in tally.wrong


def samples(leaked_kb_per_answer: float, answers: int = 1000) -> list[soak.Sample]:
    return [
        soak.Sample(
            step * 0.25, done, {"server": (9000, 100, 7), "base_m_0_0": (int(done * leaked_kb_per_answer), 0, 0)}
        )
        for step, done in enumerate(range(0, answers, answers // 100))
    ]


@pytest.mark.parametrize(
    ("leaked", "process", "grown"),
    [
        pytest.param(4, "base", 4000, id="4 KB per answer"),
        pytest.param(4, "server", 0, id="not in the server"),
        pytest.param(0, "base", 0, id="no leak"),
    ],
)
def test_growth_is_per_answer(leaked: float, process: str, grown: float) -> None:
    nothing = memory.Shared(0, 0)
    found = soak.Soak("onnx", "", [], samples(leaked), (nothing, nothing))
    assert found.growth_per_1000(process) == pytest.approx(grown, rel=0.05)
    assert found.growth(process) == pytest.approx(grown / 1024 / 2, rel=0.05)
