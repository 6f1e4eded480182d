"""Units of threads that share rows: what breaks a rule of theirs is refuted or left undecided, never proved."""

from dataclasses import replace

import pytest
from examples.rows import argmax, layer_norm, quantize, softmax
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import Rewriter

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import rows_of, to_attribute
from tilewright.ir.rows import RowDecision
from tilewright.ir.tier import MemoryType, int_array
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


def lowered(
    length: int, kernel=softmax, rows: int = 6, wanted: Wanted | None = None
) -> tuple[ModuleOp, ac.ElementwiseOp, RowDecision]:
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    module = trace(kernel, {"M": rows, "N": length}, elements)
    decide(the_program(module), HOPPER, wanted)
    (made,) = lower_program(the_program(module)).kernels
    (op,) = [each for each in made.module.walk() if isinstance(each, ac.ElementwiseOp)]
    assert op.rows is not None
    return made.module, op, rows_of(op.rows)


def changed(length: int, wanted: Wanted | None = None, **changes: object) -> Verdict:
    module, op, row = lowered(length, wanted=wanted)
    op.properties["rows"] = to_attribute(replace(row, **changes))
    return verify(module, HOPPER)


@pytest.mark.parametrize("kernel", [softmax, layer_norm, quantize, argmax])
@pytest.mark.parametrize("length", [1, 33, 1024, 1025, 4096, 100_000])
def test_what_the_compiler_emits_is_proved(kernel, length):
    module, _, _ = lowered(length, kernel)
    assert isinstance(verify(module, HOPPER), Proven)


MUTANTS = {
    "a unit of three eighths of a warp": (1024, {"threads": 12}),
    "units that do not divide the CTA": (1024, {"threads": 96}),
    "units of several warps, two in a CTA": (1024, {"threads": 64}),
    "no runs": (1024, {"run": 0}),
    "a run of three": (1024, {"run": 3}),
    "a strip shorter than the row": (1024, {"threads": 32, "pieces": 1}),
    "longer vectors than the row has": (1020, {"run": 8}),
    "vectors of an array whose rows begin anywhere": (1023, {"run": 2, "vectors": ("x",), "pieces": 16, "shifted": ""}),
    "runs that follow an array of other rows": (1023, {"shifted": "z"}),
    "a strip that holds a row's points but not those before": (1018, {"threads": 128, "pieces": 1, "run": 8}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_decisions_are_not_proved(name):
    length, changes = MUTANTS[name]
    assert isinstance(changed(length, **changes), Unknown | Refuted), name


CLUSTER = Wanted(row_ctas=2, row_threads=128, row_kept=False)
KEPT = Wanted(row_ctas=1, row_threads=128, row_kept=True)
PAIRS = Wanted(row_ctas=1, row_threads=128, row_kept=False, row_together=2)
SHARED_MUTANTS = {
    "CTAs that no cluster has": (CLUSTER, {"ctas": 1}),
    "a cluster of four with a row of two": (CLUSTER, {"ctas": 4, "threads": 512}),
    "half of a CTA's threads": (CLUSTER, {"threads": 128}),
    "no CTAs": (CLUSTER, {"ctas": 0}),
    "parts of warps": (CLUSTER, {"ctas": 16}),
    "a strip shorter than the row": (CLUSTER, {"pieces": 1}),
    "elements that wait though they are in registers": (KEPT, {"streamed": 0, "pieces": 4}),
    "elements that are not reached by runs": (KEPT, {"vectors": ("y",)}),
    "elements that wait where there are words alone": (CLUSTER, {"kept": ("x",), "streamed": 1}),
    "runs that no copy has": (KEPT, {"run": 16, "pieces": 1}),
    "two rows at once, words of one": (CLUSTER, {"together": 2}),
    "two rows at once, room for one": (KEPT, {"together": 2}),
    "no rows at once": (KEPT, {"together": 0}),
    "one row at once, CTAs of as few as take two": (PAIRS, {"together": 1}),
    "three rows at once, CTAs of as many as take two": (PAIRS, {"together": 3}),
}


@pytest.mark.parametrize("name", SHARED_MUTANTS)
def test_wrong_sharing_is_not_proved(name):
    wanted, changes = SHARED_MUTANTS[name]
    assert isinstance(changed(4096, wanted), Proven)
    assert isinstance(changed(4096, wanted, **changes), Unknown | Refuted), name


def test_what_waits_must_fit():
    module, _, _ = lowered(4096, wanted=KEPT)
    buffer = next(each for each in module.walk() if isinstance(each, ac.BufferOp) and each.sym_name.data == "kept")
    kind = buffer.result.type
    assert isinstance(kind, MemoryType)
    less = [IntAttr(each.data - 16) if each is kind.slot_bytes else each for each in kind.parameters]
    Rewriter.replace_value_with_new_type(buffer.result, MemoryType(*less))
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and {each.code for each in verdict.findings} == {"AL004"}


def test_a_cluster_without_a_row():
    module, _, _ = lowered(4096, wanted=CLUSTER)
    (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
    kernel.properties["grid"] = int_array((14, 1, 1))
    assert isinstance(verify(module, HOPPER), Unknown)


def test_fewer_units_than_rows():
    for length in (64, 4096):
        module, _, _ = lowered(length, rows=33)
        (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
        kernel.properties["grid"] = int_array((1, 1, 1))
        assert isinstance(verify(module, HOPPER), Unknown)


def test_a_cta_without_a_row_would_not_come_to_the_barrier():
    module, _, _ = lowered(4096)
    (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
    kernel.properties["grid"] = int_array((7, 1, 1))
    assert isinstance(verify(module, HOPPER), Unknown)


def test_a_cta_of_one_warp_without_a_row():
    """Nothing in the text keeps a CTA of one unit from a row that is not there."""
    module, op, row = lowered(1024)
    (kernel,) = [each for each in module.ops if isinstance(each, ac.KernelOp)]
    (role,) = [each for each in kernel.body.block.ops if isinstance(each, ac.RoleOp)]
    op.properties["rows"] = to_attribute(replace(row, threads=32, pieces=4))
    unit = role.execution
    role.properties["execution"] = type(unit)(unit.unit, IntAttr(1), unit.first_thread)
    kernel.properties["block"] = int_array((32, 1, 1))
    for ctas, kind in ((6, Proven), (7, Unknown)):
        kernel.properties["grid"] = int_array((ctas, 1, 1))
        assert isinstance(verify(module, HOPPER), kind), ctas
    assert op.rows is not None


def test_words_that_are_used_again_in_a_loop():
    module, op, _ = lowered(4096)
    (kernel,) = [each for each in module.ops if isinstance(each, ac.KernelOp)]
    kernel.properties["symbols"] = DictionaryAttr({"K": IntAttr(3)})
    kernel.properties["minima"] = DictionaryAttr({"K": IntAttr(0)})
    around = op.parent
    assert around is not None
    op.detach()
    body = Block([op, ac.YieldOp.create()], arg_types=[ac.IndexType()])
    properties = {"symbol": StringAttr("K"), "begin": IntAttr(0)}
    around.add_op(ac.LoopOp.create(properties=properties, regions=[Region(body)]))
    assert isinstance(verify(module, HOPPER), Unknown)


def test_loads_stay_inside_their_arrays():
    module, op, _ = lowered(64)
    (source,) = [each for each in module.walk() if isinstance(each, ac.GlobalOp) and each.buffer.data == "x"]
    source.properties["shape"] = int_array((5, 64))
    assert isinstance(verify(module, HOPPER), Unknown)
    module, op, _ = lowered(64)
    load = next(each for each in op.body.block.ops if isinstance(each, ac.ElementLoadOp))
    load.properties["fill"] = IntAttr(1)
    assert isinstance(verify(module, HOPPER), Unknown)


@pytest.mark.parametrize("kernel", [softmax, argmax])
def test_words_of_folds_must_fit(kernel):
    module, _, _ = lowered(4096, kernel)
    buffer = next(each for each in module.walk() if isinstance(each, ac.BufferOp) and each.sym_name.data == "partials")
    kind = buffer.result.type
    assert isinstance(kind, MemoryType)
    less = [IntAttr(each.data - 4) if each is kind.slot_bytes else each for each in kind.parameters]
    Rewriter.replace_value_with_new_type(buffer.result, MemoryType(*less))
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Refuted) and {each.code for each in verdict.findings} == {"AL004"}


def _fold(module: ModuleOp) -> ac.FoldOp:
    return next(op for op in module.walk() if isinstance(op, ac.FoldOp))


def test_folds_by_functions_whose_order_matters():
    module, _, _ = lowered(64)
    _fold(module).properties["function"] = StringAttr("sub")
    assert isinstance(verify(module, HOPPER), Unknown)


def test_places_of_elements_that_no_function_chooses():
    module, op, _ = lowered(64, argmax)
    (fold,) = [each for each in op.body.block.ops if isinstance(each, ac.ArgFoldOp)]
    fold.properties["function"] = StringAttr("add")
    assert isinstance(verify(module, HOPPER), Unknown)


@pytest.mark.parametrize("kernel", [softmax, argmax])
def test_folds_where_there_are_no_rows(kernel):
    module, op, _ = lowered(64, kernel)
    del op.properties["rows"]
    assert isinstance(verify(module, HOPPER), Unknown)


def test_numbers_and_places_are_stored_in_arrays_of_their_own_kind():
    module, op, _ = lowered(64, quantize)
    store = next(each for each in op.body.block.ops if isinstance(each, ac.ElementStoreOp) and len(each.indices) == 1)
    store.operands[0] = op.body.block.args[0]
    assert isinstance(verify(module, HOPPER), Unknown)
    module, op, _ = lowered(64, argmax)
    (fold,) = [each for each in op.body.block.ops if isinstance(each, ac.ArgFoldOp)]
    store = next(each for each in op.body.block.ops if isinstance(each, ac.ElementStoreOp))
    number = ac.IndexNumberOp.create(operands=[fold.result], result_types=[ac.ScalarType()])
    op.body.block.insert_op_before(number, store)
    store.operands[0] = number.result
    assert isinstance(verify(module, HOPPER), Unknown)


def test_a_place_in_a_row_is_no_index_of_an_array():
    module, op, _ = lowered(64, argmax)
    (fold,) = [each for each in op.body.block.ops if isinstance(each, ac.ArgFoldOp)]
    store = next(each for each in op.body.block.ops if isinstance(each, ac.ElementStoreOp))
    store.operands[2] = fold.result
    assert isinstance(verify(module, HOPPER), Unknown)


def test_what_changes_along_the_row_is_stored_along_it():
    """`quantize` stores its scales without the row's index; a value of the row stored there is many values."""
    module, op, _ = lowered(64, quantize)
    stores = [each for each in op.body.block.ops if isinstance(each, ac.ElementStoreOp)]
    along, without = sorted(stores, key=lambda each: -len(each.indices))
    without.operands[0] = along.value
    assert isinstance(verify(module, HOPPER), Unknown)


def test_results_that_two_rows_would_share():
    module, op, _ = lowered(64, quantize)
    store = next(each for each in op.body.block.ops if isinstance(each, ac.ElementStoreOp) and len(each.indices) == 1)
    zero = ac.AffineOp.create(
        operands=[op.body.block.args[0]],
        properties={"coefficients": int_array((0,)), "constant": IntAttr(0)},
        result_types=[ac.IndexType()],
    )
    assert isinstance(zero, Operation)
    op.body.block.insert_op_before(zero, store)
    store.operands[2] = zero.results[0]
    assert isinstance(verify(module, HOPPER), Unknown)
