"""The profiles of result files as a table of docs/benchmarks.md: what ours and its peers waited for, case by case.

Rows are those of `python -m bench profiles`; every file of the folder is shown in full. Checked by:
tests/benchmarks/test_predicted_times.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_SHOWN_STALLS = 3
_LEAD = """
Of cases that win least, with the peers that come nearest. One launch each, caches flushed before, clocks as they are.
Tensor pipe and L2 are shares of the peak, over the whole launch; skipped are issue slots in which no warp could issue;
the stalls are warps of a scheduler, on the average, that wait for that reason each time one issues. Most of them are
meant to wait: a producer for room in its ring, the warps of a consumer for their product. Times are those under the
profiler, each kernel alone; of several kernels times are added and shares weighed by them.

What the tables say of them:

- **Many rows** (Llama 4 Scout; blocks of 8 bits with K 16384) run at the power cap. In the grouped case our tensor pipe
  is busier than the peers' and the clock lower, and the multiprocessors fetch 1.6 times Triton's bytes from the L2
  cache: tiles of 64 rows fill up groups with fewer rows to spare, and read weights more often. Of 8 bits the cache is
  busier with ours, too, though multiprocessors get as many bytes: cublasLt's kernel is for clusters of two CTAs, of
  which one fetches what both get.
- **Small groups** (Qwen3, DeepSeek's down, Mixtral decoding): ours and Triton's both read device memory at what a
  plain copy reaches (`python -m bench.probes.device`). What is left between them is bytes that are read twice, and how
  launches begin and end.
- **Large products** keep the tensor pipe busy for 94 to 98 % of the time, ours and cublasLt's best alike, in tiles of
  nearly the same shape; cublasLt's clock is up to 2 % higher, with less work of the L2 cache (clusters of two CTAs).
  That is why none is far ahead there. At 4096 cubed it is 90 % for both; at 2048 cubed, two tiles a multiprocessor,
  ours is at 76 %, and cublasLt's choice in that process was not the one of the race. These were profiled before one
  thread alone waited for the launch before, which large products hardly notice.
"""


def profiles(results: Path) -> Iterator[str]:
    """Lines of the section, none where nothing was profiled."""
    found = sorted(results.glob("profiles-*.json"))
    if not found:
        return
    yield "\n## What kernels wait for\n"
    yield _LEAD.strip() + "\n"
    for path in found:
        document = json.loads(path.read_text(encoding="utf-8"))
        yield f"`{document['command']}`, {document['date']}: {document['versions'].get('gpu', '')}.\n"
        yield "| case | whose | us | MHz | tensor pipe | skipped | L2 | from L2 | DRAM | stalls |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        yield from (_line(row) for row in document["rows"])
        yield ""
        yield from _compared(document["rows"])


def _line(row: Mapping[str, Any]) -> str:
    stalls = ", ".join(f"{name} {warps:.1f}" for name, warps in list(row["stalls"].items())[:_SHOWN_STALLS])
    count = len(row["kernels"])
    whose = row["who"] + (f", {count} kernels" if count > 1 else "")
    return (
        f"| {row['case']} | {whose} | {row['microseconds']:.1f} | {row['megahertz']:.0f} | "
        f"{row['tensor_percent']:.0f} % | {row['skipped_percent']:.0f} % | {row['l2_percent']:.0f} % | "
        f"{row['multiprocessor_megabytes']:.0f} MB | "
        f"{row['dram_megabytes']:.0f} MB, {row['dram_terabytes_per_second']:.2f} TB/s | {stalls} |"
    )


def _compared(rows: list[dict[str, Any]]) -> Iterator[str]:
    """How far off the predictions of ours were."""
    for row in rows:
        if row.get("compared"):
            each = ", ".join(f"{one['name']} {one['measured'] / one['predicted']:.2f}" for one in row["compared"])
            yield f"Measured over predicted, {row['case']}: {each}.\n"
