"""Instructions that are decoded as the first of their form: they compute what their handlers make of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import HEADER, launch, module

from tilewright.base.error import TilewrightError
from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.computed_form import ComputedForms
from tilewright.machine.core.program import Program, decode
from tilewright.machine.core.run import prepare, run_launch
from tilewright.machine.core.step import Step

START = """ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 64, %rd1; cvt.u16.u32 %h1, %r1;
cvt.rn.f32.u32 %f1, %r1; setp.gt.u32 %p1, %r1, 7; cvt.u64.u32 %rd2, %r1; mov.b32 %r2, %f1; """
END = " st.global.u32 [%rd1], %r10; st.global.u32 [%rd1+4], %r11; ret;"
TWICE = (
    "add.u32 %r10, %r1, {}; add.u32 %r11, %r10, {};",
    "sub.s32 %r10, %r1, %r2; sub.s32 %r11, %r2, %r1;",
    "mul.wide.u16 %r10, %h1, {}; mul.wide.u16 %r11, %h1, {};",
    "min.s32 %r10, %r1, {}; min.s32 %r11, %r2, {};",
    "shl.b32 %r10, %r1, {}; shl.b32 %r11, %r1, {};",
    "shr.s32 %r10, %r2, {}; shr.s32 %r11, %r2, 40;",
    "lop3.b32 %r10, %r1, %r2, %r1, 0x96; lop3.b32 %r11, %r1, %r2, %r1, 0xe8;",
    "selp.b32 %r10, %r1, {}, %p1; selp.b32 %r11, {}, %r2, %p1;",
    "setp.lt.and.u32 %p2, %r1, {}, %p1; setp.lt.and.u32 %p3, %r1, {}, %p2; selp.u32 %r10, 1, 0, %p2;"
    "selp.u32 %r11, 1, 0, %p3;",
    "setp.lt.or.u32 %p2, %r1, {}, !%p1; setp.lt.or.u32 %p3, %r1, {}, %p1; selp.u32 %r10, 1, 0, %p2;"
    "selp.u32 %r11, 1, 0, %p3;",
    "add.f32 %f2, %f1, %f1; add.f32 %f3, %f2, 0f3F800000; mov.b32 %r10, %f2; mov.b32 %r11, %f3;",
    "cvt.u32.u64 %r10, %rd2; cvt.u32.u64 %r11, %rd1; sub.u32 %r11, %r11, %r11;",
    "cvt.u32.u16 %r10, %h1; cvt.u16.u32 %h2, %r2; cvt.u32.u16 %r11, %h2;",
    "mov.u32 %r10, {}; mov.u32 %r11, %laneid;",
    "add.u32 %r10, %r1, %r1; add.u32 %r11, %r1, %ctaid.x; add.u32 _, %r1, %r2; @%p1 add.u32 %r11, %r10, %r10;",
    "and.pred %p2, %p1, %p1; and.pred %p3, %p2, %p2; selp.u32 %r10, 1, 0, %p2; selp.u32 %r11, 1, 0, %p3;",
)


def program_of(body: str) -> Program:
    prepared = prepare(module(body, parameters=".param .u64 out"), launch(PointerParam("out")), {"out": zeros()})
    return decode(prepared.decoder)


def zeros() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.zeros(2048, np.uint8)


def result(body: str) -> bytes:
    out = zeros()
    run_launch(module(body, parameters=".param .u64 out"), launch(PointerParam("out")), {"out": out})
    return out.tobytes()


def by_handlers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_forms: ComputedForms, _instruction: Instruction) -> None:
        return None

    monkeypatch.setattr(ComputedForms, "step", none)


@pytest.mark.parametrize("twice", TWICE)
def test_steps_are_those_that_handlers_make(twice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = START + twice.format(3, 5) + END
    found, program = result(body), program_of(body)
    by_handlers_alone(monkeypatch)
    expected = program_of(body)
    assert found == result(body)
    for step, other in zip(program.steps, expected.steps, strict=True):
        assert named(program, step.reads) == named(expected, other.reads)
        assert named(program, step.writes) == named(expected, other.writes)
        assert (step.guard, step.negated, step.span, type(step.body)) == (
            other.guard, other.negated, other.span, type(other.body),
        )  # fmt: skip


def named(program: Program, slots: frozenset[int]) -> set[str]:
    return {program.names[slot] for slot in slots}


def test_a_form_is_decoded_without_its_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    alike: list[bool] = []
    step = ComputedForms.step

    def noting(forms: ComputedForms, instruction: Instruction) -> Step | None:
        found = step(forms, instruction)
        alike.append(found is not None)
        return found

    monkeypatch.setattr(ComputedForms, "step", noting)
    program_of("add.u32 %r1, %r2, %r3; add.u32 %r4, %r1, %r1; add.u32 %r4, %r1, 9; add.u32 %r4, %r1, 8; "
               "add.u32 %r4, %r2, 9; @%p1 add.u32 %r4, %r1, %r1; ret;")  # fmt: skip
    # An integer that nobody has used has no slot yet.
    assert alike == [False, True, False, False, True, False, False]


@pytest.mark.parametrize("second", ["add.u32 %rd1, %r1, %r2;", "add.u32 %r1, %h1, %r2;", "add.u32 %r1, %r2, %p1;"])
def test_registers_of_other_widths_are_refused_as_ever(second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"add.u32 %r1, %r2, %r3; {second} ret;"
    with pytest.raises(TilewrightError) as found:
        program_of(body)
    by_handlers_alone(monkeypatch)
    with pytest.raises(TilewrightError) as expected:
        program_of(body)
    assert str(found.value) == str(expected.value)


def test_a_register_called_underscore_is_no_source() -> None:
    body = ".reg .b32 _, %r1, %r2; add.u32 %r1, %r2, %r2; add.u32 _, %r1, %r1; ret;"
    text = read(f"{HEADER}.visible .entry k() {{ {body} }}", "k.ptx")
    program = decode(prepare(text, launch(), {}).decoder)
    assert program.steps[0].writes and not program.steps[1].writes
