"""Run the benchmarks that are named, or all, and print docs/performance.md's table."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable

from bench import conversion, engines, payload, soak, throughput, vendor
from bench.timing import Row

BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "decode": payload.decode,
    "nms": vendor.nms,
    "overlay": payload.overlay,
    "preprocess": payload.preprocess,
    "convert": conversion.small,
    "convert-1gb": conversion.large,
    "throughput": throughput.served_over_bare,
    "engines": engines.runner_over_bare,
}


def main() -> int:
    """Print one table row per figure; `soak` has options and a table of its own."""
    if sys.argv[1:2] == ["soak"]:
        return soak.main(sys.argv[2:])
    unknown = [name for name in sys.argv[1:] if name not in BENCHMARKS]
    if unknown:
        print(f"bench: expected names of {', '.join(BENCHMARKS)}, or soak; got {', '.join(unknown)}", file=sys.stderr)
        return 2
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}")
    print("\n| what | measured | target | bound by |\n|---|---|---|---|")
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr)
        for row in BENCHMARKS[name]():
            print(f"| {row.name} | {row.figure} | {row.target} | {row.bound} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
