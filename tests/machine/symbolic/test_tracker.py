"""What a run's expressions say of other launches is what these launches do."""

from __future__ import annotations

import pytest
from tests.machine.symbolic.followed_runs import DATA, GRID, PLACE, M, N, differences, follow, kernel

from tilewright.machine.symbolic.expression import Input, Table, inputs_of, rendered
from tilewright.machine.symbolic.tracker import Condition

LOAD = "ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m]; mov.u32 %r3, %tid.x;"
END = "@%p1 bra YES; bar.sync 0; YES: bar.sync 1;"
"""A decision by %p1: barriers are of the protocol."""
VALUES = (0, 1, 2, 3, 7, 255, 256, 300, 0x1_0005, 0x8000_0000, 0xFFFF_FFFF)
PAIRS = [{N: n, M: m} for n in (0, 1, 3, 7, 0xFFFF_FFFF) for m in (0, 2, 3, 300)]
SINGLE = [{N: value} for value in VALUES]

BODIES = {
    "local memory": f"{LOAD} st.local.u32 [spill], %r1; ld.local.u32 %r4, [spill]; setp.gt.u32 %p1, %r4, 5; {END}",
    "atomic": f"{LOAD} mov.u32 %r6, 0; st.shared.u32 [cells], %r6; setp.ne.u32 %p2, %r3, 0; @%p2 bra A;"
    f"atom.shared.add.u32 %r5, [cells], %r1; A: bar.sync 0; ld.shared.u32 %r4, [cells]; setp.gt.u32 %p1, %r4, 5; {END}",
    "reduced": f"{LOAD} mov.u32 %r6, 0; st.shared.u32 [cells], %r6; setp.ne.u32 %p2, %r3, 0; @%p2 bra A;"
    f"red.shared.add.u32 [cells], %r1; A: bar.sync 0; ld.shared.u32 %r4, [cells]; setp.gt.u32 %p1, %r4, 5; {END}",
    "an atomic result": f"{LOAD} st.shared.u32 [cells], %r1; bar.sync 0; atom.shared.exch.b32 %r4, [cells], 0;"
    f"shfl.sync.idx.b32 %r4, %r4, 0, 31, -1; setp.gt.u32 %p1, %r4, 5; {END}",
    "arithmetic": f"{LOAD} mad.lo.u32 %r4, %r1, %r2, 5; setp.gt.u32 %p1, %r4, 20; {END}",
    "operands repeated": f"{LOAD} mad.lo.u32 %r4, %r1, %r1, %r2; mad.lo.u32 %r5, %r1, %r2, %r2;"
    f"mad.lo.u32 %r6, %r1, %r2, %r1; setp.gt.u32 %p1, %r4, 8; @%p1 bra ONE; bar.sync 2; ONE: setp.gt.u32 %p2, %r5, 8;"
    f"@%p2 bra TWO; bar.sync 3; TWO: setp.gt.u32 %p1, %r6, 8; {END}",
    "compared with itself": f"{LOAD} setp.lt.u32 %p2, %r1, %r2; setp.lt.and.u32 %p1, %r1, %r1, %p2;"
    f"@%p1 bra ONE; bar.sync 2; ONE: setp.le.and.u32 %p1, %r1, %r2, %p2; {END}",
    "lanes": f"{LOAD} add.u32 %r4, %r1, %r3; setp.gt.u32 %p1, %r4, 10; {END}",
    "guarded": f"{LOAD} mov.u32 %r4, 3; setp.lt.u32 %p2, %r1, 5; @%p2 add.u32 %r4, %r2, 1; @!%p2 mov.u32 %r4, 9;"
    f"setp.gt.u32 %p1, %r4, 4; {END}",
    "guarded, one on another": f"{LOAD} mov.u32 %r4, 3; mov.u32 %r5, 9; setp.lt.u32 %p2, %r1, 5; "
    "@%p2 add.u32 %r4, %r2, 1; @%p2 mov.u32 %r5, 2; @%p2 mad.lo.u32 %r4, %r4, %r5, %r5; @!%p2 add.u32 %r4, %r4, %r5; "
    f"setp.gt.u32 %p1, %r4, 4; {END}",
    "guarded within guarded": f"{LOAD} mov.u32 %r4, 3; setp.lt.u32 %p2, %r1, 5; setp.ne.u32 %p3, %r2, 2; "
    "@%p2 add.u32 %r4, %r2, 1; and.pred %p4, %p2, %p3; @%p4 add.u32 %r4, %r4, %r4; @!%p4 add.u32 %r4, %r4, 2; "
    f"not.pred %p5, %p2; and.pred %p4, %p5, %p3; @%p4 mov.u32 %r4, 5; setp.gt.u32 %p1, %r4, 6; {END}",
    "guarded by lanes": f"{LOAD} mov.u32 %r4, 3; setp.lt.u32 %p2, %r3, 5; @%p2 add.u32 %r4, %r1, 1;"
    f"setp.gt.u32 %p1, %r4, 4; {END}",
    "guarded, never written": f"{LOAD} setp.lt.u32 %p2, %r1, 5; @%p2 bra A; @!%p2 mov.u64 %d1, 0x500000000;"
    f"setp.gt.u64 %p1, %d1, 7; {END} A: bar.sync 5;",
    "shared memory": f"{LOAD} st.shared.u32 [cells+8], %r1; bar.sync 0; ld.shared.u32 %r4, [cells+8];"
    f"setp.gt.u32 %p1, %r4, 5; {END}",
    "shared memory, overwritten": f"{LOAD} st.shared.u32 [cells+8], %r1; st.shared.u8 [cells+9], 1;"
    f"ld.shared.u32 %r4, [cells+8]; setp.gt.u32 %p1, %r4, 5; {END}",
    "a byte of a stored word": f"{LOAD} st.shared.u32 [cells+8], %r1; ld.shared.u8 %r4, [cells+8];"
    f"setp.gt.u32 %p1, %r4, 5; {END}",
    "a signed byte of a stored word": f"{LOAD} st.shared.u32 [cells+8], %r1; ld.shared.s8 %r4, [cells+8];"
    f"setp.gt.s32 %p1, %r4, 5; {END}",
    "a stored byte": f"{LOAD} st.shared.u8 [cells+8], %r1; ld.shared.u8 %r4, [cells+8]; setp.gt.u32 %p1, %r4, 5; {END}",
    "a stored half": f"{LOAD} st.shared.u16 [cells+8], %r1; ld.shared.u16 %h4, [cells+8];"
    f"setp.gt.u16 %p1, %h4, 5; {END}",
    "words of a vector": f"{LOAD} st.shared.v2.u32 [cells+8], {{%r1, %r2}}; ld.shared.v2.u32 {{%r4, %r5}}, [cells+8];"
    f"setp.gt.u32 %p2, %r4, 5; @%p2 bra ONE; bar.sync 2; ONE: setp.gt.u32 %p1, %r5, 2; {END}",
    "a word beside a constant": f"{LOAD} st.shared.v4.u32 [cells], {{7, %r1, 9, %r2}}; ld.shared.u32 %r4, [cells+8];"
    f"ld.shared.v2.u32 {{%r5, %r6}}, [cells+8]; add.u32 %r4, %r4, %r6; setp.gt.u32 %p1, %r4, 11; {END}",
    "a vector, read in other pieces": f"{LOAD} st.shared.v2.u32 [cells], {{%r1, %r2}}; ld.shared.u64 %d1, [cells];"
    f"setp.gt.u64 %p1, %d1, 5; {END}",
    "words of a vector that lanes store": f"{LOAD} mov.u32 %r7, cells; shl.b32 %r8, %r3, 3; add.u32 %r7, %r7, %r8;"
    "add.u32 %r2, %r2, %r3; st.shared.v2.u32 [%r7], {%r1, %r2}; bar.warp.sync -1; ld.shared.v2.u32 {%r4, %r5}, [cells];"
    f"setp.gt.u32 %p1, %r5, 2; {END}",
    "a word for each lane": f"{LOAD} mov.u32 %r7, cells; shl.b32 %r8, %r3, 2; add.u32 %r7, %r7, %r8;"
    "st.shared.u32 [%r7], 0; bar.warp.sync -1; st.shared.u32 [cells], %r1; st.shared.u32 [cells+4], %r2;"
    "bar.warp.sync -1; ld.shared.u32 %r4, [%r7]; shfl.sync.idx.b32 %r4, %r4, 1, 31, -1;"
    f"setp.gt.u32 %p1, %r4, 2; {END}",
    "a byte of a number": f"ld.param.u8 %r4, [n]; setp.gt.u32 %p1, %r4, 5; {END}",
    "a signed byte of a number": f"ld.param.s8 %r4, [n]; setp.gt.s32 %p1, %r4, 5; {END}",
    "a half of a number": f"ld.param.u16 %h4, [n+2]; setp.gt.u16 %p1, %h4, 0; {END}",
    "a half of a number in a wide register": f"ld.param.s16 %r4, [n]; setp.gt.s32 %p1, %r4, 5; {END}",
    "both numbers at once": f"ld.param.u64 %d1, [n]; setp.gt.u64 %p1, %d1, 5; {END}",
    "a vector of numbers": f"ld.param.v2.u32 {{%r4, %r5}}, [n]; setp.gt.u32 %p1, %r5, 2; {END}",
    "shuffled": f"{LOAD} shfl.sync.idx.b32 %r4, %r1, 0, 31, -1; setp.gt.u32 %p1, %r4, 5; {END}",
    "shuffled by lanes": f"{LOAD} add.u32 %r5, %r1, %r3; shfl.sync.idx.b32 %r4, %r5, 3, 31, -1;"
    f"setp.gt.u32 %p1, %r4, 5; {END}",
    "shuffled in halves": f"{LOAD} mov.u32 %r5, 9; setp.lt.u32 %p3, %r3, 16; @%p3 mov.u32 %r5, %r1;"
    f"shfl.sync.idx.b32 %r4, %r5, 3, 0x100f, -1; setp.gt.u32 %p1, %r4, 5; {END}",
    "a lane that is chosen": f"{LOAD} shfl.sync.idx.b32 %r4, %r3, %r1, 31, -1; setp.gt.u32 %p1, %r4, 5; {END}",
    "votes": f"{LOAD} setp.gt.u32 %p2, %r1, 5; vote.sync.any.pred %p3, %p2, -1; vote.sync.all.pred %p4, !%p3, -1;"
    f"vote.sync.ballot.b32 %r4, %p4, -1; setp.eq.u32 %p1, %r4, -1; {END}",
    "a vote of lanes": f"{LOAD} setp.gt.u32 %p2, %r1, %r3; vote.sync.any.pred %p1, %p2, -1; {END}",
    "carries": f"{LOAD} add.cc.u32 %r4, %r1, 1; addc.u32 %r5, %r2, 0; setp.gt.u32 %p1, %r5, 0; {END}",
    "halves of a pair": f"{LOAD} mov.b64 %d1, {{%r1, %r2}}; mov.b64 {{%r4, %r5}}, %d1; setp.gt.u32 %p1, %r5, 2; {END}",
    "packed halves": f"{LOAD} add.u16x2 %r4, %r1, 65535; setp.gt.u32 %p1, %r4, 65536; {END}",
    "chosen": f"{LOAD} setp.gt.u32 %p2, %r1, 5; selp.u32 %r4, %r2, 7, %p2; setp.gt.u32 %p1, %r4, 3; {END}",
    "absorbed": f"{LOAD} setp.gt.u32 %p2, %r1, 5; setp.gt.and.u32 %p1, %r2, 3, !%p2; {END}",
    "a loop": f"{LOAD} mov.u32 %r4, 0; GO: setp.ge.u32 %p1, %r4, %r1; @%p1 bra OUT; bar.sync 0; add.u32 %r4, %r4, 1;"
    "setp.lt.u32 %p2, %r4, 8; @%p2 bra GO; OUT: bar.sync 1;",
    "a branch within a warp": f"{LOAD} setp.lt.u32 %p2, %r3, 7; @%p2 bra A; mov.u32 %r4, 1; bra.uni B;"
    f"A: add.u32 %r4, %r1, 2; B: bar.warp.sync -1; setp.gt.u32 %p1, %r4, 4; {END}",
    "narrow conversions": f"{LOAD} cvt.s8.s32 %r4, %r1; cvt.s32.s8 %r5, %r4; setp.lt.s32 %p1, %r5, 0; {END}",
    "one result, two widths": f"{LOAD} cvt.u16.u32 %h4, %r1; cvt.u16.u32 %r5, %r1; cvt.u32.u16 %r6, %h4;"
    f"add.u32 %r7, %r6, %r5; setp.gt.u32 %p1, %r7, 300; {END}",
}


@pytest.mark.sample(14)
@pytest.mark.parametrize("name", BODIES)
def test_expressions_say_what_other_launches_do(name: str) -> None:
    assert not differences(kernel(BODIES[name]), [*SINGLE, *PAIRS])


SENT = (
    f"{LOAD} mov.u32 %r7, bar; mov.u32 %r8, cells; setp.ne.u32 %p3, %r3, 0; @%p3 bra SET;"
    "mbarrier.init.shared::cta.b64 [%r7], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 8; SET:"
    "barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 1; @%p3 bra GO;"
    "mapa.shared::cluster.u32 %r10, %r8, %r9; mapa.shared::cluster.u32 %r11, %r7, %r9;"
    "SEND GO:"
    "mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], 0; @!%p4 bra GO; ld.shared.v2.u32 {%r4, %r5}, [cells];"
    f"setp.gt.u32 %p2, %r4, 5; @%p2 bra ONE; bar.sync 2; ONE: setp.gt.u32 %p1, %r5, 2; {END}"
)
"""What a CTA's peer has sent decides."""
STORE = "st.async.shared::cluster.mbarrier::complete_tx::bytes"
SENDS = {
    "a vector": f"{STORE}.v2.u32 [%r10], {{%r1, %r2}}, [%r11];",
    "words one by one": f"{STORE}.u32 [%r10], %r1, [%r11]; {STORE}.u32 [%r10+4], %r2, [%r11];",
    "a constant": f"{STORE}.v2.u32 [%r10], {{%r2, 4}}, [%r11];",
    "a number of the CTA": f"add.u32 %r1, %r1, %r9; {STORE}.v2.u32 [%r10], {{%r1, %r9}}, [%r11];",
    "in other pieces": f"mov.b64 %d1, {{%r1, %r2}}; {STORE}.u64 [%r10], %d1, [%r11];",
}


@pytest.mark.parametrize("name", SENDS)
def test_expressions_say_what_is_sent_to_another_cta(name: str) -> None:
    module = kernel(SENT.replace("SEND", SENDS[name]))
    assert not differences(module, [*SINGLE, *PAIRS], cluster=2)
    run = follow(module, {N: 3, M: 2}, Table(), cluster=2)
    assert {each for found in run.conditions for each in inputs_of((found.node,))} & {N, M}, "nothing is compared"


def conditions(body: str, values: dict[Input, int], *, grid: bool = False, data: bool = False) -> list[Condition]:
    return follow(kernel(body), values, Table(), grid=grid, data=data).conditions


def test_there_are_conditions_to_compare() -> None:
    silent = {name for name, body in BODIES.items() if not conditions(body, {N: 3, M: 2})}
    assert not silent, "these compare nothing"


def named(given: Input) -> str:
    return {N: "n", M: "m", DATA: "data", GRID: "grid", PLACE: "place"}.get(given, given.kind)


def test_a_condition_has_its_outcome_and_the_expression_in_words() -> None:
    body = f"{LOAD} mad.lo.u32 %r4, %r1, %r2, 5; setp.gt.u32 %p1, %r4, 20; @!%p1 bra A; bar.sync 0; A:"
    (first, *_) = conditions(body, {N: 3, M: 2})
    assert first.kind == "branch" and first.negated and first.outcome.tolist() == [False]
    assert rendered(first.node, named) == "((n * m + 5) > 20)"
    assert inputs_of((first.node,)) == (N, M)


def test_a_guarded_instruction_of_the_protocol_is_a_condition() -> None:
    body = f"{LOAD} setp.eq.u32 %p1, %r1, 37; @%p1 bar.sync 0;"
    found = [conditions(body, {N: n})[0] for n in (36, 37)]
    assert [(each.kind, each.outcome.tolist()) for each in found] == [("guard", [False]), ("guard", [True])]
    covered = [follow(kernel(body), {N: n}, Table()).covered for n in (36, 37)]
    assert covered[0] < covered[1], "what is not executed is not covered"


def test_an_operand_of_the_protocol_is_a_condition() -> None:
    body = f"{LOAD} mov.u32 %r4, bar; setp.eq.u32 %p1, %r3, 0; @%p1 mbarrier.init.shared::cta.b64 [%r4], %r1;"
    (found,) = [each for each in conditions(body, {N: 5}) if each.kind == "value"]
    assert rendered(found.node, named) == "n" and found.outcome.tolist() == [5]


def test_iterations_of_a_loop_are_counted() -> None:
    found = [each for each in conditions(BODIES["a loop"], {N: 3}) if each.loop >= 0]
    assert [(each.iteration, each.stays, bool(each.outcome[0])) for each in found] == [
        (0, False, False), (1, False, False), (2, False, False), (3, False, True),
    ]  # fmt: skip


POINTER = "ld.param.u64 %d1, [data]; setp.eq.u64 %p1, %d1, 0; @%p1 bra YES; bar.sync 0; YES: bar.sync 1;"


def test_a_pointer_is_null_or_not() -> None:
    assert not differences(kernel(POINTER), [{DATA: 0}, {DATA: 1}])
    run = follow(kernel(POINTER), {DATA: 1}, Table())
    assert inputs_of((run.conditions[0].node,)) == (DATA,)


PLACES = {
    "%ctaid.x": "mov.u32 %r1, %ctaid.x; setp.gt.u32 %p1, %r1, 2;",
    "%nctaid.x": "mov.u32 %r1, %nctaid.x; setp.gt.u32 %p1, %r1, 4;",
    "%clusterid.x": "mov.u32 %r1, %clusterid.x; setp.gt.u32 %p1, %r1, 1;",
    "%nclusterid.x": "mov.u32 %r1, %nclusterid.x; setp.gt.u32 %p1, %r1, 2;",
}


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("name", PLACES)
def test_the_place_in_the_grid(name: str, cluster: int) -> None:
    module = kernel(f"{PLACES[name]} {END}")
    launches = [{GRID: grid, PLACE: place} for grid in (1, 2, 3, 5) for place in (0, 1, 2, 4) if place < grid]
    assert not differences(module, launches, grid=True, cluster=cluster)
    run = follow(module, {GRID: 3, PLACE: 1}, Table(), grid=True, cluster=cluster)
    assert run.conditions
    assert not follow(module, {GRID: 3, PLACE: 1}, Table(), cluster=cluster).conditions, "the grid is given"


def word_of(body: str) -> Input:
    (word,) = follow(kernel(body), {DATA: 1}, Table(), data=True).words_read
    return word


GLOBAL = {
    "a word": "ld.global.u32 %r1, [%d1+12]; setp.gt.u32 %p1, %r1, 5;",
    "a byte": "ld.global.u8 %r1, [%d1+12]; setp.gt.u32 %p1, %r1, 5;",
    "a signed byte": "ld.global.s8 %r1, [%d1+12]; setp.gt.s32 %p1, %r1, 5;",
    "a half": "ld.global.u16 %h1, [%d1+12]; setp.gt.u16 %p1, %h1, 5;",
    "a long word": "ld.global.u64 %d2, [%d1+8]; setp.gt.u64 %p1, %d2, 5;",
}


@pytest.mark.parametrize("name", GLOBAL)
def test_words_that_are_read_are_inputs(name: str) -> None:
    body = f"ld.param.u64 %d1, [data]; {GLOBAL[name]} {END}"
    word = word_of(body)
    sizes = {"a word": 4, "a byte": 1, "a signed byte": 1, "a half": 2, "a long word": 8}
    assert word.kind == "memory" and word.size_bytes == sizes[name]
    assert not differences(kernel(body), [{DATA: 1, word: value} for value in (0, 5, 6, 255)], data=True)
    outcomes = [conditions(body, {DATA: 1, word: value}, data=True)[-1].outcome.tolist() for value in (9, 200)]
    assert outcomes == [[True], [name != "a signed byte"]]


def test_words_that_are_written_too_are_noted() -> None:
    text = "ld.param.u64 %d1, [data]; {} ld.global.u32 %r1, [%d1]; setp.gt.u32 %p1, %r1, 5; {} " + END
    store = "st.global.u32 [%d1], 7;"
    assert follow(kernel(text.format("", store)), {DATA: 1}, Table(), data=True).words_written
    assert not follow(kernel(text.format("", "")), {DATA: 1}, Table(), data=True).words_written


def test_tickets_are_inputs() -> None:
    body = (
        "ld.param.u64 %d1, [data]; mov.u32 %r3, %tid.x; setp.ne.u32 %p2, %r3, 0; mov.u32 %r1, 0;"
        "@!%p2 atom.global.add.u32 %r1, [%d1], 1; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; setp.gt.u32 %p1, %r2, 5;" + END
    )
    run = follow(kernel(body), {DATA: 1}, Table(), data=True)
    (ticket,) = run.words_read
    assert ticket.kind == "ticket" and run.tickets == 1
    assert not differences(kernel(body), [{DATA: 1, ticket: value} for value in (0, 5, 6)], data=True)
