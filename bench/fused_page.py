"""The page's table of programs of products and folds, beside PyTorch's kernels. Checked by: tests/docs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.page_sections import provenance, read
from bench.paged import ONE_PIECE


def fused_programs(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n## Programs of products and folds\n"
    yield (
        "`examples/fused.py`, bf16: attention, decode (one query a head), products with softmax, norms and argmax,\n"
        "two layers. Peers are cuDNN's and Flash's kernels through PyTorch where it has one for the program, else its\n"
        "operations one after the other and torch.compile. Errors are the largest against float64.\n"
    )
    yield from _table(results / "fused.json", "python -m bench fused")
    yield "\n### Attention\n"
    yield "Lengths from 512 to 16384, heads of 64, 128 and 256, full and causal: 16384 rows of 2048 elements in all.\n"
    yield from _table(results / "attention.json", "python -m bench attention")
    yield "\n### TritonBench, attention\n"
    yield "Its list of `flash_attention`, full and causal: four batches of 48 heads of 64, bf16.\n"
    yield from _table(results / "tritonbench-attention.json", "python -m bench tritonbench-attention")
    yield "\n### Attention of drawn shapes\n"
    yield (
        "Full and causal attention, grouped heads, few queries of many keys, of any length, drawn from the seed that\n"
        "the command names.\n"
    )
    yield from _table(results / "random-attention.json", "python -m bench random-attention")
    yield "\n### Gradients of attention\n"
    yield (
        "From the gradient of the result to those of queries, keys and values, bf16, 16384 rows of 2048 elements in\n"
        "all; our three kernels one after the other. Peers are cuDNN's and Flash's backward operators, through\n"
        "PyTorch.\n"
    )
    yield from _table(results / "backward.json", "python -m bench backward")
    yield from _decode(results / "paged.json")


def _table(path: Path, command: str) -> Iterator[str]:
    """Of one result file, or the command that makes it."""
    document = read(path)
    if document is None:
        yield f"`{command}`\n"
        return
    yield provenance(document)
    found = document["rows"]
    timed = [row for row in found if "ratio" in row]
    ratios = [row["ratio"] for row in timed]
    yield (
        f"{len(found)} cases: {statistics.geometric_mean(ratios):.3f} of the best peer's speed in the geometric mean, "
        f"{min(ratios):.3f} at the least.\n"
    )
    yield "| program | extents | us | best peer | ratio | quartiles | error | of the peer |"
    yield "| --- | --- |" + " --- |" * 6
    for row in found:
        program, extents = _named(row)
        if "ratio" not in row:
            words = str(row.get("refused", row.get("failed", "no peer took part"))).replace("|", "/").splitlines()[0]
            yield f"| {program} | {extents} | {words} | | | | | |"
            continue
        low, high = row["quartiles"]
        errors = [_error(row, who) for who in ("ours", row["best_peer"])]
        yield (
            f"| {program} | {extents} | {row['contenders']['ours']['microseconds']:.0f} | {row['best_peer']} | "
            f"{row['ratio']:.3f} | {low:.3f} to {high:.3f} | {errors[0]} | {errors[1]} |"
        )
    yield ""


def _decode(path: Path) -> Iterator[str]:
    """One query of each head, keys in one piece and in pages."""
    yield "\n### Decode\n"
    yield (
        "One query of each head, four heads to one of keys, bf16. The best peer's time over that of keys in one\n"
        "piece, then over that of pages of so many rows; what pages take of the time of one piece; the share of a\n"
        "plain copy's speed, of keys in one piece. Peers are cuDNN's and Flash's kernels, on keys in one piece.\n"
    )
    document = read(path)
    if document is None:
        yield "`python -m bench paged`\n"
        return
    yield provenance(document)
    yield "| case | us | best peer | one piece | 16 | 64 | 256 | 16 of one piece | 64 | 256 | of a copy |"
    yield "| --- |" + " --- |" * 10
    for row in document["rows"]:
        ratios = " | ".join(f"{row['of_peers'][name]:.3f}" for name in (ONE_PIECE, "page 16", "page 64", "page 256"))
        pages = " | ".join(f"{row['pages'][page]['median']:.3f}" for page in ("16", "64", "256"))
        yield (
            f"| {row['case']} | {row['contenders'][ONE_PIECE]['microseconds']:.1f} | {row['best_peer']} | {ratios} | "
            f"{pages} | {row['share_of_copy']:.3f} |"
        )
    yield ""


def _named(row: Mapping[str, Any]) -> tuple[str, str]:
    """A case's program and its extents."""
    if "program" in row:
        return str(row["program"]), ", ".join(f"{axis} {extent}" for axis, extent in row["dims"].items())
    program = "causal gradients" if row["causal"] else "gradients"
    return program, f"length {row['length']}, size {row['size']}"


def _error(row: Mapping[str, Any], contender: str) -> str:
    """The largest of a contender's errors, where they were compared."""
    if "errors" not in row:
        return ""
    found: float | list[float] = row["errors"][contender]
    return f"{max(found) if isinstance(found, list) else found:.1e}"
