"""The certificate holds for what is derived, and refutes derivations that are broken on purpose."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.synth.streaming.programs import (
    PROGRAMS,
    attention,
    attention_of_logsumexp,
    attention_with_logarithms,
    logsumexp,
    negatively_scaled,
    rms_norm_then_product,
    row_sum,
    scaled_logsumexp,
    softmin,
)
from tests.synth.streaming.tracing import Program

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.function import Function
from tilewright.ir.tile.facts import the_program
from tilewright.synth.streaming import streamed
from tilewright.synth.streaming.certificate import broken_laws, compared, differences, require
from tilewright.synth.streaming.emit import emitted
from tilewright.synth.streaming.exact import exact, special
from tilewright.synth.streaming.graph import below

FOLLOWING = {
    "logsumexp": logsumexp,
    "scale outside": scaled_logsumexp,
    "smallest": negatively_scaled,
    "softmin": softmin,
    "attention": lambda: attention("causal", lse=True),
    "attention of lse": attention_of_logsumexp,
    "attention with logarithms": attention_with_logarithms,
}
"""Programs with states that follow an extreme."""


def derivation(build):
    module = build()
    program = the_program(module)
    found = streamed(program)
    return program, found.derivation


def with_state(streaming, state, **changes):
    changed = replace(state, **changes)
    return replace(streaming, states=tuple(changed if each is state else each for each in streaming.states))


def corrected(streaming):
    return [state for state in streaming.states if state.corrections]


def dropped(streaming):
    """No correction."""
    for state in corrected(streaming):
        update = streaming.graph.binary(Function.ADD, state.old, state.part, "")
        yield with_state(streaming, state, update=update)


def inverted(streaming):
    """Divided by the correction."""
    graph = streaming.graph
    for state in corrected(streaming):
        step = graph.broadcast(state.corrections[0].step, state.old.axes, "")
        update = graph.binary(Function.ADD, graph.binary(Function.DIV, state.old, step, ""), state.part, "")
        yield with_state(streaming, state, update=update)


def part_corrected(streaming):
    """The tile's part is corrected too."""
    graph = streaming.graph
    for state in corrected(streaming):
        step = graph.broadcast(state.corrections[0].step, state.old.axes, "")
        both = graph.binary(Function.MUL, graph.binary(Function.ADD, state.old, state.part, ""), step, "")
        yield with_state(streaming, state, update=both)


def of_this_tile(streaming):
    """The reference is the extreme of this tile, not of all so far."""
    graph = streaming.graph
    for state in corrected(streaming):
        extreme = state.corrections[0].extreme
        change = {extreme.update: extreme.part}
        yield with_state(
            streaming,
            state,
            terms=tuple(graph.replaced(term, change) for term in state.terms),
            part=graph.replaced(state.part, change),
            update=graph.replaced(state.update, change),
        )


def of_the_tile_before(streaming):
    """The terms follow what the extreme was before this tile."""
    graph = streaming.graph
    for state in corrected(streaming):
        extreme = state.corrections[0].extreme
        change = {extreme.update: extreme.old}
        part = graph.replaced(state.part, change)
        terms = tuple(graph.replaced(term, change) for term in state.terms)
        yield with_state(
            streaming, state, part=part, terms=terms, update=graph.replaced(state.update, {state.part: part})
        )


def unfinished(streaming):
    """What was hoisted is not applied."""
    for state in streaming.states:
        result = streaming.results[state.number]
        if result is not state.final and streaming.walks == 1:
            change = {result: state.final}
            stores = [
                replace(each, store=replace(each.store, value=streaming.graph.replaced(each.store.value, change)))
                for each in streaming.stores
            ]
            yield replace(streaming, results={**streaming.results, state.number: state.final}, stores=tuple(stores))


MUTANTS = (dropped, inverted, part_corrected, of_this_tile, of_the_tile_before)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("mutate", MUTANTS)
def test_laws_refute_broken_derivations(name, mutate):
    _, streaming = derivation(FOLLOWING[name])
    mutants = list(mutate(streaming))
    assert mutants
    for mutant in mutants:
        assert list(broken_laws(mutant)), mutate.__doc__


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("mutate", MUTANTS)
def test_whole_programs_refute_broken_derivations(name, mutate):
    program, streaming = derivation(FOLLOWING[name])
    for mutant in mutate(streaming):
        assert list(differences(program, the_program(emitted(program, mutant)), mutant.axis)), mutate.__doc__


@pytest.mark.parametrize("build", [attention, rms_norm_then_product, attention_of_logsumexp])
def test_a_factor_that_is_not_applied_is_refuted(build):
    program, streaming = derivation(build)
    mutants = list(unfinished(streaming))
    assert mutants
    refuted = 0
    for mutant in mutants:
        found = list(broken_laws(mutant))
        refuted += bool(found)
        if not found:  # a factor of 1 wherever an element is finite
            continue
        with pytest.raises(TilewrightError, match="this is a fault of the compiler"):
            require(program, the_program(emitted(program, mutant)), mutant)
    assert refuted == len(mutants)


def test_an_unguarded_reference_is_refuted():
    """-inf - -inf: where no element was finite yet."""
    _, streaming = derivation(logsumexp)
    (state,) = corrected(streaming)
    extreme = state.corrections[0].extreme
    (guard,) = {node for node in below(state.terms) if extreme.update in node.operands and node.function is None}
    change = {guard: extreme.update}
    graph = streaming.graph
    mutant = with_state(
        streaming,
        state,
        part=graph.replaced(state.part, change),
        terms=tuple(graph.replaced(term, change) for term in state.terms),
        update=graph.replaced(state.update, change),
    )
    assert [broken.law for broken in broken_laws(mutant)] == ["an empty state stays empty"]


def test_a_running_divisor_is_refuted():
    """1/l, streamed: divided by what l is in the iteration."""
    program, streaming = derivation(attention)
    graph = streaming.graph
    largest, total, output = streaming.states
    divisor = graph.broadcast(total.update, output.terms[0].axes, "")
    weights = graph.binary(Function.DIV, output.terms[0], divisor, "")
    part = graph.contract(weights, output.terms[1], streaming.axis, output.part.axes, "")
    mutant = with_state(
        streaming,
        output,
        part=part,
        terms=(weights, output.terms[1]),
        update=graph.replaced(output.update, {output.part: part}),
    )
    assert list(broken_laws(mutant))
    assert list(differences(program, the_program(emitted(program, mutant)), "T"))
    assert largest.function is Function.MAX


def test_an_identity_that_is_none_is_refuted():
    program, streaming = derivation(logsumexp)
    largest = streaming.states[0]
    mutant = with_state(streaming, largest, initial=0.0)
    found = [list(differences(program, the_program(emitted(program, mutant)), "N", seed=seed)) for seed in range(5)]
    assert any(found)
    program, streaming = derivation(row_sum)
    mutant = with_state(streaming, streaming.states[0], initial=1.0)
    assert list(differences(program, the_program(emitted(program, mutant)), "N"))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_derived_holds_at_many_points(name):
    build, axis, _ = PROGRAMS[name]
    module = build()
    program = the_program(module)
    found = streamed(program)
    assert not list(broken_laws(found.derivation, points=200, seed=1))
    for seed in range(3):
        assert not list(differences(program, the_program(found.module), axis, longest=4, seed=seed))


@pytest.mark.sample(2)
@pytest.mark.parametrize("build", [logsumexp, lambda: logsumexp(-1.0), scaled_logsumexp])
def test_every_short_row_cut_in_every_way(build):
    """Elements absent (-inf) or few integers, up to four of them."""
    module = build()
    program = the_program(module)
    found = the_program(streamed(program).module)
    elements = [special(-np.inf), exact(-2.0), exact(0.0), exact(1.0)]
    for length in range(1, 5):
        rows = list(itertools.product(elements, repeat=length))
        array = np.empty((len(rows), length), dtype=object)
        for place in np.ndindex(*array.shape):
            array[place] = rows[place[0]][place[1]]
        assert not list(compared(program, found, {"M": len(rows), "N": length}, {"x": array}, length))


def test_every_short_attention_cut_in_every_way():
    """Scores absent or few integers, values few integers: rows of scores along Q, one value to a place."""
    module = attention_with_scores()
    program = the_program(module)
    found = the_program(streamed(program).module)
    scores = [special(-np.inf), exact(-2.0), exact(1.0)]
    for length in range(1, 4):
        rows = list(itertools.product(scores, repeat=length))
        array = np.empty((len(rows), length), dtype=object)
        for place in np.ndindex(*array.shape):
            array[place] = rows[place[0]][place[1]]
        columns = list(itertools.product([exact(-1.0), exact(3.0)], repeat=length))
        values = np.empty((length, len(columns)), dtype=object)
        for place in np.ndindex(*values.shape):
            values[place] = columns[place[1]][place[0]]
        extents = {"Q": len(rows), "T": length, "F": len(columns)}
        assert not list(compared(program, found, extents, {"s": array, "v": values}, length))


def attention_with_scores():
    p = Program(Q=3, T=4, F=2)
    weights = p.softmax(p.load("s", "Q", "T"), "T")
    p.store(p.dot(weights, p.load("v", "T", "F", element=Element.BF16), "T"), "o", "Q", "F")
    return p.module()


def test_the_certificate_is_quick():
    program, streaming = derivation(lambda: attention("causal", lse=True))
    module = the_program(emitted(program, streaming))
    require(program, module, streaming)
    begin = time.process_time()
    require(program, module, streaming)
    assert time.process_time() - begin < 0.5
