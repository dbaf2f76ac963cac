"""Cases from the field with their own numbers, by the id under which they are collected."""

from __future__ import annotations

import numpy as np
import pytest

from postprocessors.anomaly.tests.test_decode import FRAME, decoder, floats, verdict


def test_b104_a_lookout_for_vision_package() -> None:
    decode = decoder(threshold=0.702, class_normal_ids=[1])
    assert verdict(decode([floats(0.83, 0.17)[None]], [FRAME])[0]) == pytest.approx((True, 0.83, 0.83))
    assert verdict(decode([floats(0.10, 0.90)[None]], [FRAME])[0]) == pytest.approx((False, 0.10, 0.90))


MAP = np.linspace(0, 0.6, 256 * 256, dtype=np.float32).reshape(1, 1, 256, 256)
EXPORT = {
    "pred_score": floats(0.8),
    "pred_label": np.array([True]),
    "anomaly_map": MAP,
    "pred_mask": MAP > 0.5,
}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["pred_score", "pred_label", "anomaly_map", "pred_mask"], id="score-label-map-mask"),
        pytest.param(["anomaly_map", "pred_score"], id="map-score"),
        pytest.param(["pred_mask", "anomaly_map", "pred_label", "pred_score"], id="reversed"),
    ],
)
@pytest.mark.parametrize("has_names", [True, False], ids=["named", "anonymous"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_b105_anomalib_exports_in_any_order(names: list[str], has_names: bool, rank: int) -> None:
    outputs = {**EXPORT, "pred_score": EXPORT["pred_score"].reshape([1] * rank)}
    decode = decoder(names=tuple(names) if has_names else ("",) * len(names), pixel_class_names=["background", "a"])
    (result,) = decode([outputs[name] for name in names], [FRAME])
    assert verdict(result) == pytest.approx((True, 0.8, 0.8))
    assert result.class_mask is not None
    assert result.class_mask.tolist() == [[0] * 6] * 3 + [[1] * 6]
    assert result.anomaly_map is not None
    np.testing.assert_array_equal(result.anomaly_map, MAP[0, 0])


def test_b105_the_score_of_a_map_alone_is_its_highest_value() -> None:
    assert verdict(decoder()([MAP], [FRAME])[0]) == pytest.approx((True, 0.6, 0.6))
