"""Which sums stay in tensor memory, and what stands where in its columns: no placement reads less, or takes less."""

import time
from collections.abc import Collection
from dataclasses import replace
from itertools import combinations, product

import pytest
from tests.lower import cascade_programs
from tests.synth.cascade.tensor_column_programs import converted, gradient, two_layers

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes, products_of
from tilewright.ir.tile.facts import the_program
from tilewright.solve.interval_packing import height, overlap, packed
from tilewright.synth.cascade.sums.tensor_columns import (
    TensorPlacement,
    product_options,
    staying_sums,
    tensor_placement,
)
from tilewright.synth.cut.time import microseconds
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

BLACKWELL = target("sm_100a")


ATTENTION = (cascade_programs.attention, {"B": 1, "H": 2, "Q": 4096, "T": 4096, "E": 64, "F": 64})
LAYERS = (two_layers, {"M": 256, "N": 128, "K": 64, "L": 512})
GRADIENT = (gradient, {"Q": 256, "T": 512, "E": 64, "F": 64})
CONVERTED = (converted, {"M": 256, "N": 256, "K": 512})


def placed(
    kernel: Kernel, dims: dict[str, int], columns: int, consumers: int, streamed: int, registers: int
) -> TensorPlacement | None:
    program = the_program(walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), BLACKWELL))
    axes = cascade_axes(program)
    return tensor_placement(program, axes, {axes.column: columns}, consumers, streamed, registers, BLACKWELL)


@pytest.mark.parametrize(
    ("program", "columns", "consumers", "streamed", "registers"),
    [
        (ATTENTION, 64, 3, 128, 0),
        (ATTENTION, 64, 2, 128, 64),
        (LAYERS, 128, 2, 128, 0),
        (LAYERS, 128, 2, 64, 64),
        (LAYERS, 128, 3, 64, 0),
        (GRADIENT, 64, 2, 128, 32),
        (GRADIENT, 64, 3, 96, 32),
        (CONVERTED, 256, 1, 128, 0),
        (CONVERTED, 256, 2, 64, 128),
    ],
    ids=lambda value: value[0].name if isinstance(value, tuple) else str(value),
)
def test_no_placement_is_cheaper(
    program: tuple[Kernel, dict[str, int]], columns: int, consumers: int, streamed: int, registers: int
) -> None:
    """Against all options of all products, with the fewest columns for each."""
    kernel, dims = program
    form = the_program(walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), BLACKWELL))
    axes = cascade_axes(form)
    staying, wide = staying_sums(form, axes, BLACKWELL), {axes.column: columns}
    listed = products_of(form)
    values = [
        product_options(form, axes, listed, number, wide, streamed, (), stays=number in staying)
        for number in range(len(listed))
    ]
    part, fits = 512 // consumers // 32 * 32, list[tuple[int, int]]()
    for options in product(*values):
        blocks = [block for each in options for block in each.blocks]
        offsets = packed(blocks)
        assert overlap(blocks, offsets) is None
        if height(blocks, offsets) <= part and sum(each.load for each in options) <= registers:
            fits.append((sum(each.cost for each in options), height(blocks, offsets)))
    found = placed(kernel, dims, columns, consumers, streamed, registers)
    assert (found is None) == (not fits)
    if found is not None:
        stays = {number: not each.waits for number, each in enumerate(found.places) if each.stays}
        cost = sum(
            (0 if stays[number] else 1) if number in stays else options[0].cost for number, options in enumerate(values)
        )
        assert (cost, found.used) == min(fits)


def test_scores_and_weights_share_columns() -> None:
    """Three consumers of attention: scores of 128 columns are in registers before weights are multiplied."""
    found = placed(*ATTENTION, columns=64, consumers=3, streamed=128, registers=0)
    assert found is not None and (found.used, found.allocated) == (128, 512)
    scores, output = found.places
    assert scores.column == 0 and {output.column, output.operand_column} == {0, 64}
    # Corrected in every iteration, and so read by threads.
    assert not output.stays


def test_a_sum_that_is_only_carried_on_stays() -> None:
    found = placed(*LAYERS, columns=128, consumers=2, streamed=64, registers=64)
    assert found is not None
    hidden, output = found.places
    assert not hidden.stays and (output.stays, output.waits) == (1, 0)
    # What is still multiplied is not overwritten by the next iteration's first product.
    assert hidden.column == 0 and output.column >= 64 and output.operand_column >= 64 and found.used == 224


def test_columns_are_worth_a_wait() -> None:
    """Of twice as many values, the operand stands where the first product's sum was, and is waited for."""
    found = placed(*LAYERS, columns=128, consumers=2, streamed=128, registers=64)
    assert found is not None and found.used == 256
    hidden, output = found.places
    assert (output.stays, output.waits) == (1, 1) and hidden.column <= output.operand_column < hidden.column + 128


def test_a_sum_that_does_not_fit_is_read_each_time_if_registers_do() -> None:
    """256 columns, and an operand of 32 more, of a part of 256."""
    assert placed(*CONVERTED, columns=256, consumers=2, streamed=64, registers=127) is None
    found = placed(*CONVERTED, columns=224, consumers=2, streamed=64, registers=0)
    assert found is not None and found.places[0].stays and found.used == 256


def test_a_decision_says_what_stays() -> None:
    module = walked(trace(two_layers, LAYERS[1], elements_of(two_layers, "bf16"), None), BLACKWELL)
    decisions = decide(the_program(module), BLACKWELL, Wanted())
    assert any("of 2 products 1 adds there while L is walked" in line for line in decisions.reasons)


def test_attention_takes_no_second() -> None:
    for consumers, columns in product((1, 2, 3), (64, 128)):
        begin = time.process_time()
        placed(*ATTENTION, columns=columns, consumers=consumers, streamed=128, registers=64)
        assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (two_layers, {"M": 8192, "N": 256, "K": 64, "L": 4096}),
        (cascade_programs.two_gradients, {"M": 8192, "T": 8192, "E": 128, "F": 128}),
    ],
    ids=["two layers", "two gradients"],
)
def test_it_beats_the_obvious_placement_in_predicted_time(kernel: Kernel, dims: dict[str, int]) -> None:
    """Threads read every product as it is done, and add it, where accumulators are registers. No choice of sums that
    stay is predicted to be quicker than the one that is taken; whether the others would fit is not even asked."""
    program = the_program(walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), BLACKWELL))
    decisions = decide(program, BLACKWELL, Wanted(issuer=False))
    assert isinstance(decisions, CascadeDecisions)
    staying = staying_sums(program, cascade_axes(program), BLACKWELL)

    def predicted(stays: Collection[int]) -> float:
        places = tuple(replace(each, stays=int(at in stays)) for at, each in enumerate(decisions.places))
        return microseconds(program, replace(decisions, places=places), BLACKWELL)

    times = [predicted(each) for count in range(len(staying) + 1) for each in combinations(sorted(staying), count)]
    chosen, obvious = microseconds(program, decisions, BLACKWELL), times[0]
    assert chosen == min(times) < 0.95 * obvious


def test_256_columns_of_two_layers_are_one_kernel() -> None:
    """Beside the first layer's values, a thread has no registers for so many sums."""
    dims = {"M": 256, "N": 256, "K": 64, "L": 512}
    module = walked(trace(two_layers, dims, elements_of(two_layers, "bf16"), None), BLACKWELL)
    decisions = decide(the_program(module), BLACKWELL, Wanted())
    assert isinstance(decisions, CascadeDecisions) and decisions.tile_columns == 256
    assert [each.stays for each in decisions.places] == [0, 1]
