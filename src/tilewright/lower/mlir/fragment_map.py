"""How maps over sums and loaded fragments are written: the region once, on vectors that hold all of a thread's values.

A sum is a struct for each block of 64 rows, or a part of its columns where several products stand side by side. What is
loaded for each row alone has the numbers of eight columns, which are repeated along the row.

Not handled, and refused by the op's name: maps of places, and what walks fold or multiply again.
Checked by: tests/lower/test_nvgpu.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorPartsOp, FragmentMapOp
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.lower.mlir.elements import narrowed, scalar_name, vector_of, widened, write_scalar_op
from tilewright.lower.mlir.text import Held, HeldAccumulator, HeldFragment, HeldScalar, Nvgpu, cannot_write

_ROW_VALUES = 4
"""Of a thread in eight columns of a block: two of each of its rows (PTX ISA, wgmma register fragments)."""


def write_fragment_map(state: Nvgpu, op: FragmentMapOp) -> None:
    """A map over sums and fragments. What is stored is rounded where it is; what another map takes, here."""
    kinds = [each.type for each in op.outputs]
    if op.places or not op.inputs or any(each.axes.data != "mn" for each in kinds):
        raise cannot_write(op)
    blocks, columns = kinds[0].m.data // BLOCK_ROWS, kinds[0].n.data
    vector = vector_of(blocks * columns // 2, "f32")
    results = _mapped(state, op, op.body.block, [state.held[each] for each in op.inputs], columns)
    for output, kind, name in zip(op.outputs, kinds, results, strict=True):
        element = kind.element.data
        if any(isinstance(use.operation, FragmentMapOp) for use in output.uses):
            name = widened(state.text, narrowed(state.text, name, vector, element), vector, element)
        state.held[output] = HeldFragment(name, blocks, columns, element)


def write_parts(state: Nvgpu, op: AccumulatorPartsOp) -> None:
    """The sums of products side by side."""
    accumulator = state.held[op.accumulator]
    assert isinstance(accumulator, HeldAccumulator)
    state.held |= dict(zip(op.parts, accumulator_parts(accumulator, len(op.parts)), strict=True))


def accumulator_parts(accumulator: HeldAccumulator, count: int) -> list[HeldAccumulator]:
    """So many equal parts of an accumulator's columns, from the left on."""
    columns = accumulator.n // count
    return [
        HeldAccumulator(accumulator.blocks, columns, accumulator.first + columns * part, accumulator.whole)
        for part in range(count)
    ]


def _mapped(state: Nvgpu, op: Operation, body: Block, inputs: Sequence[Held], columns: int) -> list[str]:
    """What a region gives, as vectors, for inputs of so many columns."""
    taken = [_values(state, each, columns) for each in inputs]
    vector = vector_of(max(length for _, length in taken), "f32")
    held: dict[SSAValue, Held] = {
        argument: HeldScalar(name) for argument, (name, _) in zip(body.args, taken, strict=True)
    }
    for inner in body.ops:
        if isinstance(inner, ac.YieldOp):
            return [scalar_name(held, each) for each in inner.values]
        if not write_scalar_op(state, held, inner, vector):
            raise cannot_write(inner)
    raise AssertionError(f"the region of {op.name} yields its results")


def _fragment(held: Held) -> HeldFragment:
    assert isinstance(held, HeldFragment)
    return held


def _values(state: Nvgpu, held: Held, columns: int) -> tuple[str, int]:
    """The vector of an input's values, and how many there are."""
    text, width = state.text, columns // 2
    if isinstance(held, HeldAccumulator):
        first = held.first // 2
        values = [
            text.into("item", f"llvm.extractvalue {block}[{number}] : {held.kind}")
            for block in held.blocks
            for number in range(first, first + width)
        ]
        length = len(values)
        packed = text.into("values", f"vector.from_elements {', '.join(values)} : {vector_of(length, 'f32')}")
        return packed, length
    fragment = _fragment(held)
    length = fragment.blocks * width
    if fragment.n == columns:
        return fragment.name, length
    own = vector_of(fragment.length, "f32")
    which = [_ROW_VALUES * block + value % _ROW_VALUES for block in range(fragment.blocks) for value in range(width)]
    chosen = ", ".join(map(str, which))
    repeated = text.into("repeated", f"vector.shuffle {fragment.name}, {fragment.name} [{chosen}] : {own}, {own}")
    return repeated, length
