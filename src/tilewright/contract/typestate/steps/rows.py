"""Do units of threads that share rows (`ac.elementwise` with `rows`) have a row each, meet without leaving anybody
behind, and reach whole vectors?

What lanes of a warp exchange orders itself, and those without a row exchange with the others. Units of several warps
meet at a barrier of the CTA and in words of shared memory that each fold has for itself, so that a word is written once
and then read: nothing else need be shown than that a unit is then the whole CTA, that none leaves before it has met the
others (there are as many CTAs as rows), and that the buffer has the words.

A unit may be all threads of a cluster. Then each CTA has the words of all, and what the operation stands for orders
them by barriers of one phase, one for each fold, that end when the words of all warps have come: all CTAs have begun
before the first word is written, and none ends before the last has come to it. So what must be shown is that a cluster
has one row, that all its threads come, and that the buffer has the barriers too.

Elements that wait in shared memory between walks are copied, awaited and read by one and the same thread: the buffer
must have room for all of the row's strips, and be used by nothing else.

Not shown here: that what is folded is every point of the row, once; the text's stores are proved to cover their arrays,
and values are compared on the machine. Checked by: tests/contract/typestate/steps/test_row_steps.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import SSAValue

from tilewright.base.element import parse_element
from tilewright.base.size import Size, ceil_div, product
from tilewright.contract.typestate.claims import FoldClaim
from tilewright.contract.typestate.program import Buffer, Kernel, integers
from tilewright.contract.typestate.run_time_sizes import is_multiple, most_each, ranges_at
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import rows_of
from tilewright.ir.function import ARG_REDUCERS, REDUCERS
from tilewright.ir.rows import BARRIER_BYTES, RowDecision
from tilewright.ir.sizes import sizes_of

_VECTOR_BYTES = 16
"""What one thread loads or stores at once at most (PTX ISA, ld and st: vectors of 128 bits)."""
_COPIED_BYTES = (4, 8, 16)
"""By one cp.async (PTX ISA)."""
_LANES = 32
_WORD_BYTES = 4


def require_shared_rows(walk: RoleWalk, op: ac.ElementwiseOp) -> None:
    """Doubt or refute an op whose units share rows, where it breaks a rule."""
    row = _row_of(op)
    if row is None:
        walk.findings.doubt("shares rows in a way that is not understood", op)
        return
    whole = row.threads % _LANES == 0 or (row.threads < _LANES and row.threads & row.threads - 1 == 0)
    least = min(row.run, row.pieces, row.threads, row.ctas, row.together)
    whole &= least >= 1 and row.threads % row.ctas == 0 and (row.ctas == 1 or row.cta_threads % _LANES == 0)
    if least < 1 or not whole or row.run & row.run - 1 or op.transpose is not None:
        walk.findings.doubt("shares rows in a way that is not understood", op)
        return
    threads, extents = walk.kernel.block_threads, sizes_of(op.extents)
    rows, ctas = product(extents[:-1]), sizes_of(walk.kernel.op.grid)[0]
    length, most = extents[-1], most_each(op.extents, op)[-1]
    units, taken = threads // row.threads, ceil_div(rows, row.together)
    if walk.role.unit != "warp32" or walk.role.threads != threads or threads % row.cta_threads:
        walk.findings.doubt(f"rows are dealt to units of {row.threads} threads, of which the CTA has no number", op)
    elif row.ctas > 1:
        _require_cluster(walk, op, row, ctas, taken)
    elif not _are_enough(ctas, units * row.together, rows):
        walk.findings.doubt(f"{rows} rows for {units} units in each of {ctas} CTAs", op)
    elif threads == row.threads and ctas != taken:
        walk.findings.doubt(f"{rows} rows for {ctas} CTAs, each of which takes {row.together}", op)
    elif row.threads > _LANES and threads != row.threads:
        walk.findings.doubt("warps of a unit meet at the CTA's barrier, to which not all of its threads come", op)
    elif row.threads > _LANES and op.parent_op() is not walk.role.op:
        walk.findings.doubt("words of partial results would be written again before all have read them", op)
    if row.together > 1 and (row.shifted or row.across or len(extents) != 2 or not isinstance(rows, int)):
        walk.findings.doubt("units take several rows at once that are not one another's neighbours", op)
    if not row.streamed and row.strip < most + row.most_before:
        walk.findings.doubt(f"rows of {length} points are held by units that hold {row.strip}", op)
    _require_words(walk, op, row)
    _require_room(walk, op, row, most)
    _require_vectors(walk, op, row, length)


def _row_of(op: ac.ElementwiseOp) -> RowDecision | None:
    """None where it has none, or none that is understood."""
    try:
        return rows_of(op.rows) if op.rows is not None else None
    except (KeyError, TypeError):
        return None


def _are_enough(ctas: Size, units: int, rows: Size) -> bool:
    """Whether so many units in each CTA are no fewer than rows, at every extent."""
    if isinstance(ctas, int) and isinstance(rows, int):
        return ctas * units >= rows
    return ctas == ceil_div(rows, units)


def _require_cluster(walk: RoleWalk, op: ac.ElementwiseOp, row: RowDecision, ctas: Size, taken: Size) -> None:
    """Doubt units that are not all threads of a cluster, of which as many as `taken` has each its rows."""
    threads, cluster = walk.kernel.block_threads, integers(walk.kernel.op.cluster)
    if cluster != (row.ctas, 1, 1) or row.cta_threads != threads:
        walk.findings.doubt(f"rows are dealt to {row.ctas} CTAs of {row.cta_threads} threads, which no cluster has", op)
    elif ctas != product((taken, row.ctas)):
        walk.findings.doubt(f"{taken} clusters' rows for {ctas} CTAs, {row.ctas} of which are one", op)
    elif op.parent_op() is not walk.role.op:
        walk.findings.doubt("words of partial results would be written again before all have read them", op)
    elif not any(isinstance(inner, ac.FoldOp | ac.ArgFoldOp) for inner in op.body.block.ops):
        walk.findings.doubt("a cluster that arrives and never waits, as nothing is folded", op)


def fold_claims(kernel: Kernel) -> tuple[FoldClaim, ...]:
    """What a run of the text must show of folds across clusters."""
    found: list[FoldClaim] = []
    for op in kernel.operations.of(ac.ElementwiseOp):
        row = _row_of(op)
        buffer = kernel.declared.get(op.through[0]) if op.through else None
        if row is None or row.ctas == 1 or not isinstance(buffer, Buffer):
            continue
        words = [_words_of(inner) for inner in op.body.block.ops if isinstance(inner, ac.FoldOp | ac.ArgFoldOp)]
        begin = buffer.address + len(words) * BARRIER_BYTES
        for number, each in enumerate(words):
            end = begin + row.together * each * (row.threads // _LANES) * _WORD_BYTES
            found.append(FoldClaim(buffer.address + number * BARRIER_BYTES, (begin, end)))
            begin = end
    return tuple(found)


def _words_of(fold: ac.FoldOp | ac.ArgFoldOp) -> int:
    """Of each warp: of a value that stands somewhere, its place is a second word."""
    return 2 if isinstance(fold, ac.ArgFoldOp) else 1


def check_fold(walk: RoleWalk, op: ac.ElementwiseOp, fold: ac.FoldOp | ac.ArgFoldOp) -> None:
    """Doubt a fold where there are no rows, or by a function whose order would matter."""
    if op.rows is None:
        walk.findings.doubt(f"stands in {op.name} without rows", fold)
    if fold.function.data not in (REDUCERS if isinstance(fold, ac.FoldOp) else ARG_REDUCERS):
        walk.findings.doubt(f"folds by {fold.function.data!r}", fold)


def _require_words(walk: RoleWalk, op: ac.ElementwiseOp, row: RowDecision) -> None:
    warps = row.threads // _LANES
    if warps <= 1:
        return
    if len(op.through) != 1 + bool(row.kept):
        walk.findings.doubt("goes through something other than a buffer of words and one of what waits", op)
        return
    buffer = walk.buffer_of(op, op.through[0])
    if buffer is None:
        return
    words = [_words_of(inner) for inner in op.body.block.ops if isinstance(inner, ac.FoldOp | ac.ArgFoldOp)]
    needed, size = row.partial_bytes(len(words), sum(words)), buffer.slots * buffer.slot_bytes
    if buffer.ring:
        walk.report("BG004", op, f"buffer {buffer.name} belongs to ring {buffer.ring} and cannot take partial results")
    if size < needed:
        message = f"partial results take {needed} bytes, and buffer {buffer.name} has {size}"
        walk.report("AL004", op, message, against=buffer.op)
    if buffer.address % (BARRIER_BYTES if row.ctas > 1 else _WORD_BYTES):
        walk.report("AL002", op, f"buffer {buffer.name} begins at byte {buffer.address}", against=buffer.op)
    if any(use.operation is not op for use in op.through[0].uses):
        walk.findings.doubt(f"buffer {buffer.name} is used for something else besides", op)


def _require_room(walk: RoleWalk, op: ac.ElementwiseOp, row: RowDecision, length: int) -> None:
    """Doubt or refute a row of which elements wait where there is no room for them, or where they cannot be copied."""
    if not row.kept:
        return
    if not row.streamed or not set(row.kept) <= set(row.vectors) or not op.through:
        walk.findings.doubt("elements wait in shared memory that stay in registers, or are not copied by runs", op)
        return
    buffer, element_bytes, along = walk.buffer_of(op, op.through[-1]), 0, op.body.block.args[-1]
    for inner in op.body.block.ops:
        if not isinstance(inner, ac.ElementLoadOp):
            continue
        declared = walk.global_of(inner, inner.source)
        if declared is None or declared.buffer.data not in row.kept or along not in inner.indices:
            continue
        element = parse_element(declared.result.type.element.data)
        if element is None or row.run * element.bytes not in _COPIED_BYTES:
            walk.findings.doubt(f"runs of {row.run} elements of {declared.buffer.data} are copied at once", inner)
            return
        element_bytes += element.bytes
    if buffer is None:
        return
    needed, size = row.kept_bytes(length, element_bytes), buffer.slots * buffer.slot_bytes
    if buffer.ring:
        walk.report("BG004", op, f"buffer {buffer.name} belongs to ring {buffer.ring} and cannot take waiting elements")
    if size < needed:
        message = f"elements that wait take {needed} bytes, and buffer {buffer.name} has {size}"
        walk.report("AL004", op, message, against=buffer.op)
    if any(use.operation is not op for use in op.through[-1].uses) or op.through[-1] is op.through[0]:
        walk.findings.doubt(f"buffer {buffer.name} is used for something else besides", op)


def _require_vectors(walk: RoleWalk, op: ac.ElementwiseOp, row: RowDecision, length: Size) -> None:
    """Of arrays that are reached a run at a time, each run must lie together and begin at a multiple of its vectors:
    all rows' do, or those of all arrays begin at the same place of a run, from which runs are counted."""
    along, ranges = op.body.block.args[-1], ranges_at(op)
    begins: dict[str, set[tuple[SSAValue, Size]]] = {}
    for inner in op.body.block.ops:
        if not isinstance(inner, ac.ElementLoadOp | ac.ElementStoreOp):
            continue
        array: SSAValue = inner.source if isinstance(inner, ac.ElementLoadOp) else inner.destination
        declared = walk.global_of(inner, array)
        if declared is None or declared.buffer.data not in row.vectors or not _goes_along(inner.indices, along):
            continue
        strides = sizes_of(declared.strides)
        element = parse_element(declared.result.type.element.data)
        vector = min(row.run, _VECTOR_BYTES // element.bytes) if element is not None else 0
        places = list(zip(inner.indices, strides, strict=False))
        if isinstance(inner, ac.ElementLoadOp) and inner.fill.data:
            walk.findings.doubt(f"a run of {declared.buffer.data} may lie outside it, and is loaded whole", inner)
        whole = bool(row.shifted) or is_multiple(length, row.run, ranges)
        if not vector or row.run * (element.bytes if element is not None else 0) % _WORD_BYTES or not whole:
            walk.findings.doubt(f"runs of {row.run} elements of {declared.buffer.data} are no whole vectors", inner)
        elif [stride for index, stride in places if index is along] != [1] or any(
            index is not along and _goes_along([index], along) for index in inner.indices
        ):
            walk.findings.doubt(f"a run does not lie together in {declared.buffer.data}", inner)
        elif row.shifted:
            # Strides that are one size are equal, whatever the launch makes of it.
            moving = [side for side in places if side[0] is not along and not is_multiple(side[1], row.run, ranges)]
            steps = {(index, stride % row.run if isinstance(stride, int) else stride) for index, stride in moving}
            if begins.setdefault(declared.buffer.data, steps) != steps:
                walk.findings.doubt(f"a run in {declared.buffer.data} may begin inside a vector", inner)
        elif not all(is_multiple(stride, vector, ranges) for index, stride in places if index is not along):
            walk.findings.doubt(f"a run in {declared.buffer.data} may begin inside a vector", inner)
    for name, steps in begins.items():
        if steps != begins.get(row.shifted):
            walk.findings.doubt(f"runs are counted by {row.shifted}, whose rows begin elsewhere than {name}'s", op)
    if row.shifted and row.shifted not in begins:
        walk.findings.doubt(f"runs are counted by {row.shifted}, which goes along no row", op)


def _goes_along(indices: Iterable[SSAValue], along: SSAValue) -> bool:
    """Whether an index changes along the row."""
    return any(
        index is along
        or (
            isinstance(index.owner, ac.AffineOp | ac.IndexDivideOp | ac.IndexLoadOp)
            and _goes_along(index.owner.operands, along)
        )
        for index in indices
    )
