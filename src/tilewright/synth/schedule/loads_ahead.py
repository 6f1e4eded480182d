"""Which of an epilogue's loads are made while the first products of a tile run, so that their latency is hidden?

Vectors along the accumulator's rows or columns, such as a bias or factors for rows and columns: each thread needs few
of their numbers, but all at once and first of all; and single numbers, such as a factor for a whole operand, given as
one block of rows or columns that none exceeds. They are taken in the order in which the program reads them, as long
as the registers of a consumer hold them beside its accumulators. Matrices are loaded where they are used.

Not handled: vectors for which a consumer has registers only after its loop.
Checked by: tests/synth/schedule/test_loads_ahead.py.
"""

from __future__ import annotations

from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.repeats import in_order
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.tile.shape import TileShape

_KEPT_REGISTERS = 38
"""Of a thread, for addresses, loop counters and what is being stored."""
_SERIES_REGISTERS = 48
"""Besides, where elements go through a series: the assembler computes several of them at a time."""
_SERIES = frozenset({Function.EXP, Function.SIGMOID, Function.TANH, Function.SILU, Function.GELU})
_ROWS_PER_VALUE, _COLUMNS_PER_VALUE = 32, 4
"""Rows and columns of a warpgroup's tile for each number of a vector that a thread holds (PTX ISA, wgmma register
fragments: two of 64 rows, two of eight columns)."""


def choose_loads_ahead(
    program: tile.ProgramOp, axes: tuple[str, str], shape: TileShape, products: int, registers: int
) -> tuple[str, ...]:
    """Parameters whose vectors are loaded ahead. axes: rows and columns of the accumulator; registers: of a consumer's
    thread."""
    unit_rows = shape.rows // shape.consumers
    kept = _KEPT_REGISTERS + (_SERIES_REGISTERS if _has_series(program) else 0)
    left = registers - kept - products * unit_rows * shape.columns // 128
    chosen: list[str] = []
    for load in _epilogue_loads(program):
        along = [axis for axis in tensor_type(load.tensor).axis_names if base_axis(axis) in axes]
        name = parameter_name(program, load.tensor)
        if name in chosen:
            continue
        if _is_one_number(load):
            needed = 1
        elif len(along) != 1 or along[0] not in axes:
            continue
        else:
            needed = unit_rows // _ROWS_PER_VALUE if along[0] == axes[0] else shape.columns // _COLUMNS_PER_VALUE
        if needed <= left:
            left -= needed
            chosen.append(name)
    return tuple(chosen)


def _is_one_number(load: tile.LoadOp) -> bool:
    """Whether one block covers all of the program, as of a factor for a whole operand."""
    tensor = tensor_type(load.tensor)
    return all(block_size(axis) > 1 for axis in tensor.axis_names) and set(tensor.extents) == {1}


def _has_series(program: tile.ProgramOp) -> bool:
    """Whether something that is stored goes through a series of several terms."""
    return any(isinstance(op, tile.UnaryOp) and op.function.data in _SERIES for op in program.body.block.ops)


def _epilogue_loads(program: tile.ProgramOp) -> list[tile.LoadOp]:
    """The loads that stores depend on without a loop between, each once, in the program's order."""
    elementwise = (tile.UnaryOp, tile.BinaryOp, tile.CastOp, tile.BroadcastOp, tile.TransposeOp)
    behind = {
        value.owner
        for store in stores(program)
        for value in in_order(store.value, lambda each: isinstance(each.owner, elementwise))
    }
    return [op for op in program.body.block.ops if isinstance(op, tile.LoadOp) and op in behind]
