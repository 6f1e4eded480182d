"""`python -m bench NAME`: run one benchmark."""

from __future__ import annotations

import argparse
import sys

from bench import (
    cliffs,
    clusters,
    compile_time,
    conversions,
    corpus,
    engines,
    foreign,
    fp8,
    fuzz,
    gemm,
    grouped,
    hardware,
    layouts,
    mutants,
    operand_suite,
    profiles,
    ragged,
    sanitizers,
    schedules,
    skinny,
    soak,
)

_BENCHES = {
    "gemm": gemm,
    "clusters": clusters,
    "cliffs": cliffs,
    "compile": compile_time,
    "conversions": conversions,
    "engines": engines,
    "foreign": foreign,
    "fp8": fp8,
    "corpus": corpus,
    "fuzz": fuzz,
    "grouped": grouped,
    "hardware": hardware,
    "layouts": layouts,
    "mutants": mutants,
    "operands": operand_suite,
    "profiles": profiles,
    "ragged": ragged,
    "sanitizers": sanitizers,
    "schedules": schedules,
    "skinny": skinny,
    "soak": soak,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Tilewright's benchmarks.")
    commands = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in _BENCHES.items():
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0])
        module.add_arguments(command)
    arguments = parser.parse_args()
    return _BENCHES[arguments.name].run(arguments)


if __name__ == "__main__":
    sys.exit(main())
