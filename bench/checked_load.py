"""Clients that call a served model all at once; every answer must be the one that it gives when asked alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from convertor.serve.process import Server
from tests.clients import PROTOCOLS, Client

# (capture JSON, mask PNG, overlay JPEG, label, confidence), without what differs from call to call.
Answer = tuple[str, bytes, bytes, list[int], list[float]]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
# A client that gets nothing but errors would fill the memory with them.
MOST_WRONG = 20


@dataclass(frozen=True, eq=False)
class Case:
    """An image and the answer to it."""

    image: np.ndarray[Any, Any]
    expected: Answer


@dataclass
class Tally:
    """What the clients have got so far: answers in all, and what was wrong with some."""

    counts: list[int]
    wrong: list[str] = field(default_factory=list)

    @property
    def answers(self) -> int:
        """How many answers have come, wrong ones included."""
        return sum(self.counts)


def images(size: Sequence[int], count: int = 8) -> list[np.ndarray[Any, Any]]:
    """Return uint8 [height, width, 3] images, each with its own colours and shapes."""
    rng = np.random.default_rng(11)
    made: list[np.ndarray[Any, Any]] = []
    for index in range(count):
        coarse = rng.integers(0, 256, (3 + index, 4 + index, 3), np.uint8)
        made.append(cv2.resize(coarse, (size[1], size[0]), interpolation=cv2.INTER_LINEAR))
    return made


def cases(server: Server, model: str, pictures: Sequence[np.ndarray[Any, Any]]) -> list[Case]:
    """Ask for one image at a time, over both protocols, and return the answers.

    Raises:
        ValueError: The protocols answer differently, or two images have the same answer, so that a mix-up would go
            unseen.
    """
    with Client(server, "grpc") as first, Client(server, "http") as second:
        asked = [Case(image, _ask(first, model, image, f"first-{index}")) for index, image in enumerate(pictures)]
        again = [_ask(second, model, image, f"second-{index}") for index, image in enumerate(pictures)]
    if again != [case.expected for case in asked]:
        raise ValueError(f"{model}: HTTP and gRPC answer differently")
    for one, other in itertools.combinations(asked, 2):
        if any(mine == theirs for mine, theirs in zip(one.expected[:3], other.expected[:3])):
            raise ValueError(f"{model}: two of the images have the same capture JSON, mask or overlay")
    return asked


@contextlib.contextmanager
def checked_load(server: Server, model: str, known: Sequence[Case], clients: int) -> Generator[Tally]:
    """Let `clients` threads call the model while the context lasts, every second one over HTTP."""
    tally, ended = Tally([0] * clients), threading.Event()
    threads = [
        threading.Thread(target=_client, args=(server, model, known, number, tally, ended)) for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _client(
    server: Server, model: str, known: Sequence[Case], number: int, tally: Tally, ended: threading.Event
) -> None:
    # Client by client another step through the images: neighbours in time differ in image and capture id.
    order = itertools.count(number, 1 + 2 * (number % 2))
    with Client(server, sorted(PROTOCOLS)[number % len(PROTOCOLS)]) as client:
        while not ended.is_set() and len(tally.wrong) < MOST_WRONG:
            turn = next(order)
            case = known[turn % len(known)]
            try:
                answer = _ask(client, model, case.image, f"client-{number}-{turn}")
                if answer != case.expected:
                    tally.wrong.append(f"client {number}: {_difference(answer, known, case)}")
            # Whatever went wrong, it is no right answer.
            except Exception as error:
                tally.wrong.append(f"client {number}: {type(error).__name__}: {error}")
            tally.counts[number] += 1


def _ask(client: Client, model: str, image: np.ndarray[Any, Any], capture_id: str) -> Answer:
    metadata = {"capture_id": capture_id, "sagemaker_edge_core_capture_data_disk_path": "/captures"}
    outputs = client.capture(model, image, metadata)
    document = outputs["output_capture"].tobytes().decode()
    if json.loads(document)["eventMetadata"]["eventId"] != capture_id:
        raise ValueError(f"asked as {capture_id}, got the answer {document[-300:]}")
    return (
        TIME.sub("TIME", document.replace(capture_id, "ID")),
        outputs["output_mask"].tobytes(),
        outputs["output_overlay"].tobytes(),
        outputs["output_anomalous"].tolist(),
        outputs["output_confidence"].tolist(),
    )


def _difference(answer: Answer, known: Sequence[Case], case: Case) -> str:
    owners = [number for number, other in enumerate(known) if other.expected == answer]
    if owners:
        return f"got the answer to image {owners[0]}, not to {list(known).index(case)}"
    parts = ("capture JSON", "mask", "overlay", "label", "confidence")
    differing = [part for part, got, wanted in zip(parts, answer, case.expected) if got != wanted]
    return f"differs from the answer given alone: {', '.join(differing)}"
