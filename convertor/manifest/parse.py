"""Read manifest.json: every problem at once, every value checked, nothing guessed."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors import RefusedError, refuse_if
from . import keys
from .keys import Keys

MANIFEST = "manifest.json"
MAX_BYTES = 16 * 2**20
Block = Mapping[str, Any]


@dataclass(frozen=True)
class Manifest:
    """A checked manifest. A block holds only keys that were given; defaults are the families' and the plan's.

    Attributes:
        runtime: Spelling of the engine, "dlr" when absent.
        artifact: The artifact's name as given, or None for the engine's default.
        device: auto, cpu, gpu or tensorrt.
        task: "anomaly" when absent.
        model_name: As given, or None.
        class_names: Names by class id; empty when none are given.
        detection: The `detection` block.
        stage: The only stage of `model_graph`.
        stage_type: Its `type` or `stage_type`, or None.
        normal_ids: Class ids that are normal, or None when the package does not say.
        pixel_classes: Names of `pixel_level_classes`.
        dataset_size: (height, width) of `dataset`, or None.
        outputs: The output adapter.
        execution: The `execution` block.
        serving: The `serving` block.
        warnings: What was noticed and does not stop the conversion.
    """

    runtime: str
    artifact: str | None
    device: str
    task: str
    model_name: str | None
    class_names: tuple[str, ...]
    detection: Block
    stage: Block
    stage_type: str | None
    normal_ids: tuple[int, ...] | None
    pixel_classes: tuple[str, ...]
    dataset_size: tuple[int, int] | None
    outputs: Mapping[str, Block]
    execution: Block
    serving: Block
    warnings: tuple[str, ...]


@dataclass
class _Reader:
    """Collects problems and warnings while blocks are read."""

    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def block(self, raw: Block, known: Keys, path: str, warn: bool = False) -> dict[str, Any]:
        """Return the values of `known` that `raw` has and that are of their kind; null counts as absent."""
        values: dict[str, Any] = {}
        for key, value in raw.items():
            kind = known.get(key)
            if kind is None:
                self._unknown(key, known, path, warn)
            elif value is None:
                continue
            elif kind.accepts(value):
                values[key] = value
            else:
                self.problems.append(f"{path}{key}: expected {kind.expected}, got {_shown(value)}; correct it")
        return values

    def _unknown(self, key: str, known: Keys, path: str, warn: bool) -> None:
        # Real manifests carry much that is not ours: outside our own blocks only a near miss is worth a word.
        close = difflib.get_close_matches(key, known, 1, 0.6 if warn else 0.85)
        if close or warn:
            hint = f"; did you mean {close[0]}?" if close else f"; known keys: {', '.join(known) or 'none'}"
            self.warnings.append(f"{MANIFEST}: {path}{key}: unknown key, ignored{hint}")


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in `data`.

    Raises:
        RefusedError: Not UTF-8 (a byte order mark is accepted), not a JSON object, or values that cannot be used:
            one line each, all at once.
    """
    reader = _Reader()
    top = reader.block(_load(data), keys.TOP, "")
    detection = reader.block(top.get("detection", {}), keys.DETECTION, "detection.", warn=True)
    dataset = reader.block(top.get("dataset", {}), keys.DATASET, "dataset.")
    graph = reader.block(top.get("model_graph", {}), keys.MODEL_GRAPH, "model_graph.")
    stage = _stage(reader, graph)
    manifest = Manifest(
        runtime=top.get("runtime", "dlr"),
        artifact=top.get("runtime_artifact"),
        device=device_word(top.get("device", "auto")),
        task=top.get("task", "anomaly"),
        model_name=top.get("model_name"),
        class_names=_class_names(reader, detection, top, dataset),
        detection=detection,
        stage=stage,
        stage_type=stage.get("type", stage.get("stage_type")),
        normal_ids=_normal_ids(reader, graph, stage),
        pixel_classes=_names_of(reader, graph, "pixel_level_classes"),
        dataset_size=_dataset_size(dataset),
        outputs=_outputs(reader, top.get("outputs", {})),
        execution=reader.block(top.get("execution", {}), keys.EXECUTION, "execution.", warn=True),
        serving=reader.block(top.get("serving", {}), keys.SERVING, "serving.", warn=True),
        warnings=tuple(reader.warnings),
    )
    refuse_if(reader.problems, MANIFEST)
    return manifest


def device_word(device: str) -> str:
    """Return the one word that the payload knows for a device; `cuda` is another spelling of `gpu`."""
    return "gpu" if device == "cuda" else device


def _load(data: bytes) -> Block:
    try:
        # -sig: Windows tools begin a file with a byte order mark.
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{MANIFEST}: not UTF-8 (byte {error.start}); save it as UTF-8") from error
    try:
        value: object = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{MANIFEST}: not JSON: {error}; correct it") from error
    if not isinstance(value, Mapping):
        raise RefusedError(f"{MANIFEST}: expected a JSON object, got {_shown(value)}; see docs/manifest.md")
    return cast("Block", value)


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a JSON number")


def _stage(reader: _Reader, graph: Block) -> Block:
    graph_type = graph.get("model_graph_type", "single_stage_model_graph")
    if graph_type != "single_stage_model_graph":
        reader.problems.append(
            f"model_graph.model_graph_type: expected single_stage_model_graph, got {_shown(graph_type)}; "
            "other graphs cannot be served yet"
        )
    stages: list[Block] = graph.get("stages", [])
    if len(stages) > 1:
        reader.problems.append(
            f"model_graph.stages: expected one stage, got {len(stages)}; more than one cannot be served yet"
        )
    return reader.block(stages[0], keys.STAGE, "model_graph.stages[0].") if stages else {}


def _class_names(reader: _Reader, detection: Block, top: Block, dataset: Block) -> tuple[str, ...]:
    given = detection.get("class_names", top.get("class_names", dataset.get("class_names", [])))
    if isinstance(given, list):
        return tuple(cast("list[str]", given))
    by_id = cast("dict[str, str]", given)
    try:
        numbered = {int(key): name for key, name in by_id.items()}
    except ValueError:
        reader.problems.append(f"class_names: expected whole numbers as keys, got {_shown(by_id)}; use {{id: name}}")
        return ()
    if not numbered or min(numbered) < 0 or max(numbered) > 65_535:
        reader.problems.append("class_names: expected ids from 0 to 65535; number the classes from 0")
        return ()
    return tuple(numbered.get(class_id, "") for class_id in range(max(numbered) + 1))


def _normal_ids(reader: _Reader, graph: Block, stage: Block) -> tuple[int, ...] | None:
    classes = reader.block(graph.get("image_level_classes", {}), keys.CLASS_LIST, "model_graph.image_level_classes.")
    given = stage.get("class_normal_ids", classes.get("normal_ids"))
    if given is None and "normal" in classes.get("names", []):
        given = [classes["names"].index("normal")]
    return None if given is None else tuple(given)


def _names_of(reader: _Reader, graph: Block, key: str) -> tuple[str, ...]:
    classes = reader.block(graph.get(key, {}), keys.CLASS_LIST, f"model_graph.{key}.")
    return tuple(classes.get("names", []))


def _dataset_size(dataset: Block) -> tuple[int, int] | None:
    height, width = dataset.get("image_height"), dataset.get("image_width")
    return (height, width) if height and width else None


def _outputs(reader: _Reader, raw: Block) -> dict[str, Block]:
    outputs: dict[str, Block] = {}
    for meaning, source in raw.items():
        path = f"outputs.{meaning}"
        if not isinstance(source, Mapping):
            reader.problems.append(f'{path}: expected {{"tensor": index or name}}, got {_shown(source)}; correct it')
            continue
        read = reader.block(cast("Block", source), keys.OUTPUT, f"{path}.", warn=True)
        if "tensor" not in read and "tensor" not in source:
            reader.problems.append(f"{path}.tensor: expected an output's name or number, got nothing; add it")
        outputs[meaning] = {"activation": "none", **read}
    return outputs


def _shown(value: object) -> str:
    """Return a value as JSON, short enough for one line."""
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= 60 else f"{written[:57]}..."
