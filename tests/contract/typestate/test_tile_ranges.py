"""Tiles of different lengths: proven where roles agree on them, and in no doubt alone where something is changed."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from tilewright.base.size import Range, parse_size
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.claims import RangeClaim
from tilewright.contract.typestate.polynomial import variable
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import size_attr
from tilewright.ir.tier import int_array
from tilewright.synth.decide import Wanted
from tilewright.targets import target

sys.path.insert(0, str(Path(__file__).parents[2] / "lower"))
from tests.lower.cascade_programs import attention, causal
from tests.lower.lowered_programs import lower

HOPPER = target("sm_90a")
DIMS = {"B": 3, "Q": 700, "T": 700, "E": 64, "F": 64}


@cache
def lowered_once() -> ModuleOp:
    return lower(causal, DIMS, wanted=Wanted(consumers=2)).kernels[0]


def kernel() -> ModuleOp:
    return lowered_once().clone()


def ranges(module: ModuleOp) -> list[ac.RangeOp]:
    return [op for op in module.walk() if isinstance(op, ac.RangeOp)]


def walks(module: ModuleOp) -> list[ac.LoopOp]:
    return [op for op in module.walk() if isinstance(op, ac.LoopOp) and op.symbol.data == "K"]


def the_kernel(module: ModuleOp) -> ac.KernelOp:
    return next(op for op in module.body.block.ops if isinstance(op, ac.KernelOp))


def test_tiles_of_different_lengths_are_proven() -> None:
    assert isinstance(verify(kernel(), HOPPER), Proven)


def test_claims_sum_what_a_ctas_tiles_have() -> None:
    (claims,) = protocol_claims(kernel(), HOPPER)
    claim = claims.range
    assert claim is not None and claim.ctas == 18
    keys = next(ring for ring in claims.rings if ring.name == "k_ring")
    # 6 tiles of rows in 3 matrices, one tile for each CTA: the first row's tile walks one tile, the last one six.
    assert [keys.fills.at(claim.symbols(cta)) for cta in range(claim.ctas)] == [1, 2, 3, 4, 5, 6] * 3


def test_counts_over_tiles_are_sums() -> None:
    claim = RangeClaim("K", "tiles", (1, 2, 3) * 2, 4)
    count = variable("K") * variable("tiles") * 2 + variable("tiles")
    assert claim.is_summed(count) and not claim.is_summed(variable("K"))
    assert not claim.is_summed(variable("K") * variable("K") * variable("tiles"))
    summed = claim.over_tiles(count)
    assert [summed.at(claim.symbols(cta)) for cta in range(4)] == [
        2 * (1 + 2) + 2,
        2 * (2 + 3) + 2,
        2 * 3 + 1,
        2 * 1 + 1,
    ]


def test_counts_of_tiles_taken_together() -> None:
    """Numbers 0 to 5 have the lengths 3, 3, 2, 2, 1, 1; the second round goes from the last CTA to the first."""
    claim = RangeClaim("K", "tiles", (3, 3, 2, 2, 1, 1), 4, 2)
    assert [claim.symbols(cta) for cta in range(4)] == [
        {"tiles": 1, "all_K": 3},
        {"tiles": 1, "all_K": 3},
        {"tiles": 2, "all_K": 3},
        {"tiles": 2, "all_K": 3},
    ]


def set_to(op: Operation, **values: object) -> None:
    for name, value in values.items():
        op.properties[name] = IntAttr(value) if isinstance(value, int) else value  # pyright: ignore[reportArgumentType]


def other_line(module: ModuleOp) -> None:
    set_to(ranges(module)[1], end=int_array([1, 2, 1]))


def other_most(module: ModuleOp) -> None:
    set_to(ranges(module)[0], most=5)


def other_row(module: ModuleOp) -> None:
    for op in ranges(module):
        loop = op.parent_op()
        assert isinstance(loop, ac.TilesOp)
        op.operands[0] = loop.body.block.args[1]


def without_a_range(module: ModuleOp) -> None:
    op = ranges(module)[1]
    assert op.parent is not None
    zero = ac.AffineOp.create(
        properties={"coefficients": int_array([]), "constant": IntAttr(0)}, result_types=[op.result.type]
    )
    op.parent.insert_op_before(zero, op)
    op.result.replace_all_uses_with(zero.result)
    op.detach()
    op.erase()


def behind_the_walk(module: ModuleOp) -> None:
    """The result is used by the walk as well, so that this is not well formed either."""
    op = ranges(module)[0]
    walk = next(each for each in walks(module) if each.parent is op.parent)
    zero = ac.AffineOp.create(
        properties={"coefficients": int_array([]), "constant": IntAttr(0)}, result_types=[op.result.type]
    )
    assert op.parent is not None
    op.parent.insert_op_before(zero, op)
    op.result.replace_all_uses_with(zero.result)
    block = op.parent
    op.detach()
    block.insert_op_after(op, walk)


def twice(module: ModuleOp) -> None:
    op = ranges(module)[0]
    assert op.parent is not None
    op.parent.insert_op_after(op.clone({op.row: op.row}), op)


def no_divisor(module: ModuleOp) -> None:
    for op in ranges(module):
        set_to(op, end=int_array([1, 1, 0]))


def no_line(module: ModuleOp) -> None:
    for op in ranges(module):
        set_to(op, begin=int_array([1, 1]))


def past_32_bits(module: ModuleOp) -> None:
    for op in ranges(module):
        set_to(op, end=int_array([1 << 29, 1, 1]))


def symbol_too_small(module: ModuleOp) -> None:
    op = the_kernel(module)
    op.properties["symbols"] = DictionaryAttr({**op.symbols.data, "K": IntAttr(5)})


def minimum_too_large(module: ModuleOp) -> None:
    op = the_kernel(module)
    op.properties["minima"] = DictionaryAttr({**op.minima.data, "K": IntAttr(2)})


def no_first_tile(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, ac.TilesOp):
            set_to(op, first_tile=1)


def one_symbol_for_both(module: ModuleOp) -> None:
    for op in module.walk():
        if isinstance(op, ac.TilesOp):
            set_to(op, symbol=StringAttr("K"))


def a_walk_less(module: ModuleOp) -> None:
    """A consumer that begins its walk one iteration late."""
    loop = walks(module)[-1]
    set_to(loop, begin=loop.begin.data + 1)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "edit",
    [
        other_line, other_most, other_row, without_a_range, behind_the_walk, twice, no_divisor, no_line, past_32_bits,
        symbol_too_small, minimum_too_large, no_first_tile, one_symbol_for_both, a_walk_less,
    ],
    ids=lambda edit: edit.__name__,
)  # fmt: skip
def test_what_roles_do_not_share_is_not_proven(edit: Callable[[ModuleOp], None]) -> None:
    module = kernel()
    edit(module)
    assert not isinstance(verify(module, HOPPER), Proven)


# ---------------------------------------------------------------- tiles of matrices taken together


def loops_over_tiles(module: ModuleOp) -> list[ac.TilesOp]:
    return [op for op in module.walk() if isinstance(op, ac.TilesOp)]


def taken_together(module: ModuleOp, matrices: int = 3) -> ModuleOp:
    for op in loops_over_tiles(module):
        set_to(op, together=matrices)
    return module


def few_ctas(module: ModuleOp, ctas: int = 5) -> None:
    the_kernel(module).properties["grid"] = int_array([ctas, 1, 1])


def test_tiles_taken_together_are_proven_and_counted_by_what_a_cta_takes() -> None:
    module = taken_together(kernel())
    few_ctas(module)
    assert isinstance(verify(module, HOPPER), Proven)
    (claims,) = protocol_claims(module, HOPPER)
    assert claims.range is not None and claims.range.together == 3
    keys = next(ring for ring in claims.rings if ring.name == "k_ring")
    lengths = [6 - number // 3 for number in range(18)]
    rounds = [[0, 9, 10], [1, 8, 11], [2, 7, 12], [3, 6, 13], [4, 5, 14]]
    last = [[], [], [17], [16], [15]]
    wanted = [sum(lengths[at] for at in (*own, *more)) for own, more in zip(rounds, last, strict=True)]
    assert [keys.fills.at(claims.range.symbols(cta)) for cta in range(5)] == wanted


def test_two_of_three_matrices_are_taken_together_and_then_the_third() -> None:
    module = taken_together(kernel(), 2)
    few_ctas(module)
    assert isinstance(verify(module, HOPPER), Proven)
    (claims,) = protocol_claims(module, HOPPER)
    assert claims.range is not None and claims.range.lengths == (*(6 - at // 2 for at in range(12)), *range(6, 0, -1))


def four_of_three(module: ModuleOp) -> None:
    taken_together(module, 4)


def none_together(module: ModuleOp) -> None:
    taken_together(module, 0)


def fewer_than_none(module: ModuleOp) -> None:
    taken_together(module, -3)


def together_behind_others(module: ModuleOp) -> None:
    for op in loops_over_tiles(taken_together(module)):
        set_to(op, first_tile=1)


def together_in_a_cluster(module: ModuleOp) -> None:
    the_kernel(taken_together(module)).properties["cluster"] = int_array([2, 1, 1])


def together_in_one_role(module: ModuleOp) -> None:
    taken_together(module)
    del loops_over_tiles(module)[0].properties["together"]


def fewer_together_in_one_role(module: ModuleOp) -> None:
    set_to(loops_over_tiles(taken_together(module))[1], together=1)


def together_on_too_many_ctas(module: ModuleOp) -> None:
    """Two rounds on, a number may come round to one of another CTA's tiles."""
    few_ctas(taken_together(module), (1 << 31) - 1)


@pytest.mark.parametrize(
    "edit",
    [
        four_of_three, none_together, fewer_than_none, together_behind_others, together_in_a_cluster,
        together_in_one_role, fewer_together_in_one_role, together_on_too_many_ctas,
    ],
    ids=lambda edit: edit.__name__,
)  # fmt: skip
def test_tiles_that_are_not_taken_together_by_all_are_not_proven(edit: Callable[[ModuleOp], None]) -> None:
    module = kernel()
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown)
    assert "together" in str(verdict) or "in another order" in str(verdict)


def as_launched(module: ModuleOp, together: str) -> ModuleOp:
    for op in loops_over_tiles(module):
        set_to(op, together=size_attr(parse_size(together)))
    return module


@pytest.mark.parametrize(
    ("together", "words"),
    [
        ("choose(ceil_div(Q, 192) - 1, 2, 1, 44)", ""),
        ("ceil_div(Q, 192)", ""),
        ("choose(ceil_div(Q, 192) - 1, 2, 0, 44)", "together"),
        ("ceil_div(Q, 192) - 1", "together"),
        ("choose(ceil_div(Z, 192), 2, 1, 44)", "not understood"),
        ("choose(ceil_div(Q, 192) - 2, 2, 1, 44)", "not understood"),
        ("choose(ceil_div(Q, 192) - 1, 2, 1, 1073741823)", "32 bits"),
    ],
)
def test_a_launch_says_how_many_matrices_are_taken_together(together: str, words: str) -> None:
    module = as_launched(apart(run_time=True), together)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, Unknown if words else Proven) and words in str(verdict), verdict
    if not words:
        set_to(loops_over_tiles(module)[0], together=size_attr(parse_size("choose(ceil_div(Q, 192) - 1, 2, 1, 43)")))
        assert "in another order" in str(verify(module, HOPPER))


def test_tiles_of_one_length_are_not_taken_together() -> None:
    """Their counts are those of the plain order, in which the last round is another."""
    dims = {"B": 3, "H": 1, "Q": 700, "T": 700, "E": 64, "F": 64}
    module = lower(attention, dims, wanted=Wanted(consumers=2)).kernels[0].clone()
    assert isinstance(verify(module, HOPPER), Proven)
    verdict = verify(taken_together(module), HOPPER)
    assert isinstance(verdict, Unknown) and "matrices together" in str(verdict)


# ---------------------------------------------------------------- iterations that units have apart


@cache
def apart_once(run_time: bool) -> ModuleOp:
    dims = {**DIMS, "Q": Range(1, 700), "T": Range(1, 700)} if run_time else DIMS
    return lower(causal, dims, wanted=Wanted(consumers=3)).kernels[0]


def apart(run_time: bool = False) -> ModuleOp:
    """run_time: of rows and columns whose numbers only a launch knows."""
    return apart_once(run_time).clone()


@cache
def passing_once() -> ModuleOp:
    return lower(causal, DIMS | {"B": 66}, wanted=Wanted(consumers=3)).kernels[0]


def passing() -> ModuleOp:
    return passing_once().clone()


def unit_range(module: ModuleOp) -> ac.UnitRangeOp:
    return next(op for op in module.walk() if isinstance(op, ac.UnitRangeOp))


def loop_over(module: ModuleOp, symbol: str) -> ac.LoopOp:
    return next(op for op in module.walk() if isinstance(op, ac.LoopOp) and op.symbol.data == symbol)


def with_counts(module: ModuleOp, which: str, **values: int) -> None:
    op = the_kernel(module)
    held = op.symbols if which == "symbols" else op.minima
    op.properties[which] = DictionaryAttr({**held.data, **{name: IntAttr(value) for name, value in values.items()}})


def test_units_with_iterations_of_their_own_are_proven_and_fill_as_many_slots() -> None:
    assert isinstance(verify(apart(), HOPPER), Proven)
    (claims,) = protocol_claims(apart(), HOPPER)
    assert claims.range is not None
    keys = next(ring for ring in claims.rings if ring.name == "k_ring")
    assert keys.fills.variables == {"all_K"}
    # 4 tiles of 192 rows of 700 in 3 matrices, one for each CTA, by 128 keys.
    assert (
        sorted(keys.fills.at(claims.range.symbols(cta)) for cta in range(12)) == [2] * 3 + [3] * 3 + [5] * 3 + [6] * 3
    )


def test_units_without_rows_that_pass_their_tile_are_proven_and_fill_as_many_slots() -> None:
    assert isinstance(verify(passing(), HOPPER), Proven)
    (claims,) = protocol_claims(passing(), HOPPER)
    assert claims.range is not None
    keys = next(ring for ring in claims.rings if ring.name == "k_ring")
    # 4 tiles of 192 rows of 700, the first from row -64 on, in 66 matrices, by 128 keys.
    assert sum(keys.fills.at(claims.range.symbols(cta)) for cta in range(132)) == 66 * (1 + 3 + 4 + 6)


def rest_not_passed(module: ModuleOp) -> None:
    """Slots that a unit needs no more are left full."""
    loop = loop_over(module, "K_rest")
    for output, carried in zip(loop.outputs, loop.carried, strict=True):
        output.replace_all_uses_with(carried)
    loop.detach()
    loop.erase()


def rest_passed_twice(module: ModuleOp) -> None:
    loop = loop_over(module, "K_rest")
    again = loop.clone()
    assert loop.parent is not None
    loop.parent.insert_op_after(again, loop)
    for one, (before, after) in enumerate(zip(loop.outputs, again.outputs, strict=True)):
        before.replace_all_uses_with(after)
        again.operands[one] = before


def rest_not_released(module: ModuleOp) -> None:
    loop = loop_over(module, "K_rest")
    op = next(each for each in loop.body.block.ops if isinstance(each, ac.ArriveOp))
    op.detach()
    op.erase()


def rest_without_its_first(module: ModuleOp) -> None:
    set_to(loop_over(module, "K_rest"), begin=1)


def own_in_place_of_rest(module: ModuleOp) -> None:
    set_to(loop_over(module, "K_rest"), symbol=StringAttr("K_own"))


def all_in_place_of_own(module: ModuleOp) -> None:
    set_to(loop_over(module, "K_own"), symbol=StringAttr("K"))


def producer_with_own(module: ModuleOp) -> None:
    set_to(loop_over(module, "K"), symbol=StringAttr("K_own"))


def of_another_row(module: ModuleOp) -> None:
    op = unit_range(module)
    tile = op.parent_op()
    assert isinstance(tile, ac.TilesOp)
    op.operands[0] = tile.body.block.args[1]


def of_another_first(module: ModuleOp) -> None:
    op = unit_range(module)
    op.operands[1] = op.row


def of_no_unit(module: ModuleOp) -> None:
    op = unit_range(module)
    op.operands[2] = op.row


def apart_twice(module: ModuleOp) -> None:
    op = unit_range(module)
    assert op.parent is not None
    op.parent.insert_op_after(op.clone(), op)


def one_symbol_for_own_and_rest(module: ModuleOp) -> None:
    set_to(unit_range(module), own=StringAttr("K_rest"))


def own_of_all_tiles(module: ModuleOp) -> None:
    set_to(unit_range(module), own=StringAttr("tiles"))


def line_past_32_bits(module: ModuleOp) -> None:
    set_to(unit_range(module), end=int_array([1 << 29, 1, 1]))


def line_without_a_divisor(module: ModuleOp) -> None:
    set_to(unit_range(module), end=int_array([1, 1, 0]))


def no_units_in_a_tile(module: ModuleOp) -> None:
    set_to(unit_range(module), tile_units=0)


def units_lacking_of_a_whole_tile(module: ModuleOp) -> None:
    set_to(unit_range(module), lacking=3)


def unit_pass(module: ModuleOp) -> ac.UnitPassOp:
    return next(op for op in module.walk() if isinstance(op, ac.UnitPassOp))


def passes_values_first(module: ModuleOp) -> None:
    """Keys wait for values then, for which others give them back before."""
    op = unit_pass(module)
    queries, keys, values = op.cursors
    op.operands = [op.unit, *queries, *values, *keys]


def passes_queries_at_each_key(module: ModuleOp) -> None:
    set_to(unit_pass(module), staying=0)


def passes_one_key(module: ModuleOp) -> None:
    set_to(unit_pass(module), staying=2)


def passes_no_values(module: ModuleOp) -> None:
    op = unit_pass(module)
    op.operands = op.operands[:5]


def passes_keys_by_the_cursor_of_values(module: ModuleOp) -> None:
    op = unit_pass(module)
    op.operands[4] = op.operands[6]


def passes_before_it_is_known_who_has_rows(module: ModuleOp) -> None:
    op, before = unit_pass(module), unit_range(module)
    op.detach()
    assert before.parent is not None
    before.parent.insert_op_before(op, before)


def passes_other_iterations(module: ModuleOp) -> None:
    set_to(unit_pass(module), symbol=StringAttr("K_own"))


def own_without_one(module: ModuleOp) -> None:
    with_counts(module, "minima", K_own=2)


def some_always_left(module: ModuleOp) -> None:
    with_counts(module, "minima", K_rest=1)


def fewer_of_its_own(module: ModuleOp) -> None:
    with_counts(module, "symbols", K_own=5)


def fewer_left(module: ModuleOp) -> None:
    with_counts(module, "symbols", K_rest=4)


def of_no_range(module: ModuleOp) -> None:
    for op in ranges(module):
        op.result.replace_all_uses_with(op.row)
        op.detach()
        op.erase()


def behind_its_walk(module: ModuleOp) -> None:
    op, loop = unit_range(module), loop_over(module, "K_own")
    op.detach()
    assert loop.parent is not None
    loop.parent.insert_op_after(op, loop)


def units_past_a_word(module: ModuleOp) -> None:
    set_to(unit_range(module), units=size_attr(parse_size("Q * 4000000")))


def units_of_no_axis(module: ModuleOp) -> None:
    set_to(unit_range(module), units=size_attr(parse_size("ceil_div(Z, 64)")))


@pytest.mark.parametrize("run_time", [False, True])
@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "edit",
    [
        rest_not_passed, rest_passed_twice, rest_not_released, rest_without_its_first, own_in_place_of_rest,
        all_in_place_of_own, producer_with_own, of_another_row, of_another_first, of_no_unit, apart_twice,
        one_symbol_for_own_and_rest, own_of_all_tiles, line_past_32_bits, line_without_a_divisor, no_units_in_a_tile,
        own_without_one, some_always_left, fewer_of_its_own, fewer_left, of_no_range, behind_its_walk,
    ],
    ids=lambda edit: edit.__name__,
)  # fmt: skip
def test_units_that_do_not_take_a_tiles_iterations_apart_are_not_proven(
    edit: Callable[[ModuleOp], None], run_time: bool
) -> None:
    module = apart(run_time)
    edit(module)
    assert not isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize("edit", [None, units_past_a_word, units_of_no_axis])
def test_units_of_tiles_whose_number_a_launch_knows(edit: Callable[[ModuleOp], None] | None) -> None:
    module = apart(run_time=True)
    if edit is not None:
        edit(module)
    assert isinstance(verify(module, HOPPER), Proven) == (edit is None)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "edit",
    [
        units_lacking_of_a_whole_tile, passes_values_first, passes_queries_at_each_key, passes_one_key,
        passes_no_values, passes_keys_by_the_cursor_of_values, passes_before_it_is_known_who_has_rows,
        passes_other_iterations,
    ],
    ids=lambda edit: edit.__name__,
)  # fmt: skip
def test_units_that_do_not_pass_what_others_wait_for_are_not_proven(edit: Callable[[ModuleOp], None]) -> None:
    module = passing()
    edit(module)
    assert not isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize("edit", [rest_not_passed, rest_not_released], ids=lambda edit: edit.__name__)
def test_slots_that_are_not_given_back_are_refuted(edit: Callable[[ModuleOp], None]) -> None:
    module = apart()
    edit(module)
    assert isinstance(verify(module, HOPPER), Refuted)
