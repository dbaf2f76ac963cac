"""Hand-made plans: the shape of a capture or tensors repository with tiny files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

from convertor.plan import PackageMember, PayloadFile, PlannedFile, PlannedModel, RepositoryPlan, Text
from convertor.repository import Published, publish, survey

ANY = (-1, -1, -1)
CAPTURE = ("output_capture", "output_mask")
PAYLOAD = Path(__file__)


class FakePackage:
    """Members in memory; `before` runs before each copy."""

    def __init__(self, before: Callable[[str], None] = lambda _: None, **members: bytes) -> None:
        self._members = members
        self._before = before

    def copy(self, name: str, destination: Path, progress: Callable[[int], None] | None = None) -> str:
        self._before(name)
        data = self._members[name]
        destination.write_bytes(data)
        if progress:
            progress(len(data))
        return hashlib.sha256(data).hexdigest()


def tensor(field: str, name: str, dims: tuple[int, ...]) -> str:
    return f'{field} [ {{ name: "{name}" data_type: TYPE_UINT8 dims: {list(dims)} }} ]\n'


def step_config(name: str, dims: tuple[int, ...], marks: str) -> str:
    return f'name: "{name}"\nbackend: "python"\n{tensor("input", "input", dims)}# {marks}\n'


def ensemble_config(name: str, steps: list[str], version: int, dims: tuple[int, ...], outputs: tuple[str, ...]) -> str:
    body = "".join(f'    step [ {{ model_name: "{step}" model_version: {version} }} ]\n' for step in steps)
    tensors = tensor("input", "input", dims) + "".join(tensor("output", output, (-1,)) for output in outputs)
    return f'name: "{name}"\nplatform: "ensemble"\n{tensors}ensemble_scheduling {{\n{body}}}\n'


def make_plan(
    version: int = 1,
    *,
    name: str = "cam",
    task: str = "anomaly",
    profile: str = "capture",
    dims: tuple[int, ...] = ANY,
    outputs: tuple[str, ...] = CAPTURE,
    config_marks: str = "",
    overlay: bool = True,
) -> RepositoryPlan:
    """A capture plan, or with profile tensors one with a decode step, a second ensemble, and marshal if `overlay`."""
    facts = {"format": 1, "name": name, "version": version, "task": task, "profile": profile, "source_sha256": ""}
    described = PlannedFile("model.json", Text(json.dumps(facts, indent=2)))
    code = PlannedFile("model.py", PayloadFile(PAYLOAD))
    artifact = PlannedFile("artifact/model.onnx", PackageMember("weights"))
    prefixes = ["base", "marshal"] if profile == "capture" else ["decode", "base", *(["marshal"] if overlay else [])]
    steps = [
        PlannedModel(
            f"{prefix}_{name}",
            step_config(f"{prefix}_{name}", dims, config_marks),
            (described, code, *([artifact] if prefix == "base" else [])),
        )
        for prefix in prefixes
    ]
    ensembles = [name] if profile == "capture" else [f"{name}_encoded", name]
    pinned = [step.name for step in steps]
    models = [
        *steps,
        *(
            PlannedModel(each, ensemble_config(each, pinned, version, dims, outputs), (described,), is_ensemble=True)
            for each in ensembles
        ),
    ]
    return RepositoryPlan(name, version, profile, task, tuple(models))


def put(repository: Path, plan: RepositoryPlan, weights: bytes = b"w1", *, replace: bool = False) -> Published:
    """Survey and publish, as the command does."""
    return publish(plan, FakePackage(weights=weights), repository, survey(repository, plan.name, replace))


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, with the content of the files."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def live_weights(repository: Path, name: str = "cam") -> bytes | None:
    """Answer as a server would: what the version that the ensemble pins serves, None when there is no ensemble.

    Fails when any of the version's parts is missing or of another version.
    """
    config = repository / name / "config.pbtxt"
    if not config.exists():
        return None
    text = config.read_text()
    (version,) = set(re.findall(r"model_version: (\d+)", text))
    for model in (*re.findall(r'model_name: "([^"]+)"', text), name):
        described = json.loads((repository / model / version / "model.json").read_text())
        assert described["version"] == int(version), model
        assert (repository / model / "config.pbtxt").is_file()
        if model != name:
            assert (repository / model / version / "model.py").read_bytes() == PAYLOAD.read_bytes()
    return (repository / f"base_{name}" / version / "artifact" / "model.onnx").read_bytes()
