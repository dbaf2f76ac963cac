from __future__ import annotations

import pytest

from convertor.repository import pbtxt

ENSEMBLE = """
# a comment: with { braces
name: "ca\\"m # no comment"
input [
  { name: "b" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] },
  { name: "a", data_type: TYPE_UINT8; dims: -1 dims: 2 }
]
input { name: "c" dims: [] }
version_policy: { latest { num_versions: 2 } }
ensemble_scheduling {
  step [ { model_name: "base_cam" model_version: 3 input_map { key: "a" value: "b" } } ]
  step { model_name: "marshal_cam" model_version: 4 }
}
"""


def test_every_form_of_the_text_format() -> None:
    config = pbtxt.parse(ENSEMBLE)
    assert pbtxt.tensors(config, "input") == (
        pbtxt.Tensor("a", (-1, 2)),
        pbtxt.Tensor("b", (-1, -1, 3)),
        pbtxt.Tensor("c", ()),
    )
    assert pbtxt.tensors(config, "output") == ()
    assert pbtxt.ensemble_steps(config) == [("base_cam", 3), ("marshal_cam", 4)]
    assert config.messages("version_policy")[0].messages("latest")[0].texts("num_versions") == ["2"]


def test_empty() -> None:
    assert pbtxt.parse(" # nothing") == {}


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "name:",
        "name: }",
        "a { b: 1",
        "a: [ 1, 2",
        "}",
        "a: 1 }",
        "a: [ { ] }",
        '"a": 1',
        "1: 2",
        'a: "open',
        "a @ 1",
        "\x00",
    ],
)
def test_what_is_no_config_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        pbtxt.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "ensemble_scheduling { step { model_version: 1 } }",
        'ensemble_scheduling { step { model_name: "base_cam" } }',
        'ensemble_scheduling { step { model_name: "base_cam" model_version: x } }',
        'ensemble_scheduling { step { model_name: "base_cam" model_version: 1 model_version: 2 } }',
    ],
)
def test_step_without_one_name_and_one_version_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        pbtxt.ensemble_steps(pbtxt.parse(text))
