"""What did the tensor cores of a run multiply, and what did the warps that asked for it write to global memory next?

A copy brings a box of an array into shared memory, a wgmma reads it there (`operand_elements`), and a warp that has
waited for its wgmmas stores results. Nothing here judges: the products of each warpgroup are put down in the order of
the run, and what its warps wrote by the products that they had issued until then. That an operand holds the box whose
copy was issued last at its place is taken for granted, since the judge of accesses (`happens_before`) refutes a text in
which another copy may be in flight there.

Not handled: operands in registers, and those that threads have copied, whose elements are left open; values between
accumulator and store; writes of warps that multiply nothing.
Checked by: tests/contract/sums/test_product_trace.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright.base.span import Span
from tilewright.base.value import value
from tilewright.contract.sums.operand_elements import LoadedBoxes, MatrixPart, NoMatrix
from tilewright.machine.core.event import (
    Access,
    BoxPlace,
    CopyIssue,
    Ranges,
    WarpActor,
    WgmmaIssue,
)
from tilewright.targets import Target

_WARPGROUP_WARPS = 4

Operand = tuple[MatrixPart, ...] | NoMatrix


@value
class Product:
    """One wgmma. left: A, right: B; empty where nothing is known of its elements. accumulator: the first register."""

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
    """One warpgroup of one launch. products: in the order of issue; taken: of each product, whether one of its warps
    has read what the accumulator holds since the product before it there; writes: of its warps, by how many products
    the warp had issued; issued: how many each warp has."""

    products: list[Product] = field(default_factory=list[Product])
    taken: list[bool] = field(default_factory=list[bool])
    writes: dict[int, list[Write]] = field(default_factory=dict[int, list[Write]])
    issued: list[int] = field(default_factory=lambda: [0] * _WARPGROUP_WARPS)


@dataclass(slots=True)
class ProductTrace:
    """Feed it the events of a plan's launches in order (`replay`). facts: of the target that runs them; groups: the
    warpgroups that multiplied, by launch, CTA and number."""

    facts: Target
    groups: dict[tuple[int, int, int], GroupSteps] = field(default_factory=dict[tuple[int, int, int], GroupSteps])
    launch: int = -1
    _loaded: dict[int, LoadedBoxes] = field(default_factory=dict[int, LoadedBoxes])

    def begin(self) -> None:
        """A launch begins."""
        self.launch += 1
        self._loaded.clear()

    @property
    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """Who takes which kind of event."""
        return {CopyIssue: self._copy, WgmmaIssue: self._multiply, Access: self._access}

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

    def _access(self, event: Access) -> None:
        if event.write and event.space == "global" and type(event.actor) is WarpActor:
            self._write(event.actor, Write(None, event.ranges, event.span))

    def _write(self, actor: WarpActor, write: Write) -> None:
        group = self.groups.get((self.launch, actor.cta, actor.warp // _WARPGROUP_WARPS))
        if group is not None:
            group.writes.setdefault(group.issued[actor.warp % _WARPGROUP_WARPS], []).append(write)
