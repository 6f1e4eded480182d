"""The page's table of programs of products and folds, beside PyTorch's kernels. Checked by: tests/docs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.page_sections import provenance, read


def fused_programs(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n## Programs of products and folds\n"
    yield (
        "`examples/fused.py`, bf16: attention, decode (one query a head), products with softmax, norms and argmax,\n"
        "two layers. Peers are cuDNN's and Flash's kernels through PyTorch where it has one for the program, else its\n"
        "operations one after the other and torch.compile. Errors are the largest against float64.\n"
    )
    yield from _table(results / "fused.json", "python -m bench fused")
    yield "\n### Attention of drawn shapes\n"
    yield (
        "Full and causal attention, grouped heads, few queries of many keys, of any length, drawn from the seed that\n"
        "the command names.\n"
    )
    yield from _table(results / "random-attention.json", "python -m bench random-attention")


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
        extents = ", ".join(f"{axis} {extent}" for axis, extent in row["dims"].items())
        if "ratio" not in row:
            words = str(row.get("refused", row.get("failed", "no peer took part"))).replace("|", "/").splitlines()[0]
            yield f"| {row['program']} | {extents} | {words} | | | | | |"
            continue
        low, high = row["quartiles"]
        errors = [f"{row['errors'][who]:.1e}" if "errors" in row else "" for who in ("ours", row["best_peer"])]
        yield (
            f"| {row['program']} | {extents} | {row['contenders']['ours']['microseconds']:.0f} | {row['best_peer']} | "
            f"{row['ratio']:.3f} | {low:.3f} to {high:.3f} | {errors[0]} | {errors[1]} |"
        )
    yield ""
