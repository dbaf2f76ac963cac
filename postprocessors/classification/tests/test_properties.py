"""What holds for every row of class scores, whatever its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from postprocessors.classification.tests.test_decode import FRAME, decoder
from postprocessors.contract import DecodeValueError

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 30))
ANY_ROWS = SHAPES.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=st.floats(width=32)))
CHOICES = st.fixed_dictionaries(
    {
        "top_k": st.integers(1, 40),
        "score_threshold": st.floats(0, 1),
        "compare": st.sampled_from(["greater", "greater_equal"]),
        "multi_label": st.booleans(),
    }
)
SIGMOID = {"scores": {"tensor": 0, "activation": "sigmoid"}}


@settings(deadline=None, max_examples=150)
@given(ANY_ROWS, CHOICES, st.sampled_from(["softmax", "sigmoid", "none"]))
def test_what_leaves_keeps_the_rules(rows: np.ndarray, choices: dict[str, Any], activation: str) -> None:
    chosen = {**choices, "use_softmax": activation == "softmax"}
    decode = decoder(SIGMOID if activation == "sigmoid" else None, **chosen)
    try:
        results = decode([rows], [FRAME] * len(rows))
    except DecodeValueError:
        # Activated scores are refused only where a row has none.
        assert activation == "none" or np.isnan(rows).all(axis=1).any()
        return
    for row, result in zip(rows, results):
        assert len(result.class_ids) <= min(choices["top_k"], rows.shape[1])
        assert len(set(result.class_ids.tolist())) == len(result.class_ids) == len(result.labels)
        assert ((result.class_ids >= 0) & (result.class_ids < rows.shape[1])).all()
        assert ((result.scores >= 0) & (result.scores <= 1)).all()
        assert (np.diff(result.scores) <= 0).all()
        assert not np.isnan(row[result.class_ids]).any()


@pytest.mark.parametrize("columns", [1, 5, 1000])
def test_the_best_are_those_of_a_stable_sort(columns: int) -> None:
    scores = np.random.default_rng(7).integers(0, 20, (1, columns)) / np.float32(20)
    for top_k in (1, 5, 6, columns):
        (result,) = decoder(multi_label=True, top_k=top_k)([scores.astype(np.float32)], [FRAME])
        assert result.class_ids.tolist() == np.argsort(-scores[0], kind="stable")[:top_k].tolist()
