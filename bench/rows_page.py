"""The page's table of programs that fold rows, beside PyTorch and torch.compile. Checked by: tests/docs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.page_sections import provenance, read


def folded_rows(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n## Rows\n"
    yield (
        "`examples/rows.py`: softmax, log-softmax, RMSNorm and LayerNorm, bf16, arrays of some 2^25 elements that the\n"
        "L2 cache does not hold. Peers are PyTorch's kernels and torch.compile's, as it compiles by default. The last\n"
        "column is the share of a plain copy's speed in the same run; PyTorch copies rows of 5,120 elements slowly,\n"
        "for a reason that was not looked for.\n"
    )
    yield from _table(results / "rows.json", "python -m bench rows")
    yield "\n### TritonBench, rows\n"
    yield "Its lists of `softmax`, `layer_norm` and `rms_norm`, bf16.\n"
    yield from _table(results / "tritonbench-rows.json", "python -m bench tritonbench-rows")
    yield "\n### Rows of drawn extents\n"
    yield "The same programs, of any number and length of rows, drawn from the seed that the command names.\n"
    yield from _table(results / "random-rows.json", "python -m bench random-rows")


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
    compared = [row["error_no_worse"] for row in timed if row["error_no_worse"] is not None]
    errors = (
        f"Of {compared.count(False)} of {len(compared)} the error is\nworse than the best peer's, against float64."
        if compared
        else "Errors were not compared in this run."
    )
    yield (
        f"{len(found)} cases: {statistics.geometric_mean(ratios):.3f} of the best peer's speed in the geometric mean, "
        f"{min(ratios):.3f} at the least. {errors}\n"
    )
    yield "| program | rows, length | us | best peer | ratio | quartiles | torch | torch.compile | of a copy |"
    yield "| --- | --- |" + " --- |" * 7
    for row in found:
        rows, length = row["shape"]
        if "ratio" not in row:
            words = str(row["refused"]).replace("|", "/").splitlines()[0]
            yield f"| {row['program']} | {rows}, {length} | {words} | | | | | | |"
            continue
        low, high = row["quartiles"]
        others = " | ".join(f"{row['ratios'][name]['median']:.3f}" for name in ("torch", "torch.compile"))
        yield (
            f"| {row['program']} | {rows}, {length} | {row['contenders']['ours']['microseconds']:.1f} | "
            f"{row['best_peer']} | {row['ratio']:.3f} | {low:.3f} to {high:.3f} | {others} | "
            f"{row['share_of_copy']:.3f} |"
        )
    yield ""
