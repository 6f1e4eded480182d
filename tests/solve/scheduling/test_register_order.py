"""Orders of a block: the checker, the heuristic and the optimum, against all orders of small blocks."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.solve.scheduling.register_block import BlockOperation, RegisterBlock, bound, fast_order, pressure
from tilewright.solve.scheduling.register_order import least_pressure


@st.composite
def blocks(draw: st.DrawFn, most: int = 6) -> RegisterBlock:
    count = draw(st.integers(1, most))
    operations = [
        BlockOperation(
            draw(st.integers(0, 2)), tuple(draw(st.sets(st.integers(0, number - 1), max_size=3))) if number else ()
        )
        for number in range(count)
    ]
    return RegisterBlock(tuple(operations), frozenset(draw(st.sets(st.integers(0, count - 1), max_size=2))))


def live_at_most(block: RegisterBlock, order: tuple[int, ...]) -> int | None:
    """Registers by the definition: after each operation, what was computed and is still to be read or kept."""
    places = {number: place for place, number in enumerate(order)}
    if any(places[read] > places[number] for number, one in enumerate(block.operations) for read in one.reads):
        return None
    most = 0
    for place in range(len(order)):
        live = 0
        for number, operation in enumerate(block.operations):
            ends = [places[other] for other, one in enumerate(block.operations) if number in one.reads]
            end = len(order) if number in block.kept else max([places[number] + 1, *ends])
            live += operation.registers if places[number] <= place < end else 0
        most = max(most, live)
    return most


@settings(max_examples=60)
@given(blocks())
def test_the_optimum_is_the_least_of_all_orders(block: RegisterBlock) -> None:
    possible = [live_at_most(block, order) for order in permutations(range(len(block.operations)))]
    least = min(found for found in possible if found is not None)
    best = least_pressure(block)
    assert best.proved
    assert best.registers == least == live_at_most(block, best.order)
    assert bound(block) <= least <= pressure(block, fast_order(block)) <= pressure(block, range(len(block.operations)))


@given(blocks(8))
def test_the_checker_counts_by_the_definition(block: RegisterBlock) -> None:
    order = fast_order(block)
    assert pressure(block, order) == live_at_most(block, order)


def chain(leaves: int) -> RegisterBlock:
    """a0 + (a1 + (a2 + ...)), the leaves computed first to last."""
    operations = [BlockOperation(1, ()) for _ in range(leaves)]
    last = leaves - 1
    for leaf in range(leaves - 2, -1, -1):
        operations.append(BlockOperation(1, (leaf, last)))
        last = len(operations) - 1
    return RegisterBlock(tuple(operations), frozenset({last}))


def test_a_chain_needs_two() -> None:
    block = chain(24)
    assert pressure(block, range(len(block.operations))) == 24
    best = least_pressure(block)
    assert (best.registers, best.proved, best.searched) == (2, True, False)


def test_a_full_tree_needs_one_more_than_its_height() -> None:
    operations = [BlockOperation(1, ()) for _ in range(16)]
    level = list(range(16))
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        first = len(operations)
        operations += [BlockOperation(1, pair) for pair in pairs]
        level = list(range(first, len(operations)))
    block = RegisterBlock(tuple(operations), frozenset(level))
    assert pressure(block, range(len(operations))) == 16
    assert pressure(block, fast_order(block)) == 5


def test_what_no_solver_may_say_is_refused() -> None:
    block = chain(3)
    with pytest.raises(ValueError, match="every operation once"):
        pressure(block, (0, 1, 2, 3))
    with pytest.raises(ValueError, match="before what it reads"):
        pressure(block, (3, 0, 1, 2, 4))
    with pytest.raises(ValueError, match="behind it"):
        RegisterBlock((BlockOperation(1, (0,)),))
    with pytest.raises(ValueError, match="computed in the block"):
        RegisterBlock((), frozenset({0}))


def test_an_unfinished_search_claims_nothing() -> None:
    """A block whose bound no order meets, and no time to say so."""
    operations = [BlockOperation(1, ()) for _ in range(8)]
    for left in range(8):
        for right in range(left + 1, 8):
            operations.append(BlockOperation(0, (left, right)))
    block = RegisterBlock(tuple(operations))
    found = least_pressure(block, seconds=1e-6)
    assert found.lower <= found.registers == pressure(block, found.order)
