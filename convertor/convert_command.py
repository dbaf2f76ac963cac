"""`convert`: arguments in, lines out. Data goes to stdout, what people read on the way to stderr."""

from __future__ import annotations

import argparse
import json
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from convertor import console
from convertor.convert import Options, Prepared, prepare, publish_prepared
from convertor.errors import UsageError, first_of
from convertor.manifest.keys import DEVICES, SERVING
from convertor.manifest.kinds import Kind, whole
from convertor.plan import PackageMember, RepositoryPlan, describe_plan
from convertor.repository import Published, parse_version
from convertor.serving import PROFILES

DESCRIPTION = """\
Turn model packages into a Triton model repository, which a stock Triton server
hosts as it is.

A package is a zip file, or the same as a folder, with a manifest.json and the
model's file. Every package is checked before anything is written; a new
version replaces the old one at once, or not at all."""
EPILOG = """\
examples:
  convert detector.zip -o model_repository            publish the next version
  convert detector.zip -o model_repository --dry-run  only show what it would be
  convert detector/ -o model_repository --name line4  a folder, with a name
  convert *.zip -o model_repository --json            many, the result as JSON
  convertor serve model_repository                    then serve it

exit status: 0 done, or already there; 1 refused, nothing was changed;
2 wrong command line"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    instances = SERVING["instances"]
    parser.add_argument(
        "packages", nargs="+", type=Path, metavar="PACKAGE", help="zip file or folder with manifest.json"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=_folder,
        metavar="REPOSITORY",
        help="the model repository; made if missing",
    )
    model = parser.add_argument_group("the model")
    model.add_argument("--name", help="its name (default: the manifest's model_name, else the file's name)")
    model.add_argument(
        "--version", default="next", metavar="V", help="a whole number above the highest, or next (default)"
    )
    model.add_argument("--replace", action="store_true", help="let it have another task or other tensors than before")
    serving = parser.add_argument_group("how it is served (default: as the manifest says)")
    serving.add_argument("--profile", choices=PROFILES, help="which tensors clients see (default: capture)")
    serving.add_argument("--device", choices=DEVICES, help="where the engine runs (auto: a GPU if there is one)")
    serving.add_argument(
        "--max-batch-size", type=_batch_size, metavar="N", help="images in one batch, of profile tensors (default: 8)"
    )
    serving.add_argument("--instances", type=_instances, metavar="N", help=f"copies at work: {instances.expected}")
    model.add_argument(
        "--no-native", action="store_true", help="refuse native code, which runs in the server's process (dlr's *.so)"
    )
    model.add_argument(
        "--allow-pickles",
        action="store_true",
        help="take PyTorch files that run code of their author when they are loaded, with the server's rights",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--dry-run", action="store_true", help="check and print what would be written; write nothing")
    output.add_argument("--json", action="store_true", help="print the result, or the plan, as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, unknown: list[str]) -> int:
    """Convert every package, or none."""
    del unknown
    if arguments.name is not None and len(arguments.packages) > 1:
        raise UsageError(
            f"--name: expected one package with it, got {len(arguments.packages)}; convert them one by one"
        )
    options = Options(
        repository=arguments.output,
        name=arguments.name,
        version=parse_version(arguments.version),
        profile=arguments.profile,
        instances=arguments.instances,
        device=arguments.device,
        replace=arguments.replace,
        no_native=arguments.no_native,
        allow_pickles=arguments.allow_pickles,
        max_batch_size=arguments.max_batch_size,
    )
    with ExitStack() as stack:
        prepared = prepare(arguments.packages, options, stack)
        for one in prepared:
            where = one.package.path.name
            console.tell(
                *(f"{where}: {line}" for line in one.facts),
                *(f"warning: {where}: {line}" for line in first_of(one.warnings)),
            )
        if arguments.dry_run:
            _print_plans([one.plan for one in prepared], arguments.json)
            return 0
        results = [_publish(one, options) for one in prepared]
    if not all(result.already_there for result in results):
        _tell_what_is_next(prepared, options)
    if arguments.json:
        _print_json([_described(one, result, options) for one, result in zip(prepared, results)])
    return 0


def _publish(one: Prepared, options: Options) -> Published:
    plan = one.plan
    copied = {
        file.source.name for model in plan.models for file in model.files if isinstance(file.source, PackageMember)
    }

    def waiting() -> None:
        console.tell(f"{plan.name}: waiting for another convert that writes to {options.repository}")

    total = sum(one.package.members[name] for name in copied)
    with console.progress(f"copying {plan.name}", total) as progress:
        result = publish_prepared(one, options, progress, waiting)
    if result.already_there:
        console.tell(f"{plan.name} version {result.version}: already there, nothing changed")
        return result
    console.tell(
        f"{plan.name} version {result.version}: published in {options.repository} "
        f"({', '.join(result.models)}; {_amount(result.bytes)})"
    )
    return result


def _tell_what_is_next(prepared: list[Prepared], options: Options) -> None:
    requirements = dict.fromkeys(line for one in prepared for line in one.plan.requirements)
    console.tell(
        f"the server's python needs: pip install {shlex.join(requirements)}",
        f"next: convertor serve {shlex.quote(str(options.repository))}",
    )


def _print_plans(plans: list[RepositoryPlan], as_json: bool) -> None:
    if as_json:
        _print_json([describe_plan(plan) for plan in plans])
        return
    for plan in plans:
        console.say(f"{plan.name} version {plan.version} (profile {plan.profile}, task {plan.task})")
        for model in plan.models:
            files = (f"{plan.version}/{file.path}" for file in model.files)
            console.say(*(f"  {model.name}/{path}" for path in ("config.pbtxt", *files)))


def _described(one: Prepared, result: Published, options: Options) -> dict[str, Any]:
    return {
        "package": str(one.package.path),
        "repository": str(options.repository),
        "name": one.plan.name,
        "version": result.version,
        "already_there": result.already_there,
        "models": list(result.models),
        "bytes": result.bytes,
        "requirements": list(one.plan.requirements),
        "allow_pickles": one.plan.allow_pickles,
        "warnings": list(one.warnings),
    }


def _print_json(value: list[dict[str, Any]]) -> None:
    # ASCII: a file name may hold what no encoding can write.
    console.say(json.dumps(value, indent=1))


def _amount(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, got an empty text (a shell variable that is not set?)")
    return Path(text)


def _instances(text: str) -> int:
    return _whole(text, SERVING["instances"])


def _batch_size(text: str) -> int:
    return _whole(text, whole(1, 1024))


def _whole(text: str, kind: Kind) -> int:
    if not (text.isascii() and text.isdigit() and kind.accepts(int(text))):
        raise argparse.ArgumentTypeError(f"expected {kind.expected}, got {text!r}")
    return int(text)
