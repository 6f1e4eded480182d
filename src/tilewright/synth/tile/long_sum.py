"""Which tile, and how many CTAs to share its contracted axis, for a product of few tiles and a long sum?

Few tiles leave multiprocessors idle, and each of the others with a long way to go; smaller ones fetch more. CTAs of a
cluster that share a tile (`synth.distribution.split`) fetch no more together than one would, and meet once. But a
cluster is of one GPC, and so is what it can fetch in a time; teams of clusters (`ir.ac.team`) are of several, and hand
their sums over through memory, which takes longer. A closed form ranks tiles with the CTAs and teams that share each: a
slice takes a norm of multiplying it, of fetching it from the L2 cache, and of waiting for it where the ring is short; a
tile is its slices and, if it is shared, its meeting and handing over; whole waves of clusters make the loop, and a norm
of that and of what memory brings to all CTAs together makes the product. How many clusters of a size run at once is a
fact of the target: multiprocessors of a GPC may be left over.

What is compared is the best tile that nobody shares, by `synth.distribution.turns` where that knows the product;
another is taken only for a saving that is larger than the model's error, which of tiles that nobody shares tells more
than they take. Parameters (`SumParameters`) are target facts, fitted to the choices among 2213 runs of 53 products on
an H200 (`python -m bench long-sums --from FILE --fit`).

Not handled, and left as they were chosen: several products, batches, scaled products, groups of rows, 8-bit operands,
results of more tiles than there are multiprocessors. Of few rows by many columns `synth.tile.few_rows` asks again.
Checked by: tests/synth/tile/test_long_sum.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache

from tilewright.ir.ac.split import sum_parts
from tilewright.synth.cost.model import rates_of
from tilewright.synth.distribution.split import clusters_at_once, meeting_bytes, splits_of
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.tile.shape import TileQuestion, TileShape, loaded_columns, tile_family
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_LEAST_DEPTH = 2048
"""Elements of the contracted axis, of the shortest sums that the model was fitted to."""
_MOST_THIN = 1024
"""Elements of the longer side of a result that has few rows or columns; longer: `synth.tile.thin_product`."""
_FEW = 128
_TILE = 128
"""Rows and columns of tiles that make up a result, of which there are no more than multiprocessors."""
_ROWS = ((64, 1), (128, 2), (256, 2))
"""Rows of tiles, and the consumers that share them."""
_COLUMNS = (16, 32, 48, 64, 96, 128, 160, 192, 256)
_TEAMS = (1, 2, 3, 4, 6, 8)
_MOST_SHARES = 48
"""CTAs that share a tile; more were slower for every sum of the list (measured)."""
_MOST_ELEMENTS = 128 * 192
"""Of a tile."""
_MOST_STAGES = 8
_LEAST_STAGES = 3
_DEEP_STAGE_BYTES = 16384
"""A stage is deepened while it holds fewer, as for other tiles."""
_LEAST_GAIN = {False: 0.08, True: 0.02}
"""For which another shape is taken than the one that was chosen, by whether that is shared already: sums that nobody
shares are measured in larger numbers, and this model adds nothing to what is known of them."""
_FITTED_BYTES = 2


@dataclass(frozen=True, slots=True)
class SumParameters:
    """The rows `long_sum.*` of a target, in their units.

    start_cycles: from the end of the launch before to the first product, and from the last store to the end.
    alone_cycles: what that takes besides where the next launch's CTAs have no room beside this one's.
    slice_cycles: of each slice, besides what it takes by the norm. latency_cycles: from the release of a slot to its
    next product. meeting_cycles, member_cycles: of a rendezvous, and for each CTA of it after the first.
    handing_cycles, team_cycles: of handing a sum over through memory, and for each team that does. taken_bytes_per_
    kilocycle: what a CTA takes of such sums.
    exchange_, fetch_, spread_bytes_per_kilocycle: what a CTA gets of accumulators in a rendezvous, of slices from the
    L2 cache, and of slices while all do. read_permille: of a long copy's rate, under the norms.
    narrow_columns: a wgmma of fewer is bound by reading the rows' operand.
    slice_, memory_, kernel_norm_permille: how well parts hide one another.
    """

    start_cycles: float
    alone_cycles: float
    slice_cycles: float
    latency_cycles: float
    meeting_cycles: float
    member_cycles: float
    handing_cycles: float
    team_cycles: float
    taken_bytes_per_kilocycle: float
    exchange_bytes_per_kilocycle: float
    fetch_bytes_per_kilocycle: float
    spread_bytes_per_kilocycle: float
    read_permille: float
    narrow_columns: float
    slice_norm_permille: float
    memory_norm_permille: float
    kernel_norm_permille: float


@cache
def parameters_of(target: Target) -> SumParameters:
    """What is known of a target's device. Raises TilewrightError where nothing is."""
    return SumParameters(**{each.name: float(target.limit(f"long_sum.{each.name}")) for each in fields(SumParameters)})


def long_sum_shape(
    question: TileQuestion, shape: TileShape, target: Target, wanted: Wanted, reasons: list[str]
) -> TileShape:
    """The shape that the closed form prefers, where it saves enough; else `shape`, which was chosen by others."""
    if not is_long_sum(question, target, wanted):
        return shape
    given = sum_cycles(parameters_of(target), question, shape, stages_of(shape, question, target), target)
    found = dict(estimated(question, target))
    best = min(found, key=lambda each: found[each], default=shape)
    if best == shape or found[best] > (1 - _LEAST_GAIN[shape.split > 1]) * given:
        return shape
    reasons.append(
        f"tile {best.rows}x{best.columns}x{best.depth}, shared by {best.teams} x {best.split} CTAs: about "
        f"{found[best]:.0f} cycles by the split-K model, against {given:.0f} of {shape.rows}x{shape.columns} by "
        f"{shape.split}"
    )
    return best


def estimated(question: TileQuestion, target: Target) -> Iterator[tuple[TileShape, float]]:
    """All tiles that are compared, with their estimated cycles."""
    p = parameters_of(target)
    for candidate in _candidates(question, target):
        stages = stages_of(candidate, question, target)
        if stages >= _LEAST_STAGES:
            yield candidate, sum_cycles(p, question, candidate, stages, target)


def is_long_sum(question: TileQuestion, target: Target, wanted: Wanted) -> bool:
    """Whether a product is one for this model, and nothing is fixed from outside."""
    plain = question.products == 1 and not question.scaled_depth and not question.scaled and question.batch == 1
    if not plain or question.element_bytes != _FITTED_BYTES or not nothing_is_fixed(wanted):
        return False
    rows, columns, depth = question.extents
    thin = min(rows, columns) <= _FEW
    tiles = math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    few = max(rows, columns) <= _MOST_THIN if thin else tiles <= target.limit("device.multiprocessors")
    return few and depth >= _LEAST_DEPTH


def nothing_is_fixed(wanted: Wanted) -> bool:
    """Whether no part of what tiles are and who shares them is asked for."""
    fixed = (
        wanted.tile, wanted.cluster, wanted.consumers, wanted.split, wanted.depth, wanted.swapped, wanted.resident,
        wanted.stages, wanted.turns, wanted.computed, wanted.teams, wanted.stream_k or None, wanted.steps,
    )  # fmt: skip
    return all(each is None for each in fixed)


def _candidates(question: TileQuestion, target: Target) -> Iterator[TileShape]:
    span = slice_depth(question.element_bytes)
    for rows, columns, consumers in tile_family(target, _COLUMNS):
        if rows * columns > _MOST_ELEMENTS or (rows, consumers) not in _ROWS:
            continue
        deep = (rows + columns) * span * question.element_bytes < _DEEP_STAGE_BYTES
        # Larger clusters are not portable, and no quicker than teams of smaller ones.
        portable = [split for split in splits_of(target) if split <= target.limit("cluster.ctas_max_portable")]
        for split, teams in itertools.product(portable, _TEAMS):
            tiles = math.ceil(question.extents[0] / rows) * math.ceil(question.extents[1] / columns)
            if teams > 1 and tiles * teams > clusters_at_once(split, target):
                # Who waits for others and who is waited for are resident together.
                continue
            if split * teams <= _MOST_SHARES and split * teams * span <= question.extents[2]:
                depth = 2 * span if deep else span
                yield TileShape(rows, columns, depth, consumers, question.orientations[0], split=split, teams=teams)


def stages_of(shape: TileShape, question: TileQuestion, target: Target) -> int:
    """About as many slots as there will be: what shared memory holds beside the staged tile and the meeting."""
    slot_bytes = (shape.rows + shape.columns) * shape.depth * question.element_bytes
    staged = shape.rows * min(shape.columns, 64) * question.stored_bytes
    left = target.limit("cta.shared_bytes_max") - meeting_bytes(shape, target) - staged
    return min(_MOST_STAGES, left // slot_bytes)


def sum_cycles(p: SumParameters, question: TileQuestion, shape: TileShape, stages: int, target: Target) -> float:
    """Estimated cycles of a launch. stages: slots of the ring."""
    rates = rates_of(target, question.element_bytes)
    rows, columns, depth = question.extents
    if shape.swapped:
        rows, columns = columns, rows
    tiles = math.ceil(rows / shape.rows) * math.ceil(columns / shape.columns)
    slot_bytes = (shape.rows + loaded_columns(rates, question, shape)) * shape.depth * question.element_bytes
    multiply = 2 * shape.rows * max(shape.columns, p.narrow_columns) * shape.depth / rates.operations_per_cycle
    fetch = 1000 * slot_bytes / p.fetch_bytes_per_kilocycle
    wait = p.latency_cycles / max(1, stages - 1)
    each = p_norm((multiply, fetch, wait), p.slice_norm_permille) + p.slice_cycles
    slices = math.ceil(depth / (shape.depth * shape.shares))
    meeting = 0.0
    if shape.split > 1:
        exchanged = 1000 * 4 * shape.rows * shape.columns / p.exchange_bytes_per_kilocycle
        meeting = p.meeting_cycles + p.member_cycles * (shape.split - 1) + exchanged
    meeting += handing_cycles(p, shape.rows * shape.columns // sum_parts(shape.columns, shape.split), shape.teams)
    waves = math.ceil(tiles * shape.teams / clusters_at_once(shape.split, target))
    loop = waves * (slices * each + meeting)
    copied = target.limit("device.dram_bytes_per_second") / target.limit("device.clock_hertz")
    compulsory = (rows + columns) * depth * question.element_bytes + rows * columns * question.stored_bytes
    read = compulsory / (copied * p.read_permille / 1000)
    spread = 1000 * tiles * shape.shares * slices * slot_bytes / (p.spread_bytes_per_kilocycle * rates.multiprocessors)
    memory = p_norm((read, spread), p.memory_norm_permille)
    busy = 2 * min(tiles * shape.shares, rates.multiprocessors) > rates.multiprocessors
    start = p.start_cycles + (p.alone_cycles if busy else 0.0)
    return start + p_norm((loop, memory), p.kernel_norm_permille)


def handing_cycles(p: SumParameters, values: int, teams: int) -> float:
    """Estimated cycles in which teams hand their sums over. values: of a CTA's part."""
    if teams == 1:
        return 0.0
    taken_bytes = 4 * values * (teams - 1)
    return p.handing_cycles + p.team_cycles * (teams - 1) + 1000 * taken_bytes / p.taken_bytes_per_kilocycle


def p_norm(parts: tuple[float, ...], permille: float) -> float:
    """Of positive numbers; the power in thousandths."""
    longest, power = max(parts), permille / 1000
    return longest * sum((part / longest) ** power for part in parts) ** (1 / power)
