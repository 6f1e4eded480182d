"""Calls, which are expanded: parameters in both spaces, divergent lanes, calls through registers, what has no body."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.small_kernels import HEADER, as_bytes, launch

from tilewright.base.error import TilewrightError
from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core import inline
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.run import run_launch

SQUARE = """
.func (.param .b32 result) square(.param .b32 value)
{
.reg .b32 %r<4>;
ld.param.b32 %r1, [value];
mul.lo.u32 %r2, %r1, %r1;
st.param.b32 [result], %r2;
ret;
}
"""
CALL_SQUARE = """
{ .param .b32 a; .param .b32 b;
st.param.b32 [a], %r1;
call.uni (b), square, (a);
ld.param.b32 %r1, [b]; }
"""
ADD_REGISTERS = """
.func (.reg .u32 sum) add_three(.reg .u32 x, .reg .u32 y)
{
add.u32 sum, x, y;
add.u32 sum, sum, 3;
ret;
}
"""


def run(functions: str, body: str, threads: int = 32) -> NDArray[np.uint32]:
    """What each thread leaves in %r1."""
    text = (
        f"{HEADER}{functions}\n.visible .entry k(.param .u64 out) {{\n"
        ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;\n"
        f"mov.u32 %r1, %tid.x;\n{body}\nld.param.u64 %rd1, [out];\nmov.u32 %r31, %tid.x;\n"
        "mad.wide.u32 %rd1, %r31, 4, %rd1;\nst.global.u32 [%rd1], %r1;\nret;\n}\n"
    )
    out = np.zeros(threads, np.uint32)
    run_launch(read(text, "kernel.ptx"), launch(PointerParam("out"), threads=threads), {"out": as_bytes(out)})
    return out


LANES = np.arange(32, dtype=np.uint32)


def test_parameters_in_parameter_space() -> None:
    assert np.array_equal(run(SQUARE, CALL_SQUARE), LANES**2)


def test_a_function_called_twice_has_two_copies() -> None:
    assert np.array_equal(run(SQUARE, CALL_SQUARE + CALL_SQUARE), LANES**4)


def test_parameters_in_registers() -> None:
    assert np.array_equal(run(ADD_REGISTERS, "call.uni (%r1), add_three, (%r1, 10);"), LANES + 13)


def test_some_lanes_call() -> None:
    body = f"setp.lt.u32 %p1, %r1, 7;\n@!%p1 bra SKIP;\n{CALL_SQUARE}\nSKIP:"
    assert np.array_equal(run(SQUARE, body), np.where(LANES < 7, LANES**2, LANES))


def test_a_guarded_call() -> None:
    body = "setp.lt.u32 %p1, %r1, 7;\n@%p1 call (%r1), add_three, (%r1, 10);"
    assert np.array_equal(run(ADD_REGISTERS, body), np.where(LANES < 7, LANES + 13, LANES))


def test_lanes_return_at_different_places() -> None:
    early = """
.func (.reg .u32 y) clamp(.reg .u32 x)
{
.reg .pred %p<2>;
mov.u32 y, x;
setp.lt.u32 %p1, x, 5;
@%p1 ret;
mov.u32 y, 5;
ret;
}
"""
    body = "call (%r1), clamp, (%r1);\nbar.sync 0;\nadd.u32 %r1, %r1, 1;"
    assert np.array_equal(run(early, body), np.minimum(LANES, 5) + 1)


def test_functions_call_functions() -> None:
    outer = f"""
.func (.param .b32 result) twice(.param .b32 value)
{{
.reg .b32 %r<4>;
ld.param.b32 %r1, [value];
{CALL_SQUARE}
add.u32 %r1, %r1, %r1;
st.param.b32 [result], %r1;
ret;
}}
"""
    assert np.array_equal(run(SQUARE + outer, CALL_SQUARE.replace("square", "twice")), 2 * LANES**2)


def test_a_structure_and_its_address() -> None:
    sum_pair = """
.func (.param .b32 result) sum_pair(.param .align 8 .b8 pair[8])
{
.reg .b32 %r<4>; .reg .b64 %rd<4>;
mov.b64 %rd1, pair;
cvta.param.u64 %rd1, %rd1;
ld.b32 %r1, [%rd1];
ld.param.b32 %r2, [pair+4];
add.u32 %r1, %r1, %r2;
st.param.b32 [result], %r1;
ret;
}
"""
    body = """
{ .param .align 8 .b8 a[8]; .param .b32 b;
mov.u32 %r2, 100;
st.param.v2.b32 [a], {%r1, %r2};
call.uni (b), sum_pair, (a);
ld.param.b32 %r1, [b]; }
"""
    assert np.array_equal(run(sum_pair, body), LANES + 100)


def test_a_call_through_a_register_differs_between_lanes() -> None:
    other = ADD_REGISTERS.replace("add_three", "add_nine").replace("sum, 3", "sum, 9")
    body = """
setp.lt.u32 %p1, %r1, 4;
mov.u64 %rd2, add_three;
mov.u64 %rd3, add_nine;
selp.b64 %rd4, %rd2, %rd3, %p1;
proto: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _);
call (%r1), %rd4, (%r1, 0), proto;
"""
    assert np.array_equal(run(ADD_REGISTERS + other, body), LANES + np.where(LANES < 4, 3, 9))


def test_a_table_of_functions_in_constant_memory() -> None:
    table = ".const .align 8 .u64 table[1] = {add_three};\n"
    body = """
mov.u64 %rd2, table;
ld.const.u64 %rd4, [%rd2];
proto: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _);
call (%r1), %rd4, (%r1, 1), proto;
"""
    assert np.array_equal(run(ADD_REGISTERS + table, body), LANES + 4)


def test_a_function_without_a_body_fails_where_it_is_called() -> None:
    declared = ".extern .func (.reg .u32 y) nowhere (.reg .u32 x);\n"
    assert np.array_equal(run(declared, "bra OVER;\ncall (%r1), nowhere, (%r1);\nOVER:"), LANES)
    with pytest.raises(TilewrightError, match="nowhere, which has no body") as caught:
        run(declared, "call (%r1), nowhere, (%r1);")
    assert caught.value.span is not None and "call" in caught.value.span.text


def test_printing_returns_zero() -> None:
    declared = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    body = "{ .param .b64 a; .param .b64 b; .param .b32 r;\ncall.uni (r), vprintf, (a, b);\nld.param.b32 %r1, [r]; }"
    assert not run(declared, body).any()


def test_a_failed_assertion_is_a_trap() -> None:
    declared = ".extern .func __assertfail (.param .b64 a) .noreturn;\n"
    with pytest.raises(MachineFault, match="an assertion failed") as caught:
        run(declared, "{ .param .b64 a;\ncall.uni __assertfail, (a); }")
    assert caught.value.code == "MF008"


def test_recursion_is_refused() -> None:
    recursive = ".func (.reg .u32 y) down(.reg .u32 x)\n{\ncall (y), down, (x);\nret;\n}\n"
    with pytest.raises(TilewrightError, match="recursively"):
        run(recursive, "call (%r1), down, (%r1);")


def test_a_chain_that_doubles_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "MOST_ITEMS", 10_000)
    chain = ADD_REGISTERS.replace("add_three", "f0")
    for level in range(1, 30):
        calls = f"call (y), f{level - 1}, (x, 1);\n" * 2
        chain += f".func (.reg .u32 y) f{level}(.reg .u32 x, .reg .u32 z)\n{{\n{calls}ret;\n}}\n"
    with pytest.raises(TilewrightError, match="expand to more than"):
        run(chain, "call (%r1), f29, (%r1, 1);")


def test_an_indexed_branch_splits_the_warp() -> None:
    body = """
rem.u32 %r2, %r1, 3;
targets: .branchtargets A, B, C;
brx.idx %r2, targets;
A: add.u32 %r1, %r1, 100; bra DONE;
B: add.u32 %r1, %r1, 200; bra DONE;
C: add.u32 %r1, %r1, 300;
DONE: bar.sync 0;
"""
    assert np.array_equal(run("", body), LANES + 100 * (LANES % 3 + 1))


def test_an_index_past_the_table_is_a_fault() -> None:
    with pytest.raises(MachineFault, match="the table has 1 labels"):
        run("", "targets: .branchtargets A;\nbrx.idx %r1, targets;\nA:")


def test_the_expanded_kernel_keeps_its_source_lines() -> None:
    located = SQUARE.replace("mul.lo", ".loc 1 77 3\nmul.lo")
    text = (
        f'{HEADER}.file 1 "f.cu"\n{located}.visible .entry k() {{\n.reg .b32 %r<8>;\n.loc 1 5 1\n{CALL_SQUARE}\n'
        "add.u32 %r1, %r1, 1;\nret;\n}\n"
    )
    module = read(text, "kernel.ptx")
    kernel = inlined(module, module.kernels[0])
    lines: dict[str, int] = {}
    for index, item in enumerate(kernel.body):
        if isinstance(item, Instruction):
            before = [location for location in kernel.locations if location.index <= index]
            lines[item.row] = before[-1].line if before else 0
    assert lines["mul"] == 77 and lines["add"] == 5
