"""docs/benchmarks.md, its figure and docs/benchmark-tables.md from the result files: `python -m bench.page` writes them
anew.

What is measured and how stands here; every figure comes from bench/results, each with the command, the date and the
versions that its file names. A suite that has no result file is named with its command alone.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.cluster_page import pairs
from bench.few_rows_page import few_rows
from bench.fused_page import fused_programs
from bench.gemm_suites import SUITES, TARGETS
from bench.long_sum_page import long_sums
from bench.model_page import predicted_times
from bench.overview_plot import SuiteRatios, overview_plot
from bench.page_sections import answers, choices, compile_time, provenance, read
from bench.paged import ONE_PIECE
from bench.profiles_table import profiles
from bench.random_page import random_products
from bench.rows_page import folded_rows
from bench.tile_family_page import tile_family

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
TABLES = ROOT / "docs" / "benchmark-tables.md"
FIGURE = ROOT / "docs" / "assets" / "benchmarks.svg"
RESULTS = ROOT / "bench" / "results"

_SUITES = (
    (
        "gemm",
        "Large products",
        "Squares from 1024 to 16384 and twelve shapes of language models, bf16. Which of its algorithms\n"
        "cublasLt's tuning keeps differs from run to run, and some rows with it.",
    ),
    ("skinny", "Small M", "1 to 128 rows times weights of public models, bf16."),
    (
        "cliffs",
        "Cliffs",
        "Operands that no tensor map describes: odd extents, strides and bases. Most are copied first into rows that\n"
        "a map does describe, which takes two thirds of the time, and more where M is small\n"
        "(`launch_microseconds` in the result file: each launch alone). torch and cublasLt fall far behind where\n"
        "Triton's kernel of pointers does not, or the other way round, so that each peer is the best of many.",
    ),
    (
        "fp8",
        "8-bit floats",
        "e4m3 operands, bf16 results; factors per tensor, per row and per block of 128. Each row is a race at equal\n"
        "precision. Sums are kept in float32 by all, ours, torch's and cublasLt's default and Triton with a promotion\n"
        "every 128 elements; in rows called fast, all leave them to the tensor core.",
    ),
    (
        "fp8-turned",
        "8-bit floats, B row-major",
        "e4m3 operands of which B lies as (K, N), row-major, which tensor cores do not read. Ours transposes it on\n"
        "the way to a copy, in the time shown; for torch `b.t().contiguous()` does.",
    ),
    (
        "grouped",
        "Groups",
        "Ten layers of mixtures of experts, rows routed at random, bf16. With small groups, kernels wait for the\n"
        "weights, each of which is read once: peers that read them as fast are equal, and slices of two spans of the\n"
        "swizzle ask for 256 bytes of a row together (`python -m bench grouped --depth 64 --depth 128` races both).\n"
        "With many, they run at the power cap, as the MHz show, and the rows that fill up a group's last tile cost as\n"
        "much as others; the loop of torch, which knows the counts, picks a tile for each group. Kernels that left\n"
        "blocks of such rows out were tried: CTAs with less to do run ahead of the others, what the L2 cache brings\n"
        "serves fewer of them, and most took longer; so did kernels that had zeros there.",
    ),
    ("tritonbench", "TritonBench, squares", "TritonBench's default inputs of gemm: fp16, row-major."),
    ("tritonbench-splitk", "TritonBench, split-K", "TritonBench's `--splitk` list: fp16, row-major."),
    (
        "tritonbench-llama",
        "TritonBench, llama",
        "TritonBench's `--llama` list: fp16, row-major. Its parts ran one after the other on one machine.",
    ),
    (
        "random-gemm",
        "Random products",
        "200 products that a seed drew: 1 to 16384 rows, small numbers as often as large ones, times linear layers of\n"
        "public models (`bench/model_layers.py`), bf16, f16 and e4m3. The compiler is not fitted to any of them.",
    ),
    (
        "random-gemm-tuned",
        "Random products, tuned",
        "As above, with kernels that `tune=True` takes.",
    ),
)

_FURTHER = (
    ("fused", "Products with folds", None),
    ("attention", "Attention", (1.03, 0.95)),
    ("tritonbench-attention", "TritonBench, attention", (1.03, 0.95)),
    ("random-attention", "Drawn attention", (1.03, 0.85)),
    ("backward", "Gradients of attention", (0.95, 0.85)),
    ("paged", "Decode", (1.10, 0.95)),
    ("rows", "Rows", (1.10, 0.97)),
    ("tritonbench-rows", "TritonBench, rows", (1.10, 0.97)),
    ("random-rows", "Drawn rows", (1.10, 0.85)),
)
"""Suites of other programs than products: result file, title, (geometric mean, worst) to reach."""

_TITLE = """\
# Benchmarks

![Ratios of all cases, suite by suite: the numbers stand in the table below](assets/benchmarks.svg)

How fast are the kernels, compared with other ways to compute the same on the same GPU? A case is one product, one
attention, one array of rows. Its ratio is the time of the best peer over ours, in the same run: above 1, ours is
faster. The figure, this page and [the tables of every case](benchmark-tables.md) are made from `bench/results` by
`python -m bench.page`.

## Overview

The geometric mean and the worst are over all cases of a suite; *behind* counts those in which a peer was faster. Goals
were set beforehand; suites without one were added later. Words that are not explained here stand in the
[glossary](glossary.md).
"""

_TABLES_TITLE = """\
# Benchmark tables

Every case of [the benchmarks](benchmarks.md), which say how it was measured, and what else was measured on the way.
This page is made from `bench/results` by `python -m bench.page`; every table names the command that made its figures.
"""

_HEAD = """\

## How it is measured

- **One process, round by round.** Every implementation is captured in a CUDA graph of several calls, so that no launch
  from the host is timed. The graphs are replayed one after the other, in an order that rotates, for at least as many
  rounds (`--turns`) as the command says. A ratio is taken round by round, between neighbours in time; its median and
  quartiles are given.
- **Settled first.** All run untimed until a round's time no longer drifts: a GPU that was idle comes to its power cap
  only after a while, and who is fastest may depend on the clock. Result files that have no `warm_milliseconds` are
  older than this, and of races that were warmed up for 60 ms.
- **Random data.** Inputs are standard normal. On zeros a GPU under its power cap runs faster, for everybody.
- **Cold by default.** Calls rotate through input sets that together exceed twice the L2 cache. `--warm` takes one set.
- **The GPU as it is.** No clock is set. Clock, power and temperature are sampled every 5 ms while the rounds run, and
  stand in the result file. Large products run at the power cap, so their clock falls; it falls for all contenders, who
  are never further apart than one round.
- **Right answers.** Every contender's result is compared with float64 on random inputs, on inputs near the end of the
  type's range, and on inputs with NaNs and infinities, which must stand where float64 has them. Tables have the
  largest error of the three; *inf* is one of float16, where a sum of more than 10,000 large numbers leaves the type's
  range.
- **Nothing is left out.** A case that the compiler refuses, and a peer that cannot run one, are rows with their words.

The peers of products, each tuned on the very arrays of the race; those of other programs stand [with their
tables](benchmark-tables.md#programs-of-products-and-folds):

| peer | what it is |
| --- | --- |
| torch | `torch.mm`; `torch._scaled_mm` with precise and with fast accumulation; `torch._grouped_mm` |
| cublasLt | every algorithm that cublasLt's heuristics offer (up to 32, 64 MB of workspace) timed, the fastest kept; \
where one does not return, the process is ended and that case starts again without it, which is noted beside the table |
| triton | a kernel with pointers and a persistent one with tensor descriptors, over a list of configurations |
| torch loop | grouped products only: one `torch.mm` for each group, with the counts known on the host |

The best peer of a case is the one with the smallest median in the same run; torch's first choice and cublasLt's best
often differ. The result file has the names of every contender's kernels, read from its graph, and what was tuned.

Kernels may be compiled ahead, on a machine without a GPU, and taken along:

```sh
python -m bench gemm --prepare --kernels out/kernels
python -m bench gemm --kernels out/kernels
```

`--shape M,N,K`, `--only WORDS`, `--peer NAME`, `--dtype`, `--turns N` and `--warm` narrow or change a run; a long list
is run in parts (`--part 1/2`), which `python -m bench merge SUITE` joins. `python -m bench random-gemm`,
`random-attention` and `random-rows` draw their lists from a seed, which they print; give the same `--seed S` to both
commands.
`python -m bench soak` runs every kind of kernel for its answers alone, `python -m bench sanitizers --kinds` runs each
under compute-sanitizer: memcheck, racecheck, synccheck and initcheck are clean. racecheck needs care in reading: where
two CTAs exchange values by mbarriers, and one thread arrives for all after the CTA's barrier, or one of each warp after
the warp has met, it reports hazards from run to run in a program of forty lines (`python -m bench.probes.racecheck`);
where every thread arrives it does not. By the ISA all are ordered; the tool seems to take an arrival for a release of
the arriving thread alone. CTAs that share a sum exchange it by stores that count their own bytes at the mbarrier
(st.async), which it follows, and which are faster (the probe prints the cycles of each).

## What a kernel waits for

`tilewright profile` runs a bundle under Nsight Compute and says how many warps could issue, what the others waited for,
how busy the tensor pipe, the L2 cache and DRAM were, where the kernel stands under its roofline, and how far off the
model's predictions were. `python -m bench profiles` does so for cases of a suite, with the kernels of any peer of the
races beside, tuned as there; what it found of cases that win least stands [with the
tables](benchmark-tables.md#what-kernels-wait-for).

```sh
tilewright profile gemm.twb --launches 3 --keep counters.csv
tilewright profile gemm.twb --from counters.csv --format html --output profile.html
python -m bench profiles --suite grouped --only decoding --peer triton
```

Times under the profiler are those of a kernel alone between passes, with caches flushed unless `--warm` is given; the
tables are of launches in a stream, and are what counts.

## What the choices rest on

| command | what is held against a GPU |
| --- | --- |
| `python -m bench model` | predicted times of decided pipelines, and whether the first choice is among the best |
| `python -m bench large-tiles` | tiles shared by consumers, and ping-pong tiles; with `--rows-of-b`, of operands \
whose rows boxes cut; with `--orders`, the orders in which tiles are taken |
| `python -m bench tile-family` | tiles of every shape near the estimate's best, in both orientations, whole and \
streamed, under load and after rests; with `--fit FILE`, the estimate's facts, with `--from FILE`, today's choices by \
a file's runs, without a GPU |
| `python -m bench stream-k` | tiles left over after whole waves, with the help of idle CTAs and taken whole |
| `python -m bench long-sums` | few tiles of large K: how many CTAs and clusters share each; with `--one-tile`, \
one tile; with `--from FILE`, today's choices by a file's runs, without a GPU |
| `python -m bench few-rows` | 1 to 1024 rows, B contiguous along K or, with `--rows-of-b`, N: decisions of every \
kind; with `--drawn COUNT`, of layers that are drawn; with `--by-model COUNT`, longer lists by what the model holds \
for quickest; with `--from FILE`, today's choices by a file's runs, or `--fit`, the model's parameters, without a GPU |
| `python -m bench clusters` | pairs of CTAs that load operands for each other, beside single CTAs of the same tiles; \
with `--alone`, what energy each takes |
| `python -m bench slots` | an iteration's time, by slots of the ring and how late they are released, \
beside its [schedule](schedules.md)'s interval |
| `python -m bench computed` | operands computed in registers and in a workspace, and which is chosen |
| `python -m bench unmapped` | operands of rows at multiples of 4 or 8 bytes: copied by threads, or by a launch before |
| `python -m bench registers --speeds` | registers that wait in shared memory beside narrower tiles; many operands in \
order beside all loads first |
| `python -m bench.probes.latencies` | the times of a schedule's tasks |
| `python -m bench.probes.cp_async` | how fast a multiprocessor takes copies by threads, by the size of the pieces |
| `python -m bench.probes.multicast` | how fast the L2 cache sends what one multiprocessor, two or all ask for, and \
what is multicast |
| `python -m bench.probes.empty_copies` | what bulk copies of 0 bytes do, whatever their addresses |
| `python -m bench.probes.cluster_forms` | which instructions for clusters run in a launch without one, and which lane \
`elect.sync` elects |
| `python -m bench.probes.beginnings` | what it costs how a short kernel begins and ends, behind one of its kind |
| `python -m bench.probes.operand_registers` | whether machine code leaves A's registers alone until the product that \
reads them is done; needs nvdisasm, no GPU |
| `python -m bench.probes.device` | the rate of a plain copy in device memory, and what the driver says of the GPU |
| `python -m bench conversions` | [exchanges](layouts.md) between register layouts, beside Triton's |

`python -m bench schedules` needs no GPU: it holds the heuristic scheduler against the optimum. Neither does `python -m
bench registers`: it holds orders of operations against each other, by what is live and by the registers that ptxas
takes, and reports what ptxas spills by the [slots](design.md#decisions) there are in shared memory.
"""


def page(results: Path = RESULTS) -> str:
    """The page with the overview and the method."""
    return "\n".join([_TITLE, *_overview(results), _HEAD]).rstrip() + "\n"


def tables(results: Path = RESULTS) -> str:
    """The page with every case."""
    parts = [_TABLES_TITLE]
    for name, title, lead in _SUITES:
        parts += [f"\n## {title}\n", f"{lead}\n", *_suite(results / f"{name}.json", name)]
    parts += [
        *random_products(results),
        *folded_rows(results),
        *fused_programs(results),
        *choices(results),
        *tile_family(results),
        *pairs(results),
        *long_sums(results),
        *few_rows(results),
        *predicted_times(results),
        *profiles(results),
    ]
    parts += [*compile_time(results), *answers(results)]
    # Result files name tiles by what ping-pong was called when they ran: `128x200 in turn`.
    return re.sub(r"(?<=x\d\d|\d\d\d) in turn\b", " ping-pong", "\n".join(parts)).rstrip() + "\n"


def figure(results: Path = RESULTS) -> str:
    """The figure of every suite that has been measured, as SVG."""
    found = [each for each in _summaries(results) if each.ratios]
    return overview_plot([SuiteRatios(each.title, each.ratios, each.mean, each.goals[0]) for each in found])


@dataclass(frozen=True, slots=True)
class _Summary:
    """One suite's races. ratios: best peer's time over ours, a case each, empty where none was measured; command:
    what follows `python -m bench`; goals: (geometric mean, worst)."""

    title: str
    command: str
    goals: tuple[float | None, float | None]
    ratios: tuple[float, ...] = ()
    refused: int = 0

    @property
    def mean(self) -> float:
        return statistics.geometric_mean(self.ratios)


def _summaries(results: Path) -> Iterator[_Summary]:
    """Of every suite, in the page's order."""
    of_products = [(name, title, TARGETS.get(name)) for name, title, _ in _SUITES]
    for name, title, goals in (*of_products, *_FURTHER):
        none = _Summary(title, _command(name), goals or (None, None))
        document = read(results / f"{name}.json")
        rows = [] if document is None else [row for row in document["rows"] if "case" in row]
        ratios = tuple(float(ratio) for row in rows if (ratio := _ratio(row)) is not None)
        yield replace(none, ratios=ratios, refused=sum(bool(row.get("refused")) for row in rows))


def _ratio(row: Mapping[str, Any]) -> float | None:
    """A case's, if it was timed; of decode, with keys in one piece."""
    return row.get("ratio", row.get("of_peers", {}).get(ONE_PIECE))


def _raced(path: Path) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]] | None:
    """(document, summary, rows) of a file of races; None for none, or one from before races were kept."""
    document = read(path)
    if document is None or not document["rows"] or "cases" not in document["rows"][0]:
        return None
    return document, document["rows"][0], document["rows"][1:]


def _overview(results: Path) -> Iterator[str]:
    yield "| suite | cases | refused | geometric mean | goal | worst | goal | behind | command |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in _summaries(results):
        if not each.ratios:
            wanted = ["" if goal is None else f"{goal:.2f}" for goal in each.goals]
            empty = f"not measured | | | {wanted[0]} | | {wanted[1]} | "
            yield f"| {each.title} | {empty} | `python -m bench {each.command}` |"
            continue
        reached = (each.mean, min(each.ratios))
        mean, worst = (_goal(found, wanted) for found, wanted in zip(reached, each.goals, strict=True))
        behind = sum(ratio < 1.0 for ratio in each.ratios)
        yield (
            f"| {each.title} | {len(each.ratios) + each.refused} | {each.refused} | {reached[0]:.3f} | {mean} | "
            f"{reached[1]:.3f} | {worst} | {behind} | `python -m bench {each.command}` |"
        )


def _goal(reached: float, goal: float | None) -> str:
    """The goal, and whether it was missed."""
    if goal is None:
        return ""
    return f"{goal:.2f}" if reached >= goal else f"{goal:.2f}, **missed**"


def _suite(path: Path, name: str) -> Iterator[str]:
    found = _raced(path)
    if found is None:
        yield f"`python -m bench {_command(name)}`\n"
        return
    document, _, rows = found
    yield provenance(document)
    yield from _tuning(rows)
    yield "| case | M, N, K | us | TFLOP/s | best peer | ratio | quartiles | other peers | MHz | errors: ours, peer's |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        yield _row(row)


def _tuning(rows: list[dict[str, Any]]) -> Iterator[str]:
    """How much of cublasLt's lists was tried, where not all of it was."""
    notes: list[dict[str, Any]] = [
        each["notes"]
        for row in rows
        for name, each in row.get("contenders", {}).items()
        if name.startswith("cublasLt") and "tuning_seconds" in each["notes"]
    ]
    offered, tried = sum(note["offered"] for note in notes), sum(note["tried"] for note in notes)
    corner, stopped = sum(note["slow_on_the_corner"] for note in notes), sum(len(note["stopped"]) for note in notes)
    if tried < offered or corner or stopped:
        yield (
            f"cublasLt, tuned: {tried} of {offered} algorithms of {len(notes)} lists in "
            f"{sum(note['tuning_seconds'] for note in notes):.0f} s; {corner} of those were far slower than others\n"
            f"on a corner of the product and not called on the whole, {stopped} did not return (`bench/cublaslt.py`).\n"
        )


def _command(name: str) -> str:
    if name == "fp8-turned":
        return f"fp8 --suite {name}"
    if name == "random-gemm-tuned":
        return "random-gemm --tune"
    return f"gemm --suite {name}" if name in SUITES and name.startswith("tritonbench") else name


def _row(row: Mapping[str, Any]) -> str:
    shape = ", ".join(map(str, row["shape"]))
    if "refused" in row or "ratio" not in row:
        words = str(row.get("refused", row.get("failed", "no peer took part"))).replace("|", "/").splitlines()[0]
        return f"| {row['case']} | {shape} | | | | | | {words} | | |"
    ours, best = row["contenders"]["ours"], row["best_peer"]
    low, high = row["quartiles"]
    others = ", ".join(f"{name} {each['median']:.3f}" for name, each in row["ratios"].items() if name != best)
    device = row["device"]
    clock = f"{device['sm_megahertz'][1]:.0f}" if device.get("samples") else ""
    errors = ""
    if ours["errors"]:
        theirs = row["contenders"][best]["errors"]
        errors = f"{_error(ours)}, {_error({'errors': theirs})}"
    return (
        f"| {row['case']} | {shape} | {ours['microseconds']:.1f} | {ours.get('tflops', 0):.0f} | {best} | "
        f"{row['ratio']:.3f} | {low:.3f} to {high:.3f} | {others} | {clock} | {errors} |"
    )


def _error(contender: Mapping[str, Any]) -> str:
    """The largest over kinds of inputs, and whether NaNs stood elsewhere."""
    errors = contender["errors"].values()
    words = f"{max(float(each['relative_error']) for each in errors):.1e}"
    return words if all(each["specials_agree"] for each in errors) else f"{words}, NaNs elsewhere"


def main() -> int:
    for path, text in ((PAGE, page()), (TABLES, tables()), (FIGURE, figure())):
        path.write_text(text, encoding="utf-8")
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
