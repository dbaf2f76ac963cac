"""config.pbtxt as Triton itself reads it."""

from __future__ import annotations

import pytest

from convertor.model_config import TensorDims, ensemble_steps, inputs_of, outputs_of, parse_config

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
    config = parse_config(ENSEMBLE, "x")
    assert inputs_of(config) == (TensorDims("a", (-1, 2)), TensorDims("b", (-1, -1, 3)), TensorDims("c", ()))
    assert outputs_of(config) == ()
    assert ensemble_steps(config) == [("base_cam", 3), ("marshal_cam", 4)]


def test_a_model_that_is_no_ensemble_has_no_steps() -> None:
    assert ensemble_steps(parse_config(" # nothing", "x")) == []


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        'name: "x" colour: 3',
        "max_batch_size: many",
        'name: "x',
        "name: }",
        "instance_group [ { kind: KIND_X } ]",
        "input [ { ] }",
        "}",
        "\x00",
        'ensemble_scheduling { step { model_name: "base_cam" model_version: 1 model_version: 2 } }',
    ],
)
def test_what_is_no_model_configuration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^here/config\.pbtxt: not a Triton model configuration: "):
        parse_config(text, "here/config.pbtxt")


@pytest.mark.parametrize(
    "text",
    [
        "ensemble_scheduling { step { model_version: 1 } }",
        'ensemble_scheduling { step { model_name: "base_cam" } }',
        'ensemble_scheduling { step [ { model_name: "a" model_version: 1 }, { model_name: "b" } ] }',
    ],
)
def test_a_step_without_a_name_and_a_version_is_an_error(text: str) -> None:
    config = parse_config(text, "x")
    with pytest.raises(ValueError, match="expected a model name and a pinned version in every step"):
        ensemble_steps(config)
