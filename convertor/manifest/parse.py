"""manifest.json to a frozen value: every problem at once, every value checked, nothing guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from convertor.errors import refuse_if
from convertor.listing import shown
from convertor.manifest import keys
from convertor.manifest.reader import MANIFEST, Block, Reader, as_json

__all__ = ["MANIFEST", "MAX_BYTES", "Block", "Manifest", "device_word", "parse_manifest"]

MAX_BYTES = 16 * 2**20
ANOMALY = "anomaly"


@dataclass(frozen=True)
class Manifest:
    """A checked manifest. A block holds only keys that were given; defaults are the families' and the plan's.

    Attributes:
        runtime: Spelling of the engine, "dlr" when absent.
        artifact: The artifact's name as given, or None for the engine's default.
        device: auto, cpu, gpu or tensorrt.
        task: "anomaly" when absent.
        model_name: As given, or None.
        class_names: Names by class id, "" where one is missing; empty when none are given.
        detection: The `detection` block, with what the stage says otherwise; empty for an anomaly model.
        further: Keys of the `detection` block (of an anomaly model: of its stage) that are read only if the decoder
            knows them, which is not decided here.
        stage: The only stage of `model_graph`, without what went into `detection`.
        stage_type: Its `type` or `stage_type`, or None.
        normal_ids: Class ids that are normal, or None when the package does not say; of an anomaly model.
        pixel_classes: Names of `pixel_level_classes`; of an anomaly model.
        dataset_size: (height, width) of `dataset`, or None; of an anomaly model.
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
    further: Block
    stage: Block
    stage_type: str | None
    normal_ids: tuple[int, ...] | None
    pixel_classes: tuple[str, ...]
    dataset_size: tuple[int, int] | None
    outputs: Mapping[str, Block]
    execution: Block
    serving: Block
    warnings: tuple[str, ...]


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in `data`.

    Raises:
        RefusedError: Not UTF-8 (a byte order mark is accepted), not a JSON object, or values that cannot be used:
            one line each, all at once.
    """
    reader = Reader()
    top = reader.block(reader.load(data), keys.TOP, "")
    task = top.get("task", ANOMALY)
    known = keys.OF_ANOMALY if task == ANOMALY else keys.OF_DETECTOR
    detection, further = _detection(reader, top, known.detection)
    dataset = reader.block(top.get("dataset", {}), known.dataset, "dataset.")
    graph = reader.block(top.get("model_graph", {}), known.model_graph, "model_graph.")
    given = _stage(reader, graph)
    stage = reader.block(given, known.stage, "model_graph.stages[0].")
    if not known.detection:
        further = _unknown(given, known.stage)
    manifest = Manifest(
        runtime=top.get("runtime", "dlr"),
        artifact=top.get("runtime_artifact"),
        device=device_word(top.get("device", "auto")),
        task=task,
        model_name=top.get("model_name"),
        class_names=_class_names(block.get("class_names") for block in (stage, detection, top, dataset)),
        detection={**detection, **{key: value for key, value in stage.items() if key in known.detection}},
        further=further,
        stage=stage,
        stage_type=stage.get("type", stage.get("stage_type")),
        normal_ids=_normal_ids(reader, graph, stage),
        pixel_classes=tuple(_classes(reader, graph, "pixel_level_classes").get("names", ())),
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


def _detection(reader: Reader, top: Block, known: keys.Keys) -> tuple[Block, Block]:
    """Return what is read of the `detection` block, and what a decoder may know."""
    given: Block = top.get("detection", {})
    if known:
        further = _unknown(given, known)
        return reader.block({key: given[key] for key in given if key in known}, known, "detection."), further
    if given:
        # Without `task` a detector would be taken for an anomaly model.
        default = "" if "task" in top else " (the default)"
        reader.warnings.append(
            f"{MANIFEST}: detection: not read, because task is {ANOMALY}{default}; a detector needs another task"
        )
    return {}, {}


def _unknown(given: Block, known: keys.Keys) -> Block:
    return {key: value for key, value in given.items() if key not in known and value is not None}


def _stage(reader: Reader, graph: Block) -> Block:
    graph_type = graph.get("model_graph_type", "single_stage_model_graph")
    if graph_type != "single_stage_model_graph":
        reader.problems.append(
            f"model_graph.model_graph_type: expected single_stage_model_graph, got {as_json(graph_type)}; "
            "other graphs cannot be served yet"
        )
    stages: list[Block] = graph.get("stages", [])
    if len(stages) > 1:
        reader.problems.append(
            f"model_graph.stages: expected one stage, got {len(stages)}; more than one cannot be served yet"
        )
    return stages[0] if stages else {}


def _class_names(given: Iterable[list[str] | Mapping[str, str] | None]) -> tuple[str, ...]:
    """Return the first names that are given, by class id; an empty list or object says nothing."""
    names = next(filter(None, given), None) or ()
    if not isinstance(names, Mapping):
        return tuple(names)
    by_id = {int(class_id): name for class_id, name in names.items()}
    return tuple(by_id.get(class_id, "") for class_id in range(max(by_id) + 1))


def _classes(reader: Reader, graph: Block, key: str) -> Block:
    return reader.block(graph.get(key, {}), keys.CLASS_LIST, f"model_graph.{key}.")


def _normal_ids(reader: Reader, graph: Block, stage: Block) -> tuple[int, ...] | None:
    classes = _classes(reader, graph, "image_level_classes")
    given = stage.get("class_normal_ids", classes.get("normal_ids"))
    if given is None and "normal" in classes.get("names", []):
        given = [classes["names"].index("normal")]
    return None if given is None else tuple(given)


def _dataset_size(dataset: Block) -> tuple[int, int] | None:
    height, width = dataset.get("image_height"), dataset.get("image_width")
    return (height, width) if height and width else None


def _outputs(reader: Reader, raw: Block) -> dict[str, Block]:
    outputs: dict[str, Block] = {}
    for meaning, source in raw.items():
        path = f"outputs.{shown(meaning)}"
        if not isinstance(source, Mapping):
            reader.problems.append(f'{path}: expected {{"tensor": index or name}}, got {as_json(source)}; correct it')
            continue
        given = cast("Block", source)
        outputs[meaning] = {"activation": "none", **reader.block(given, keys.OUTPUT, f"{path}.", warn=True)}
        if given.get("tensor") is None:
            reader.problems.append(f"{path}.tensor: expected an output's name or number, got nothing; add it")
    return outputs
