"""What do staging, bulk stores and element-by-element operations do to a unit's state, and which break a rule?

A staging slot goes round: written by all threads, fenced towards the async proxy by each, made ready by a barrier of
the unit, read by a bulk store of the first thread, and free again when that thread has waited for the store's group and
a barrier has told the others. Which groups may still be reading is a may-set, kept twice: as the first thread knows it,
and as all threads know it since the last barrier.

Not handled: staging memory shared between roles. Global memory is seen as whole arrays: one that is read and written
by the same kernel is left undecided unless each thread reads only the elements that it writes.
Checked by: tests/contract/typestate/test_typestate_mutations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element, parse_element
from tilewright.base.size import Size, ceil_div, computed, divisor, product
from tilewright.contract.typestate.places.array_parts import ArrayView, array_of
from tilewright.contract.typestate.places.copy_starts import check_start
from tilewright.contract.typestate.places.footprint import box_extent_bytes
from tilewright.contract.typestate.places.staged_places import Chunk, check_places
from tilewright.contract.typestate.places.store_places import may_share
from tilewright.contract.typestate.program import Buffer, integers, type_of
from tilewright.contract.typestate.run_time_sizes import fixed, is_multiple, most_each, ranges_at, reaches_no_further
from tilewright.contract.typestate.scalar_region import check_scalar, require_known
from tilewright.contract.typestate.steps.index_load import require_integers
from tilewright.contract.typestate.steps.rows import check_fold, require_shared_rows
from tilewright.contract.typestate.steps.shared_columns import require_columns
from tilewright.contract.typestate.steps.team import finished_place
from tilewright.contract.typestate.steps.transpose import require_transposed
from tilewright.contract.typestate.summary import StorePlace
from tilewright.contract.typestate.token import (
    WARP,
    Fragment,
    Index,
    Staged,
    Values,
    after_wait,
    appended,
)
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.copy_decisions import BLOCK_ROWS
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


def _commit_bulk(walk: RoleWalk, op: ac.BulkCommitOp) -> None:
    walk.require_unit(op, op.unit)
    state = walk.state
    state.bulk_issuer = appended(state.bulk_issuer, state.open_stores)
    state.bulk_unit = appended(state.bulk_unit, state.open_stores)
    state.open_stores = frozenset()


def _wait_bulk(walk: RoleWalk, op: ac.BulkWaitOp) -> None:
    walk.require_unit(op, op.unit)
    if op.pending.data < 0 or op.read.data not in (0, 1):
        walk.findings.doubt(f"waits for {op.pending.data} groups with read {op.read.data}", op)
    walk.state.bulk_issuer = after_wait(walk.state.bulk_issuer, max(0, op.pending.data))


def finish_role(walk: RoleWalk) -> None:
    """What must be over when the role ends."""
    op, state = walk.role.op, walk.state
    if state.uncommitted:
        walk.report("WG001", op, f"{state.uncommitted} wgmma are never committed")
    if state.open_stores:
        walk.report("BG002", op, f"stores of {_slots(state.open_stores)} are never committed")
    reading = frozenset(slot for group in state.bulk_issuer for slot in group)
    if reading:
        walk.report(
            "BG003",
            op,
            f"stores of {_slots(reading)} may be in flight when the role ends",
            steps=(
                "the first thread issues a bulk store and ends without waiting for it",
                "the CTA ends and its shared memory is given to another",
                "the copy engine reads the other CTA's bytes",
            ),
        )


def _slots(slots: frozenset[tuple[str, int]]) -> str:
    return ", ".join(f"{buffer}[{slot}]" for buffer, slot in sorted(slots))


# ---------------------------------------------------------------- fragments and global memory


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
    (columns,) = fixed(ArrayAttr([source.op.shape.data[last]]), op, walk.findings)
    numbers = [column.constant, *(factor for _, factor in column.terms), columns]
    strides = list(sizes_of(source.op.strides))
    ranges = ranges_at(op)
    if (
        axes != "mn"
        or op.blocks is not None
        or strides.pop(last) != 1
        or any(number % 2 for number in numbers)
        or any(divisor(stride, ranges) % 2 for stride in strides)
    ):
        walk.findings.doubt(f"loads pairs of {source.op.buffer.data} that may be torn or begin between two pairs", op)
    walk.findings.assume(f"{source.op.buffer.data} begins at a multiple of two of its elements")


def take_fragment(walk: RoleWalk, op: Operation, value: SSAValue) -> Fragment | Values | None:
    """The fragment that `op` stores."""
    token = walk.take(op, value)
    if isinstance(token, Values):
        if "k" in token.axes:
            walk.findings.doubt("stores what is packed for a product", op)
        return token
    if isinstance(token, Fragment):
        # Elementwise work may be done here, so this is where the accumulator's registers are read.
        walk.state.fenced = False
        return token
    walk.wrong(op, token)
    return None


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
    sizes = fixed(ArrayAttr([seen.op.shape.data[last]]), op, walk.findings)
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
    if run < 1 or not is_multiple(extents[-1], run):
        walk.findings.doubt(f"runs of {run} points do not divide an extent of {extents[-1]}", op)
    if op.transpose is not None:
        require_transposed(walk, op)
    if op.rows is not None:
        require_shared_rows(walk, op)
    # What changes along a row; without rows, everything may.
    along = block.args[-1] if op.rows is not None else None
    varying: set[SSAValue] = {along} if along is not None else set()
    known: set[SSAValue] = set(block.args)
    extent_of: dict[SSAValue, Size] = dict(zip(block.args, extents, strict=True))
    points = {argument for argument, most in zip(block.args, most_each(op.extents, op), strict=True) if most > 1}
    read: dict[str, list[ac.ElementLoadOp | ac.IndexLoadOp]] = {}
    written: dict[str, list[ac.ElementStoreOp]] = {}
    for inner in block.ops:
        match inner:
            case ac.ElementLoadOp():
                source = walk.global_of(inner, inner.source)
                require_known(inner, list(inner.indices), known, walk.findings)
                known.add(inner.result)
                if source is not None:
                    read.setdefault(source.buffer.data, []).append(inner)
                    if not inner.fill.data and _may_leave(
                        [_bound(index, extent_of) for index in inner.indices], source, inner
                    ):
                        walk.findings.doubt(f"a point may lie outside {source.buffer.data}", inner)
            case ac.IndexLoadOp():
                # Of the number nothing is known, so that whoever goes by it must fill what lies outside.
                source = walk.global_of(inner, inner.source)
                require_known(inner, list(inner.indices), known, walk.findings)
                known.add(inner.result)
                if run > 1 or op.transpose is not None:
                    walk.findings.doubt("loads an index in runs of points, or in tiles that are transposed", inner)
                if source is not None:
                    read.setdefault(source.buffer.data, []).append(inner)
                    require_integers(walk, inner, source, len(source.shape))
            case ac.ElementStoreOp():
                destination = walk.global_of(inner, inner.destination)
                if destination is not None:
                    written.setdefault(destination.buffer.data, []).append(inner)
                    require_own_places(walk, inner, destination)
                    _require_kind(walk, inner, destination)
                    if _may_leave([extent_of.get(index) for index in inner.indices], destination, inner):
                        walk.findings.doubt(f"a point may lie outside {destination.buffer.data}", inner)
                    if run > 1:
                        _require_whole_units(walk, inner, destination, run, block.args[-1])
                require_known(inner, [inner.value, *inner.indices], known, walk.findings)
                stored = points if along is None or inner.value in varying else points - {along}
                if not stored <= set(inner.indices):
                    walk.findings.doubt("two points may store to one element: an index of the region is missing", inner)
            case ac.AffineOp():
                require_known(inner, list(inner.operands_), known, walk.findings)
                if len(inner.operands_) != len(inner.coefficients):
                    walk.findings.doubt("an affine function with other coefficients than operands", inner)
                known.add(inner.result)
            case ac.IndexDivideOp():
                require_known(inner, [inner.operand], known, walk.findings)
                if inner.size.data < 1:
                    walk.findings.doubt(f"divides an index by {inner.size.data}", inner)
                known.add(inner.result)
            case ac.FoldOp() | ac.ArgFoldOp():
                check_fold(walk, op, inner)
                require_known(inner, [inner.value], known, walk.findings)
                known.add(inner.result)
            case ac.YieldOp():
                pass
            case _:
                if not check_scalar(inner, known, walk.findings):
                    walk.findings.doubt(f"is not understood inside {op.name}", inner)
        if varying.intersection(inner.operands) and not isinstance(inner, ac.FoldOp | ac.ArgFoldOp):
            varying.update(inner.results)
    for buffer, stores in written.items():
        places = {tuple(access.indices) for access in (*stores, *read.get(buffer, ()))}
        if len(places) > 1:
            walk.findings.doubt(f"threads touch elements of {buffer} that other threads store", stores[0])
        if buffer in walk.summary.writes_global or buffer in walk.summary.reads_global:
            walk.findings.doubt(f"{buffer} is also accessed elsewhere in the role", op)
    if walk.recording:
        for buffer, loads in read.items():
            if buffer not in written:
                walk.summary.reads_global.setdefault(buffer, loads[0])
        for buffer, stores in written.items():
            walk.summary.writes_global.setdefault(buffer, stores[0])


# ---------------------------------------------------------------- staging


def _staging_buffer(walk: RoleWalk, op: ac.StageWriteOp | ac.CopyStoreOp) -> Buffer | None:
    buffer = walk.buffer_of(op, op.buffer)
    walk.require_unit(op, op.unit)
    if buffer is None:
        return None
    if buffer.ring:
        walk.report("BG004", op, f"buffer {buffer.name} belongs to ring {buffer.ring} and cannot stage an output")
    walk.require_instances(op, buffer)
    if not 0 <= op.slot.data < buffer.slots:
        walk.report("AL004", op, f"slot {op.slot.data} of {buffer.slots} in buffer {buffer.name}", against=buffer.op)
    if walk.recording:
        walk.summary.staging.setdefault(buffer.name, op)
    return buffer


def _write(walk: RoleWalk, op: ac.StageWriteOp) -> None:
    buffer, fragment = _staging_buffer(walk, op), take_fragment(walk, op, op.fragment)
    if buffer is None or fragment is None:
        walk.give(op, op.result, None)
        return
    state, slot = walk.state, (buffer.name, op.slot.data)
    begin, end = op.column_begin.data, op.column_end.data
    element = parse_element(fragment.element)
    if fragment.axes != "mn" or element is None or not 0 <= begin < end <= fragment.n:
        walk.findings.doubt(f"stages columns {begin} to {end} of {fragment.axes} x {fragment.n} {fragment.element}", op)
        walk.give(op, op.result, None)
        return
    if op.block is not None and (op.plan is None or not 0 <= op.block.data < fragment.m // BLOCK_ROWS):
        walk.findings.doubt(f"stages block {op.block.data} of {fragment.m} rows", op)
        walk.give(op, op.result, None)
        return
    rows = fragment.m if op.block is None else BLOCK_ROWS
    written = rows * (end - begin) * element.bytes
    if written > buffer.slot_bytes:
        walk.report(
            "BG004",
            op,
            f"stages {written} bytes in a slot of {buffer.slot_bytes} of buffer {buffer.name}",
            against=buffer.op,
        )
    chunk = Chunk(rows, end - begin, element.bytes, buffer.swizzle, transposed=op.block is not None)
    check_places(walk, op, buffer, chunk)
    _require_free(walk, op, slot)
    state.staged |= {slot}
    walk.give(op, op.result, Staged(buffer.name, op.slot.data, "written", written, fragment.element, chunk.line))


def _require_free(walk: RoleWalk, op: ac.StageWriteOp, slot: tuple[str, int]) -> None:
    """No bulk store may still read the slot, and all threads must know it."""
    state, name = walk.state, f"{slot[0]}[{slot[1]}]"
    if slot in state.staged:
        walk.report("BG001", op, f"overwrites {name}, whose bytes are not yet stored")
    elif slot in state.open_stores:
        walk.report("BG002", op, f"overwrites {name} while its store belongs to no committed group")
    elif any(slot in group for group in state.bulk_issuer):
        youngest = next(age for age, group in enumerate(reversed(state.bulk_issuer)) if slot in group)
        walk.report(
            "BG001",
            op,
            f"overwrites {name} while one of the newest {youngest + 1} bulk groups may read it",
            steps=(
                f"the first thread issues a bulk store of {name}; {youngest} groups are committed after its group",
                f"its last wait allows {youngest + 1} or more groups to be pending, or there is none",
                f"the threads overwrite {name}; the copy engine stores the new bytes in the old place",
            ),
        )
    elif any(slot in group for group in state.bulk_unit):
        walk.report(
            "BG001",
            op,
            f"overwrites {name} with no barrier after the first thread's wait",
            steps=(
                f"the first thread is delayed in its wait for the store of {name}",
                "another thread, which waits for nothing, goes on",
                f"it overwrites {name} while the copy engine reads it",
            ),
        )


def _fence(walk: RoleWalk, op: ac.FenceProxyOp) -> None:
    token = walk.take_as(op, op.staged, Staged)
    if token is None:
        walk.give(op, op.result, None)
        return
    state = "fenced" if token.state == "written" else token.state
    walk.give(op, op.result, replace(token, state=state))


def _synchronize(walk: RoleWalk, op: ac.NamedBarrierSyncOp) -> None:
    walk.require_unit(op, op.unit)
    first, count = op.first_barrier.data, walk.role.count
    if first < 1 or first + count > walk.kernel.facts.limit("cta.named_barriers"):
        walk.report("NB001", op, f"barriers {first} to {first + count - 1} for {count} units")
    unit_threads = walk.role.threads // max(1, count)
    if op.threads.data != unit_threads:
        fewer = op.threads.data > unit_threads
        walk.report(
            "NB002",
            op,
            f"counts {op.threads.data} threads; {unit_threads} take part",
            steps=(
                f"{unit_threads} threads arrive",
                "the barrier waits for threads that never come: hang"
                if fewer
                else "it lets the first of them go before the last have arrived",
            ),
        )
    if walk.recording:
        for unit in range(count):
            walk.summary.named_barriers.setdefault(first + unit, {}).setdefault(unit, op)
    walk.state.bulk_unit = walk.state.bulk_issuer
    if op.staged is None:
        if op.result is not None:
            walk.report("LV008", op, "makes bytes ready that it was not given")
            walk.give(op, op.result, None)
        return
    token = walk.take_as(op, op.staged, Staged)
    ready = None if token is None else replace(token, state="ready")
    if token is not None and token.state == "written":
        _unfenced(walk, op, token)
    if op.result is None:
        walk.report("LV001", op, "the staged bytes are not handed on")
    else:
        walk.give(op, op.result, ready)


def _unfenced(walk: RoleWalk, op: Operation, token: Staged) -> None:
    walk.report(
        "PX001",
        op,
        f"{token.buffer}[{token.slot}] is handed to the copy engine without fence.proxy.async",
        steps=(
            f"threads write {token.buffer}[{token.slot}] through the generic proxy",
            "no fence makes the writes visible to the async proxy",
            "the bulk store reads bytes from before the writes",
        ),
    )


def _stored_bytes(walk: RoleWalk, op: ac.CopyStoreOp, token: Staged) -> int:
    """Of what is staged, those that are stored: all, or the first lines. That the next tile has the others is for
    whoever counts what a launch writes."""
    element = parse_element(token.element)
    if op.lines is None or element is None:
        return token.bytes
    line = token.line * element.bytes
    if not 0 < op.lines.data * line <= token.bytes:
        walk.findings.doubt(f"stores {op.lines.data} lines of {token.bytes // line} that were staged", op)
    return op.lines.data * line


def _store_bulk(walk: RoleWalk, op: ac.CopyStoreOp) -> None:
    buffer, tensor_map, token = _staging_buffer(walk, op), walk.map_of(op, op.descriptor), walk.take(op, op.staged)
    coordinates = walk.indices(op, list(op.coordinates))
    token = walk.expect(op, token, Staged, "store")
    if token is None or buffer is None or tensor_map is None:
        return
    slot = (token.buffer, token.slot)
    walk.state.staged -= {slot}
    walk.state.open_stores |= {slot}
    walk.state.step(f"store:{buffer.name}")
    match token.state:
        case "written":
            _unfenced(walk, op, token)
        case "fenced":
            walk.report(
                "NB004",
                op,
                f"{buffer.name}[{token.slot}] is stored with no barrier after the fences of all threads",
                steps=(
                    "the first thread has written and fenced its bytes; another has not",
                    "the first thread issues the bulk store",
                    "the copy engine reads bytes that the other thread has yet to write",
                ),
            )
        case _:
            pass
    if slot != (buffer.name, op.slot.data):
        walk.report("BG004", op, f"stores {buffer.name}[{op.slot.data}]; the bytes are in {token.buffer}[{token.slot}]")
    if op.box_bytes.data != tensor_map.box_bytes:
        walk.report(
            "TX002",
            op,
            f"claims {op.box_bytes.data} bytes; the box of {tensor_map.name} has {tensor_map.box_bytes}",
            against=tensor_map.op,
        )
    stored = _stored_bytes(walk, op, token)
    if tensor_map.box_bytes != stored:
        kept = f"{stored} of {token.bytes} are to be stored" if op.lines is not None else f"{stored} were staged"
        walk.report("BG004", op, f"reads {tensor_map.box_bytes} bytes; {kept}", against=tensor_map.op)
    elif box_extent_bytes(tensor_map) > buffer.slot_bytes:
        walk.report("TX004", op, f"a box of {box_extent_bytes(tensor_map)} bytes in a slot of {buffer.slot_bytes}")
    elif tensor_map.box[0] != token.line:
        walk.findings.doubt(f"stores lines of {tensor_map.box[0]} elements where {token.line} lie together", op)
    if tensor_map.swizzle != buffer.swizzle:
        walk.report(
            "AL005", op, f"map {tensor_map.name} swizzles {tensor_map.swizzle}, buffer {buffer.name} {buffer.swizzle}"
        )
    check_start(walk, op, tensor_map, coordinates)
    if tensor_map.element != token.element:
        walk.findings.doubt(f"stores {tensor_map.element} where {token.element} were staged", op)
    apart, (inner, *dims) = sizes_of(tensor_map.op.strides_bytes), sizes_of(tensor_map.op.dims)
    row = computed("*", inner, tensor_map.element_bytes)
    if divisor(row, ranges_at(op)) % 16:
        # The engine writes the last 16 bytes of a row whole.
        row = -(-tensor_map.dims[0] * tensor_map.element_bytes // 16) * 16
    if may_share((*dims, row), (*apart, 1), op):
        walk.findings.doubt(f"two rows of {tensor_map.buffer} may share bytes", op)
    if walk.recording:
        walk.summary.stores.append((buffer.name, tensor_map.box_bytes))
        walk.summary.writes_global.setdefault(tensor_map.buffer, op)
        # Outermost first, as plain stores count.
        strides = (*apart[::-1], tensor_map.element_bytes)
        origin, around = finished_place(walk, op, coordinates[::-1], tensor_map.dims[::-1])
        walk.summary.places.append(StorePlace(op, tensor_map.buffer, origin, tensor_map.box[::-1], around, strides))


_INTERPRETED: dict[type[Operation], Callable[[RoleWalk, Any], None]] = {
    ac.AffineOp: _affine,
    ac.FragmentLoadOp: _load,
    ac.GlobalStoreOp: _store_plain,
    ac.ElementwiseOp: _elementwise,
    ac.StageWriteOp: _write,
    ac.FenceProxyOp: _fence,
    ac.NamedBarrierSyncOp: _synchronize,
    ac.CopyStoreOp: _store_bulk,
    ac.BulkCommitOp: _commit_bulk,
    ac.BulkWaitOp: _wait_bulk,
}
"""By class: each is walked several times, and to tell it from all others one after the other takes long."""
