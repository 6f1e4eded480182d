"""Few rows times the weights of public models, against every peer in turns. See `bench.suite`."""

from __future__ import annotations

import argparse

from bench import suite


def add_arguments(parser: argparse.ArgumentParser) -> None:
    suite.add_arguments(parser, ("skinny",))


def run(arguments: argparse.Namespace) -> int:
    return suite.run(arguments)
