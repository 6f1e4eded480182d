"""What is drawn from a seed by `random()` alone, which Python promises to keep from version to version."""

from __future__ import annotations

import argparse
import math
import random
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def one_of(source: random.Random, items: Sequence[Item]) -> Item:
    """Each as likely as the others."""
    return items[int(source.random() * len(items))]


def log_uniform(source: random.Random, least: int, most: int) -> int:
    """An integer from least to most, each octave as likely as the others."""
    return min(most, int(math.exp(source.uniform(math.log(least), math.log(most + 1)))))


def distinct(seed: int, count: int, drawn: Callable[[random.Random], Item]) -> list[Item]:
    """The first `count` cases of a seed, each another one."""
    source = random.Random(seed)
    found: dict[Item, None] = {}
    while len(found) < count:
        found.setdefault(drawn(source))
    return list(found)


def add_seed_arguments(parser: argparse.ArgumentParser, count: int) -> None:
    parser.add_argument("--seed", type=int, metavar="S", help="what is drawn (default: another one each time, printed)")
    parser.add_argument("--count", type=int, default=count, metavar="N", help="so many cases (default %(default)s)")


def settle_seed(arguments: argparse.Namespace) -> None:
    """A seed where none was given. The result file names its command, and other processes repeat it: both have to draw
    the same."""
    if arguments.seed is None:
        arguments.seed = secrets.randbelow(1 << 32)
        sys.argv += ["--seed", str(arguments.seed)]
    print(f"seed {arguments.seed}", flush=True)
