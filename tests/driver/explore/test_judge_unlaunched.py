"""A pipeline without a launch: its launches are made up, and what is made up is said."""

from __future__ import annotations

import pytest
from tests.driver.checked_kernels import pipe
from tests.driver.hanging_kernels import hanging, judged

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.explore.judge_unlaunched import judge_unlaunched
from tilewright.driver.launch.given_launch import PartialLaunch
from tilewright.driver.launch.launch_shapes import Shape
from tilewright.driver.launch.unknown_launch import launch_of, unknown_launch
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.model import model_of
from tilewright.machine.protocol.slicing.slice import protocol_slice
from tilewright.machine.protocol.slicing.steering import steering


def test_the_number_of_steps_steers_and_the_stride_does_not() -> None:
    _, kernel = pipe()
    steers = steering(protocol_slice(kernel))
    assert steers.parameters == {("steps", 0)}
    assert "%tid.x" in steers.specials and not steers.memory


def test_launches_have_a_buffer_for_each_pointer_and_the_numbers_chosen() -> None:
    module, kernel = pipe()
    unknown = unknown_launch(module, kernel, model_of(module), Shape((64, 1, 1)), PartialLaunch())
    assert unknown.names == ("parameter 2", "parameter 3")
    assert set(unknown.buffers) == {"parameter 0", "parameter 1"}
    assert unknown.shape.block == (64, 1, 1)
    launch = launch_of(unknown, (7, 64), {})
    assert [getattr(param, "value", None) for param in launch.params] == [None, None, 7, 64]


def test_it_is_proven_for_all_trip_counts() -> None:
    module, kernel = pipe()
    found = judge_unlaunched(module, kernel, tolerant())
    assert isinstance(found.verdict, Proven)
    assert found.verdict.scope == "all trip counts"
    said = "the 2 pointers lead to distinct buffers, no access leaves its buffer, and each is aligned"
    assert said in found.verdict.assumptions


def test_a_fault_that_shows_from_the_third_step_on_is_found() -> None:
    module, kernel = pipe("    mbarrier.arrive.shared::cta.b64 _, [%r8+16];\n", "")
    found = judge_unlaunched(module, kernel, tolerant())
    assert isinstance(found.verdict, Refuted)


def test_a_fault_at_a_large_count_alone_is_not_proven_away() -> None:
    module, kernel = pipe(
        "    ld.shared.b32 %r12, [%r10];",
        "    setp.eq.u32 %p5, %r4, 5000;\n    @%p5 bra FULL;\n    ld.shared.b32 %r12, [%r10];",
    )
    found = judge_unlaunched(module, kernel, tolerant())
    assert isinstance(found.verdict, Unknown)
    assert any("before they met" in line for line in found.verdict.reasons)


def test_an_assertion_on_the_numbers_is_assumed_to_hold() -> None:
    start = "    mov.u32 %r4, 0;"
    module, kernel = pipe(start, start + "\n    setp.gt.u32 %p6, %r1, 20;\n    @%p6 trap;")
    found = judge_unlaunched(module, kernel, tolerant())
    assert isinstance(found.verdict, Proven), found.verdict
    assert any("the kernel's own assertion at pipe.ptx:" in line for line in found.verdict.assumptions)


def test_a_kernel_that_always_traps_is_unknown() -> None:
    start = "    mov.u32 %r4, 0;"
    module, kernel = pipe(start, start + "\n    @%p1 trap;")
    found = judge_unlaunched(module, kernel, tolerant())
    assert isinstance(found.verdict, Unknown)
    assert "assertion" in found.verdict.reasons[0]


_STAGED = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u32 n) .reqntid 32
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, dynamic;
    mad.lo.u32 %r3, %r1, 8192, %r2;
    mov.u32 %r4, %tid.x;
    setp.eq.u32 %p1, %r4, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
    mov.u32 %r5, %envreg2;
    setp.eq.u32 %p2, %r5, 7;
    @%p2 bra DONE;
    bar.sync 0;
DONE:
    ret;
}
"""


@pytest.mark.parametrize("size", ["", "[16]"], ids=["dynamic", "static"])
def test_a_launch_beyond_all_shared_memory_refutes_nothing(size: str) -> None:
    """No launch is clean here. An array whose size the text fixes may be too small for a number that it allows."""
    text = _STAGED if not size else _STAGED.replace(".extern ", "").replace("[]", size)
    found = judged(text)
    assert isinstance(found.verdict, Refuted if size else Unknown), found.verdict


_SCALED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k({parameter}) .reqntid 32
{{
    .reg .pred %p<4>;
    .reg .f32 %f<4>;
    .shared .align 8 .b8 full[8];
    ld.param.f32 %f1, [{place}];
    setp.{comparison}.f32 %p1, %f1, 0f00000000;
    @%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [full], 33;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
    @!%p3 bra WAIT;
DONE:
    ret;
}}
"""


@pytest.mark.parametrize("comparison", ["eq", "neu"])
@pytest.mark.parametrize(
    ("parameter", "place"),
    [(".param .f32 beta", "beta"), (".param .align 4 .b8 p[16]", "p+8")],
    ids=["alone", "member"],
)
def test_a_float_that_steers_is_tried_as_zero_and_as_more(comparison: str, parameter: str, place: str) -> None:
    """The wait behind the branch never ends: it is behind `beta != 0`, or behind `beta == 0`."""
    text = _SCALED.format(comparison=comparison, parameter=parameter, place=place)
    module = read(text, "k.ptx")
    verdict = judge_unlaunched(module, module.kernels[0], tolerant()).verdict
    if comparison == "eq":
        assert isinstance(verdict, Refuted)
    else:
        assert isinstance(verdict, Proven) and any("is not 0" in line for line in verdict.assumptions)


def test_a_kernel_that_only_one_launch_runs_is_run_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is spent on each of many launches is not what ends the only one."""
    monkeypatch.setattr("tilewright.driver.explore.judge_unlaunched._EXPLORED_STEPS", 1_000)
    loop = "mov.u32 %r5, 0;\nLOOP:\n    add.s32 %r5, %r5, 1; bar.sync 0; setp.lt.s32 %p2, %r5, 1000; @%p2 bra LOOP;"
    found = judged(hanging("setp.eq.u32 %p1, %r5, 0;", before=loop))
    assert isinstance(found.verdict, Proven), found.verdict
