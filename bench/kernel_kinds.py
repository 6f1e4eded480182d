"""One small case of every kind of kernel that the compiler makes, and random ones, for the soak and the sanitizers.

Small, since a sanitizer slows a kernel a hundredfold; of every kind, since each has paths of its own: tiles cut off at
every edge, operands without tensor maps, results stored by rows, few rows, long sums, 8-bit operands, groups.
"""

from __future__ import annotations

import random
from typing import Literal

from bench.cliffs import DENSE, TRANSPOSED, Case, View
from bench.gemm_suites import Product
from bench.moe_shapes import Grouped

Kind = Product | Case | Grouped

KINDS: tuple[Kind, ...] = (
    Product("one tile", 128, 128, 64),
    Product("many tiles", 1024, 1536, 512),
    Product("many tiles, row-major weights", 768, 1024, 448, "f16", transposed=False),
    Product("cut off at every edge", 520, 776, 200),
    Product("long sum, few tiles", 256, 256, 16384),
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
    Product("fp8, factors of rows", 512, 512, 512, "e4m3", True, "row"),
    Product("fp8, factors of the tensor, cut off", 272, 528, 400, "e4m3", True, "tensor"),
    Product("fp8, factors of blocks", 256, 384, 512, "e4m3", True, "block"),
    Grouped("groups", 8, 2, 300, 512, 256, 1.0),
    Grouped("many groups of few rows", 64, 1, 100, 256, 128, 1.0),
)


def random_products(count: int, seed: int = 0) -> list[Kind]:
    """Random shapes, half of them with any extents at all, half with extents that tensor maps take."""
    source = random.Random(seed)
    found: list[Kind] = []
    for number in range(count):
        m, n, k = (int(2 ** source.uniform(0, 11)) for _ in range(3))
        dtype: Literal["bf16", "f16"] = source.choice(("bf16", "f16"))
        if number % 2:
            found.append(Product(f"random {number}", m, 8 * -(-n // 8), 8 * -(-k // 8), dtype, source.random() < 0.5))
        else:
            a, b = source.choice((DENSE, TRANSPOSED)), source.choice((DENSE, TRANSPOSED))
            found.append(Case(f"random {number}", m, n, k, a, b, dtype=dtype))
    return found
