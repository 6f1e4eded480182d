"""The page's table of random products that win least, with what was decided for them. Checked by:
tests/benchmarks/test_random_gemm.py."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.page_sections import read
from bench.worst_cases import decisions_of, share_at_least, worst

_BANDS = (16, 128, 1024, 16384)
"""Rows of the products of one line: from above the last number up to this one."""
_NEARLY = 0.95


def random_products(results: Path) -> Iterator[str]:
    """Lines of the sections; none without a result file, of which the suite's own section tells."""
    for suite, title in (("random-gemm", "Random products"), ("random-gemm-tuned", "Random products, tuned,")):
        document = read(results / f"{suite}.json")
        if document is not None:
            yield from _section(title, document["rows"][1:])


def _section(title: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"\n### {title} by rows and elements\n"
    yield f"| products | cases | geometric mean | worst | at {_NEARLY} or better |"
    yield "| --- | --- | --- | --- | --- |"
    for words, belongs in _parts():
        yield from _line(words, [row for row in rows if belongs(row)])
    yield f"\n### {title} that win least\n"
    yield "| case | M, N, K | us | best peer | ratio | decided |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in worst(rows):
        shape, microseconds = ", ".join(map(str, row["shape"])), row["contenders"]["ours"]["microseconds"]
        yield (
            f"| {row['case']} | {shape} | {microseconds:.1f} | {row['best_peer']} | {row['ratio']:.3f} | "
            f"{decisions_of(row)} |"
        )
    yield ""


def _parts() -> Iterator[tuple[str, Callable[[Mapping[str, Any]], bool]]]:
    yield "all", lambda row: True
    least = 1
    for most in _BANDS:
        yield f"{least} to {most} rows", lambda row, least=least, most=most: least <= row["shape"][0] <= most
        least = most + 1
    for dtype in ("bf16", "f16", "e4m3"):
        yield dtype, lambda row, dtype=dtype: row.get("dtype") == dtype


def _line(words: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    ratios = [float(row["ratio"]) for row in rows if "ratio" in row]
    if ratios:
        mean, least = statistics.geometric_mean(ratios), min(ratios, default=math.nan)
        yield f"| {words} | {len(rows)} | {mean:.3f} | {least:.3f} | {share_at_least(rows, _NEARLY):.1%} |"
