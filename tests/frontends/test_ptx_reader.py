"""The reader: what it makes of real shapes of PTX, and how it refuses everything else."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    FloatImmediate,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Module,
    Negated,
    PairOfPredicates,
    Register,
    Symbol,
    SymbolOffset,
    TensorAddress,
    Vector,
)
from tilewright.frontends.ptx.reader import read

SAMPLES = Path(__file__).parents[1] / "data" / "ptx"
GEMM = (SAMPLES / "gemm_warp_specialized.ptx").read_text()
SOFTMAX = (SAMPLES / "softmax_inline_assembly.ptx").read_text()

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
DECLARATIONS = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>;\n"


def module(body: str, before: str = "") -> str:
    """A module whose kernel's body starts on line 6."""
    return f"{HEAD}{before}.visible .entry kernel(.param .u64 argument) {{\n{DECLARATIONS}{body}\n}}\n"


def body_of(text: str) -> tuple[Instruction | Label, ...]:
    return read(module(text)).kernels[0].body


def only(text: str) -> Instruction:
    (item,) = body_of(text)
    assert isinstance(item, Instruction)
    return item


def rows(kernel: Kernel) -> list[str]:
    return [item.row for item in kernel.body if isinstance(item, Instruction)]


# ---------------------------------------------------------------- what is read


def test_gemm() -> None:
    found = read(GEMM, "gemm.ptx")
    assert (found.version, found.target, found.address_size) == ((8, 3), ("sm_90a",), 64)
    smem, ticket, scales = found.variables
    assert (smem.space, smem.size_bytes, smem.align, smem.linkage) == ("shared", None, 1024, "extern")
    assert (ticket.size_bytes, ticket.initial) == (4, b"\7\0\0\0")
    assert scales.initial == struct.pack("<2f", 1.0, 0.5)
    (kernel,) = found.kernels
    assert [(item.name, item.size_bytes, item.align) for item in kernel.parameters] == [
        ("gemm_param_0", 128, 64),
        ("gemm_param_1", 128, 64),
        ("gemm_param_2", 8, 8),
        ("gemm_param_3", 4, 4),
    ]
    assert kernel.directives == {
        "maxntid": (256, 1, 1),
        "minnctapersm": (1,),
        "explicitcluster": (),
        "reqnctapercluster": (2, 1, 1),
    }
    assert [(item.name, item.size_bytes) for item in kernel.variables] == [("full", 16), ("empty", 16)]
    assert rows(kernel).count("cp.async.bulk.tensor") == 2
    (product,) = [item for item in kernel.body if isinstance(item, Instruction) and item.row == "wgmma.mma_async"]
    assert product.modifiers == ("sync", "aligned", "m64n64k16", "f32", "bf16", "bf16")
    assert isinstance(product.operands[0], Vector) and len(product.operands[0].items) == 32
    multicast = next(item for item in kernel.body if isinstance(item, Instruction) and "multicast" in item.opcode)
    assert isinstance(multicast.operands[1], TensorAddress)
    assert multicast.span.line == GEMM[: GEMM.index(".multicast")].count("\n") + 1
    assert multicast.span.text == GEMM.split("\n")[multicast.span.line - 1]


def test_softmax() -> None:
    found = read(SOFTMAX)
    assert found.target == ("sm_90a",)  # `debug` goes with the debug sections
    assert found.files == {1: "/kernels/softmax.py"}
    assert [(item.name, item.body is None) for item in found.functions] == [("__assertfail", True), ("round_up", False)]
    assert found.variables[1].initial == b"hello\0"
    (kernel,) = found.kernels
    assert [table.labels for table in kernel.branch_tables] == [("$L__BB0_2", "$L__BB0_3")]
    assert kernel.locations[0].line == 10 and kernel.locations[-1].line == 20
    last = kernel.body[kernel.locations[-1].index]
    assert isinstance(last, Instruction) and last.row == "ret"
    calls = [item for item in kernel.body if isinstance(item, Instruction) and item.row == "call"]
    assert calls[0].operands == (
        Arguments((Symbol("retval0"),)),
        Symbol("round_up"),
        Arguments((Symbol("param0"),)),
    )
    assert calls[1].operands == (Symbol("__assertfail"), Arguments((Symbol("param0$1"), Symbol("param1"))))
    orders = {item.opcode: item.modifiers for item in kernel.body if isinstance(item, Instruction)}
    assert orders["atom.global.gpu.acq_rel.add.f32"] == ("acq_rel", "gpu", "global", "add", "f32")


def test_nested_scopes_become_flat() -> None:
    wait = "{ .reg .pred P; WAIT: mbarrier.try_wait.parity.shared.b64 P, [%r1], %r2; @P bra DONE; bra WAIT; DONE: }"
    items = body_of(f"@%p1 bra DONE;\n{wait}\n{wait}\nDONE: ret;")
    labels = [item.name for item in items if isinstance(item, Label)]
    assert labels == ["WAIT", "DONE", "WAIT$1", "DONE$1", "DONE$2"]
    goals = [item.operands[0] for item in items if isinstance(item, Instruction) and item.row == "bra"]
    assert goals == [Symbol(name) for name in ("DONE$2", "DONE", "WAIT", "DONE$1", "WAIT$1")]
    guards = [item.guard.register.name for item in items if isinstance(item, Instruction) and item.guard is not None]
    assert guards == ["%p1", "P", "P$1"]


def test_an_inner_declaration_hides_an_outer_one_only_inside() -> None:
    items = body_of("mov.u32 %r1, 0; { .reg .b32 %r1; mov.u32 %r1, 1; } mov.u32 %r1, 2;")
    assert [item.operands[0] for item in items if isinstance(item, Instruction)] == [
        Register("%r1"),
        Register("%r1$1"),
        Register("%r1"),
    ]


def test_operands() -> None:
    assert only("mov.u32 %r1, %tid.x;").operands[1] == Register("%tid.x")
    assert only("ld.param.u64 %rd1, [argument];").operands[1] == Address(Symbol("argument"))
    assert only("ld.global.b32 %r1, [%rd1+-16];").operands[1] == Address(Register("%rd1"), -16)
    assert only("ld.global.b32 %r1, [%rd1 - 16];").operands[1] == Address(Register("%rd1"), -16)
    assert only("ld.shared.b32 %r1, [64];").operands[1] == Address(None, 64)
    assert only("elect.sync _|%p1, -1;").operands == (
        PairOfPredicates(Register("_"), Register("%p1")),
        Immediate(-1),
    )
    assert only("setp.eq.or.s32 %p1|%p2, %r1, 3, !%p3;").operands[-1] == Negated(Register("%p3"))
    assert only("mov.b64 {%r1, _}, %rd1;").operands[0] == Vector((Register("%r1"), Register("_")))
    (address,) = read(module("mov.u32 %r1, words+4;", ".shared .b32 words[4];\n")).kernels[0].body
    assert isinstance(address, Instruction) and address.operands[1] == SymbolOffset(Symbol("words"), 4)
    assert only("add .s32 %r1, %r2, 1;").opcode == "add.s32"
    negated = only("@!%p1 exit;")
    assert negated.guard is not None and negated.guard.negated


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10", 16),
        ("0X1fU", 31),
        ("017", 15),
        ("0b101", 5),
        ("-7", -7),
        ("4294967295U", 4294967295),
        ("(1 << 4) | 3", 19),
        ("7 / -2", -3),
        ("-7 % 4", -3),
        ("~0", -1),
        ("1 ? 5 : 6", 5),
        ("2 + 3 * 4 - 1", 13),
        ("!3 || 4 > 3", 1),
        ("WARP_SZ", 32),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_integer_constants(text: str, value: int) -> None:
    assert only(f"mov.u64 %rd1, {text};").operands[1] == Immediate(value)


@pytest.mark.parametrize(
    ("text", "bits", "width"),
    [
        ("0f3F800000", 0x3F800000, 32),
        ("0F80000000", 0x80000000, 32),
        ("0d3FF0000000000000", 0x3FF0000000000000, 64),
        ("1.0", 0x3FF0000000000000, 64),
        ("-0.5", 0xBFE0000000000000, 64),
        ("2e1", struct.unpack("<Q", struct.pack("<d", 20.0))[0], 64),
    ],
)
def test_float_constants(text: str, bits: int, width: int) -> None:
    assert only(f"mov.f32 %f1, {text};").operands[1] == FloatImmediate(bits, width)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "message", "remedy"),
    [
        ("mbarier.init.shared.b64 [%r1], 1;", "mbarier.init.shared.b64 is not an instruction", "mbarrier.init?"),
        ("frobnicate %r1 %r2;", "frobnicate is not an instruction", "add a row"),
        ("ld.shard.b32 %r1, [%r2];", "modifier .shard of ld.shard.b32", "did you mean .shared?"),
        ("add.s32 %r1, %r2;", "add.s32 has 2 operands", "it takes destination, source, source"),
        ("add.s32 %r1, %r2 %r3;", "expected `,` or `;` after an operand of add.s32, found %r3", ""),
        ("add.s32 %r1, %r2, %r99;", "register %r99 is not declared", "declare it with .reg"),
        ("mov.u32 %r1, %tid.q;", "register %tid.q is not declared", "did you mean %tid"),
        ("bra MISSING;", "MISSING is not declared", "declare it"),
        ("DONE: bra DONEE;", "DONEE is not declared", "did you mean DONE?"),
        ("ld.param.u64 %rd1, [argumen];", "argumen is not declared", "did you mean argument?"),
        ("A: A: ret;", "A is declared twice in one scope", "rename"),
        (".reg .b32 %r1;", "%r1 is declared twice in one scope", "rename"),
        ("bra argument;", "the target of bra is not a label", "branch within"),
        ("A: mov.u64 %rd1, A;", "mov.u64 takes no label", "only branches"),
        ("A: mov.b64 %rd1, {%r1, A};", "mov.b64 takes no label", "only branches"),
        ("A: ld.shared.b32 %r1, [A+4];", "ld.shared.b32 takes no label", "only branches"),
        ("mov.b64 %rd1, {%r1, };", "expected an operand, found }", ""),
        (".reg .bf16 x;", ".bf16 is not a type", "Fundamental Types"),
        (".frob 3;", ".frob is not a directive", "PTX ISA, Directives"),
        (".reg .b33 x;", ".b33 is not a type", "Fundamental Types"),
        (".reg .b32 x<99999999>;", "99999999 registers in one range", "declare 1 to"),
        ("@%r9 exit;", "register %r9 is not declared", ".reg"),
        ("@argument exit;", "argument is not a register", ".reg"),
        ("mov.u32 %r1, 1 / 0;", "a constant is divided by zero", "write its value"),
        ("mov.u64 %rd1, 18446744073709551616;", "does not fit 64 bits", "64 bits"),
        ("mov.u32 %r1, 1 << 64;", "a constant is shifted by 64", "0 to 63"),
        ("mov.u32 %r1, 089;", "089 is not a number", "Constants"),
        ("mov.u32 %r1, #;", "'#' has no meaning in PTX", "remove it"),
        ("mov.u32 %r1, " + "(" * 100 + "1;", "nested too deeply", "write its value"),
        (".shared .b8 bytes[];", "array bytes has no size", "give it one"),
        (".shared .align 3 .b8 bytes[4];", ".align 3 is not a power of two", "1, 2, 4"),
        (".shared .b8 bytes[2] = {1, 2};", "cannot have an initial value", "store it"),
        ("add.rn.f32x2 %rd1, %rd2, %rd3;", "does not exist for sm_90a", "sm_100"),
        ("mov.u32 v.x, 1;", "v.x is not a name", "vector register"),
        ("table: .branchtargets A;", "A is not declared", "declare it"),
        ("brx.idx %r1, argument;", "not a table made by .branchtargets", "branch within"),
        ("/* open", "a comment is not closed", "cut"),
        ('.pragma "open', "a string is not closed", "same line"),
    ],
)
def test_refused_in_a_body(body: str, message: str, remedy: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        read(module(body), "kernel.ptx")
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("kernel.ptx", 6)
    assert caught.value.span.text == body


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected `.version`"),
        (".target sm_90a", "expected `.version`"),
        (".version 8\n.target sm_90a", "expected a version"),
        (".version 8.0", "expected `.target`"),
        (".version 8.0\n.target compute_90", "compute_90 is not an architecture"),
        (HEAD.replace("64", "48"), "an address of 48 bits"),
        (HEAD + "ret;", "expected a directive"),
        (HEAD + ".visible .frob x;", ".visible cannot stand before .frob"),
        (HEAD + ".alias f, g;", "f is not a function"),
        (HEAD + ".entry k() .frobs 3 { ret; }", ".frobs is not a directive"),
        (HEAD + ".entry k();", "kernel k has no body"),
        (HEAD + ".entry k() { ret; } .entry k() { ret; }", "k is declared twice"),
        (HEAD + ".entry k(.param .u32 a, .param .u32 a) { ret; }", "parameter a is declared twice"),
        (HEAD + ".entry k(.param .u32 a .param .u32 b) { ret; }", "expected `,` or `)`"),
        (HEAD + ".entry k(.reg .u32 a) { ret; }", "expected `.param`"),
        (HEAD + ".global .u32 a; .global .u32 a;", "a is declared twice"),
        (HEAD + ".global .u8 a = 256;", "256 does not fit .u8"),
        (HEAD + ".global .u8 a[1] = {1, 2};", "1 bytes and an initial value of 2"),
        (HEAD + ".global .u64 a = other;", "other is not declared"),
        (HEAD + ".global .f32 a = 1;", "this constant is not of type .f32"),
        (HEAD + ".global .attribute(managed) .u32 a;", "expected an attribute such as .managed"),
    ],
)
def test_refused_in_a_module(text: str, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        read(text)
    assert message in caught.value.message


def test_an_older_version_lacks_younger_instructions() -> None:
    with pytest.raises(TilewrightError, match=r"needs PTX 8\.0; the module says 7\.8"):
        read(".version 7.8\n.target sm_90\n.entry k() { fence.proxy.async; }")


@pytest.mark.parametrize("text", [GEMM, SOFTMAX], ids=["gemm", "softmax"])
def test_a_cut_file_is_refused_or_whole(text: str) -> None:
    """Cut at every line: inside a kernel it must be refused, between declarations it is a shorter module."""
    lines = text.split("\n")
    whole = read(text)
    opening = next(number for number, line in enumerate(lines) if ".entry" in line)
    closing = next(number for number, line in enumerate(lines) if line == "}" and number > opening)
    for count in range(len(lines)):
        cut = "\n".join(lines[:count])
        if opening < count <= closing:
            with pytest.raises(TilewrightError) as caught:
                read(cut)
            assert caught.value.span is not None and caught.value.span.line <= max(count, 1)
        elif (found := _read_or_refuse(cut)) is not None:
            assert len(found.kernels) == (count > closing)
            assert len(found.kernels[0].body if found.kernels else ()) in (0, len(whole.kernels[0].body))


def _read_or_refuse(text: str) -> Module | None:
    try:
        return read(text)
    except TilewrightError:
        return None


def test_a_file_cut_at_any_character_never_breaks_the_reader() -> None:
    for count in range(0, len(SOFTMAX), 17):
        _read_or_refuse(SOFTMAX[:count])


def test_ten_thousand_lines_take_a_second() -> None:
    block = "add.s32 %r1, %r2, 3;\nld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5+16];\n@%p1 st.global.b32 [%rd1], %r2;\n"
    text = module(block * 3400)
    start = time.process_time()
    assert len(read(text).kernels[0].body) == 10200
    assert time.process_time() - start < 1.0
