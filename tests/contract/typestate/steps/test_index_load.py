"""Indices that arrays hold: where they prove, and what no proof follows from."""

from functools import cache

from tests.paged_programs import embedded, paged
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


@cache
def compiled(name: str) -> ModuleOp:
    kernel = {"paged": paged, "embedded": embedded}[name]
    dims = {"H": 2, "Q": 4, "T": 96, "E": 16, "F": 16, "P": 5, "S": 16, "R": 9, "N": 40, "M": 20}
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    module = trace(kernel, {axis: dims[axis] for axis in kernel.axes}, elements)
    wanted = Wanted(depth=32, consumers=1) if name == "paged" else Wanted()
    module = walked(module, HOPPER, wanted).clone()
    decide(the_program(module), HOPPER, wanted)
    (kernel_,) = lower_program(the_program(module)).kernels
    return kernel_.module


def fresh(name: str = "paged") -> ModuleOp:
    return compiled(name).clone()


def ops(module: ModuleOp, kind: type[Operation]) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, kind)]


def loads(module: ModuleOp) -> list[ac.IndexLoadOp]:
    """Those that copies go by, and not boxes that are only asked for."""
    found = [op for op in module.walk() if isinstance(op, ac.IndexLoadOp)]
    return [op for op in found if not all(isinstance(use.operation, ac.BoxPrefetchOp) for use in op.result.uses)]


def doubt(verdict: Verdict, words: str) -> None:
    assert isinstance(verdict, Unknown)
    assert any(words in reason for reason in verdict.reasons), verdict.reasons


def test_a_page_table_is_asked_once_for_keys_and_values():
    module = fresh()
    assert isinstance(verify(module, HOPPER), Proven)
    assert len(loads(module)) == 2  # of the pages in a tile
    assert all(len(list(op.result.uses)) == 2 for op in loads(module))


def test_an_innermost_coordinate_may_start_anywhere():
    module = fresh()
    load = loads(module)[0]
    copy = next(iter(load.result.uses)).operation
    copy.operands[3] = load.result
    doubt(verify(module, HOPPER), "more than an outer coordinate")


def test_a_multiple_of_it_is_no_coordinate():
    """What is computed of it might pass 32 bits, or be taken for a number that is bounded."""
    module = fresh()
    load = loads(module)[0]
    copy = next(iter(load.result.uses)).operation
    affine = ac.AffineOp.create(
        operands=[load.result],
        properties={"coefficients": ac.ArrayAttr([IntAttr(2)]), "constant": IntAttr(0)},
        result_types=[ac.IndexType()],
    )
    block = load.parent_block()
    assert block is not None
    block.insert_op_after(affine, load)
    copy.operands[len(copy.operands) - 1] = affine.result
    doubt(verify(module, HOPPER), "more than an outer coordinate")


def test_it_places_no_store():
    module = fresh()
    store = next(op for op in module.walk() if isinstance(op, ac.GlobalStoreOp))
    table = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "table")
    load = ac.IndexLoadOp.create(operands=[table.result, store.row, store.row], result_types=[ac.IndexType()])
    block = store.parent_block()
    assert block is not None
    block.insert_op_before(load, store)
    store.operands[2] = load.result
    doubt(verify(module, HOPPER), "more than an outer coordinate")


def test_only_integers_are_indices():
    module = fresh()
    lengths = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "table")
    kind = ac.GlobalType(StringAttr("f32"), IntAttr(2))
    other = ac.GlobalOp.create(properties={**lengths.properties, "sym_name": StringAttr("other")}, result_types=[kind])
    block = lengths.parent_block()
    assert block is not None
    block.insert_op_after(other, lengths)
    for load in loads(module):
        load.operands[0] = other.result
    doubt(verify(module, HOPPER), "loads an index at 2 indices")


def test_as_many_indices_as_the_array_has_dimensions():
    module = fresh()
    load = loads(module)[0]
    load.operands = [*load.operands, load.operands[-1]]
    doubt(verify(module, HOPPER), "loads an index at 3 indices")


def test_a_table_that_the_kernel_stores_is_not_ordered():
    module = fresh()
    table = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "table")
    result = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == "O")
    table.properties["buffer"] = result.properties["buffer"]
    doubt(verify(module, HOPPER), "is read and stored by one kernel")


def test_bytes_of_each_page_count():
    """A box less leaves the phase without its bytes, whatever tables say."""
    module = fresh()
    copy = next(iter(loads(module)[0].result.uses)).operation
    assert isinstance(copy, ac.CopyIssueOp)
    copy.result.replace_all_uses_with(copy.tx)
    copy.detach()
    copy.erase()
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and "TX001" in {finding.code for finding in verdict.findings}


def test_pages_do_not_overlap_in_a_slot():
    module = fresh()
    first, second = (next(iter(load.result.uses)).operation for load in loads(module))
    second.properties["offset_bytes"] = first.properties["offset_bytes"]
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and "TX005" in {finding.code for finding in verdict.findings}


def test_element_loads_by_it_are_guarded():
    module = fresh("embedded")
    assert isinstance(verify(module, HOPPER), Proven)
    load = next(op for op in module.walk() if isinstance(op, ac.ElementLoadOp))
    load.properties["fill"] = IntAttr(0)
    doubt(verify(module, HOPPER), "a point may lie outside x")


def test_runs_of_points_load_none():
    module = fresh("embedded")
    op = next(each for each in module.walk() if isinstance(each, ac.ElementwiseOp))
    op.properties["run"] = IntAttr(8)
    doubt(verify(module, HOPPER), "loads an index in runs")


def test_no_point_is_stored_by_it():
    module = fresh("embedded")
    store = next(op for op in module.walk() if isinstance(op, ac.ElementStoreOp))
    store.operands[2] = loads(module)[0].result
    assert isinstance(verify(module, HOPPER), Unknown)
