"""Registers that wait in shared memory: which, that what is computed stays the same, and that the texts are proved."""

import re

import pytest
from tests.lower.lowered_programs import Lowered, assert_close, gemm, matmul_bias_relu, random_inputs, small
from tests.lower.lowered_programs import lower as lower_program

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.ir.cascade import CascadeDecisions
from tilewright.lower.ptx.idle_registers import Idle, choose_idle
from tilewright.machine.protocol.live_ranges import control_flow, register_widths
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

_HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
_STORE, _LOAD = "st.shared.b32", "ld.shared.b32"


def with_slots(count: int, **wanted: object) -> Lowered:
    return small(gemm(1024, 2048, 1024, spill_slots=count, **wanted))


def verdict_of(lowered: Lowered, text: str):
    (kernel,) = lowered.kernels
    claims = {lowered.plan.launches[0].entry: protocol_claims(kernel, HOPPER)[0]}
    return replay_plan(read(text), lowered.plan, claims, (0,))


@pytest.mark.sample(1)
@pytest.mark.parametrize("wanted", [{"tile": (128, 128), "turns": True}, {"tile": (128, 64)}])
def test_values_and_proofs(wanted: dict[str, object]) -> None:
    lowered = with_slots(10, **wanted)
    assert isinstance(lowered.decisions, CascadeDecisions) and lowered.decisions.spill_slots == 10
    plain = with_slots(0, **wanted)
    assert lowered.ptx.count(_STORE) - plain.ptx.count(_STORE) == 10
    assert lowered.ptx.count(_LOAD) - plain.ptx.count(_LOAD) == 10
    (kernel,) = lowered.kernels
    assert isinstance(verify(kernel, HOPPER), Proven)
    assert isinstance(verdict_of(lowered, lowered.ptx), Proven)
    assert_close(lowered, random_inputs(lowered))


def test_values_at_edges_and_of_an_epilogue() -> None:
    wanted = Wanted(tile=(128, 64), turns=True, spill_slots=6)
    large = lower_program(matmul_bias_relu, {"M": 8192 + 40, "N": 64, "K": 72}, wanted=wanted)
    assert_close(small(large), random_inputs(small(large)))


def test_a_small_instance_has_the_same_slots() -> None:
    large = gemm(1024, 2048, 1024, tile=(128, 128), turns=True, spill_slots=8)
    texts = [re.sub(r"\b\d+\b", "#", lowered.ptx) for lowered in (large, small(large))]
    assert texts[0] == texts[1]


def test_a_slot_of_another_thread_is_refuted() -> None:
    """All threads of a warpgroup in one word: another thread's register comes back."""
    lowered = with_slots(10, tile=(128, 128), turns=True)
    addresses = re.findall(r"st\.shared\.b32 \[(%r\d+)\+\d+\], %r", lowered.ptx)
    line = next(line for line in lowered.ptx.splitlines() if f"mad.lo.u32 {addresses[0]}," in line)
    broken = lowered.ptx.replace(line, line.replace(", 4, ", ", 0, "))
    assert broken != lowered.ptx
    assert isinstance(verdict_of(lowered, broken), Refuted)


# ---------------------------------------------------------------- choice


def chosen(body: str, words: int = 1) -> tuple[Idle, ...]:
    registers = ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .pred %p<3>;\n"
    text = (
        f"{_HEAD}.visible .entry f(.param .u64 p)\n.reqntid 128\n{{\n{registers}setmaxnreg.inc.sync.aligned.u32 232;\n"
    )
    (kernel,) = read(f"{text}{body}\nret;\n}}\n").kernels
    instructions, successors = control_flow(kernel)
    assert successors is not None
    return choose_idle(instructions, successors, register_widths(kernel), 232, words)


_LOADED = "ld.param.u64 %rd0, [p];\nld.global.b32 %r1, [%rd0];\nld.global.b32 %r2, [%rd0+4];\n"
_CROWD = (
    "ld.global.b32 %r3, [%rd0+8];\nld.global.b32 %r4, [%rd0+12];\nadd.u32 %r3, %r3, %r4;\nst.global.b32 [%rd0], %r3;\n"
)


def test_what_idles_longest_is_chosen() -> None:
    (found,) = chosen(
        f"{_LOADED}st.global.b32 [%rd0+32], %r2;\n{_CROWD}st.global.b32 [%rd0], %r2;\nst.global.b32 [%rd0], %r1;"
    )
    assert (found.register, found.width, found.recomputed) == ("%r1", 1, ())
    # Behind its load, and before the last store.
    assert (found.begin, found.end) == (3, 10)


def test_what_is_computed_from_the_thread_s_number_alone_is_computed_again() -> None:
    lane = "mov.u32 %r5, %tid.x;\nand.b32 %r6, %r5, 31;\n"
    found = chosen(f"{_LOADED}{lane}{_CROWD}add.u32 %r1, %r1, %r6;\nst.global.b32 [%rd0], %r1;")
    assert found[0].register == "%r6"
    assert found[0].recomputed == (4, 5)


def test_a_stretch_is_entered_and_left_at_its_ends_alone() -> None:
    """A loop around the crowd is passed as a whole; where a jump leads past the crowd, the stretch ends before that."""
    loop = f"again:\n{_CROWD}setp.lt.u32 %p0, %r3, %r2;\n@%p0 bra again;\n"
    (found,) = chosen(f"{_LOADED}{loop}st.global.b32 [%rd0], %r1;")
    assert (found.register, found.begin, found.end, found.depth) == ("%r1", 3, 10, 0)
    skipped = f"setp.lt.u32 %p0, %r1, %r2;\n@%p0 bra past;\n{_CROWD}past:\nst.global.b32 [%rd0], %r1;"
    (found,) = chosen(f"{_LOADED}{skipped}")
    assert (found.register, found.begin, found.end) == ("%r1", 5, 10)


def test_no_more_words_than_there_are_slots() -> None:
    body = f"{_LOADED}ld.global.b64 %rd3, [%rd0+16];\n{_CROWD}st.global.b32 [%rd0], %r1;\nst.global.b64 [%rd0], %rd3;"
    assert [each.width for each in chosen(body, 1)] == [1]
    assert [each.width for each in chosen(body, 2)] == [1]
    assert [each.register for each in chosen(body, 3)] == ["%r1", "%rd3"]


def test_results_of_products_wait_until_all_are_done() -> None:
    values = ", ".join(f"%f{number}" for number in range(4))
    multiply = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{values}}}, %rd1, %rd2, 0, 1, 1, 0, 0;\n"
    body = "".join((
        "ld.param.u64 %rd0, [p];\nmov.b64 %rd1, 0;\nmov.b64 %rd2, 0;\nwgmma.fence.sync.aligned;\n", multiply,
        "wgmma.commit_group.sync.aligned;\nmov.b64 %rd1, 0;\nwgmma.wait_group.sync.aligned 0;\n", _CROWD,
        *(f"st.global.f32 [%rd0], %f{number};\n" for number in range(4)),
    ))  # fmt: skip
    found = chosen(body)
    assert [each.register for each in found] == ["%f3"]
    assert found[0].begin == 9
