"""config.pbtxt: rendered strictly, escaped in one place, parsed back with Triton's own protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jinja2 import UndefinedError

from convertor import capture, tensors
from convertor.model_config import parse_config
from convertor.render import pbtxt, render_config
from convertor.wire import Batching, Tensor

VALUES: dict[str, dict[str, Any]] = {
    "base": capture.base_config("m", capture.ANY_IMAGE, 1, "KIND_AUTO"),
    "marshal": capture.marshal_config("m", capture.ANY_IMAGE, 1),
    "ensemble": capture.ensemble_config("m", capture.ANY_IMAGE, 1),
    "decode": tensors.decode_config("m", 8),
}
# Everything that a step's config can say.
FULL = tensors.base_config(
    "m",
    tensors.base_outputs("anomaly", {}),
    {"instances": 2, "kind": "KIND_GPU", "gpus": [0, 1]},
    8,
    Batching(100, [4, 8]),
    (64, 96),
)


def lacking() -> Iterator[Any]:
    for kind, values in VALUES.items():
        for key in values:
            yield pytest.param(kind, {name: value for name, value in values.items() if name != key}, id=f"{kind}-{key}")
    step = VALUES["ensemble"]["steps"][0]
    for key in step:
        steps = [{name: value for name, value in step.items() if name != key}]
        yield pytest.param("ensemble", {**VALUES["ensemble"], "steps": steps}, id=f"ensemble-step-{key}")


@pytest.mark.parametrize("kind", VALUES)
def test_the_values_are_enough(kind: str) -> None:
    assert render_config(kind, VALUES[kind])


@pytest.mark.parametrize(("kind", "values"), list(lacking()))
def test_an_undefined_variable_is_an_error(kind: str, values: dict[str, Any]) -> None:
    with pytest.raises(UndefinedError):
        render_config(kind, values)


def test_all_that_a_step_can_say_is_read_back() -> None:
    config = parse_config(render_config("base", FULL), "x")
    (group,) = config.instance_group
    assert (group.count, list(group.gpus), group.Kind.Name(group.kind)) == (2, [0, 1], "KIND_GPU")
    batching = config.dynamic_batching
    assert (batching.max_queue_delay_microseconds, list(batching.preferred_batch_size)) == (100, [4, 8])
    (warmup,) = config.model_warmup
    assert (warmup.name, warmup.batch_size, list(warmup.inputs)) == ("a full batch", 8, ["input"])
    image = warmup.inputs["input"]
    assert (image.data_type, list(image.dims), image.random_data) == (2, [64, 96, 3], True)
    assert [tensor.allow_ragged_batch for tensor in config.input] == [True]


HOSTILE = [
    'a" backend: "evil',
    "a\\",
    'a\n}\nname: "b',
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
    "模型",
    "\x00\x1b",
    "'#",
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", VALUES)
def test_a_hostile_name_stays_a_name(kind: str, name: str) -> None:
    values = {**VALUES[kind], "name": name}
    config = parse_config(render_config(kind, values), "x")
    plain = parse_config(render_config(kind, VALUES[kind]), "x")
    assert config.name == name
    config.name = plain.name
    assert config == plain


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tensor_or_model_name_stays_one(name: str) -> None:
    values = capture.ensemble_config("m", capture.ANY_IMAGE, 1)
    values["steps"][0].update(model=name, input_map={name: name}, output_map={name: name})
    values["inputs"][0] = Tensor(name, "TYPE_UINT8", [-1])
    config = parse_config(render_config("ensemble", values), "x")
    step = config.ensemble_scheduling.step[0]
    assert (step.model_name, dict(step.input_map), dict(step.output_map)) == (name, {name: name}, {name: name})
    assert config.input[0].name == name


@pytest.mark.parametrize("value", [1.5, None, True, {"a": 1}, ["a"], [1.5], [True]])
def test_the_filter_takes_texts_and_dims_only(value: Any) -> None:
    with pytest.raises(TypeError):
        pbtxt(value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("instances", '1 } ] backend: "evil" instance_group [ {', id="instances"),
        pytest.param("kind", "KIND_EVIL", id="kind"),
        pytest.param("kind", 'KIND_CPU } ] backend: "evil" instance_group [ { count: 1', id="kind with more"),
    ],
)
def test_a_number_or_word_that_is_none_is_an_error(key: str, value: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        render_config("base", {**VALUES["base"], key: value})
