"""A bundle and its measured counters."""

from __future__ import annotations

from pathlib import Path

from tilewright.base.element import Element
from tilewright.base.plan import Buffer, Launch, LaunchPlan
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.runtime.bundle import Bundle

DATA = Path(__file__).parents[2] / "data" / "profile"


def bundle_of(m: int, n: int, k: int, entry: str = "matmul_kernel") -> Bundle:
    """A bundle as the compiler wrote it then, but for its text."""
    module = trace(matmul_kernel, {"M": m, "N": n, "K": k}, {name: Element.BF16 for name in "abc"}, {"b": (1, k)})
    buffers = (
        Buffer("a", Element.BF16, (m, k), (k, 1), "input"),
        Buffer("b", Element.BF16, (k, n), (1, k), "input"),
        Buffer("c", Element.BF16, (m, n), (n, 1), "output"),
    )
    slots: list[dict[str, object]] = [{"joined": 0, "among": 1}, {"joined": 1, "among": 1}]
    decisions: dict[str, object] = {
        "row": "M", "column": "N", "streamed": "K", "batch": [], "unit_rows": 64, "consumers": 2, "turns": 0,
        "tile_columns": 256, "tile_streamed": 64, "cluster": [1, 1], "split": 1, "steps": [0, 0], "slots": slots,
        "grouping": [], "launch_registers": 168,
    }  # fmt: skip
    plan = LaunchPlan(buffers, (Launch(entry, (132, 1, 1), (384, 1, 1), ()),))
    return Bundle("matmul", "sm_90a", plan, "", None, {"tile": str(module), "operations": 2 * m * n * k}, decisions)
