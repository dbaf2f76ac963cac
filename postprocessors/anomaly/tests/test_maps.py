"""Maps and masks of anomaly models: where they come from, where they go, what cannot be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from postprocessors.anomaly.tests.test_decode import FRAME, decoder, floats
from postprocessors.contract import DecodeError, DecodeValueError
from postprocessors.geometry import FrameGeometry

SCORE = floats(0.7)
MAP = floats(0.1, 0.9, 0.2, 0.3, 0.4, 0.6).reshape(1, 1, 2, 3)
MASK = np.array([[[[True, False, False], [False, False, False]]]])
TWO = ["background", "a"]


@pytest.mark.parametrize("source", [(384, 640), (640, 384)], ids=["B54-wide", "B54-tall"])
def test_b54_the_mask_has_the_sources_height_and_width(source: tuple[int, int]) -> None:
    pixels = np.zeros((1, 1, 384, 640), np.float32)
    pixels[0, 0, 0, 639] = 1
    (result,) = decoder(pixel_class_names=TWO)([SCORE, pixels], [FrameGeometry(source, (384, 640), (384, 640))])
    assert result.class_mask is not None
    assert result.class_mask.shape == source
    rows, columns = result.class_mask.nonzero()
    # The marker is in the upper right corner of the network's input.
    assert rows.max() <= source[0] / 384
    assert columns.min() >= source[1] - 1 - source[1] / 640


@pytest.mark.parametrize(
    ("settings", "outputs", "expected"),
    [
        pytest.param({"threshold": 0.4}, [SCORE, MAP], [[0, 1, 0], [0, 1, 1]], id="threshold-of-the-score"),
        pytest.param({"pixel_threshold": 0.6}, [SCORE, MAP], [[0, 1, 0], [0, 0, 1]], id="threshold-of-its-own"),
        pytest.param({}, [SCORE, MAP, MASK], [[1, 0, 0], [0, 0, 0]], id="the-graphs-mask"),
        pytest.param({"pixel_threshold": 0.6}, [MASK, MAP, SCORE], [[0, 1, 0], [0, 0, 1]], id="the-manifests-word"),
        pytest.param({"pixel_threshold": 0.6}, [MASK, SCORE], [[1, 0, 0], [0, 0, 0]], id="no-map-to-ask"),
    ],
)
def test_what_the_mask_is_made_from(
    settings: dict[str, Any], outputs: list[np.ndarray], expected: list[list[int]]
) -> None:
    (result,) = decoder(pixel_class_names=TWO, **settings)(outputs, [FRAME])
    assert result.class_mask is not None
    assert result.class_mask[::2, ::2].tolist() == expected


def test_the_map_goes_along_at_its_own_size() -> None:
    (result,) = decoder()([SCORE, MAP], [FRAME])
    assert result.anomaly_map is not None
    assert result.anomaly_map.dtype == np.float32
    np.testing.assert_array_equal(result.anomaly_map, MAP[0, 0])
    assert decoder()([SCORE], [FRAME])[0].anomaly_map is None


def test_every_image_of_a_batch_has_its_own_map_and_mask() -> None:
    maps = np.concatenate([MAP, 1 - MAP])
    first, second = decoder(pixel_class_names=TWO)(
        [floats(0.2, 0.7), maps], [FRAME, FrameGeometry((3, 2), (2, 3), (2, 3))]
    )
    assert (first.is_anomalous, second.is_anomalous) == (False, True)
    assert first.class_mask is not None
    assert second.class_mask is not None
    assert (first.class_mask.shape, second.class_mask.shape) == ((4, 6), (3, 2))
    assert first.class_mask[0, 0] == 0
    assert second.class_mask[0, 0] == 1


@pytest.mark.parametrize("names", [["scratch"], ["background", "scratch", "dent"]], ids=["one", "three"])
@pytest.mark.parametrize("pixels", [MAP, MASK], ids=["map", "mask"])
def test_names_that_a_map_cannot_tell_apart_are_refused(names: list[str], pixels: np.ndarray) -> None:
    with pytest.raises(DecodeError, match=f"expected 2 names .* got {len(names)}") as caught:
        decoder(pixel_class_names=names)([SCORE, pixels], [FRAME])
    assert not isinstance(caught.value, DecodeValueError)


def test_b72_a_map_that_is_not_finite() -> None:
    broken = MAP.copy()
    broken[0, 0, 0] = [np.nan, np.inf, -np.inf]
    (result,) = decoder(pixel_class_names=TWO)([SCORE, broken], [FRAME])
    assert result.anomaly_map is not None
    assert result.class_mask is not None
    assert np.isfinite(result.anomaly_map).all()
    assert result.class_mask[::2, ::2].tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(DecodeValueError, match="finite score"):
        decoder()([broken], [FRAME])


def test_b72_a_plane_of_nan_disturbs_no_other() -> None:
    planes = np.zeros((1, 3, 2, 3), np.float32)
    planes[0, 0], planes[0, 2] = np.nan, 0.1
    decode = decoder(pixel_class_names=["background", "a", "b"])
    (result,) = decode([SCORE, planes], [FRAME])
    assert result.class_mask is not None
    assert (result.class_mask == 2).all()
    with pytest.raises(DecodeValueError, match="score for every pixel"):
        decode([SCORE, np.full_like(planes, np.nan)], [FRAME])


@pytest.mark.parametrize("value", [-1, 256])
def test_an_index_that_is_no_byte_is_refused(value: int) -> None:
    pixels = np.full((1, 2, 3), value, np.int64)
    with pytest.raises(DecodeValueError, match=f"0 to 255 as pixel_classes, got {value}"):
        decoder(pixel_class_names=TWO)([SCORE, pixels], [FRAME])


@pytest.mark.parametrize(("values", "got"), [((3, 0.5), "0.5 to 3"), ((0.5, -1), "-1 to 0.5")])
def test_class_scores_that_are_logits_are_refused(values: tuple[float, float], got: str) -> None:
    with pytest.raises(DecodeValueError, match=f"got {got}; set outputs.classes.activation to softmax"):
        decoder()([floats(*values)[None]], [FRAME])


ALIKE = [floats(1.0), floats(0.2), MAP]


def test_outputs_that_look_alike_are_told_by_their_names() -> None:
    decode = decoder(names=("pred_label", "pred_score", "anomaly_map"))
    assert decode(ALIKE, [FRAME])[0].score == pytest.approx(0.2)


def test_outputs_that_look_alike_without_names_are_refused() -> None:
    with pytest.raises(DecodeError, match=r"got 2: \[1\], \[1\]; name it in the manifest's outputs"):
        decoder(names=("", "", ""))(ALIKE, [FRAME])


def test_features_beside_the_pixel_classes_are_not_taken_for_them() -> None:
    features = np.zeros((1, 64, 2, 3), np.float32)
    planes = np.stack([np.zeros((2, 3)), np.ones((2, 3))])[None].astype(np.float32)
    (result,) = decoder(pixel_class_names=TWO)([features, planes, SCORE], [FRAME])
    assert result.class_mask is not None
    assert (result.class_mask == 1).all()
    # Without pixel classes nobody asks which of them is what.
    assert decoder()([features, planes, SCORE], [FRAME])[0].class_mask is None


FEATURES = np.full((1, 512), 1 / 512, np.float32)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("pred_score", "embedding"), 0.7, id="score"),
        pytest.param(("distance", "class_probabilities"), 511 / 512, id="classes"),
    ],
)
def test_a_class_head_and_a_score_are_told_by_their_names(names: tuple[str, str], expected: float) -> None:
    assert decoder(names=names)([SCORE, FEATURES], [FRAME])[0].score == pytest.approx(expected)


@pytest.mark.parametrize("names", [("", ""), ("pred_score", "class_scores")], ids=["none", "both"])
def test_a_class_head_and_a_score_that_names_do_not_tell(names: tuple[str, str]) -> None:
    with pytest.raises(DecodeError, match=r"got 2: \[1\], \[1, 512\]; name it"):
        decoder(names=names)([SCORE, FEATURES], [FRAME])


def test_an_output_of_another_batch_is_not_the_one_meant() -> None:
    assert decoder()([floats(0.9, 0.8, 0.1), SCORE], [FRAME])[0].score == pytest.approx(0.7)
    memory_bank = np.full((784, 1536), 0.01, np.float32)
    assert decoder()([memory_bank, SCORE], [FRAME])[0].score == pytest.approx(0.7)
