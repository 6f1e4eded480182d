"""Is an operand that is computed elementwise computed in a kernel of its own, or in registers beside the product?

Materialized, each element is computed once, written and read again, and a kernel more is launched. In registers it is
computed by every tile along the other axis, by threads that would else wait for the tensor core. So registers win where
few tiles share the operand or the expression is short, and a workspace where the arithmetic, times the tiles, takes
longer than the product. The estimate is a closed form of both, held against an H200 by `python -m bench computed`;
`Wanted.computed` overrules it.

Handled in registers: one tensor of 16-bit elements over the accumulator's rows and the contracted axis, contiguous
along the latter and loaded once, with vectors along either; products of 16-bit elements whose contracted extent is
whole slots (past its end the expression of a 0 need not be finite, and would be multiplied). The product is transposed
where the operand is the right one. CTAs share no loads: a slot that threads have read is released to other CTAs only at
the cluster's scope, which costs a fence of the device's memory for each. Everything else is materialized, as is one of
two computed operands. Checked by: tests/synth/cascade/sums/test_register_sum.py, and by `contract` on the lowered
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.gather import GatherOp
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.synth.cost.model import Rates
from tilewright.synth.operand.operands import slice_depth
from tilewright.synth.tile.shape import TileShape
from tilewright.synth.tile.thin_product import FEW_ROWS
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_ELEMENTS = (Element.BF16, Element.F16)
_TILE = (128, 256)
"""Rows and columns of the tile that the estimate is made for; fewer columns where such tiles would leave
multiprocessors idle, whereupon more tiles compute the same elements."""
_LEAST_COLUMNS = 32
_LANES = 128
"""Threads of a multiprocessor that execute an instruction in one cycle."""
_LAUNCH_CYCLES = 4000
_EXPOSED = 0.15
"""Parameters of the estimate, fitted to `python -m bench computed` on an H200: what a kernel before this one costs
beside its traffic; how much of the threads' work does not pass while the tensor core works."""
MOVED_INSTRUCTIONS = 3.0
"""For each element besides its expression: loaded, widened, packed and moved."""
ALONG_INSTRUCTIONS = 6.0
"""For each element and vector along the contracted axis, whose numbers are loaded anew for each slot."""
_INSTRUCTIONS = {
    Function.DIV: 20.0,
    Function.SQRT: 20.0,
    Function.RSQRT: 40.0,
    Function.LOG: 25.0,
    Function.EXP: 36.0,
    Function.SIGMOID: 44.0,
    Function.SILU: 46.0,
    Function.TANH: 60.0,
    Function.GELU: 56.0,
}
"""Of the scalar functions that take more than one (see `lower.ptx.numbers.scalar`), with the waits of their chains."""
_KEPT_REGISTERS = 40
"""Of a thread, for addresses, loop counters and elements on their way."""


@dataclass(frozen=True, slots=True)
class Side:
    """An operand of a product. name: "left" or "right"; outer, other: its own axis and the other operand's; swapped:
    whether the product is transposed where the accumulator's rows are this operand's."""

    name: str
    value: SSAValue
    outer: str
    other: str
    swapped: bool


def wants_registers(
    program: tile.ProgramOp,
    sides: Sequence[Side],
    contracted: str,
    batch: str,
    rates: Rates,
    target: Target,
    wanted: Wanted,
    reasons: list[str],
) -> str:
    """The side, "left" or "right", whose operand is to be computed in registers; "" for none.

    Raises TilewrightError where that is wished for and no operand is of the kind.
    """
    if wanted.computed == "workspace":
        return ""
    why = "the product is one of a batch" if batch else ""
    computed = [side for side in sides if not isinstance(_source(side.value).owner, tile.LoadOp)]
    if not computed:
        why = "no operand is computed"
    for side in computed if not why else ():
        why = _obstacle(side.value, side.outer, contracted)
        if not why and wanted.swapped not in (None, side.swapped):
            why = "the accumulator's rows are asked to be the other operand's"
        if not why and wanted.cluster not in (None, (1, 1)):
            why = "CTAs are asked to share loads"
        if not why and wanted.turns:
            why = "ping-pong consumers are requested"
        if why:
            continue
        extents = (program.extents[side.outer], program.extents[side.other], program.extents[contracted])
        words, better = _compared(side.value, contracted, extents, rates, target)
        few = extents[0] <= FEW_ROWS or extents[1] <= FEW_ROWS
        if wanted.computed == "registers" or (better and not few):
            reasons.append(f"{side.name} operand computed in registers: {words}")
            return side.name
        reasons.append(f"{side.name} operand not computed in registers: {'small M; ' if few else ''}{words}")
    if wanted.computed == "registers":
        raise TilewrightError(
            f"no operand can be computed in registers: {why}",
            remedy="leave `computed` to the compiler, or ask for a workspace",
        )
    return ""


def fixed_for_registers(wanted: Wanted, *, swapped: bool) -> Wanted:
    """The wishes with what such a product fixes: its orientation, no turns, CTAs of their own, slots of one span."""
    depth = wanted.depth or slice_depth(Element.BF16.bytes)
    return replace(wanted, swapped=swapped, turns=False, cluster=(1, 1), depth=depth)


def no_fit(program: tile.ProgramOp, value: SSAValue, contracted: str, shape: TileShape, registers: int) -> str:
    """Why a tile of this shape cannot have an operand computed in registers, or nothing. registers: of a consumer's
    thread."""
    unit_rows = shape.rows // shape.consumers
    # What is multiplied and what is computed meanwhile, two elements in a register; a slot's numbers along it.
    sets = 2 * (unit_rows // 64) * shape.depth // 4 + _vectors_along(value, contracted) * shape.depth // 4
    needed = unit_rows * shape.columns // _LANES + sets + _KEPT_REGISTERS
    if program.extents[contracted] % (shape.depth * shape.shares):
        return f"its {program.extents[contracted]} elements along {contracted} are no whole slots of {shape.depth}"
    return f"{needed} registers of {registers} would be needed" if needed > registers else ""


def not_after_all(name: str, why: str, wanted: Wanted) -> str:
    """The reason of a decision against registers that the tile is to blame for. Raises TilewrightError where registers
    are wished for."""
    if wanted.computed == "registers":
        raise TilewrightError(
            f"the {name} operand cannot be computed in registers: {why}",
            remedy="leave `computed` to the compiler, or ask for a workspace",
        )
    return f"{name} operand not computed in registers after all: {why}"


def _source(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, tile.TransposeOp):
        value = value.owner.operand
    return value


def _leaves(value: SSAValue) -> tuple[list[tile.LoadOp], list[Function], str]:
    """The loads and the functions of an expression, and what else it has that is not computed at a point."""
    loads: list[tile.LoadOp] = []
    functions: list[Function] = []
    pending, seen, other = [value], set[SSAValue](), ""
    while pending:
        item = pending.pop()
        if item in seen:
            continue
        seen.add(item)
        match item.owner:
            case tile.LoadOp():
                loads.append(item.owner)
            case tile.UnaryOp() | tile.BinaryOp():
                functions.append(item.owner.function.data)
                pending.extend(item.owner.operands)
            case tile.CastOp() | tile.BroadcastOp() | tile.TransposeOp():
                pending.extend(item.owner.operands)
            case tile.ConstantOp() | tile.FullOp():
                pass
            case _:
                other = "it is more than an elementwise expression"
    return loads, functions, other


def raw_load(value: SSAValue) -> tile.LoadOp:
    """The load of the tile that an operand in registers is computed of."""
    (load,) = (load for load in _leaves(value)[0] if len(tensor_type(load.tensor).axis_names) == 2)
    return load


def _vectors_along(value: SSAValue, contracted: str) -> int:
    return sum(tensor_type(load.tensor).axis_names == (contracted,) for load in _leaves(value)[0])


def _obstacle(value: SSAValue, outer: str, contracted: str) -> str:
    """Why an operand over (outer, contracted) cannot be computed in registers, or nothing."""
    loads, _, other = _leaves(value)
    if other:
        return other
    if value_type(value).element_kind not in _ELEMENTS:
        return f"its elements are {value_type(value).element_kind.value}"
    tiles = 0
    for load in loads:
        if isinstance(load.tensor.owner, GatherOp):
            return "a part of it lies where integers say"
        tensor = tensor_type(load.tensor)
        axes, shifts = tensor.axis_names, dict(zip(tensor.axis_names, map(index_offset, load.indices), strict=True))
        if shifts.get(contracted):
            return f"a part of it is displaced along {contracted}"
        if set(axes) == {outer, contracted} and len(axes) == 2:
            tiles += 1
            if tensor.element_kind not in _ELEMENTS:
                return f"it is computed from elements of {tensor.element_kind.value}"
            if dict(zip(axes, tensor.stride_elements, strict=True))[contracted] != 1:
                return f"what it is computed from is not contiguous along {contracted}"
        elif axes not in ((outer,), (contracted,)):
            return f"it is computed from a tensor over {', '.join(axes)}"
    return "" if tiles == 1 else f"it is computed from {tiles} loads of both axes"


def _compared(
    value: SSAValue, contracted: str, extents: tuple[int, int, int], rates: Rates, target: Target
) -> tuple[str, bool]:
    """Cycles of the product with its operand computed either way, in words, and whether registers take fewer.

    extents: of the operand's own axis, the other one, the contracted one.
    """
    rows, columns, depth = extents
    _, functions, _ = _leaves(value)
    instructions = MOVED_INSTRUCTIONS + ALONG_INSTRUCTIONS * _vectors_along(value, contracted)
    instructions += sum(_INSTRUCTIONS.get(function, 1.0) for function in functions)
    multiply = 2 * rows * columns * depth / (rates.operations_per_cycle * rates.multiprocessors)
    busy = math.ceil(rates.multiprocessors / math.ceil(rows / _TILE[0]))
    tiles = max(math.ceil(columns / _TILE[1]), min(busy, math.ceil(columns / _LEAST_COLUMNS)))
    threads = rows * depth * tiles * instructions / (_LANES * rates.multiprocessors)
    in_registers = max(multiply, threads) + _EXPOSED * threads
    traffic = rows * depth * 2 * Element.BF16.bytes / target.limit("device.dram_bytes_per_second")
    in_memory = multiply + traffic * target.limit("device.clock_hertz") + _LAUNCH_CYCLES
    words = (
        f"about {instructions:.0f} instructions an element for each of {tiles} tiles, {in_registers:.0f} cycles; "
        f"{in_memory:.0f} with a workspace"
    )
    return words, in_registers < in_memory
