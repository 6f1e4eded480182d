"""Accesses to the memory of several devices: reads of unknown values and writes, in a protocol run alone."""

from __future__ import annotations

import pytest
from tests.driver.hanging_kernels import hanging, judged

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.several_devices import as_own_access

TEXT = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {{ .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>; {} }}
"""


def _opcode(text: str) -> str:
    (kernel,) = read(TEXT.format(text), "k.ptx").kernels
    (item,) = (each for each in kernel.body if isinstance(each, Instruction))
    return as_own_access(item).opcode


@pytest.mark.parametrize(
    ("text", "opcode"),
    [
        ("multimem.ld_reduce.weak.global.add.v2.f32 {%f1, %f2}, [%d1];", "ld.weak.global.v2.b32"),
        ("multimem.ld_reduce.acquire.sys.global.add.u64 %d2, [%d1];", "ld.relaxed.sys.global.b64"),
        ("multimem.ld_reduce.global.add.acc::f32.v4.bf16x2 {%r1, %r2, %r3, %r4}, [%d1];", "ld.weak.global.v4.b32"),
        ("multimem.st.release.gpu.global.b32 [%d1], %r1;", "st.relaxed.gpu.global.b32"),
        ("multimem.st.weak.global.v2.f16 [%d1], {%h1, %h2};", "st.weak.global.v2.b16"),
        ("multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;", "st.relaxed.sys.global.b32"),
        ("ld.global.u32 %r1, [%d1];", "ld.global.u32"),
    ],
)
def test_what_stands_for_an_access(text: str, opcode: str) -> None:
    assert _opcode(text) == opcode


SUM = "multimem.ld_reduce.relaxed.sys.global.add.u32 %r4, [%d1];"


def test_accesses_of_several_devices_leave_a_proof() -> None:
    text = f"{SUM} add.u32 %r4, %r4, 1; multimem.st.relaxed.sys.global.u32 [%d1], %r4; setp.lt.u32 %p1, %r1, 0;"
    found = judged(hanging(text))
    assert isinstance(found.verdict, Proven), found.verdict


def test_what_depends_on_a_sum_is_unknown() -> None:
    found = judged(hanging(f"{SUM} setp.eq.u32 %p1, %r4, 9;"))
    assert isinstance(found.verdict, Unknown)
    assert any("multimem.ld_reduce" in each for each in found.verdict.reasons), found.verdict.reasons


def test_what_the_kernel_loads_is_unknown_where_it_writes_to_several_devices() -> None:
    loaded = "ld.global.u32 %r4, [%d1+64]; setp.eq.u32 %p1, %r4, 9;"
    assert isinstance(judged(hanging(loaded)).verdict, Refuted)
    written = judged(hanging(f"multimem.st.relaxed.sys.global.u32 [%d1], %r1; {loaded}"))
    assert isinstance(written.verdict, Unknown), written.verdict
