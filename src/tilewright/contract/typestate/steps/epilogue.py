"""What do loads, plain stores and element-by-element operations do to a unit's state, and which break a rule?

Bulk stores and what is staged for them are in `staging`.

Not handled: global memory is seen as whole arrays. One that is read and written by the same kernel is left undecided
unless each thread reads only the elements that it writes.
Checked by: tests/contract/typestate/test_typestate_mutations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element, parse_element
from tilewright.base.size import Size, ceil_div, computed, divisor, product
from tilewright.contract.typestate.places.array_parts import ArrayView, array_of
from tilewright.contract.typestate.places.store_places import may_share
from tilewright.contract.typestate.program import integers, type_of
from tilewright.contract.typestate.run_time_sizes import fixed, is_multiple, most_each, ranges_at, reaches_no_further
from tilewright.contract.typestate.scalar_region import check_scalar, require_known
from tilewright.contract.typestate.steps import staging
from tilewright.contract.typestate.steps.index_load import require_integers
from tilewright.contract.typestate.steps.rows import check_fold, require_shared_rows
from tilewright.contract.typestate.steps.shared_columns import require_columns
from tilewright.contract.typestate.steps.staging import take_fragment
from tilewright.contract.typestate.steps.team import finished_place
from tilewright.contract.typestate.steps.transpose import require_transposed
from tilewright.contract.typestate.summary import StorePlace
from tilewright.contract.typestate.token import WARP, Fragment, Index, Values
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import ROWS_BYTES
from tilewright.ir.sizes import sizes_of

_STORE_UNIT_BYTES = 16
_POINTS_MOST = (1 << 31) - 1
"""What one thread stores at once at most (PTX ISA, st: vectors of 128 bits)."""


def epilogue_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns fragments, staging, bulk stores or global memory."""
    kind = type(op)
    interpret = _INTERPRETED.get(kind)
    if interpret is None:
        return False
    interpret(walk, op)
    if walk.role.unit != "warpgroup128" and kind is not ac.AffineOp and kind is not ac.ElementwiseOp:
        walk.findings.doubt(f"in a role of {walk.role.unit}", op)
    return True


def _affine(walk: RoleWalk, op: ac.AffineOp) -> None:
    operands, coefficients = walk.indices(op, list(op.operands_)), integers(op.coefficients)
    if len(coefficients) != len(operands):
        walk.findings.doubt("an affine function with other coefficients than operands", op)
        walk.give(op, op.result, None)
        return
    terms: dict[str, int] = {}
    constant = op.constant.data
    for coefficient, operand in zip(coefficients, operands, strict=True):
        constant += coefficient * operand.constant
        for atom, factor in operand.terms:
            terms[atom] = terms.get(atom, 0) + coefficient * factor
    walk.give(op, op.result, Index(tuple(sorted((atom, factor) for atom, factor in terms.items() if factor)), constant))


def _load(walk: RoleWalk, op: ac.FragmentLoadOp) -> None:
    source = array_of(walk, op, op.source)
    walk.indices(op, [op.row, op.column])
    if source is not None and walk.recording:
        walk.summary.reads_global.setdefault(source.op.buffer.data, op)
    kind = type_of(op.result)
    if not isinstance(kind, ac.FragmentType):
        walk.findings.doubt("its result is no fragment", op)
        walk.give(op, op.result, None)
        return
    axes = kind.axes.data
    if axes not in ("", "m", "n", "mn", "nm") or (source is not None and source.rank != len(axes)):
        walk.findings.doubt(f"loads a fragment along {axes!r} of an array that has other axes", op)
    blocks = integers(op.blocks) if op.blocks is not None else (1,) * len(axes)
    if len(blocks) != len(axes) or min(blocks, default=1) < 1:
        walk.findings.doubt(f"takes blocks of {blocks} along {axes!r}", op)
    if op.pairs is not None and op.pairs.data:
        _require_pairs(walk, op, source, axes)
    if op.through:
        require_columns(walk, op, kind)
    walk.give(op, op.result, Fragment(kind.m.data, kind.n.data, axes, kind.element.data))


def _require_pairs(walk: RoleWalk, op: ac.FragmentLoadOp, source: ArrayView | None, axes: str) -> None:
    """Two columns loaded at once are both inside the array or both outside, and begin at a multiple of their size, as
    the array itself does."""
    column = walk.look(op, op.column)
    if source is None or not isinstance(column, Index):
        return
    last = source.dimensions[-1] if source.dimensions else 0
    strides, ranges = list(sizes_of(source.op.strides)), ranges_at(op)
    columns = divisor(sizes_of(source.op.shape)[last], ranges)
    numbers = [column.constant, *(factor for _, factor in column.terms), columns]
    if (
        axes != "mn"
        or op.blocks is not None
        or strides.pop(last) != 1
        or any(number % 2 for number in numbers)
        or any(divisor(stride, ranges) % 2 for stride in strides)
    ):
        walk.findings.doubt(f"loads pairs of {source.op.buffer.data} that may be torn or begin between two pairs", op)
    walk.findings.assume(f"{source.op.buffer.data} begins at a multiple of two of its elements")


def _store_plain(walk: RoleWalk, op: ac.GlobalStoreOp) -> None:
    fragment, seen = take_fragment(walk, op, op.fragment), array_of(walk, op, op.destination)
    row, column = walk.indices(op, [op.row, op.column])
    if op.through:
        require_rows(walk, op, op.through)
    destination, seen_rank = (seen.op, seen.rank) if seen is not None else (None, 0)
    rank = 1 if isinstance(fragment, Values) and fragment.axes == "m" else 2
    if destination is not None:
        require_own_places(walk, op, destination)
        kind = type_of(op.destination)
        if not isinstance(kind, ac.GlobalType) or not kind.rank.data == seen_rank == rank:
            walk.findings.doubt(f"stores to something that is no {'matrix' if rank == 2 else 'vector'}", op)
        elif rank == 1 and op.through:
            walk.findings.doubt("stores one number for each row through a buffer", op)
        elif fragment is not None and fragment.element != kind.element.data:
            walk.findings.doubt(f"stores {fragment.element} to an array of {kind.element.data}", op)
    if op.vectors is not None and seen is not None:
        _require_vectors(walk, op, seen, column)
    if destination is not None and seen is not None and walk.recording:
        walk.summary.writes_global.setdefault(destination.buffer.data, op)
        if fragment is not None and seen_rank == rank:
            element = parse_element(fragment.element)
            size = element.bytes if element is not None else 0
            strides = tuple(computed("*", stride, size) for stride in sizes_of(destination.strides))
            row, rows = rows_of_warp(walk, row, fragment.m)
            origin = seen.placed((row, column)[:rank])
            extents = seen.widened((rows, fragment.n)[:rank])
            origin, around = finished_place(walk, op, origin, most_each(destination.shape, op))
            place = StorePlace(op, destination.buffer.data, origin, extents, around, strides)
            walk.summary.places.append(place)


def _require_vectors(walk: RoleWalk, op: ac.GlobalStoreOp, seen: ArrayView, column: Index | None) -> None:
    """Units of 16 bytes lie inside the array or outside, and begin at a multiple of their size, as the array does."""
    element, strides = parse_element(seen.op.result.type.element.data), list(sizes_of(seen.op.strides))
    ranges = ranges_at(op)
    last = seen.dimensions[-1] if seen.dimensions else 0
    sizes = (divisor(sizes_of(seen.op.shape)[last], ranges),)
    dense = strides.pop(last) == 1
    if column is not None:
        sizes = (*sizes, column.constant, *(factor for _, factor in column.terms))
    sizes = (*sizes, *(divisor(stride, ranges) for stride in strides))
    whole = element is not None and not any(size * element.bytes % _STORE_UNIT_BYTES for size in sizes)
    if op.vectors != IntAttr(1) or not op.through or column is None or not dense or not whole:
        name = seen.op.buffer.data
        walk.findings.doubt(f"stores units of 16 bytes that may be torn, or begin inside one, to {name}", op)
    walk.findings.assume(f"{seen.op.buffer.data} begins at a multiple of {_STORE_UNIT_BYTES} bytes")


def rows_of_warp(walk: RoleWalk, row: Index, rows: int) -> tuple[Index, int]:
    """First row and rows of what is stored together: of each warp by itself, where they do not follow one another."""
    together = walk.kernel.facts.limit("product.warp_rows")
    if walk.role.warp_rows == together:
        return row, rows
    return Index((*row.terms, (WARP, walk.role.warp_rows)), row.constant), together


def require_rows(walk: RoleWalk, op: Operation, through: Sequence[SSAValue]) -> None:
    """The buffer, and the unit's number, through which warps take their rows: a part for each warp, for nothing else.

    A warp orders its own accesses (bar.warp.sync) and touches no other warp's part, so nothing else need be shown.
    """
    if len(through) != 2:
        walk.findings.doubt("goes through something other than a buffer and a unit", op)
        return
    buffer = walk.buffer_of(op, through[0])
    walk.require_unit(op, through[1])
    if buffer is None:
        return
    if buffer.ring:
        walk.report("BG004", op, f"buffer {buffer.name} belongs to ring {buffer.ring} and cannot stage rows")
    walk.require_instances(op, buffer)
    if buffer.slots < 1 or buffer.slot_bytes < ROWS_BYTES:
        walk.report(
            "AL004",
            op,
            f"rows take {ROWS_BYTES} bytes, and buffer {buffer.name} has {buffer.slots} slots of {buffer.slot_bytes}",
            against=buffer.op,
        )
    if any(not isinstance(use.operation, ac.GlobalStoreOp | ac.RowsStoreOp) for use in through[0].uses):
        walk.findings.doubt(f"buffer {buffer.name} is used for something else besides", op)
    if walk.recording:
        walk.summary.rows.setdefault(buffer.name, op)


def require_own_places(walk: RoleWalk, op: Operation, destination: ac.GlobalOp) -> None:
    """Different indices must be different places in memory, or threads that are told apart by indices race."""
    if may_share(sizes_of(destination.shape), sizes_of(destination.strides), op):
        walk.findings.doubt(f"two elements of {destination.buffer.data} may lie at one place", op)


def _require_whole_units(
    walk: RoleWalk, op: ac.ElementStoreOp, destination: ac.GlobalOp, run: int, last: SSAValue
) -> None:
    """Runs are stored in units of 16 bytes: each must lie together and begin at a multiple of that."""
    element = parse_element(destination.result.type.element.data)
    strides = fixed(destination.strides, op, walk.findings)
    if element is None or run * element.bytes % _STORE_UNIT_BYTES:
        walk.findings.doubt(f"runs of {run} elements are no whole units of {_STORE_UNIT_BYTES} bytes", op)
    elif not op.indices or op.indices[-1] is not last or last in op.indices[:-1] or strides[-1] != 1:
        walk.findings.doubt(f"a run does not lie together in {destination.buffer.data}", op)
    elif any(stride * element.bytes % _STORE_UNIT_BYTES for stride in strides[:-1]):
        walk.findings.doubt(f"a run in {destination.buffer.data} may begin inside {_STORE_UNIT_BYTES} bytes", op)


def _require_kind(walk: RoleWalk, op: ac.ElementStoreOp, destination: ac.GlobalOp) -> None:
    """Indices are stored in arrays of 32-bit integers, and nothing else is."""
    element = destination.result.type.element.data
    if (element == Element.S32.value) != isinstance(op.value.type, ac.IndexType):
        walk.findings.doubt(f"stores {op.value.type} in an array of {element}", op)


def _bound(index: SSAValue, extent_of: dict[SSAValue, Size]) -> Size | None:
    """Above an index of a region: an argument, or one divided."""
    owner = index.owner
    if isinstance(owner, ac.IndexDivideOp) and owner.size.data > 0:
        whole = extent_of.get(owner.operand)
        return None if whole is None else ceil_div(whole, owner.size.data)
    return extent_of.get(index)


def _may_leave(bounds: Sequence[Size | None], array: ac.GlobalOp, op: Operation) -> bool:
    """Whether indices below these may lie outside of an array."""
    shape = sizes_of(array.shape)
    return len(bounds) != len(shape) or any(
        bound is None or not reaches_no_further(bound, size, op) for bound, size in zip(bounds, shape, strict=True)
    )


def _elementwise(walk: RoleWalk, op: ac.ElementwiseOp) -> None:
    """A kernel without asynchronous protocol: what can go wrong is two threads at one element."""
    block, extents = op.body.block, sizes_of(op.extents)
    if len(block.args) != len(extents):
        walk.findings.doubt("a region with other arguments than extents", op)
        return
    if sizes_of(walk.kernel.op.grid)[1:] != (1, 1):
        walk.findings.doubt("points are dealt out to CTAs along x: others would share them", op)
    run = op.run.data if op.run is not None else 1
    if not isinstance(product(extents), int) and prod(most_each(op.extents, op)) > _POINTS_MOST:
        walk.findings.doubt(f"up to {prod(most_each(op.extents, op))} points, which are counted in 32 bits", op)
    if run < 1 or not is_multiple(extents[-1], run, ranges_at(op)):
        walk.findings.doubt(f"runs of {run} points do not divide an extent of {extents[-1]}", op)
    if op.transpose is not None:
        require_transposed(walk, op)
    if op.rows is not None:
        require_shared_rows(walk, op)
    region = _Region(walk, op, run)
    for inner in block.ops:
        region.read(inner)
    region.check_arrays()


class _Region:
    """What the operations of a region compute of its arguments, and which elements they touch."""

    def __init__(self, walk: RoleWalk, op: ac.ElementwiseOp, run: int) -> None:
        arguments, extents = op.body.block.args, sizes_of(op.extents)
        self.walk, self.op, self.run = walk, op, run
        self.known: set[SSAValue] = set(arguments)
        self.extent_of: dict[SSAValue, Size] = dict(zip(arguments, extents, strict=True))
        self.points = {index for index, most in zip(arguments, most_each(op.extents, op), strict=True) if most > 1}
        # What changes along a row; without rows, everything may.
        self.along = arguments[-1] if op.rows is not None else None
        self.varying: set[SSAValue] = {self.along} if self.along is not None else set()
        self.loads: dict[str, list[ac.ElementLoadOp | ac.IndexLoadOp]] = {}
        self.stores: dict[str, list[ac.ElementStoreOp]] = {}

    def read(self, op: Operation) -> None:
        doubt = self.walk.findings.doubt
        match op:
            case ac.ElementLoadOp():
                source = self._load(op)
                bounds = [_bound(index, self.extent_of) for index in op.indices]
                if source is not None and not op.fill.data and _may_leave(bounds, source, op):
                    doubt(f"a point may lie outside {source.buffer.data}", op)
            case ac.IndexLoadOp():
                # Of the number nothing is known, so that whoever goes by it must fill what lies outside.
                source = self._load(op)
                if self.run > 1 or self.op.transpose is not None:
                    doubt("loads an index in runs of points, or in tiles that are transposed", op)
                if source is not None:
                    require_integers(self.walk, op, source, len(source.shape))
            case ac.ElementStoreOp():
                self._store(op)
            case ac.AffineOp():
                self._compute(op)
                if len(op.operands_) != len(op.coefficients):
                    doubt("an affine function with other coefficients than operands", op)
            case ac.IndexDivideOp():
                self._compute(op)
                if op.size.data < 1:
                    doubt(f"divides an index by {op.size.data}", op)
            case ac.FoldOp() | ac.ArgFoldOp():
                check_fold(self.walk, self.op, op)
                self._compute(op)
            case ac.YieldOp():
                pass
            case _:
                if not check_scalar(op, self.known, self.walk.findings):
                    doubt(f"is not understood inside {self.op.name}", op)
        if self.varying.intersection(op.operands) and not isinstance(op, ac.FoldOp | ac.ArgFoldOp):
            self.varying.update(op.results)

    def _compute(self, op: Operation) -> None:
        require_known(op, list(op.operands), self.known, self.walk.findings)
        self.known.update(op.results)

    def _load(self, op: ac.ElementLoadOp | ac.IndexLoadOp) -> ac.GlobalOp | None:
        source = self.walk.global_of(op, op.source)
        require_known(op, list(op.indices), self.known, self.walk.findings)
        self.known.add(op.result)
        if source is not None:
            self.loads.setdefault(source.buffer.data, []).append(op)
        return source

    def _store(self, op: ac.ElementStoreOp) -> None:
        walk, destination = self.walk, self.walk.global_of(op, op.destination)
        if destination is not None:
            self.stores.setdefault(destination.buffer.data, []).append(op)
            require_own_places(walk, op, destination)
            _require_kind(walk, op, destination)
            if _may_leave([self.extent_of.get(index) for index in op.indices], destination, op):
                walk.findings.doubt(f"a point may lie outside {destination.buffer.data}", op)
            if self.run > 1:
                _require_whole_units(walk, op, destination, self.run, self.op.body.block.args[-1])
        require_known(op, [op.value, *op.indices], self.known, walk.findings)
        stored = self.points if self.along is None or op.value in self.varying else self.points - {self.along}
        if not stored <= set(op.indices):
            walk.findings.doubt("two points may store to one element: an index of the region is missing", op)

    def check_arrays(self) -> None:
        """No thread touches an element that another stores, and nobody else in the role touches the array."""
        walk, summary = self.walk, self.walk.summary
        for buffer, stores in self.stores.items():
            places = {tuple(access.indices) for access in (*stores, *self.loads.get(buffer, ()))}
            if len(places) > 1:
                walk.findings.doubt(f"threads touch elements of {buffer} that other threads store", stores[0])
            if buffer in summary.writes_global or buffer in summary.reads_global:
                walk.findings.doubt(f"{buffer} is also accessed elsewhere in the role", self.op)
        if walk.recording:
            for buffer, loads in self.loads.items():
                if buffer not in self.stores:
                    summary.reads_global.setdefault(buffer, loads[0])
            for buffer, stores in self.stores.items():
                summary.writes_global.setdefault(buffer, stores[0])


_INTERPRETED: dict[type[Operation], Callable[[RoleWalk, Any], None]] = {
    ac.AffineOp: _affine,
    ac.FragmentLoadOp: _load,
    ac.GlobalStoreOp: _store_plain,
    ac.ElementwiseOp: _elementwise,
    **staging.INTERPRETED,
}
"""By class: each is walked several times, and to tell it from all others one after the other takes long."""
