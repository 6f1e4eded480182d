"""Inlined code answers with its calls, and functions with the names of their source."""

from __future__ import annotations

import pytest

from tilewright.base.diagnostic import SourcePlace
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.mangled import function_name
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.ptx.source import source_map

# As nvcc -lineinfo writes `stage`, which calls `load`, at two calls of the kernel.
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<9>;
.loc 1 30 5
mov.u32 %r1, 1;
.loc 1 17 3, function_name $L__info_string0, inlined_at 1 30 5
.loc 2 12 3, function_name $L__info_string0+10, inlined_at 1 17 3
mov.u32 %r2, 2;
.loc 2 14 3, function_name $L__info_string0+10, inlined_at 1 17 3
mov.u32 %r3, 3;
.loc 1 40 7
.loc 2 12 3, function_name $L__info_string0+10, inlined_at 1 40 7
mov.u32 %r4, 4;
.loc 2 12 3, function_name $L__info_string7, inlined_at 1 55 7
mov.u32 %r5, 5;
.loc 1 0 0
ret;
}
.file 1 "kernel.cu"
.file 2 "load.cuh"
.section .debug_str
{
$L__info_string0:
.b8 95,90,53,115,116,97,103,101,118,0
.b8 95,90,78,50,110,115,52,108,111,97,100,69,118,0x0
}
"""


def _stacks(text: str) -> list[list[tuple[SourcePlace, int]]]:
    module = read(text)
    (entry,) = module.kernels
    lines = source_map(module, entry)
    items = [item for item in entry.body if isinstance(item, Instruction)]
    return [[(each.place, each.lines) for each in lines.stack(item.span)] for item in items]


def test_a_stack_leads_from_the_inlined_line_to_the_kernel() -> None:
    plain, first, second, direct, unknown, none = _stacks(TEXT)
    kernel = (SourcePlace(Span("kernel.cu", 30, 5), "k"), 2)
    stage = (SourcePlace(Span("kernel.cu", 17, 3), "stage"), 1)
    assert plain == [kernel] and none == []
    assert first == [(SourcePlace(Span("load.cuh", 12, 3), "ns::load"), 2), stage, kernel]
    assert second == [(SourcePlace(Span("load.cuh", 14, 3), "ns::load"), 2), stage, kernel]
    assert direct == [
        (SourcePlace(Span("load.cuh", 12, 3), "ns::load"), 1),
        (SourcePlace(Span("kernel.cu", 40, 7), "k"), 2),
    ]
    # The text says where it was inlined, and nothing more of that line.
    assert unknown == [(SourcePlace(Span("load.cuh", 12, 3)), 1), (SourcePlace(Span("kernel.cu", 55, 7)), 0)]


def test_a_call_that_stands_at_two_places_is_not_certain() -> None:
    twice = TEXT.replace(
        ".loc 1 40 7\n", ".loc 1 40 7\n.loc 1 17 3, function_name $L__info_string0, inlined_at 1 40 7\n"
    ).replace("inlined_at 1 40 7\nmov", "inlined_at 1 17 3\nmov")
    _, first, _, direct, *_ = _stacks(twice)
    assert [(each.span.line, each.certain) for each, _ in first] == [(12, True), (17, True), (30, False)]
    # The last one before is the likeliest.
    assert [(each.span.line, each.certain) for each, _ in direct] == [(12, True), (17, True), (40, False)]


def test_a_compiler_that_calls_everything_by_the_kernels_name_says_nothing() -> None:
    stack = _stacks(TEXT.replace(".b8 95,90,53,115,116,97,103,101,118,0", ".b8 107,0,0,0,0,0,0,0,0,0"))[1]
    assert [each.function for each, _ in stack] == ["ns::load", "", "k"]


def test_a_text_that_runs_in_circles_ends() -> None:
    text = TEXT.replace("ret;", ".loc 1 9 9, function_name $L__info_string0, inlined_at 1 9 9\nret;")
    assert len(_stacks(text)[-1]) == 64


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z1kPfPKfi", "k"),
        ("_ZN2ns4loadEPfPKfPm", "ns::load"),
        ("_ZN4PipeILi3EE4waitEPmi", "Pipe::wait"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiEEEEEEEvNT_6ParamsE",
         "cutlass::device_kernel"),
        ("_ZNK2ns1AILb1ELNS_5MajorE0EEclEv", "ns::A::operator()"),
        ("_ZN2ns1AC1Ev", "ns::A::A"),
        ("_ZN12_GLOBAL__N_15startEv", "(anonymous namespace)::start"),
        ("_ZN38_INTERNAL_b270a7b2_8_use_7_cu_5c650d562M712init_barrierEPmii", "M7::init_barrier"),
        ("_ZNSt6vectorIiE4sizeEv", "std::vector::size"),
        ("matmul_kernel", "matmul_kernel"),
        ("_ZZ1kvENKUlvE_clEv", "_ZZ1kvENKUlvE_clEv"),
        ("_Z99short", "_Z99short"),
        ("_ZN2ns", "_ZN2ns"),
        ("_Z", "_Z"),
    ],
)  # fmt: skip
def test_function_names(mangled: str, name: str) -> None:
    assert function_name(mangled) == name
