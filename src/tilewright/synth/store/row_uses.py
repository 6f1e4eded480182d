"""What does a program need of its rows: walks over them, what waits between these, and how much is moved?

Checked by: tests/lower/points/test_rows.py and tests/synth/store/test_row_choice.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from tilewright.ir.rows import COSTLY
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import loads, parameter_name, reductions, stores
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.narrow import is_simplified
from tilewright.ir.tile.reduce import ArgReduceOp
from tilewright.ir.tile.types import read_type, tensor_type, value_type

_WORD_BYTES = 4
_NARROW_BYTES = 2
"""Of a result that shows no error of 2^-18 of it."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What a program's rows are: the axis, points that units cover, of how many neighbours a run is, which arrays are
    reached so, and whose vectors runs follow; narrow: as `RowDecision` has it; apart: whether units may take only one
    at once; words: whether runs are words where vectors are longer, since rows do not begin at vectors."""

    axis: str
    rows: int
    covered: int
    run: int
    vectors: tuple[str, ...]
    shifted: str
    narrow: int
    apart: bool
    words: bool = False


@dataclass(frozen=True, slots=True)
class Uses:
    """walks: over a row; meetings: of the threads that share one, folds that do not wait for each other at once;
    read_bytes, stored_bytes: of one point, of arrays of which each row has a part; own_registers, shared_registers: of
    a point that waits from one walk to the next, and of what all rows share; kept: parameters that more than one walk
    needs, each row its own part of them, in vectors, with the bytes of a point of them; vectors: arrays that all rows
    share, with the bytes of a point of all of them; exchanged: words of all folds; singles: arrays of which each row
    has a part that is reached element by element."""

    walks: int
    meetings: int
    read_bytes: int
    stored_bytes: int
    own_registers: float
    shared_registers: float
    kept: tuple[str, ...]
    kept_bytes: int
    vectors: int
    vector_bytes: int
    exchanged: int
    singles: int


def uses_of(program: tile.ProgramOp, shared: Shared) -> Uses:
    along = [op for op in loads(program) if shared.axis in map(base_axis, read_type(op.tensor).axis_names)]
    folds: set[Operation] = set(reductions(program))
    levels = _levels(program)
    ends: dict[int, list[Operation]] = {}
    for op in folds:
        ends.setdefault(levels[op] - 1, []).append(op)
    stored = [op for op in stores(program) if shared.axis in tensor_type(op.tensor).axis_names]
    for op in stored:
        ends.setdefault(levels[op], []).append(op)
    walks = [ends[level] for level in sorted(ends)]
    # In registers, what costs much is computed once.
    computed: set[Operation] = set()
    own = [op for op in along if len(read_type(op.tensor).axis_names) > 1]
    vectors = [op for op in along if op not in own]
    registers = [(0.0, 0.0)]
    for walk in walks:
        needed = _behind(walk, folds | computed)
        of_vectors = sum(_words(program, op, along, computed, shared) for op in needed.intersection(vectors))
        of_all = sum(_words(program, op, along, computed, shared) for op in needed)
        registers.append((of_all - of_vectors, of_vectors))
        computed |= {op for op in needed if _is_costly(op, shared)}
    own_registers, shared_registers = max(registers, key=sum)
    anew = [_behind(walk, folds) for walk in walks]
    kept = [
        op
        for op in own
        if sum(op in walk for walk in anew) > 1 and parameter_name(program, read_tensor(op.tensor)) in shared.vectors
    ]
    reached = {parameter_name(program, read_tensor(op.tensor)) for op in (*own, *stored)}
    return Uses(
        walks=len(walks),
        meetings=len({levels[op] for op in folds}),
        read_bytes=sum(read_type(op.tensor).element_kind.bytes for op in own),
        stored_bytes=sum(tensor_type(op.tensor).element_kind.bytes for op in stored),
        own_registers=own_registers,
        shared_registers=shared_registers,
        kept=tuple(dict.fromkeys(parameter_name(program, read_tensor(op.tensor)) for op in kept)),
        kept_bytes=sum(read_type(op.tensor).element_kind.bytes for op in kept),
        vectors=len(vectors),
        vector_bytes=sum(read_type(op.tensor).element_kind.bytes for op in vectors),
        exchanged=words_of_folds(program),
        singles=len(reached - set(shared.vectors)),
    )


def _words(
    program: tile.ProgramOp, op: Operation, along: Sequence[tile.LoadOp], computed: set[Operation], shared: Shared
) -> float:
    """Of a point, in which what an operation gives waits for a walk: loads do, and what an earlier one computed."""
    if isinstance(op, tile.LoadOp) and op in along:
        if parameter_name(program, read_tensor(op.tensor)) in shared.vectors:
            return read_type(op.tensor).element_kind.bytes / _WORD_BYTES
        # Runs that begin anywhere in their array's vectors are loaded where they are needed, but for words.
        return 0.0 if shared.shifted and not shared.words else 1.0
    return float(op in computed)


def _is_costly(op: Operation, shared: Shared) -> bool:
    return (
        isinstance(op, tile.UnaryOp | tile.BinaryOp)
        and op.function.data in COSTLY
        and not (shared.narrow and is_simplified(op, shared.axis))
        and shared.axis in value_type(op.result).axis_names
    )


def has_narrow_results(program: tile.ProgramOp, axis: str) -> bool:
    """Whether something along the rows is simplified where results do not show it, and no others follow of it."""
    widths = [
        tensor_type(op.tensor).element_kind.bytes
        for op in stores(program)
        if any(is_simplified(each, axis) for each in _behind([op], set()))
    ]
    return max(widths, default=_NARROW_BYTES + 1) <= _NARROW_BYTES


def _levels(program: tile.ProgramOp) -> dict[Operation, int]:
    """How many folds, one waiting for the other, each operation waits for; a fold for itself too."""
    found: dict[Operation, int] = {}
    folds = set(reductions(program))
    for op in program.walk():
        before = [found.get(each.owner, 0) for each in op.operands if isinstance(each.owner, Operation)]
        found[op] = max(before, default=0) + (op in folds)
    return found


def _behind(ends: Sequence[Operation], known: set[Operation]) -> set[Operation]:
    """What these are computed from, up to what is known, which is among it."""
    found: set[Operation] = set()
    open_ = [operand.owner for op in ends for operand in op.operands]
    while open_:
        op = open_.pop()
        if isinstance(op, Operation) and op not in found:
            found.add(op)
            if op not in known:
                open_ += [operand.owner for operand in op.operands]
    return found


def words_of_folds(program: tile.ProgramOp) -> int:
    """That a thread has of all folds: of a value that stands somewhere, its place is a second word."""
    return sum(2 if isinstance(op, ArgReduceOp) else 1 for op in reductions(program))
