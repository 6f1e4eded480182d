"""`python -m bench NAME`: run one benchmark.

Only the module of the benchmark asked for is loaded: some need packages (a solver, PyTorch) that others do without.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from tilewright.base.error import TilewrightError
from tilewright.base.extra import MissingExtra

_BENCHES = {
    "gemm": "gemm",
    "attention": "attention",
    "backward": "backward",
    "both-ways": "both_ways",
    "clusters": "clusters",
    "cliffs": "cliffs",
    "compile": "compile_time",
    "compile-suites": "compile_suites",
    "computed": "computed",
    "conversions": "conversions",
    "engines": "engines",
    "foreign": "foreign",
    "fresh": "fresh",
    "few-rows": "few_rows",
    "fp8": "fp8",
    "corpus": "corpus",
    "fused": "fused",
    "fuzz": "fuzz",
    "grouped": "grouped",
    "guarded": "guarded",
    "hardware": "hardware",
    "large-tiles": "large_tiles",
    "long-sums": "long_sums",
    "stream-k": "stream_k",
    "tile-family": "tile_family",
    "layouts": "layouts",
    "model": "model",
    "merge": "parts",
    "mutants": "mutants",
    "narrow-attention": "narrow_attention",
    "operands": "operand_suite",
    "paged": "paged",
    "platforms": "platforms",
    "profiles": "profiles",
    "random-attention": "random_attention",
    "random-gemm": "random_gemm",
    "random-rows": "random_rows",
    "range-cost": "range_cost",
    "registers": "registers",
    "repairs": "repairs",
    "replay": "replay",
    "row-ranges": "row_ranges",
    "rows": "rows",
    "sanitizers": "sanitizers",
    "schedules": "schedules",
    "skinny": "skinny",
    "slots": "slots",
    "soak": "soak",
    "tritonbench-attention": "tritonbench_attention",
    "tritonbench-rows": "tritonbench_rows",
    "unmapped": "unmapped",
    "vacuity": "vacuity",
}
"""Modules of this package, by the name of their benchmark."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Tilewright's benchmarks.")
    commands = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    for name in [asked] if asked in _BENCHES else _BENCHES:
        try:
            module = import_module(f"bench.{_BENCHES[name]}")
        except (ModuleNotFoundError, MissingExtra) as error:
            if asked in _BENCHES:
                raise
            commands.add_parser(name, help=f"cannot run here: {error}")
            continue
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0].replace("%", "%%"))
        module.add_arguments(command)
    arguments = parser.parse_args()
    try:
        return int(import_module(f"bench.{_BENCHES[arguments.name]}").run(arguments))
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
