"""Tiles left over after whole waves, with the help of idle CTAs (stream-K), against the same tiles taken whole.

    python -m bench stream-k [--shape M,N,K] [--rounds N] [--results FOLDER]

Does `synth.distribution.stream_k` weigh the exchange rightly? Every variant beside torch.mm, as `bench.wished` says,
and the compiler's own choice among them. What the exchange costs is fitted to the runs of `tile_family`, which has more
tiles. Tiles of which nothing is left over have no streamed variant.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bench import wished

if TYPE_CHECKING:
    from tilewright.synth.tile.wanted import Wanted

_SHAPES = (
    (2048, 2048, 2048), (4096, 4096, 4096), (6144, 6144, 6144), (8192, 8192, 8192), (4096, 6144, 4096),
    (4096, 28672, 4096), (4096, 4096, 14336), (8192, 8192, 28672), (2048, 5120, 5120), (2048, 27648, 5120),
    (1024, 14336, 4096), (4096, 14336, 4096), (4096, 7168, 2048), (4096, 2112, 7168),
)  # fmt: skip
_TILES = ((128, 256, False), (128, 128, True), (128, 160, True), (128, 176, True), (128, 192, True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(_SHAPES))


def run(arguments: argparse.Namespace) -> int:
    return wished.run(arguments, "stream_k", _SHAPES, wishes())


def wishes() -> dict[str, Wanted]:
    """The choice, and every tile whole and streamed."""
    from tilewright.synth.tile.wanted import Wanted

    found = {"chosen": Wanted()}
    for rows, columns, turns in _TILES:
        name = f"{rows}x{columns} {'in turn' if turns else 'shared'}"
        found[name] = Wanted(tile=(rows, columns), turns=turns, stream_k=False)
        found[f"{name}, streamed"] = Wanted(tile=(rows, columns), turns=turns, stream_k=True)
    return found
