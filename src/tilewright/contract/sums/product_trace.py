"""What did the tensor cores of a run multiply, and what did the warps that asked for it write to global memory next?

A copy brings a box of an array into shared memory, a wgmma reads it there (`operand_elements`), and a warp that has
waited for its wgmmas stores results. Nothing here judges: the products of each warpgroup are put down in the order of
the run, and what its warps wrote by the products that they had issued until then. That an operand holds the box whose
copy was issued last at its place is taken for granted, since the judge of accesses (`happens_before`) refutes a text in
which another copy may be in flight there.

A tcgen05.mma is issued by one thread for all that read its sums, of a pair of CTAs for both. Its products are put down
for the thread's warpgroup, one for each CTA; and a warp that reads what an accumulator in tensor memory holds takes its
last product over, as one of its own (`GroupSteps.taken_over`), so that its writes come after that.

Not handled: operands in registers, and those that threads have copied, whose elements are left open; values between
accumulator and store; writes of warps that multiply nothing.
Checked by: tests/contract/sums/test_product_trace.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.base.span import Span
from tilewright.base.value import value
from tilewright.contract.sums.operand_elements import LoadedBoxes, MatrixPart, NoMatrix
from tilewright.machine.core.event import (
    Access,
    BoxPlace,
    CopyIssue,
    Ranges,
    TensorBlock,
    TensorMemoryIssue,
    WarpActor,
    WgmmaIssue,
)
from tilewright.targets import Target

_WARPGROUP_WARPS = 4

Operand = tuple[MatrixPart, ...] | NoMatrix


@value
class Product:
    """One wgmma, or what a tcgen05.mma makes in one CTA. left: A, right: B; empty where nothing is known of its
    elements. accumulator: the first register, or CTA and column."""

    left: Operand
    right: Operand
    accumulator: str
    accumulates: bool
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """What a warp writes to global memory: a box, or bytes (machine addresses; empty for a copy that is no box)."""

    box: BoxPlace | None
    ranges: Ranges
    span: Span


@dataclass(slots=True)
class GroupSteps:
    """One warpgroup of one launch, or one warp that only reads sums in tensor memory. products: in the order of issue;
    taken: of each product, whether one of its warps has read what the accumulator holds since the product before it
    there; writes: of its warps, by how many products the warp had issued; issued: how many each warp has. taken_over:
    whether others issued them."""

    products: list[Product] = field(default_factory=list[Product])
    taken: list[bool] = field(default_factory=list[bool])
    writes: dict[int, list[Write]] = field(default_factory=dict[int, list[Write]])
    issued: list[int] = field(default_factory=lambda: [0] * _WARPGROUP_WARPS)
    taken_over: bool = False


@dataclass(slots=True)
class _Sum:
    """An accumulator in tensor memory: columns up to `end`; its last product; whether somebody has read it since; how
    often one has begun there."""

    end: int
    product: Product
    read: bool
    begun: int


@dataclass(slots=True)
class ProductTrace:
    """Feed it the events of a plan's launches in order (`replay`). facts: of the target that runs them; groups: the
    warpgroups that multiplied, by launch, CTA and number."""

    facts: Target
    groups: dict[tuple[int, int, int], GroupSteps] = field(default_factory=dict[tuple[int, int, int], GroupSteps])
    launch: int = -1
    _loaded: dict[int, LoadedBoxes] = field(default_factory=dict[int, LoadedBoxes])
    _sums: dict[int, dict[int, _Sum]] = field(default_factory=dict[int, "dict[int, _Sum]"])
    """By CTA and first column."""
    _seen: dict[tuple[WarpActor, int], int] = field(default_factory=dict[tuple[WarpActor, int], int])
    """Which of the sums that began at a column a warp has read last."""

    def begin(self) -> None:
        """A launch begins."""
        self.launch += 1
        self._loaded.clear()
        self._sums.clear()
        self._seen.clear()

    @property
    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Who takes which kind of event."""
        return {
            CopyIssue: self._copy,
            WgmmaIssue: self._multiply,
            TensorMemoryIssue: self._in_tensor_memory,
            Access: self._access,
        }

    def _boxes_of(self, cta: int) -> LoadedBoxes:
        found = self._loaded.get(cta)
        if found is None:
            found = self._loaded[cta] = LoadedBoxes(self.facts)
        return found

    def _copy(self, event: CopyIssue) -> None:
        if event.direction == "store":
            self._write(event.actor, Write(event.box, (), event.span))
            return
        for cta in event.destinations:
            boxes = self._boxes_of(cta)
            if event.box is None:
                boxes.forget(event.shared)
            else:
                boxes.load(event.box)

    def _multiply(self, event: WgmmaIssue) -> None:
        actor = event.actor
        key = self.launch, actor.cta, actor.warp // _WARPGROUP_WARPS
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = GroupSteps()
        number = group.issued[actor.warp % _WARPGROUP_WARPS]
        group.issued[actor.warp % _WARPGROUP_WARPS] = number + 1
        # The four warps issue the same operations (the machine refuses others), some of them later.
        if number < len(group.taken):
            group.taken[number] |= event.taken
            return
        group.taken.append(event.taken)
        boxes = self._boxes_of(actor.cta)
        left, right = event.matrices or (None, None)
        group.products.append(
            Product(
                boxes.parts(left) if left is not None else (), boxes.parts(right) if right is not None else (),
                event.accumulator[0], event.accumulates, event.span,
            )
        )  # fmt: skip

    def _in_tensor_memory(self, event: TensorMemoryIssue) -> None:
        if event.kind == "mma" and event.matrices:
            self._multiply_for_all(event)
        elif event.kind == "ld":
            for block in event.reads:
                self._take(event.actor, block)

    def _multiply_for_all(self, event: TensorMemoryIssue) -> None:
        actor = event.actor
        group = self.groups.setdefault((self.launch, actor.cta, actor.warp // _WARPGROUP_WARPS), GroupSteps())
        rights = [self._boxes_of(cta).parts(right) for cta, _, right in event.matrices]
        right = _side_by_side(rights, [each.rows for _, _, each in event.matrices])
        written = {block.cta: (block.column_begin, block.column_end) for block in event.writes}
        for cta, matrix, _ in event.matrices:
            left = self._boxes_of(cta).parts(matrix) if matrix is not None else ()
            begin, end = written[cta]
            product = Product(left, right, f"{cta}:{begin}", event.accumulates, event.span)
            sums = self._sums.setdefault(cta, {})
            before = sums.get(begin)
            group.products.append(product)
            group.taken.append(before is not None and before.read)
            for other in [at for at, each in sums.items() if at < end and begin < each.end and at != begin]:
                del sums[other]
            begun = 0 if before is None else before.begun
            sums[begin] = _Sum(end, product, False, begun if event.accumulates else begun + 1)
        group.issued[actor.warp % _WARPGROUP_WARPS] = len(group.products)

    def _take(self, actor: WarpActor, block: TensorBlock) -> None:
        """A warp reads columns of tensor memory."""
        for begin, each in self._sums.get(block.cta, {}).items():
            if not (begin < block.column_end and block.column_begin < each.end):
                continue
            each.read = True
            if self._seen.get((actor, begin)) == each.begun:
                continue
            self._seen[actor, begin] = each.begun
            key = self.launch, actor.cta, _of_warp(actor)
            group = self.groups.setdefault(key, GroupSteps(taken_over=True))
            group.products.append(replace(each.product, accumulates=False))
            group.taken.append(False)
            group.issued[actor.warp % _WARPGROUP_WARPS] = len(group.products)

    def _access(self, event: Access) -> None:
        if event.write and event.space == "global" and type(event.actor) is WarpActor:
            self._write(event.actor, Write(None, event.ranges, event.span))

    def _write(self, actor: WarpActor, write: Write) -> None:
        group = self.groups.get((self.launch, actor.cta, actor.warp // _WARPGROUP_WARPS))
        group = self.groups.get((self.launch, actor.cta, _of_warp(actor)), group)
        if group is not None:
            group.writes.setdefault(group.issued[actor.warp % _WARPGROUP_WARPS], []).append(write)


def _of_warp(actor: WarpActor) -> int:
    """In the place of a warpgroup's number."""
    return -1 - actor.warp


def _side_by_side(operands: Sequence[Operand], rows: Sequence[int]) -> Operand:
    """Parts of one operand that several CTAs have, one after the other; nothing if one is not known."""
    found: list[MatrixPart] = []
    first = 0
    for operand, count in zip(operands, rows, strict=True):
        if isinstance(operand, NoMatrix):
            return operand
        if not operand:
            return ()
        for part in operand:
            moved = replace(part, begin=part.begin + first, end=part.end + first)
            if found and _follows(found[-1], moved):
                found[-1] = replace(found[-1], end=moved.end)
            else:
                found.append(moved)
        first += count
    return tuple(found)


def _follows(part: MatrixPart, other: MatrixPart) -> bool:
    """Whether a part has the rows behind another's, in the operand and in the array."""
    expected = list(part.first)
    expected[part.outer] += part.end - part.begin
    alike = (part.outer, part.inner, part.depth) == (other.outer, other.inner, other.depth)
    return alike and part.box.tensor_map == other.box.tensor_map and tuple(expected) == other.first
