"""fp8 matrix products, scaled per tensor, per row and per block, against every peer in turns. See `bench.suite`."""

from __future__ import annotations

import argparse

from bench import suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    suite.add_arguments(parser, ("fp8", "fp8-turned"))


def run(arguments: argparse.Namespace) -> int:
    return suite.run(arguments)
