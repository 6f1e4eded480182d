"""Which tile, in which orientation and shared by how many, is quickest for few to middling rows?

For each of `SHAPES` (bf16): the compiler's own choice, and decisions of every kind that a roof of a few rates holds for
quick: both orientations, tiles shared by CTAs of a cluster or by teams of them, pairs that share their loads, slices of
both depths, two CTAs a multiprocessor. With `--drawn`, products of public models' layers are drawn instead of listed.
The roof knows nothing of the compiler's models. All are compiled in parallel processes and timed beside torch.mm at a
steady clock (`bench.two_clocks`).

What the factors of `synth.tile.thin_product` are fitted to, and what its choices are held against. `--from FILE` needs
no GPU: it asks the compiler again, and says what its choices took in that file's runs where they are among them.

    python -m bench few-rows --rows-of-b
    python -m bench few-rows --drawn 60 --seed 11
    python -m bench few-rows --from bench/results/few_rows_of_b.json
    python -m bench few-rows --apart --shape 530,1536,8960 --shape 145,3072,3072

Not handled: 8-bit operands, scaled products, batches, groups of rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import two_clocks, wished
from bench.few_rows_fit import fit
from bench.few_rows_model import by_model, is_modelled
from bench.few_rows_runs import Parts, chosen_parts, judged, summary
from bench.gemm_suites import skinny, tritonbench_llama
from bench.model_layers import LAYERS
from bench.record import write
from bench.tile_runs import CHOSEN

if TYPE_CHECKING:
    from bench.wished import Shape
    from tilewright.synth.tile.wanted import Wanted

SHAPES: tuple[Shape, ...] = (
    (4, 12288, 4096), (8, 13312, 16384), (16, 12288, 4096), (16, 13312, 16384), (16, 4096, 11008), (32, 22016, 4096),
    (32, 12288, 4096), (32, 2304, 16384), (64, 7168, 8192), (64, 13312, 16384), (64, 22016, 4096), (64, 2304, 16384),
    (64, 16384, 6656), (64, 4096, 11008), (128, 1280, 8192), (128, 2304, 16384), (128, 7168, 8192), (128, 12288, 4096),
    (128, 13312, 16384), (128, 16384, 6656), (128, 22016, 4096), (128, 4096, 4096), (256, 1280, 8192),
    (256, 4096, 11008), (256, 2304, 16384), (256, 7168, 8192), (512, 2304, 16384), (512, 1280, 8192),
    (512, 4096, 11008), (1024, 2304, 16384),
)  # fmt: skip
"""Of TritonBench's llama list; (M, N, K)."""
SHAPES_OF_COLUMNS: tuple[Shape, ...] = tuple(
    (rows, n, k)
    for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (7168, 2048), (2112, 7168), (8192, 8192))
    for rows in (8, 32, 64, 128)
)
"""Of the skinny suite, for B held as (N, K)."""
_CONSUMERS = {64: 1, 128: 2, 192: 3, 256: 2}
_ALONG = {64: (16, 32, 64, 96, 128, 192, 256), 128: (64, 96, 112, 128, 160, 176, 192, 256), 192: (64, 128, 192),
          256: (64, 128)}  # fmt: skip
"""Columns of tiles tried, by their rows, besides those that deal the product out evenly."""
_SPLITS = (1, 2, 4, 8)
_TEAMS = (1, 2, 3, 4, 6)
_SHARING = (2, 4)
"""CTAs that share loads."""
_CLUSTERS = {1: 132, 2: 66, 4: 30, 8: 15}
"""How many clusters of so many CTAs run at once."""
_OPERATIONS_PER_CYCLE = 8192
_FETCHED_BYTES_PER_CYCLE = 56
_READ_BYTES_PER_CYCLE = 2200
_SPREAD_BYTES_PER_CYCLE = 5500
_MEETING_CYCLES = 2500
_ALONE_CYCLES = 3000
"""Where the next launch has no room beside this one."""
_MOST_OF_TEAMS = 96
"""Registers of accumulators, of a thread that adds what other teams have; more spill."""
_EXPOSED = 0.2
"""Of the loop, what nothing hides."""
_BOX = 64
"""Elements of B's rows that come together."""
_NEAR = 1.7
_OF_A_KIND = (1, 2, 4, 6)
_LEAST_DRAWN, _MOST_DRAWN = 17, 1024
"""Rows of products that are drawn, log-uniform, unless told otherwise."""
_MOST = 24
_VARIED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wished.add_arguments(parser, len(SHAPES))
    parser.add_argument("--rows-of-b", action="store_true", help="B is contiguous along N (default: along K)")
    parser.add_argument("--chosen", action="store_true", help="the compiler's choices alone")
    parser.add_argument(
        "--apart", action="store_true", help="its choices, and where neighbouring tiles overlap, the same side by side"
    )
    parser.add_argument("--drawn", type=int, metavar="COUNT", help="so many layers of public models, rows at random")
    parser.add_argument("--seed", type=int, default=1, help="what is drawn by (default %(default)s)")
    parser.add_argument("--least-rows", type=int, default=_LEAST_DRAWN, help="of what is drawn (default %(default)s)")
    parser.add_argument("--most-rows", type=int, default=_MOST_DRAWN, help="of what is drawn (default %(default)s)")
    parser.add_argument(
        "--by-model",
        type=int,
        metavar="COUNT",
        help="longer lists, and of each product what the model holds for quickest and what would be taken without it",
    )
    parser.add_argument(
        "--from", dest="stored", type=Path, action="append", metavar="FILE", help="judge today's choices by stored runs"
    )
    parser.add_argument("--fit", action="store_true", help="with --from: fit the model's parameters to those files")
    parser.add_argument("--free", action="append", default=[], metavar="NAME", help="with --fit: change only these")


def run(arguments: argparse.Namespace) -> int:
    if arguments.stored:
        files = [json.loads(path.read_text(encoding="utf-8"))["rows"] for path in arguments.stored]
        return fit(files, arguments.free) if arguments.fit else _judge(list(itertools.chain.from_iterable(files)))
    if arguments.fit:
        raise SystemExit("--fit takes the runs of result files: --from FILE")
    shapes = [wished.shape_of(text) for text in arguments.shape] if arguments.shape else list(_listed(arguments))
    tried = [{str(each): each for each in _tried(arguments, shape)} for shape in shapes]
    variants = [(shape, _wishes(parts)) for shape, parts in zip(shapes, tried, strict=True)]
    # Answers are compared with torch.mm's; so many texts would take longer to prove than to time.
    compiled = wished.compile_each(variants, rows_of_b=arguments.rows_of_b, jobs=arguments.jobs, texts=False)
    import torch

    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for shape, bundles in zip(shapes, compiled, strict=True):
        found = two_clocks.measure(
            torch, shape, bundles, rounds=arguments.rounds, rested_rounds=0, rows_of_b=arguments.rows_of_b
        )
        kept = {
            name: Parts.of(bundle.decisions).kept() for name, bundle in bundles.items() if not isinstance(bundle, str)
        }
        rows.append({"shape": list(shape), "rows of b": arguments.rows_of_b, "parts": kept, **found})
        times = sorted(found["steady"].items(), key=lambda pair: pair[1])
        print(f"{shape}: {'; '.join(_words(name, time, kept) for name, time in times[:6])}", flush=True)
        torch.cuda.empty_cache()
    kind = f"_drawn_{arguments.seed}" if arguments.drawn else ""
    kind += (
        "_chosen" if arguments.chosen else "_apart" if arguments.apart else "_by_model" if arguments.by_model else ""
    )
    name = f"few_rows{'_of_b' if arguments.rows_of_b else ''}{kind}"
    print(f"written to {write(name, rows, arguments.results)}")
    return 1 if any(row["wrong"] for row in rows) else 0


def drawn(seed: int, count: int, least_rows: int = _LEAST_DRAWN, most_rows: int = _MOST_DRAWN) -> tuple[Shape, ...]:
    """Products of public models' layers by a number of rows that is log-uniform: the first `count` of a seed."""
    source, least = random.Random(seed), math.log(least_rows)
    found: list[Shape] = []
    for _ in range(count):
        rows = int(math.exp(least + source.random() * (math.log(most_rows + 1) - least)))
        layer = LAYERS[int(source.random() * len(LAYERS))]
        found.append((rows, layer.n, layer.k))
    return tuple(found)


def _listed(arguments: argparse.Namespace) -> tuple[Shape, ...]:
    if arguments.drawn:
        return drawn(arguments.seed, arguments.drawn, arguments.least_rows, arguments.most_rows)
    if arguments.by_model:
        products = tritonbench_llama() if arguments.rows_of_b else skinny()
        return tuple((each.m, each.n, each.k) for each in products if is_modelled((each.m, each.n, each.k)))
    return SHAPES if arguments.rows_of_b else SHAPES_OF_COLUMNS


def _tried(arguments: argparse.Namespace, shape: Shape) -> list[Parts]:
    if arguments.chosen:
        return []
    if arguments.apart:
        chosen = chosen_parts(shape, rows_of_b=arguments.rows_of_b)
        return [chosen.side_by_side] if chosen.overlapping else []
    if arguments.by_model:
        return by_model(shape, arguments.by_model, rows_of_b=arguments.rows_of_b)
    return candidates(shape, rows_of_b=arguments.rows_of_b)


def _words(name: str, microseconds: float, kept: Mapping[str, dict[str, Any]]) -> str:
    known = f"chosen {Parts(**kept[name])}" if name == CHOSEN else name
    return f"{known} {microseconds:.2f}"


def _judge(rows: list[dict[str, Any]]) -> int:
    found = judged(rows)
    for each in found:
        print(each)
    mean, least, count = summary(found)
    print(f"geometric mean {mean:.3f}, least {least:.3f} of {count} choices that were measured")
    return 0


def _wishes(parts: Mapping[str, Parts]) -> dict[str, Wanted]:
    """What is fixed of each; and nothing, which is the compiler's choice."""
    from tilewright.synth.tile.wanted import Wanted

    return {CHOSEN: Wanted()} | {name: each.wanted() for name, each in parts.items()}


def candidates(shape: Shape, *, rows_of_b: bool) -> list[Parts]:
    """The quickest by the roof of each kind, then the quickest of all; none that differs from another by little."""
    roofs = {each: _roof(shape, each, rows_of_b=rows_of_b) for each in _family(shape, rows_of_b=rows_of_b)}
    near = sorted((each for each in roofs if roofs[each] < _NEAR * min(roofs.values())), key=roofs.__getitem__)
    found: list[Parts] = []
    for most in _OF_A_KIND:
        for each in near:
            alike = any(_alike(each, other) for other in found)
            of_a_kind = sum(_kind(other) == _kind(each) for other in found)
            if not alike and of_a_kind < most and len(found) < _MOST:
                found.append(each)
    # The quickest again in slices of another depth.
    for each in [each for each in found if not each.paired and not each.depth][:_VARIED]:
        found += each.variants()
    return found


def _alike(one: Parts, other: Parts) -> bool:
    return replace(one, columns=0) == replace(other, columns=0) and abs(one.columns - other.columns) <= one.columns // 8


def _kind(each: Parts) -> tuple[bool, bool, bool, bool, int]:
    return each.swapped, each.split > 1, each.teams > 1, each.paired, each.resident


def _family(shape: Shape, *, rows_of_b: bool) -> Iterator[Parts]:
    m, n, _ = shape
    for swapped in (False, True):
        tall, along = (n, m) if swapped else (m, n)
        for rows, consumers in _CONSUMERS.items():
            most = {64: 256, 128: 256, 192: 192, 256: 144}[rows]
            even = {8 * math.ceil(along / (8 * parts)) for parts in (*range(1, 9), 12, 16, 24, 33, 44, 66, 132)}
            for columns in sorted({*_ALONG[rows], *even}):
                if columns <= most and columns < 2 * along + 8 and (rows == 64 or rows < 2 * tall):
                    yield from _shared(shape, Parts(rows, columns, consumers, swapped), rows_of_b=rows_of_b)


def _shared(shape: Shape, tile: Parts, *, rows_of_b: bool) -> Iterator[Parts]:
    """A tile taken by all that may share it, where there is room also two in a multiprocessor."""
    for split in _SPLITS:
        for teams in _TEAMS:
            if tile.columns % (8 * split) == 0 and 256 * split * teams <= shape[2]:
                each = replace(tile, split=split, teams=teams)
                yield each
                if teams == 1 and each.fits_twice(64):
                    yield replace(each, depth=64, resident=2)
    # Each of a pair brings whole boxes of what both share.
    box = _BOX if rows_of_b else 8
    for_m, for_n = (8, box) if tile.swapped else (box, 8)
    paired = [replace(tile, cluster_m=ctas) for ctas in _SHARING if tile.columns % (ctas * for_m) == 0]
    paired += [replace(tile, cluster_n=ctas) for ctas in _SHARING if tile.rows % (ctas * for_n) == 0]
    for each in paired:
        yield each
        if each.fits_twice(64):
            yield replace(each, depth=64, resident=2)


def _roof(shape: Shape, each: Parts, *, rows_of_b: bool) -> float:
    """Cycles of the longest of multiplying and fetching, of memory and of all fetches, and of meeting."""
    m, n, k = shape
    tall, wide = (n, m) if each.swapped else (m, n)
    taken = (math.ceil(tall / (each.rows * each.cluster_m)), math.ceil(wide / (each.columns * each.cluster_n)))
    tiles = taken[0] * taken[1] * each.cluster_m * each.cluster_n
    ctas = _CLUSTERS[each.split * each.cluster_m * each.cluster_n] * each.split * each.cluster_m * each.cluster_n
    accumulators = each.rows * each.columns // (128 * each.consumers)
    if each.teams > 1 and (tiles * each.split * each.teams > ctas or accumulators > _MOST_OF_TEAMS):
        return math.inf
    depth = math.ceil(k / (each.split * each.teams))
    multiply = 2 * each.rows * max(64, each.columns) * depth / _OPERATIONS_PER_CYCLE
    box = _BOX if rows_of_b and not each.swapped else 8
    loaded = box * math.ceil(each.columns / box)
    fetched = 2 * (each.rows + loaded) * depth
    read_of_l2 = 2 * (each.rows / each.cluster_n + loaded / each.cluster_m) * depth
    waves = math.ceil(tiles * each.split * each.teams / ctas)
    spread = tiles * each.split * each.teams * read_of_l2 / _SPREAD_BYTES_PER_CYCLE
    read = 2 * (m * k + n * k + m * n) / _READ_BYTES_PER_CYCLE
    meeting = _MEETING_CYCLES + each.rows * each.columns / 4 if each.split > 1 else 0
    handing = _MEETING_CYCLES + each.rows * each.columns / 8 / each.split * (each.teams - 1) if each.teams > 1 else 0
    loop = waves * (max(multiply, fetched / _FETCHED_BYTES_PER_CYCLE) + meeting + handing)
    start = 0.0 if each.resident > 1 else _ALONE_CYCLES
    return max(loop, spread, read) + _EXPOSED * loop + start
