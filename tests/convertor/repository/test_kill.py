"""A publish that is killed, or fails, at any step leaves one whole version; the next publish needs no help."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from convertor.errors import RefusedError
from convertor.repository import Published, publish, steps, survey
from tests.convertor.repository.forks import die, killed
from tests.convertor.repository.plans import FakePackage, live_weights, make_plan, put, tree

OLD, NEW = b"old weights", b"new weights"


def nothing_yet(_: Path) -> None:
    """A repository that does not exist."""


def published(repository: Path) -> None:
    put(repository, make_plan(1), OLD)


def with_leftovers(repository: Path) -> None:
    """Version 1 is pinned, and an earlier attempt at 2 got as far as its folders."""
    published(repository)
    for model in ("base_cam", "marshal_cam", "cam"):
        shutil.copytree(repository / model / "1", repository / model / "2")


def first_interrupted(repository: Path) -> None:
    """A first publish put its steps into place and not its ensemble."""
    published(repository)
    shutil.rmtree(repository / "cam")


def tensors(repository: Path) -> None:
    put(repository, make_plan(1, profile="tensors"), OLD)


# what is there before, what the plan's first version is and its options, the weights that answer until the commit
SCENARIOS = [
    pytest.param(nothing_yet, {}, None, id="first"),
    pytest.param(first_interrupted, {}, None, id="first-again"),
    pytest.param(published, {}, OLD, id="upgrade"),
    pytest.param(published, {"config_marks": "other instances"}, OLD, id="upgrade-with-step-configs"),
    pytest.param(with_leftovers, {}, OLD, id="upgrade-over-leftovers"),
    pytest.param(published, {"profile": "tensors"}, OLD, id="replace-adding-models"),
    pytest.param(tensors, {"profile": "tensors"}, OLD, id="upgrade-of-two-ensembles"),
    pytest.param(tensors, {"profile": "tensors", "config_marks": "a larger batch"}, OLD, id="upgrade-of-all-configs"),
    pytest.param(tensors, {"profile": "tensors", "overlay": False}, OLD, id="replace-dropping-marshal"),
    pytest.param(tensors, {}, OLD, id="replace-dropping-models"),
]


class Interrupt:
    """Stands in for `run_step`: does `act` at the step with this number, before or after doing the step."""

    def __init__(self, number: int, act: Callable[[], None], *, after: bool = False) -> None:
        self.number, self.act, self.after = number, act, after
        self.names: list[str] = []

    def __call__(self, step: steps.Step) -> None:
        here = len(self.names) == self.number
        self.names.append(step.name)
        if here and not self.after:
            self.act()
        step.do()
        if here and self.after:
            self.act()


def attempt(repository: Path, weights: bytes, options: dict[str, Any], interrupt: Interrupt | None = None) -> Published:
    """Publish the next version, as the command does."""
    state = survey(repository, "cam", replace=True)
    plan = make_plan(state.highest + 1, **options)
    with pytest.MonkeyPatch.context() as patch:
        if interrupt:
            patch.setattr(steps, "run_step", interrupt)
        return publish(plan, FakePackage(weights=weights), repository, state)


def beside(repository: Path) -> list[str]:
    return sorted(path.name for path in repository.parent.iterdir() if path.name.startswith(f".{repository.name}."))


def each_step(
    folder: Path, before: Callable[[Path], None], options: dict[str, Any]
) -> Iterator[tuple[int, str, int, Path]]:
    """Yield every step's number, its name, the last number, and a repository in the scenario's first state."""
    record = Interrupt(-1, lambda: None)
    before(folder / "undisturbed")
    attempt(folder / "undisturbed", NEW, options, record)
    assert "commit cam" in record.names
    for number, name in enumerate(record.names):
        repository = folder / str(number) / "repository"
        repository.parent.mkdir()
        before(repository)
        yield number, name, len(record.names) - 1, repository


CAPTURE = ["base_cam", "marshal_cam", "cam"]
TENSORS = ["decode_cam", "base_cam", "marshal_cam", "cam_encoded", "cam"]


@pytest.mark.parametrize(
    ("before", "options", "models", "names"),
    [
        pytest.param(
            nothing_yet,
            {},
            CAPTURE,
            ["create repository", "keep", "place base_cam", "place marshal_cam", "commit cam"],
            id="first",
        ),
        pytest.param(
            with_leftovers,
            {"config_marks": "other instances"},
            CAPTURE,
            [
                *("keep", "remove base_cam/2", "remove marshal_cam/2", "remove cam/2"),
                *("configure base_cam", "place base_cam/2", "configure marshal_cam", "place marshal_cam/2"),
                *("place cam/2", "commit cam"),
            ],
            id="upgrade",
        ),
        pytest.param(
            nothing_yet,
            {"profile": "tensors"},
            TENSORS,
            [
                *("create repository", "keep", "place decode_cam", "place base_cam", "place marshal_cam"),
                *("commit cam_encoded", "commit cam"),
            ],
            id="first-with-two-ensembles",
        ),
        pytest.param(
            tensors,
            {"profile": "tensors", "config_marks": "a larger batch"},
            TENSORS,
            [
                *("keep", "configure decode_cam", "place decode_cam/2", "configure base_cam", "place base_cam/2"),
                *("configure marshal_cam", "place marshal_cam/2", "place cam_encoded/2", "place cam/2"),
                *("commit cam_encoded", "commit cam"),
            ],
            id="upgrade-of-two-ensembles",
        ),
        pytest.param(
            tensors,
            {},
            CAPTURE,
            [
                *("keep", "place base_cam/2", "place marshal_cam/2", "place cam/2", "commit cam"),
                *("retire cam_encoded", "retire decode_cam"),
            ],
            id="replace",
        ),
    ],
)
def test_order_of_the_steps(
    before: Callable[[Path], None],
    options: dict[str, Any],
    models: list[str],
    names: list[str],
    memory_path: Path,
) -> None:
    before(memory_path / "repository")
    record = Interrupt(-1, lambda: None)
    attempt(memory_path / "repository", NEW, options, record)
    staging = [f"{verb} {model}" for verb in ("copy", "describe") for model in models]
    assert record.names == [*staging, "sync", *names]


@pytest.mark.parametrize(("before", "options", "old"), SCENARIOS)
def test_kill_after_every_step(
    before: Callable[[Path], None], options: dict[str, Any], old: bytes | None, memory_path: Path
) -> None:
    for number, name, last, repository in each_step(memory_path, before, options):
        interrupt = Interrupt(number, die, after=True)
        assert killed(lambda to=repository, it=interrupt: attempt(to, NEW, options, it)), name
        committed = name == "commit cam" or name.startswith("retire")
        assert live_weights(repository) == (NEW if committed else old), name
        assert beside(repository) != [], name

        assert attempt(repository, NEW, options).already_there == (number == last), name
        assert live_weights(repository) == NEW, name
        assert beside(repository) == [], name
        assert survey(repository, "cam").leftovers == (), name


def test_kill_while_a_member_is_copied(memory_path: Path) -> None:
    repository = memory_path / "repository"
    published(repository)
    before = tree(repository)
    state = survey(repository, "cam")
    package = FakePackage(lambda _: die(), weights=NEW)
    assert killed(lambda: publish(make_plan(2), package, repository, state))
    assert tree(repository) == before
    attempt(repository, NEW, {})
    assert live_weights(repository) == NEW
    assert beside(repository) == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("before", "options"),
    [param.values[:2] for param in SCENARIOS if "leftovers" not in param.id and "again" not in param.id],
)
def test_failure_at_every_step_undoes_all(
    before: Callable[[Path], None], options: dict[str, Any], after: bool, memory_path: Path
) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error", "/some/file")

    for number, name, _, repository in each_step(memory_path, before, options):
        was = tree(repository.parent)
        with pytest.raises(RefusedError) as refused:
            attempt(repository, NEW, options, Interrupt(number, fail, after=after))
        assert refused.value.lines() == [
            f"{repository}: nothing was published: Input/output error (/some/file); the repository is as it was"
        ]
        assert tree(repository.parent) == was, name
        attempt(repository, NEW, options)
        assert live_weights(repository) == NEW, name


class Publishing(RuleBasedStateMachine):
    """Any sequence of publishes, of which some are killed or fail, always answers with the last committed weights."""

    parent: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=self.parent))
        self.repository = self.folder / "repository"
        self.live: bytes | None = None

    @rule(
        weights=st.sampled_from([b"a", b"b"]),
        profile=st.sampled_from(["capture", "tensors"]),
        marks=st.sampled_from("xy"),
    )
    def publish(self, weights: bytes, profile: str, marks: str) -> None:
        options = {"profile": profile, "config_marks": marks}
        attempt(self.repository, weights, options)
        self.live = weights

    @rule(
        weights=st.sampled_from([b"a", b"b"]),
        profile=st.sampled_from(["capture", "tensors"]),
        number=st.integers(0, 16),
    )
    def killed_publish(self, weights: bytes, profile: str, number: int) -> None:
        interrupt = Interrupt(number, die, after=True)
        if not killed(lambda: attempt(self.repository, weights, {"profile": profile}, interrupt)):
            self.live = weights
        elif (now := live_weights(self.repository)) != self.live:
            assert now == weights
            self.live = now

    @invariant()
    def answers(self) -> None:
        assert live_weights(self.repository) == self.live

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


def test_any_history(memory_path: Path) -> None:
    Publishing.parent = memory_path
    run_state_machine_as_test(
        Publishing, settings=settings(max_examples=15, stateful_step_count=10, deadline=None, derandomize=True)
    )
