"""Parts of parts of arrays: where they lie in the whole, and that no index leaves it."""

import sys
from pathlib import Path

from xdsl.dialects.builtin import IntAttr

from tilewright.base.verdict import Proven
from tilewright.contract.typestate.places.array_parts import ArrayView
from tilewright.contract.typestate.token import Index
from tilewright.contract.typestate.typestate import judge
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import int_array
from tilewright.targets import target

sys.path.insert(0, str(Path(__file__).parents[2] / "lower"))
from tests.lower.cascade_programs import attention, grouped_heads
from tests.lower.lowered_programs import lower

DIMS = {"B": 3, "H": 4, "Q": 200, "T": 200, "E": 64, "F": 64}


def array(shape):
    properties = {"shape": int_array(shape), "strides": int_array(shape)}
    return ac.GlobalOp.create(properties=properties)


def test_coordinates_of_a_part_are_those_of_the_whole():
    first, second, row, column = (Index(((name, 1),)) for name in "abmn")
    view = ArrayView(array([2, 5, 3, 7]), ((0, first), (2, second)))
    assert view.rank == 2 and view.dimensions == (1, 3)
    assert view.placed((row, column)) == (first, row, second, column)
    assert view.widened((64, 8)) == (1, 64, 1, 8)


def of_kernel(kernel=attention, dims=DIMS):
    (module,) = lower(kernel, dims).kernels
    return module


def verdict(module):
    return judge(module, target("sm_90a"))[0]


def parts(module):
    return [op for op in module.walk() if isinstance(op, ac.GlobalPartOp)]


def test_a_part_for_each_place_of_a_batch_is_proven():
    assert isinstance(verdict(of_kernel()), Proven)


def test_parts_by_another_axis_s_index_may_lie_outside():
    module = of_kernel()
    first, second = parts(module)
    first.operands[1], second.operands[1] = second.operands[1], first.operands[1]
    assert not isinstance(verdict(module), Proven)


def test_one_index_for_two_dimensions_stores_twice():
    module = of_kernel(dims=DIMS | {"B": 4})
    first, second = parts(module)
    second.operands[1] = first.operands[1]
    assert not isinstance(verdict(module), Proven)


def test_loops_of_other_batches_are_not_proven():
    module = of_kernel()
    tiles = [op for op in module.walk() if isinstance(op, ac.TilesOp)]
    tiles[0].properties["batch"] = int_array([4, 3])
    assert not isinstance(verdict(module), Proven)
    module = of_kernel()
    for op in module.walk():
        if isinstance(op, ac.TilesOp):
            op.properties["batch"] = int_array([3, 5])
    assert not isinstance(verdict(module), Proven)


def test_a_result_is_not_told_apart_by_a_quotient():
    module = of_kernel(grouped_heads, {"H": 4, "Q": 200, "T": 200, "E": 64, "F": 64})
    assert isinstance(verdict(module), Proven)
    for part in parts(module):
        block = part.parent_block()
        quotient = ac.IndexDivideOp.create(
            operands=[part.index], properties={"size": IntAttr(2)}, result_types=[ac.IndexType()]
        )
        block.insert_op_before(quotient, part)
        part.operands[1] = quotient.result
    assert not isinstance(verdict(module), Proven)
