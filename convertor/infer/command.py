"""The sub-command `convertor infer MODEL IMAGE...`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convertor import console
from convertor.errors import ConvertorError, RefusedError
from convertor.infer.call import ServedModel, ServerGoneError
from convertor.infer.endpoint import parse_endpoint
from convertor.infer.images import read_image
from convertor.infer.overlay import overlay_paths, write_overlay
from convertor.infer.progress import ImageProgress
from convertor.infer.results import Result, parse_capture
from convertor.infer.show import show, table_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_DESCRIPTION = """\
Send images to a served model of the capture profile and show what it finds. Each file becomes upright RGB first."""
_EPILOG = """\
examples:
  convertor infer parts photo.jpg
  convertor infer parts *.jpg --overlay found/ --json > found.json
  convertor infer parts photo.jpg --url 192.0.2.7:8001 --protocol grpc

Exit status: 0 every image was answered, 1 at least one was not, 2 usage."""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage] - no public name
) -> None:
    """Add `infer` to the command line."""
    parser = subparsers.add_parser(
        "infer",
        help="send images to a served model",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="the model's name, as `convertor serve` lists it")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE", help="image files")
    parser.add_argument(
        "--url",
        help="the server: host:port, http://... or https://... (default: 127.0.0.1:8000, with gRPC 127.0.0.1:8001)",
    )
    parser.add_argument("--protocol", choices=("http", "grpc"), help="default: http, or what the URL says")
    parser.add_argument(
        "--overlay",
        metavar="OUT.jpg",
        help="save the image with what was found drawn in; for several images a folder (out/), or a name with {stem}",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class _Done:
    """One image that was answered."""

    size: tuple[int, int]
    version: str
    result: Result
    overlay: bytes


def run(args: argparse.Namespace, _unknown: list[str]) -> int:
    """Send every image; a bad one is a line on stderr and does not stop the others.

    Returns:
        0 when every image was answered, else 1.

    Raises:
        UsageError: --url or --overlay make no sense.
        ServerError: No server, or not this model.
    """
    endpoint = parse_endpoint(args.url, args.protocol)
    images: list[Path] = args.images
    targets: Sequence[Path | None] = overlay_paths(args.overlay, images) if args.overlay else [None] * len(images)
    _check_installed()
    with ServedModel(endpoint, args.model) as model:
        job = _Job(model, as_json=args.json)
        job.do(images, targets)
    if args.json:
        console.say(json.dumps(job.records, indent=2, allow_nan=False))
    return 1 if job.failed else 0


def _check_installed() -> None:
    try:
        import numpy as np
        import PIL
    except ImportError as error:
        raise RefusedError(f"infer needs {error.name}: pip install 'triton-convertor[client]'") from error
    del np, PIL


class _Job:
    """Images to one model, one after the other."""

    def __init__(self, model: ServedModel, *, as_json: bool) -> None:
        self.records: list[dict[str, Any]] = []
        self.failed = False
        self._model = model
        self._as_json = as_json

    def do(self, images: Sequence[Path], targets: Sequence[Path | None]) -> None:
        """Send every image; stop early only when the server has gone."""
        with ImageProgress(len(images)) as progress:
            for position, (image, target) in enumerate(zip(images, targets), start=1):
                try:
                    done = self._send(image, wants_overlay=target is not None)
                except ConvertorError as error:
                    with progress.aside():
                        self._fail(image, error)
                    if isinstance(error, ServerGoneError):
                        self._tell_unsent(len(images) - position)
                        return
                else:
                    with progress.aside():
                        self._report(image, done, target)
                progress.advance()

    def _send(self, image: Path, *, wants_overlay: bool) -> _Done:
        pixels: npt.NDArray[np.uint8] = read_image(image)
        answer = self._model.infer(pixels, overlay=wants_overlay)
        height, width = pixels.shape[:2]
        return _Done((width, height), answer.version, parse_capture(answer.capture), answer.overlay)

    def _fail(self, image: Path, error: ConvertorError) -> None:
        self.failed = True
        message = error.lines()[0]
        console.tell(f"error: {image}: {message}")
        self.records.append({"image": str(image), "model": self._model.name, "error": message})

    def _tell_unsent(self, count: int) -> None:
        if count:
            console.tell(f"error: {count} more not sent")

    def _report(self, image: Path, done: _Done, target: Path | None) -> None:
        if not self._as_json:
            show(table_of(str(image), done.size, f"{self._model.name} version {done.version}", done.result))
        saved = None if target is None else self._save(image, target, done.overlay)
        self.records.append(
            {
                "image": str(image),
                "model": self._model.name,
                "version": done.version,
                "width": done.size[0],
                "height": done.size[1],
                **done.result.to_json(),
                **({} if target is None else {"overlay": saved}),
            }
        )

    def _save(self, image: Path, target: Path, overlay: bytes) -> str | None:
        if not overlay:
            console.tell(f"{image}: the server sent no overlay, nothing was saved")
            return None
        try:
            write_overlay(target, overlay)
        except RefusedError as error:
            self.failed = True
            console.tell(*(f"error: {line}" for line in error.lines()))
            return None
        console.tell(f"{image}: overlay saved as {target}")
        return str(target)
