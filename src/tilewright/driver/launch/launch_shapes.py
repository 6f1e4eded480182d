"""Which blocks and clusters does a kernel's text suggest, where no launch is given?

Directives fix them: `.reqntid` and `.reqnctapercluster`. `.maxntid` is the most that a block may have; a kernel that
was compiled with `__launch_bounds__(N)` is normally launched with N threads, which is an assumption. Without a
directive the text suggests shapes:

- clusters: `cta_group::2` needs two CTAs, a constant multicast mask its width, `mapa` with a constant rank that rank,
  and with one that is kept below a constant, so many CTAs;
  a kernel that asks for its place in the cluster is tried with 1, 2 and 4; any other has clusters of one CTA;
- blocks: counts of named barriers and mbarriers, and comparisons of `%tid.x`, or of a warp's or warpgroup's number,
  with constants say how many threads the roles need; instructions of warpgroups come in multiples of 128 threads.

`judge_shapes` tries the shapes.
Source: PTX ISA 11.4 (performance directives), 11.7 (cluster directives), 9.7.16 (tcgen05: CTA pair).

Not handled: blocks of three dimensions; clusters along z; masks and ranks that are computed from special registers.
Checked by: tests/driver/launch/test_launch_shapes.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from math import gcd, prod

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Module,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    TensorAddress,
    Vector,
)

Extents = tuple[int, int, int]

CTAS_MOST = 16
"""CTAs of a cluster, with the attribute for sizes that are not portable (CUDA guide, thread block clusters)."""
THREADS_MOST = 1024
WARP_THREADS = 32
GROUP_THREADS = 128
_PLAIN_BLOCKS = (32, 128, 256)
"""Tried where the text suggests nothing."""
_FLAT_BLOCKS: tuple[Extents, ...] = ((16, 16, 1), (32, 8, 1), (32, 32, 1))
"""Tried where the text asks for %tid.y and suggests nothing; rows of whole warps alone, where warps do something
together."""
_ONE_ROW: Extents = (128, 1, 1)
"""Tried where all of these fail: what rows have in common is no other thread's."""
_CLUSTERS = (1, 2, 4)
_BLOCKS_KEPT = 3
_OF_WARPS = ("bar.warp", "elect", "ldmatrix", "match", "mma", "redux", "shfl", "stmatrix", "vote", "wmma")
_OF_WARPGROUPS = ("wgmma", "setmaxnreg", "tcgen05.ld", "tcgen05.st")
_CLAIMS_WORK = "clusterlaunchcontrol"
_PROPOSED_MOST = 8
_COPIED = frozenset({"mov", "cvt", "shfl.sync"})
_COUNT_OF_BARRIER = {
    **dict.fromkeys(("bar.sync", "bar.arrive", "barrier.sync", "barrier.arrive"), 1),
    **dict.fromkeys(("bar.red", "barrier.red"), 2),
}
"""Which operand of a named barrier is its thread count."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A block, in threads, and a cluster, in CTAs; grid: in CTAs, None where it is to be explored."""

    block: Extents
    cluster: Extents = (1, 1, 1)
    grid: Extents | None = None


@dataclass(frozen=True, slots=True)
class GivenShape:
    """What the user says of the launch's shape; None where nothing is said."""

    block: Extents | None = None
    cluster: Extents | None = None
    grid: Extents | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of a block or of a cluster.

    likely: those that the text suggests, the likeliest first; others: that it allows, too; proposed: at which counts of
    barriers may be met, where no likely one is possible; fixed: by a directive or by
    the user; generic: the kernel should work with any that is likely, since the text asks how large it is, or does not
    say which is meant.
    """

    likely: tuple[Extents, ...]
    others: tuple[Extents, ...] = ()
    fixed: bool = True
    generic: bool = False
    proposed: tuple[Extents, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchShapes:
    """The shapes to try. assumptions: in words, of what the text does not fix and nothing is tried in place of;
    ctas_most: CTAs of a cluster; apart: the text neither waits for other CTAs of a cluster nor addresses their memory,
    so that it is right in clusters of one CTA alone, wherever a cancelled launch is announced to a whole cluster."""

    blocks: Choices
    clusters: Choices
    grid: Extents | None = None
    assumptions: tuple[str, ...] = ()
    ctas_most: int = CTAS_MOST
    apart: bool = False

    @property
    def fixed(self) -> bool:
        return self.blocks.fixed and self.clusters.fixed

    @property
    def generic(self) -> bool:
        return self.blocks.generic or self.clusters.generic

    @property
    def likely(self) -> tuple[Shape, ...]:
        return tuple(
            Shape(block, cluster, self.grid) for block in self.blocks.likely for cluster in self.clusters.likely
        )

    @property
    def others(self) -> tuple[Shape, ...]:
        """As the first likely shape, but for the cluster or for the block."""
        block, cluster = self.blocks.likely[0], self.clusters.likely[0]
        return (
            *(Shape(block, other, self.grid) for other in self.clusters.others),
            *(Shape(other, cluster, self.grid) for other in self.blocks.others),
        )

    @property
    def proposed(self) -> tuple[Shape, ...]:
        return tuple(
            Shape(block, cluster, self.grid) for block in self.blocks.proposed for cluster in self.clusters.likely
        )

    def takes(self, cluster: Extents) -> bool:
        """Whether there may be clusters of this extent."""
        return prod(cluster) <= self.ctas_most and (self.grid is None or _divides(cluster, self.grid))


def launch_shapes(module: Module, kernel: Kernel, given: GivenShape | None = None) -> LaunchShapes:
    """The shapes that `kernel` may be launched with. given: what the user says, which no directive contradicts."""
    given = given or GivenShape()

    @cache
    def texts() -> tuple[_Text, ...]:  # most launches give both, and then nothing is read off the text
        return tuple(_Text(code.body or ()) for code in (kernel, *module.functions))

    assumptions: list[str] = []
    directives = kernel.directives
    block = given.block or three(directives.get("reqntid"))
    if block is not None:
        blocks = Choices((block,))
    elif (most := three(directives.get("maxntid"))) is not None:
        blocks = Choices((most,))
        assumptions.append(f"a block of {prod(most)} threads, the most that .maxntid allows")
    else:
        blocks = _blocks(texts())
    cluster = given.cluster or three(directives.get("reqnctapercluster"))
    most_ctas = (directives.get("maxclusterrank") or (CTAS_MOST,))[0]
    clusters = Choices((cluster,)) if cluster is not None else _clusters(texts(), most_ctas, given.grid)
    apart = not clusters.fixed and _stand_apart(texts())
    return LaunchShapes(blocks, clusters, given.grid, tuple(assumptions), most_ctas, apart)


_OF_GRID = ("%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%smid", "%nsmid", "%gridid")


def asks_for_grid(module: Module, kernel: Kernel) -> bool:
    """Whether the text asks how large the grid is, or where in it a CTA is."""
    return any(
        isinstance(item, Instruction)
        and any(name.startswith(_OF_GRID) for each in item.operands for name in _names(each))
        for code in (kernel, *module.functions)
        for item in code.body or ()
    )


def three(extents: tuple[int, ...] | None) -> Extents | None:
    """x, y and z of a directive's values, None where there are none."""
    if not extents:
        return None
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


# ---------------------------------------------------------------- clusters


def _clusters(texts: tuple[_Text, ...], most: int, grid: Extents | None) -> Choices:
    least, width = 1, 0
    for text in texts:
        for item in text.instructions:
            if "cta_group::2" in item.modifiers:
                least = max(least, 2)
            if "multicast::cluster" in item.modifiers and (mask := _mask(text, item)) is not None and mask > 0:
                width = max(width, mask.bit_length())
            if item.row == "mapa" and len(item.operands) == 3:
                rank = text.constant(item.operands[2])
                least = max(least, 0 if rank is None else rank + 1)
                width = max(width, _ranks(text, item.operands[2]))
    asked = frozenset[str]().union(*(text.specials for text in texts))
    place = any(name.startswith(("%cluster_", "%is_explicit_cluster", "%clusterid")) for name in asked)
    items = [item for text in texts for item in text.instructions]
    reaches = any("multicast::cluster" in item.modifiers for item in items)
    if any(_needs_cluster(item) for item in items):  # which launches without one do not run
        reaches = reaches or any(item.row.startswith(("mapa", "barrier.cluster")) for item in items)
    if least == 1 and not width and not place and not reaches:
        return Choices(((1, 1, 1),))
    generic = any(name.startswith("%cluster_nct") for name in asked)
    along_y = any(name in ("%cluster_ctaid.y", "%cluster_nctaid.y", "%clusterid.y") for name in asked)
    sizes = tuple(size for size in (*_CLUSTERS, 8) if least <= size <= most) or (least,)
    if width:
        likely: tuple[int, ...] = (_even(max(least, width)),)
    elif least > 1:
        likely = (_even(least),)
    else:
        likely = tuple(size for size in sizes if size in _CLUSTERS)
    rest = tuple(size for size in sizes if size not in likely)
    extents = tuple((size, 1, 1) for size in likely)
    flat: list[Extents] = [(2, 2, 1)] if along_y and least <= 4 <= most else []
    if along_y and least <= 2 <= most:
        flat.insert(0, (1, 2, 1))
    others = (*flat, *((size, 1, 1) for size in rest))
    if grid is not None:
        extents = tuple(each for each in extents if _divides(each, grid)) or ((1, 1, 1),)
        others = tuple(each for each in others if _divides(each, grid) and each not in extents)
    return Choices(extents, others, fixed=False, generic=generic)


def _ranks(text: _Text, rank: Operand) -> int:
    """How many CTAs a rank may name that the text compares with a constant: a lane for each CTA. 0 where it is not."""
    if not isinstance(rank, Register):
        return 0
    bounds: set[int] = set()
    for item in text.instructions:
        if item.row == "setp" and len(item.operands) > 2 and item.operands[1] == rank:
            bounds |= {bound for bound in (_boundary(item, text.constant(item.operands[2])),) if bound is not None}
    return min((bound for bound in bounds if 1 < bound <= CTAS_MOST), default=0)


def _boundary(item: Instruction, value: int | None) -> int | None:
    """The least number on the upper side of a comparison with a constant; None of one for equality."""
    if value is None:
        return None
    match item.modifiers[0]:
        case "lt" | "ge" | "lo" | "hs":
            return value
        case "le" | "gt" | "ls" | "hi":
            return value + 1
        case _:
            return None


def _needs_cluster(item: Instruction) -> bool:
    """Whether an engine writes shared memory from registers or shared memory."""
    copies = item.row in ("cp.async.bulk", "cp.reduce.async.bulk") and "bulk_group" not in item.modifiers
    return item.row in ("st.async", "red.async") or (copies and "global" not in item.modifiers)


def _stand_apart(texts: tuple[_Text, ...]) -> bool:
    """Whether nothing is for a cluster of several CTAs but what asks for more work, which is written in the same way
    for a cluster of one."""
    rows = {item.row for text in texts for item in text.instructions}
    others = (item for text in texts for item in text.instructions if not item.row.startswith(_CLAIMS_WORK))
    joined = "mapa" in rows or any(row.startswith("barrier.cluster") for row in rows)
    claims = any(row.startswith(_CLAIMS_WORK) for row in rows)
    return claims and not joined and not any("multicast::cluster" in item.modifiers for item in others)


def _mask(text: _Text, item: Instruction) -> int | None:
    """The constant multicast mask of a copy, None where it is computed. It comes after the last address."""
    last = max((at for at, each in enumerate(item.operands) if isinstance(each, Address)), default=-1)
    return text.constant(item.operands[last + 1]) if 0 <= last < len(item.operands) - 1 else None


def _even(count: int) -> int:
    """The power of two from a count on: no cluster of another size is launched."""
    return 1 << (count - 1).bit_length()


def _divides(cluster: Extents, grid: Extents) -> bool:
    return all(blocks % ctas == 0 for blocks, ctas in zip(grid, cluster, strict=True))


# ---------------------------------------------------------------- blocks


def _blocks(texts: tuple[_Text, ...]) -> Choices:
    unit = WARP_THREADS
    needed: set[int] = set()
    if any(item.row.startswith(_OF_WARPGROUPS) for text in texts for item in text.instructions):
        unit = GROUP_THREADS
        needed.add(unit)
    beyond: set[int] = set()
    for text in texts:
        needed |= set(_barrier_threads(text))
        exact, split = _compared_threads(text)
        needed |= exact
        beyond |= split
    asked = frozenset[str]().union(*(text.specials for text in texts))
    least = min(THREADS_MOST, _rounded(max((*needed, *beyond), default=0), unit))
    if unit == WARP_THREADS and any(name in ("%tid.y", "%ntid.y") for name in asked):
        together = any(item.row.startswith(_OF_WARPS) for text in texts for item in text.instructions)
        rows = [each for each in _FLAT_BLOCKS if each[0] % WARP_THREADS == 0 or not together]
        flat = tuple(each for each in rows if prod(each) >= least) or (_FLAT_BLOCKS[-1],)
        return Choices(flat, (_ONE_ROW,), False, True, _flat(_proposed(texts, unit)))
    if least <= WARP_THREADS:
        proposed = tuple((each, 1, 1) for each in _proposed(texts, unit) if each not in _PLAIN_BLOCKS)
        return Choices(tuple((each, 1, 1) for each in _PLAIN_BLOCKS), (), False, True, proposed[:_PROPOSED_MOST])
    counts = {least}
    if max(beyond, default=0) >= max(needed, default=0):
        # Threads on either side of a comparison: one more unit of them beyond the last boundary.
        counts.add(least + unit)
    for count in (count for text in texts for count in _init_counts(text) if count >= least):
        counts |= {_rounded(count, unit), _rounded(count, unit) + unit}
    likely = tuple(sorted(count for count in counts if count <= THREADS_MOST))[:_BLOCKS_KEPT]
    proposed = tuple(count for count in _proposed(texts, unit) if count > least and count not in likely)
    others = tuple(count for count in (least + unit, 2 * least) if count <= THREADS_MOST and count not in likely)
    return Choices(
        tuple((count, 1, 1) for count in likely),
        tuple((count, 1, 1) for count in dict.fromkeys(others)),
        fixed=False,
        generic=len(likely) > 1,
        proposed=tuple((count, 1, 1) for count in proposed[:_PROPOSED_MOST]),
    )


def _proposed(texts: tuple[_Text, ...], unit: int) -> list[int]:
    """Blocks at which counts of barriers are met: if threads arrive and each barrier is met by others, multiples of
    the greatest unit that divides all counts, up to the threads that all barriers together count; if one lane of each
    warp or warpgroup arrives, so many of them."""
    counts = [count for text in texts for count in _init_counts(text)]
    named = {count for text in texts for count in _barrier_threads(text)}
    found: list[int] = []
    if counts or named:
        group = max(unit, gcd(*counts, *named))
        found += range(group, min(THREADS_MOST, sum(counts) + sum(named)) + 1, group)
    elected = sorted({count for text in texts for count in _elected_counts(text)})
    found += [count * size for size in (GROUP_THREADS, WARP_THREADS) for count in elected]
    return [count for count in dict.fromkeys(found) if count % unit == 0 and count <= THREADS_MOST]


def _flat(counts: Iterable[int]) -> tuple[Extents, ...]:
    """Blocks of so many threads: in rows of a warp, or in one row."""
    rows = [(WARP_THREADS, count // WARP_THREADS, 1) for count in counts]
    found = (each for row in rows for each in (row, (prod(row), 1, 1)))
    return tuple(each for each in dict.fromkeys(found) if each not in _FLAT_BLOCKS)[:_PROPOSED_MOST]


def _rounded(count: int, unit: int) -> int:
    return count + -count % unit


def _barrier_threads(text: _Text) -> Iterator[int]:
    """Thread counts of named barriers."""
    for item in text.instructions:
        at = _COUNT_OF_BARRIER.get(item.row)
        count = text.constant(item.operands[at]) if at is not None and at < len(item.operands) else None
        if count is not None and 0 < count <= THREADS_MOST:
            yield count


def _init_counts(text: _Text) -> Iterator[int]:
    """Counts of mbarriers that whole warps arrive at."""
    for item in text.instructions:
        if item.row == "mbarrier.init" and len(item.operands) == 2:
            count = text.constant(item.operands[1])
            if count is not None and count % WARP_THREADS == 0 and 0 < count < THREADS_MOST:
                yield count


def _elected_counts(text: _Text) -> Iterator[int]:
    """Counts of mbarriers that one lane of each of several warps or warpgroups arrives at."""
    for item in text.instructions:
        if item.row == "mbarrier.init" and len(item.operands) == 2:
            count = text.constant(item.operands[1])
            if count is not None and 1 < count < WARP_THREADS:
                yield count


def _compared_threads(text: _Text) -> tuple[set[int], set[int]]:
    """How many threads there must be for what %tid.x is compared with: as equal, and as a boundary between threads."""
    numbers = text.thread_numbers
    exact: set[int] = set()
    split: set[int] = set()
    for item in text.instructions:
        if item.row != "setp" or len(item.operands) < 3 or not isinstance(item.operands[1], Register):
            continue
        place = numbers.get(item.operands[1].name)
        value = text.constant(item.operands[2])
        if place is None or value is None or not 0 <= value <= THREADS_MOST:
            continue
        unit, first = place
        if item.modifiers[0] in ("eq", "ne"):
            exact.add((value + 1) * unit + first)
        elif (boundary := _boundary(item, value)) is not None:
            split.add(boundary * unit + first)
    within = range(1, THREADS_MOST + 1)
    return {each for each in exact if each in within}, {each for each in split if each in within}


# ---------------------------------------------------------------- the text


class _Text:
    """One function's instructions, and what can be read off them about constants, threads and special registers."""

    def __init__(self, body: Iterable[Instruction | Label]) -> None:
        self.instructions = tuple(item for item in body if isinstance(item, Instruction))
        self.written: dict[str, list[Instruction]] = {}
        uses: Counter[str] = Counter()
        specials: dict[str, set[str]] = {}
        for item in self.instructions:
            names = [name for operand in item.operands for name in _names(operand)]
            uses.update(names)
            if item.guard is not None:
                uses[item.guard.register.name] += 1
            if item.operands and isinstance(item.operands[0], Register | Vector | PairOfPredicates):
                for name in _names(item.operands[0]):
                    self.written.setdefault(name, []).append(item)
            for name in names:
                if name.startswith(("%cluster", "%is_explicit", "%tid", "%ntid")):
                    specials.setdefault(name, set()).update(_names(item.operands[0]))
        # A register that is read and then not used asks for nothing: inline assembly leaves such behind.
        self.specials = frozenset(name for name, into in specials.items() if any(uses[each] > 1 for each in into))
        self.thread_numbers = self._thread_numbers()

    def constant(self, operand: Operand, depth: int = 6) -> int | None:
        """The value of an operand that is computed from constants alone."""
        match operand:
            case Immediate(value):
                return value
            case Register(name) if depth and len(self.written.get(name, ())) == 1:
                (item,) = self.written[name]
                if item.guard is not None:
                    return None
                values = [self.constant(each, depth - 1) for each in item.operands[1:]]
                known = [value for value in values if value is not None]
                if len(known) != len(values):
                    return None
                match item.row, known:
                    case "mov" | "cvt", [value]:
                        return value
                    case "shl", [value, by] if 0 <= by < 64:
                        return value << by
                    case "add", [first, second]:
                        return first + second
                    case "or", [first, second]:
                        return first | second
                    case _:
                        return None
            case _:
                return None

    def _thread_numbers(self) -> dict[str, tuple[int, int]]:
        """Registers that hold (%tid.x - first) / unit, by name, as (unit, first)."""
        found: dict[str, tuple[int, int]] = {"%tid.x": (1, 0)}
        for _ in range(4):  # in a few steps, mostly in order
            before = len(found)
            for item in self.instructions:
                if len(item.operands) < 2 or not isinstance(item.operands[1], Register):
                    continue
                place = found.get(item.operands[1].name)
                names = _names(item.operands[0])
                if place is None or not names or len(self.written.get(names[0], ())) != 1:
                    continue
                unit, first = place
                by = self.constant(item.operands[2]) if len(item.operands) > 2 else None
                if item.row in _COPIED and (item.row != "shfl.sync" or "idx" in item.modifiers):
                    found.setdefault(names[0], place)
                elif item.row == "shr" and by is not None and 0 <= by <= 10:
                    found.setdefault(names[0], (unit << by, first))
                elif item.row == "div" and by is not None and 0 < by <= THREADS_MOST:
                    found.setdefault(names[0], (unit * by, first))
                elif item.row in ("add", "sub") and by is not None:
                    more = by if item.row == "add" else -by
                    if more > 1 << 31:
                        more -= 1 << 32
                    found.setdefault(names[0], (unit, first - more * unit))
            if len(found) == before:
                break
        return found


def _names(operand: Operand) -> tuple[str, ...]:
    """The registers of an operand."""
    match operand:
        case Register(name):
            return (name,)
        case Negated(register):
            return (register.name,)
        case Address(Register(name), _):
            return (name,)
        case TensorAddress(base, coordinates):
            return (*_names(base), *(name for each in coordinates for name in _names(each)))
        case Vector(items) | Arguments(items):
            return tuple(name for each in items for name in _names(each))
        case PairOfPredicates(first, second):
            return (first.name, second.name)
        case _:
            return ()
