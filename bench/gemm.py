"""16-bit matrix products against every peer, in turns, on random data: squares and LLM shapes, or TritonBench's.

See `bench.suite` for what is measured and how.
"""

from __future__ import annotations

import argparse

from bench import suite
from bench.interleaved import captured, replay_milliseconds

__all__ = ["add_arguments", "captured", "replay_milliseconds", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    suite.add_arguments(parser, ("gemm", "tritonbench", "tritonbench-splitk", "tritonbench-llama"))


def run(arguments: argparse.Namespace) -> int:
    return suite.run(arguments)
