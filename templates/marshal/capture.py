"""The capture JSON: what an edge pipeline stores of one inference.

Payload: runs inside the server's python (3.9 or newer); needs the standard library only. Keys, their order and their
values are those that existing capture pipelines read; tests/data/capture holds whole examples.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from capture_request import Findings, Metadata

Json = dict[str, Any]

# Part of the wire: capture readers expect the key, and every score is at most 1.
_ANOMALY_THRESHOLD = 1.0


def utc_now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class Inference:
    """One inference, ready to be written down.

    Attributes:
        model_name: The ensemble's name.
        model_version: The served version, as text.
        time: When it was made, UTC.
        metadata: What the client says of the capture.
        label: 1 for an anomaly or for anything detected, else 0.
        confidence: How sure the verdict is, 0..1.
        score: The model's score.
        findings: What was found.
        has_mask: There is a mask to refer to.
    """

    model_name: str
    model_version: str
    time: datetime
    metadata: Metadata
    label: int
    confidence: float
    score: float
    findings: Findings
    has_mask: bool

    @property
    def timestamp(self) -> str:
        """The time as the capture JSON writes it."""
        return self.time.strftime("%Y-%m-%dT%H:%M:%S")

    @property
    def verdict(self) -> str:
        """The class-name of the verdict; a detector that found nothing still says `Detection`."""
        if self.findings.is_detection:
            return "Detection"
        return "Anomaly" if self.label else "Normal"


def to_json(document: Json) -> bytes:
    """Return strict JSON in UTF-8 (ASCII, in fact: everything else is escaped)."""
    return json.dumps(document, allow_nan=False).encode()


def capture_document(inference: Inference) -> Json:
    """Return the whole capture JSON of one inference."""
    metadata = inference.metadata
    return {
        "deviceGroundTruthData": [_ground_truth(inference)],
        "deviceFleetAuxiliaryInputs": _file_entries(metadata, "jpg"),
        "deviceFleetAuxiliaryOutputs": _outputs(inference),
        "eventMetadata": {
            "capture_folder": metadata.folder,
            "eventId": metadata.capture_id,
            "deviceFleetName": metadata.fleet,
            "modelName": inference.model_name,
            "modelVersion": inference.model_version,
            "inferenceTime": inference.timestamp,
        },
        "eventVersion": "0",
    }


def detections_block(findings: Findings) -> Json:
    """Return `{"detections": {...}}`, keyed by rank from "0"; an empty object when nothing was found."""
    return {
        "detections": {
            str(rank): {
                "class_index": str(record["class"]),
                "class_label": record["class_label"],
                "bounding_box": record["bounding_box"],
                "confidence": record["confidence"],
            }
            for rank, record in enumerate(findings.records)
        }
    }


def _ground_truth(inference: Inference) -> Json:
    entry = {
        **_reference("source-ref", inference.metadata, "jpg"),
        "anomaly-label-detected": inference.label,
        "anomaly-label-detected-metadata": {
            "class-name": inference.verdict,
            "creation-date": inference.timestamp,
            "human-annotated": "no",
            "type": "groundtruth/image-classification",
            "confidence": inference.confidence,
        },
    }
    if inference.has_mask:
        entry.update(_reference("anomaly-mask-ref-detected", inference.metadata, "mask.png"))
        entry["anomaly-mask-ref-detected-metadata"] = {
            "internal-color-map": _classes(inference.findings, "name"),
            "creation-date": inference.timestamp,
            "human-annotated": "no",
            "type": "groundtruth/semantic-segmentation",
            "job-name": "labeling-job/segmentation-job",
        }
    return entry


def _outputs(inference: Inference) -> list[Json]:
    metadata, findings = inference.metadata, inference.findings
    entries = _file_entries(metadata, "mask.png") if inference.has_mask else []
    if inference.has_mask or findings.is_detection:
        entries += _file_entries(metadata, "overlay.jpg")
    entries.append(_data_entry("json", _status(inference)))
    if findings.is_detection:
        entries.append(_data_entry("json_with_base64_encoding", detections_block(findings)))
    elif inference.has_mask:
        entries.append(_data_entry("json_with_base64_encoding", {"anomalies": _classes(findings, "class-name")}))
    return entries


def _status(inference: Inference) -> Json:
    findings = inference.findings
    count = {"Detection_count": len(findings.records)} if findings.is_detection else {}
    return {
        "Inference status": "success",
        "Inference result": inference.verdict,
        **count,
        "Confidence": inference.confidence,
        "Anomaly_score": inference.score,
        "Anomaly_threshold": _ANOMALY_THRESHOLD,
        "Error msg": "",
    }


def _classes(findings: Findings, name_key: str) -> Json:
    return {
        str(position): {
            name_key: record["name"],
            "hex-color": record["hex_color"].lower(),
            "total-percentage-area": record["total_percentage_area"],
        }
        for position, record in enumerate(findings.records)
    }


def _reference(key: str, metadata: Metadata, suffix: str) -> Json:
    path = metadata.path(suffix)
    return {} if path is None else {key: path}


def _file_entries(metadata: Metadata, suffix: str) -> list[Json]:
    path = metadata.path(suffix)
    return [] if path is None else [{"data-ref": f"file://{path}", "encoding": "NONE", "observedContentType": suffix}]


def _data_entry(content_type: str, block: Json) -> Json:
    data = base64.b64encode(to_json(block)).decode()
    return {"data": data, "encoding": "BASE64", "observedContentType": content_type}
