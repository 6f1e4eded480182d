"""Large tiles shared by consumers and taken by them in turn, each against torch.mm beside it, on random data.

What memory takes for large results (`synth.cost.memory_bound`) is fitted to, and, with rows of B in memory, what boxes
that cut those rows cost (`synth.tile.shape`); or, with `--orders`, the orders in which tiles are taken
(`synth.distribution.tile_order`). The estimate of tiles itself is fitted to the runs of `tile_family`. How it is
measured: `bench.wished`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bench import wished

if TYPE_CHECKING:
    from tilewright.synth.tile.wanted import Wanted

_SHAPES = (
    (2048, 2048, 2048), (3072, 3072, 3072), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 6144, 4096),
    (4096, 28672, 4096), (2048, 5120, 5120), (2048, 27648, 5120), (1024, 14336, 4096), (4096, 7168, 2048),
)  # fmt: skip
_SHARED = ((128, 256), (256, 128), (128, 192), (192, 192), (128, 176), (128, 128))
_GROUPS = (6, 8, 16, 32)
_SIDES = (4, 8, 16, 32, 64)
_IN_TURN = tuple((128, columns) for columns in (112, 128, 152, 160, 168, 176, 192, 200))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(_SHAPES))
    parser.add_argument("--rows-of-b", action="store_true", help="B is contiguous along N (default: along K)")
    parser.add_argument("--orders", action="store_true", help="orders of the chosen tiles instead of tile shapes")


def run(arguments: argparse.Namespace) -> int:
    name = f"{'tile_orders' if arguments.orders else 'large_tiles'}{'_rows_of_b' if arguments.rows_of_b else ''}"
    wishes = _orders() if arguments.orders else _tiles()
    return wished.run(arguments, name, _SHAPES, wishes, rows_of_b=arguments.rows_of_b)


def _tiles() -> dict[str, Wanted]:
    from tilewright.synth.tile.wanted import Wanted

    wishes = {"chosen": Wanted()}
    wishes |= {f"{rows}x{columns} shared": Wanted(tile=(rows, columns), turns=False) for rows, columns in _SHARED}
    return wishes | {
        f"{rows}x{columns} in turn": Wanted(tile=(rows, columns), turns=True) for rows, columns in _IN_TURN
    }


def _orders() -> dict[str, Wanted]:
    """The choice twice: what the two differ by is noise."""
    from tilewright.synth.tile.wanted import Wanted

    wishes = {"chosen": Wanted(), "chosen again": Wanted()}
    wishes |= {f"groups of {group}": Wanted(tile_group=group) for group in _GROUPS}
    return wishes | {f"Hilbert, {side}": Wanted(tile_order="hilbert", tile_group=side) for side in _SIDES}
