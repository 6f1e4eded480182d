"""Which cases of a suite win least, and what was decided for them? Checked by: tests/benchmarks/test_random_gemm.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOLD = 10
_WORDS = {"swapped": "transposed", "turns": "ping-pong"}
_COUNTS = {"split": 1, "teams": 1, "streamed": 0}
"""Decisions that are named where they are not these."""


def worst(rows: Iterable[Mapping[str, Any]], count: int = TOLD) -> list[Mapping[str, Any]]:
    """The rows of least ratio, the least first."""
    return sorted((row for row in rows if "ratio" in row), key=lambda row: row["ratio"])[:count]


def share_at_least(rows: Sequence[Mapping[str, Any]], ratio: float) -> float:
    """Of all cases, refused ones too, those that reach a ratio."""
    return sum(row.get("ratio", 0.0) >= ratio for row in rows) / len(rows)


def decisions_of(row: Mapping[str, Any]) -> str:
    """What was decided for a case, in a few words; empty for kernels that have no tiles."""
    decided: Mapping[str, Any] = row["contenders"]["ours"]["notes"].get("decisions", {})
    if "tile_m" not in decided:
        return ""
    words = [
        f"tile {decided['tile_m']}x{decided['tile_n']}x{decided['tile_k']}",
        f"{decided['stages']} stages",
        f"{decided['consumers']} consumers",
        f"cluster {decided['cluster_m']}x{decided['cluster_n']}",
        f"{decided['ctas']} CTAs",
    ]
    words += [word for name, word in _WORDS.items() if decided.get(name)]
    words += [f"{name} {decided[name]}" for name, usual in _COUNTS.items() if decided.get(name, usual) != usual]
    return ", ".join(words)
