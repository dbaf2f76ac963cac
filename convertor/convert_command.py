"""`convert`: arguments in, lines out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .convert import Options, Prepared, prepare, publish_prepared
from .errors import UsageError
from .manifest.keys import DEVICES
from .plan import RepositoryPlan, describe_plan
from .repository import Published, parse_version

DESCRIPTION = "Read model packages (zip or folder) and publish them in a Triton model repository."
# A copy that is over before this is not worth a progress bar.
PROGRESS_AFTER_SECONDS = 1.0

Progress = Callable[[int], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("packages", nargs="+", type=Path, metavar="PACKAGE", help="a package: zip file or folder")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="REPOSITORY", help="the model repository")
    parser.add_argument("--name", help="the model's name (default: model_name in the manifest, else the file's name)")
    parser.add_argument("--version", default="next", metavar="V", help="a whole number, or next (default): highest + 1")
    parser.add_argument("--profile", choices=["capture"], help="which tensors clients speak (default: capture)")
    parser.add_argument("--instances", type=_positive, metavar="N", help="copies of the model that run at a time")
    parser.add_argument("--device", choices=DEVICES, help="where the engine runs (default: the manifest's, else auto)")
    parser.add_argument("--replace", action="store_true", help="allow another task, profile or outputs under this name")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, write nothing")
    parser.add_argument("--json", action="store_true", help="print the result (or the plan) as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, unknown: list[str]) -> int:
    """Convert every package, or none."""
    del unknown
    packages: list[Path] = arguments.packages
    if arguments.name is not None and len(packages) > 1:
        raise UsageError(f"--name: expected one package with it, got {len(packages)}; convert them one by one")
    options = Options(
        repository=arguments.output,
        name=arguments.name,
        version=parse_version(arguments.version),
        profile=arguments.profile,
        instances=arguments.instances,
        device=arguments.device,
        replace=arguments.replace,
    )
    with ExitStack() as stack:
        prepared = prepare(packages, options, stack)
        for one in prepared:
            _tell(*one.facts, *(f"warning: {line}" for line in one.warnings))
        if arguments.dry_run:
            _print_plans([one.plan for one in prepared], arguments.json)
            return 0
        results = [_publish(one, options) for one in prepared]
    if arguments.json:
        _print_json([_as_json(one, result, options) for one, result in zip(prepared, results)])
    return 0


def _publish(one: Prepared, options: Options) -> Published:
    with _progress(one) as progress:
        result = publish_prepared(one, options, progress)
    where = options.repository / one.plan.name
    if result.already_there:
        _tell(f"{one.plan.name} version {result.version}: already there, nothing changed")
    else:
        _tell(
            f"{one.plan.name} version {result.version}: published in {options.repository} "
            f"({', '.join(result.models)}; {_amount(result.bytes)})",
            f"the server's python needs: pip install {' '.join(_quoted(one.plan))}",
            f"next: convertor serve {options.repository}" if where.is_dir() else "",
        )
    return result


@contextmanager
def _progress(one: Prepared) -> Generator[Progress | None]:
    """Yield a callback that draws a bar on a terminal once copying takes longer than a moment."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress as Bar

    total = sum(one.package.members.values())
    bar = Bar(transient=True, disable=False, console=_stderr_console())
    task = bar.add_task(f"copying {one.plan.name}", total=total)
    started = time.monotonic()

    def advance(count: int) -> None:
        bar.update(task, advance=count)
        if not bar.live.is_started and time.monotonic() - started > PROGRESS_AFTER_SECONDS:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


def _stderr_console() -> Any:  # noqa: ANN401 - rich is imported late
    from rich.console import Console

    return Console(stderr=True)


def _print_plans(plans: list[RepositoryPlan], as_json: bool) -> None:
    if as_json:
        _print_json([describe_plan(plan) for plan in plans])
        return
    for plan in plans:
        print(f"{plan.name} version {plan.version} (profile {plan.profile}, task {plan.task})")  # noqa: T201
        for model in plan.models:
            print(f"  {model.name}/config.pbtxt")  # noqa: T201
            for file in model.files:
                print(f"  {model.name}/{plan.version}/{file.path}")  # noqa: T201


def _as_json(one: Prepared, result: Published, options: Options) -> dict[str, Any]:
    return {
        "package": str(one.package.path),
        "repository": str(options.repository),
        "name": one.plan.name,
        "version": result.version,
        "already_there": result.already_there,
        "models": list(result.models),
        "bytes": result.bytes,
        "requirements": list(one.plan.requirements),
        "warnings": list(one.warnings),
    }


def _print_json(value: list[dict[str, Any]]) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))  # noqa: T201


def _tell(*lines: str) -> None:
    for line in lines:
        if line:
            print(line, file=sys.stderr)  # noqa: T201


def _quoted(plan: RepositoryPlan) -> list[str]:
    return [f"'{line}'" if set(line) & set("<>=! ;") else line for line in plan.requirements]


def _amount(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number > 0, got {text!r}")
    return int(text)
