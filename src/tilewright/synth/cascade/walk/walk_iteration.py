"""What do the products of one iteration of a walk take, what do its threads compute, and do consumers gain by an order?

The tensor cores' part is that of `synth.cost.time_model`; special functions and arithmetic are counted at the rates of
`synth.cost.roofline`. Where an iteration leaves a product to the next one, a consumer's products run beside its own
arithmetic and the others'. Issued in order, they run one consumer's after another's, so that nobody's first product,
for which its arithmetic waits, is served by halves. That gains where the products of all other consumers take about as
long as what one computes: of shorter ones the tensor core has time enough, and for longer ones all of them wait.

A sum that follows an extreme is multiplied in every iteration, between the product that adds to it and the next one,
which waits for that. Of n + 1 tiles any may hold a row's largest number; so the last one does so once in n + 1 times,
and else the row's factor is 1. A warp asks whether eight rows' factors are all 1, and passes over their multiplications
then: in a long walk over most, which pays where a thread has many of them.

A sum of a row that is only carried on need not be added up through the row's threads in each iteration
(`lower.fragment.late_fold`). That exchange takes the same time in narrow tiles as in wide ones.

Not handled: what slots wait for (`synth.cut.time`). Checked by: tests/synth/cascade/walk/test_walk_iteration.py,
tests/synth/cut/test_time.py; what consumers gain, by `python -m bench.probes.walk_forms`.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import CascadeAxes, corrected_sum, loads_of_walk, products_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import loads, loops
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.types import value_type
from tilewright.synth.cascade.walk.walk_time import walked_lengths
from tilewright.synth.cost.roofline import ARITHMETIC_PER_CYCLE, SPECIAL
from tilewright.synth.cost.time_model import multiply_cycles
from tilewright.synth.operand.register_operand import ALONG_INSTRUCTIONS, MOVED_INSTRUCTIONS
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_COLUMNS_OF_REGISTER = 2
"""Of 64 rows, that a warpgroup's threads hold in a register each."""
_ROWS_ASKED = 8
"""Rows of a warp whose factors are asked for together: of a thread's two, one each."""
_READ_INSTRUCTIONS = 2
"""For each number of a sum that threads read from tensor memory in every iteration, and add."""


def order_pays(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, target: Target) -> bool:
    """Whether consumers that leave a product to the next iteration are quicker in order."""
    for loop in loops(program):
        tensor, late, computed = iteration_cycles(program, axes, loop, d, target)
        percent = 100 * (tensor + late) * (d.consumers - 1) / computed if computed else 0
        least, most = (target.limit(f"pipeline.order_{which}_percent") for which in ("least", "most"))
        if not least <= percent <= most:
            return False
    return True


def skips_ones(program: tile.ProgramOp, axes: CascadeAxes, d: CascadeDecisions, target: Target, wanted: Wanted) -> bool:
    """Whether warps pass over corrections of carried sums where all their rows' factors are 1."""
    sums = [value for each in products_of(program) if (value := corrected_sum(each.op, axes)) is not None]
    if wanted.skips_ones is not None or not sums or target.supports("tensor_memory"):
        return bool(wanted.skips_ones and sums)
    registers = sum(d.columns_along(axes.column_of(axes.kept(value))) // _COLUMNS_OF_REGISTER for value in sums)
    lengths = [length for each in walked_lengths(program, d) for length in each]
    unchanged = sum((n / (n + 1)) ** _ROWS_ASKED for length in lengths for n in range(1, length))
    return registers * unchanged >= target.limit("pipeline.skipped_products_least") * sum(lengths)


def adds_late(d: CascadeDecisions, target: Target, wanted: Wanted) -> bool:
    """Whether the threads of a row add up their parts of a carried sum behind the walk."""
    if wanted.late_sums is not None:
        return wanted.late_sums
    narrow = d.tile_streamed <= target.limit("pipeline.late_sums_columns_most")
    return narrow and not target.supports("tensor_memory")


def iteration_cycles(
    program: tile.ProgramOp, axes: CascadeAxes, loop: tile.LoopOp, d: CascadeDecisions, target: Target
) -> tuple[float, float, float]:
    """Of one tile of the streamed axis, of all consumers of a CTA: cycles of the products that are waited for, of those
    that are left to the next iteration, and of what threads compute."""
    inside = set(loop.body.block.ops)
    tensor, late, read = 0.0, 0.0, 0
    for number, product in enumerate(products_of(program)):
        if product.op in inside:
            over, width = product.op.axis.data, d.tile_streamed
            if over == d.streamed:
                columns = d.columns_along(axes.column_of(axes.kept(product.op.result)))
                shape, loaded = (d.tile_rows, columns, width), 0
                read += columns if d.places and not d.places[number].stays else 0
            else:
                shape, loaded = (d.tile_rows, width, program.extents[over]), d.tile_rows
            rows = d.tile_rows if number in d.issued else None
            cycles = multiply_cycles(shape, loaded, value_type(product.brought.result).element_kind.bytes, target, rows)
            tensor, late = (tensor, late + cycles) if number in d.late else (tensor + cycles, late)
    points = d.tile_rows * d.tile_streamed
    arithmetic, special = 0.0, 0
    for op in inside:
        match op:
            case tile.UnaryOp() | tile.BinaryOp() | tile.SelectOp() if _is_of_points(axes, op.results[0]):
                function = None if isinstance(op, tile.SelectOp) else op.function.data
                special, arithmetic = special + (function in SPECIAL), arithmetic + (function not in SPECIAL)
            case ReduceOp() if _is_of_points(axes, op.operand):
                arithmetic += 1
            case ContractOp():
                arithmetic += 1  # what it gives, or takes from registers, is rounded or scaled
            case tile.LoadOp() if not _is_multiplied(program, op):
                arithmetic += MOVED_INSTRUCTIONS if _is_of_points(axes, op.result) else ALONG_INSTRUCTIONS
            case _:
                pass
    computed = points * special / target.limit("device.special_results_per_cycle_per_multiprocessor")
    computed += (points * arithmetic + d.tile_rows * read * _READ_INSTRUCTIONS) * 2 / ARITHMETIC_PER_CYCLE
    computed += _remade_cycles(program, loop, d, target)
    return tensor, late, computed


def _remade_cycles(program: tile.ProgramOp, loop: tile.LoopOp, d: CascadeDecisions, target: Target) -> float:
    """What the consumers of a CTA make anew in an iteration."""
    listed, found = loads(program), 0.0
    needed = loads_of_walk(loop, products_of(program), [listed[each.load] for each in d.slots])
    for each in d.slots:
        if each.remade and listed[each.load] in needed:
            elements = d.consumers * each.room_bytes / each.multiplied.element_bytes
            fact = "turned_bytes" if each.remade == "turned" else "widened_elements"
            found += 1000 * elements / target.limit(f"pipeline.{fact}_per_kilocycle")
    return found


def _is_of_points(axes: CascadeAxes, value: SSAValue) -> bool:
    return axes.kept(value) >= {axes.row, axes.streamed}


def _is_multiplied(program: tile.ProgramOp, load: tile.LoadOp) -> bool:
    """Whether a product reads the load's slot as it is."""
    return any(load.result in (product.op.left, product.op.right) for product in products_of(program))
