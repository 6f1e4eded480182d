"""One small case of every kind of kernel that the compiler makes, and random ones, for the soak and the sanitizers.

Small, since a sanitizer slows a kernel a hundredfold; of every kind, since each has paths of its own: tiles cut off at
every edge, operands without tensor maps, copied by threads or by a launch before, results stored by rows, few rows,
long sums, leftover tiles that idle CTAs help with, tiles in turn and in Hilbert's order, 8-bit operands in both
accumulations, an operand computed in registers, groups. What the compiler would not choose at such a size is wished.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from bench.cliffs import DENSE, TRANSPOSED, Case, View
from bench.gemm_suites import Product, Wishes
from bench.moe_shapes import Grouped


@dataclass(frozen=True, slots=True)
class Computed:
    """c (m, n) = (a (m, k) * of_a (m), rounded) @ b (n, k) transposed, bf16: `tile_programs.rows_scaled_first`."""

    name: str
    m: int
    n: int
    k: int
    wishes: Wishes = ()


Kind = Product | Case | Grouped | Computed
_THREADS: Wishes = (("unmapped", "threads"),)
_TEAMS: Wishes = (("tile", (64, 48)), ("split", 4), ("teams", 3), ("swapped", False))
_SIXTEEN: Wishes = (("tile", (64, 40)), ("split", 16), ("swapped", False))
_STREAMED: Wishes = (("tile", (128, 128)), ("stream_k", True))

KINDS: tuple[Kind, ...] = (
    Product("one tile", 128, 128, 64),
    Product("many tiles", 1024, 1536, 512),
    Product("many tiles, row-major weights", 768, 1024, 448, "f16", transposed=False),
    Product("cut off at every edge", 520, 776, 200),
    Product("long sum, few tiles", 256, 256, 16384),
    Product("long sums by teams of clusters", 130, 90, 4100, transposed=False, wishes=_TEAMS),
    Product("long sum by sixteen CTAs", 40, 40, 4096, "f16", wishes=_SIXTEEN),
    Product("one row", 1, 1024, 2048),
    Product("sixteen rows", 16, 1024, 2048, "f16"),
    Product("eighty rows", 80, 2048, 1024),
    Product("few columns", 2048, 16, 1024),
    Case("odd M and N", 257, 255, 512),
    Case("odd K", 256, 384, 511, b=TRANSPOSED),
    Case("all odd, both transposed", 255, 257, 253, a=TRANSPOSED, b=TRANSPOSED),
    Case("left transposed", 512, 384, 320, a=TRANSPOSED, b=DENSE, dtype="f16"),
    Case("bases in the middle of 16 bytes", 256, 256, 256, a=View(offset=1), b=View(offset=3, transposed=True)),
    Case("result into columns 1: of a padded array", 256, 256, 128, c=View(264, 1)),
    Case("tiny and odd", 3, 5, 7),
    Case("rows of 4 bytes' multiples, by threads", 256, 384, 514, b=TRANSPOSED, wishes=_THREADS),
    Case("rows of 8 bytes' multiples, by threads", 320, 256, 516, b=TRANSPOSED, dtype="f16", wishes=_THREADS),
    Case("begins 2 elements in, by threads", 256, 256, 512, a=View(offset=2), wishes=_THREADS),
    Product("leftover tiles streamed", 2560, 1280, 2048, wishes=_STREAMED),
    Product("tiles in turn", 1024, 1536, 512, wishes=(("tile", (128, 160)), ("turns", True))),
    Product("Hilbert's order", 1024, 1536, 512, wishes=(("tile_order", "hilbert"), ("tile_group", 4))),
    Computed("left operand computed in registers", 512, 384, 512, (("computed", "registers"),)),
    Computed("left operand computed in a workspace", 512, 384, 512, (("computed", "workspace"),)),
    Product("fp8, factors of rows", 512, 512, 512, "e4m3", True, "row"),
    Product("fp8, factors of the tensor, cut off", 272, 528, 400, "e4m3", True, "tensor"),
    Product("fp8, factors of rows, fast", 512, 512, 512, "e4m3", True, "row", "fast"),
    Product("fp8, factors of blocks", 256, 384, 512, "e4m3", True, "block"),
    Product("fp8, B turned", 512, 512, 512, "e4m3", False, "tensor"),
    Grouped("groups", 8, 2, 300, 512, 256, 1.0),
    Grouped("many groups of few rows", 64, 1, 100, 256, 128, 1.0),
)


def random_products(count: int, seed: int = 0) -> list[Kind]:
    """Random shapes, of six kinds in turn: any extents at all; extents that tensor maps take; rows at multiples of 4
    bytes, copied by threads; 8-bit operands; groups; leftover tiles that are streamed."""
    source = random.Random(seed)
    makers = (_of_any_extents, _of_maps, _by_threads, _of_eight_bits, _grouped, _streamed)
    return [makers[number % len(makers)](f"random {number}", source) for number in range(count)]


def _extent(source: random.Random, multiple: int = 1) -> int:
    """Up to 2048, small ones as often as large ones."""
    return multiple * -(-int(2 ** source.uniform(0, 11)) // multiple)


def _sixteen_bits(source: random.Random) -> Literal["bf16", "f16"]:
    return source.choice(("bf16", "f16"))


def _of_any_extents(name: str, source: random.Random) -> Case:
    m, n, k = (_extent(source) for _ in range(3))
    a, b = source.choice((DENSE, TRANSPOSED)), source.choice((DENSE, TRANSPOSED))
    return Case(name, m, n, k, a, b, dtype=_sixteen_bits(source))


def _of_maps(name: str, source: random.Random) -> Product:
    m, n, k = _extent(source), _extent(source, 8), _extent(source, 8)
    return Product(name, m, n, k, _sixteen_bits(source), source.random() < 0.5)


def _by_threads(name: str, source: random.Random) -> Case:
    k = 8 * source.randint(4, 128) + source.choice((2, 4, 6))
    return Case(
        name, 32 + _extent(source), _extent(source, 8), k, b=TRANSPOSED, dtype=_sixteen_bits(source), wishes=_THREADS
    )


def _of_eight_bits(name: str, source: random.Random) -> Product:
    m, n, k = _extent(source), _extent(source, 16), _extent(source, 16)
    scaling: Literal["tensor", "row"] = source.choice(("tensor", "row"))
    return Product(name, m, n, k, "e4m3", True, scaling, source.choice(("precise", "fast")))


def _grouped(name: str, source: random.Random) -> Grouped:
    experts = source.choice((4, 8, 32))
    return Grouped(name, experts, 2, 16 + _extent(source), 8 * source.randint(8, 64), 64 * source.randint(1, 8), 1.0)


def _streamed(name: str, source: random.Random) -> Product:
    """One wave to one and a half of tiles of 128 x 128 on 132 multiprocessors, the sums long enough to be shared."""
    rows = source.randint(9, 14)
    return Product(name, 128 * rows, 128 * source.randint(-(-145 // rows), 195 // rows), 64 * source.randint(40, 64),
                   _sixteen_bits(source), wishes=_STREAMED)  # fmt: skip
