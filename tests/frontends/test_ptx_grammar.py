"""The whole grammar: directives, declarations and operands that compilers seldom write; tolerance; source lines."""

from __future__ import annotations

import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.frontends.ptx_writer import write

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Module,
    Pointee,
    Register,
    RegisterPart,
    Relocation,
    ResidentVector,
    Symbol,
    TensorAddress,
    Vector,
)
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.ptx.source import source_map

HEAD = ".version 8.8\n.target sm_100a, texmode_independent\n.address_size 64\n"
REGISTERS = ".reg .pred %p<5>; .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .b128 %q<3>;"


def kernel(body: str, before: str = "", head: str = ".visible .entry kernel()", *, tolerant: bool = False) -> Kernel:
    (found,) = read(f"{HEAD}{before}\n{head} {{ {REGISTERS}\n{body}\nret; }}", tolerant=tolerant).kernels
    return found


def only(body: str, before: str = "") -> Instruction:
    item, _ = kernel(body, before).body
    assert isinstance(item, Instruction)
    return item


def instructions(found: Kernel) -> list[Instruction]:
    return [item for item in found.body if isinstance(item, Instruction)]


# ---------------------------------------------------------------- directives


def test_directives_of_a_kernel() -> None:
    head = """.visible .entry kernel()
.maxntid 256 .reqntid 128, 1, 1 .minnctapersm 2 .maxnreg 64 .explicitcluster .reqnctapercluster 2
.maxclusterrank 8 .blocksareclusters .pragma "nounroll";
"""
    assert kernel("", head=head).directives == {
        "maxntid": (256,),
        "reqntid": (128, 1, 1),
        "minnctapersm": (2,),
        "maxnreg": (64,),
        "explicitcluster": (),
        "reqnctapercluster": (2,),
        "maxclusterrank": (8,),
        "blocksareclusters": (),
    }


def test_functions_aliases_and_calls_through_pointers() -> None:
    found = read(
        HEAD
        + """
.func .attribute(.unified(1, 2)) (.reg .b32 result) add_one(.reg .b32 x) .abi_preserve 8 .abi_preserve_control 2
{ add.s32 result, x, 1; ret; }
.extern .func (.param .b32 out) variadic(.param .b32 count, .param .align 8 .b8 rest[]);
.weak .func stop() .noreturn { trap; }
.func other() ;
.alias other, stop;
.extern .entry elsewhere(.param .u64 a);
.visible .entry kernel(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr.align 8 b, .param .u64 .ptr .shared c)
{
    .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred p;
    mov.u64 %rd1, add_one;
    { // callseq 0, 0
    .param .b32 param0;
    .param .b32 retval0;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;
    targets_0 : .calltargets add_one, stop;
    call (retval0), %rd1, (param0), prototype_0;
    call (retval0), %rd1, (param0), targets_0;
    }
    {
    .param .b32 param0;
    prototype_0 : .callprototype _ (.param .b32 _);
    call.uni %rd1, (param0), prototype_0;
    call.uni (%r1), add_one, (%r2);
    }
    ret;
}"""
    )
    first, second, third, fourth = found.functions
    assert first.directives == {"abi_preserve": (8,), "abi_preserve_control": (2,)}
    assert [(item.name, item.space) for item in (*first.results, *first.parameters)] == [
        ("result", "reg"),
        ("x", "reg"),
    ]
    assert first.body is not None and isinstance(first.body[0], Instruction)
    assert first.body[0].operands == (Register("result"), Register("x"), Immediate(1))
    assert [item.size_bytes for item in second.parameters] == [4, 0]
    assert third.directives == {"noreturn": ()} and fourth.body is None
    assert [(alias.name, alias.aliasee) for alias in found.aliases] == [("other", "stop")]
    (entry,) = found.kernels
    assert [item.pointee for item in entry.parameters] == [
        Pointee("global", 16),
        Pointee("", 8),
        Pointee("shared", 4),
    ]
    assert [item.name for item in entry.prototypes] == ["prototype_0", "prototype_0$1"]
    assert entry.prototypes[0].directives == {"noreturn": ()}
    assert [item.functions for item in entry.call_targets] == [("add_one", "stop")]
    calls = [item.operands[-1] for item in instructions(entry) if item.row == "call"]
    assert calls[:3] == [Symbol("prototype_0"), Symbol("targets_0"), Symbol("prototype_0$1")]
    assert write(read(write(found))) == write(found)


def test_debug_data_is_dropped() -> None:
    found = read(
        HEAD
        + """
.file 1 "kernel.py", 1700000000, 4096
@@DWARF .section .debug_pubnames, "", @progbits
@@DWARF .byte 0x2b, 0x00
.section .debug_str
{
    $info_string0:
        .b8 107, -1, 0
        .b32 .debug_abbrev
        .b64 $info_string0+4
        .b32 $end-$info_string0
    $end:
}
.visible .entry kernel() { ret; }"""
    )
    assert found.files == {1: "kernel.py"}
    assert [item.name for item in found.kernels] == ["kernel"]


def test_several_kernels_and_comments() -> None:
    found = read(HEAD + "/* one // two */ .entry a() { ret; } // .entry b()\n.entry c() /* { */ { ret; /* } */ }")
    assert [item.name for item in found.kernels] == ["a", "c"]


def test_inline_assembly_leftovers() -> None:
    wait = """
    // begin inline asm
    {
        .reg .pred P1;
        LAB_WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2; @P1 bra DONE; bra LAB_WAIT;
        DONE:
    }
    // end inline asm
"""
    found = kernel(wait + wait)
    assert [item.name for item in found.body if isinstance(item, Label)] == ["LAB_WAIT", "DONE", "LAB_WAIT$1", "DONE$1"]


# ---------------------------------------------------------------- variables


def test_initial_values_follow_the_dimensions() -> None:
    found = read(HEAD + ".global .s16 table[3][2] = {{1, 2}, {3}}; .global .v4 .s16 rows[2] = {{1}, {2, 3, 4, 5}};")
    assert found.variables[0].initial == struct.pack("<6h", 1, 2, 3, 0, 0, 0)
    assert found.variables[1].initial == struct.pack("<8h", 1, 0, 0, 0, 2, 3, 4, 5)


def test_addresses_in_initial_values() -> None:
    found = read(
        HEAD
        + """.global .u32 words[4];
.global .u64 links[4] = {words, generic(words)+8, 7};
.global .u8 bytes[3] = {0xff(generic(words)), 0xFF00(words+4), 0xff00(513)};
.func f() { ret; }
.visible .global .u64 table[] = {f};"""
    )
    _, links, spread, table = found.variables
    assert links.initial == struct.pack("<4Q", 0, 0, 7, 0)
    assert links.relocations == (Relocation(0, "words"), Relocation(8, "words", 8, True))
    assert spread.initial == b"\0\0\2"
    assert spread.relocations == (
        Relocation(0, "words", 0, True, 0xFF),
        Relocation(1, "words", 4, False, 0xFF00),
    )
    assert table.relocations == (Relocation(0, "f"),) and table.size_bytes == 8
    assert write(read(write(found))) == write(found)


def test_variables_of_other_kinds() -> None:
    found = read(
        HEAD
        + """.global .texref texture; .global .surfref surface;
.global .samplerref sampler = {addr_mode_0 = clamp_to_border, filter_mode = nearest};
.const[2] .align 8 .b8 bank[16];
.common .global .b32 shared_by_all;
.global .attribute(.managed) .b32 managed;
.shared .b32 s<3>;"""
    )
    assert [(item.name, item.type) for item in found.variables[:3]] == [
        ("texture", "texref"),
        ("surface", "surfref"),
        ("sampler", "samplerref"),
    ]
    assert found.variables[3].space == "const" and found.variables[3].size_bytes == 16
    assert found.variables[4].linkage == "common"
    assert found.variables[5].attributes == ("managed",)
    assert [item.name for item in found.variables[6:]] == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".global .u32 a[2][2] = {{1, 2, 3}};", "longer than its dimension"),
        (".global .u32 a[2] = {{1}};", "nested more deeply"),
        (".global .u32 a[1073741824] = {1};", "larger than any program"),
        (".global .u16 a = b;", "does not fit .u16"),
        (".global .u8 a = 0xFE(b);", "mask 0xfe does not take one byte"),
        (".global .u64 a = b;", "b is not declared"),
        (".global .b32 a; .alias a, a;", "a is not a function"),
        (".entry k() { .reg .v2 .b32 r<600000>; }", "more than 1048576 names"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        read(HEAD + text)
    assert message in caught.value.message


# ---------------------------------------------------------------- operands


def test_vector_registers_are_their_elements() -> None:
    found = kernel(
        ".reg .v4 .f32 v; .reg .v2 .b32 w;\n"
        "ld.global.v4.f32 v, [%rd1]; add.f32 v.x, v.w, v.g; st.shared.v2.b32 [%r1], w;"
    )
    load, add, store, _ = instructions(found)
    assert load.operands[0] == Vector(tuple(Register(f"v${letter}") for letter in "xyzw"))
    assert add.operands == (Register("v$x"), Register("v$w"), Register("v$y"))
    assert store.operands[1] == Vector((Register("w$x"), Register("w$y")))


def test_a_vector_of_one_is_a_scalar() -> None:
    assert only("ld.global.b32 {%r1}, [%rd1];").operands[0] == Register("%r1")
    assert only("st.global.b32 [%rd1], {%r1};").operands[1] == Register("%r1")
    assert only("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];").operands[0] == Vector((Register("%r1"),))


def test_video_and_texture_operands() -> None:
    found = only("vadd.s32.u32.s32.sat %r1.b0, %r2.b0, %r3.h1, %r4;")
    assert found.operands[:3] == (
        RegisterPart("%r1", "b0"),
        RegisterPart("%r2", "b0"),
        RegisterPart("%r3", "h1"),
    )
    assert only("vmad.s32.s32.s32 %r1, %r2.h0, -%r3.h0, %r4;").operands[2] == RegisterPart("%r3", "h0", True)
    before = ".global .texref t; .global .samplerref s;"
    fetch = only("tex.2d.v4.s32.f32 {%r1, %r2, %r3, %r4}|%p1, [t, s, {%f1, %f2}];", before)
    assert fetch.operands == (
        ResidentVector(tuple(Register(f"%r{n}") for n in range(1, 5)), Register("%p1")),
        TensorAddress(Address(Symbol("t")), (Register("%f1"), Register("%f2")), Address(Symbol("s"))),
    )
    single = only("tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [t, %r5];", before)
    assert single.operands[1] == TensorAddress(Address(Symbol("t")), (Register("%r5"),))


@pytest.mark.parametrize(
    ("text", "value"), [("WARP_SZ * 2 - 1", 63), ("(.s64) 0xFFFFFFFFFFFFFFFF", -1), ("(.u64) -1", 2**64 - 1)]
)
def test_constant_expressions(text: str, value: int) -> None:
    assert only(f"mov.u64 %rd1, {text};").operands[1] == Immediate(value)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;", "tcgen05.alloc"),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1+0], %rd1, %rd2, %r3, %p2;", "tcgen05.mma"),
        ("tcgen05.mma.cta_group::2.kind::tf32 [%r1], [%r2], %rd2, %r3, {0, 0, 0, 0, 0, 0, 0, 0}, 1;", "tcgen05.mma"),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X "
            "[%r1], %rd1, %rd2, %r3, [%r4], [%r5], %p1;",
            "tcgen05.mma",
        ),
        ("tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::fill [%r1], %rd1, %rd2, %r3, %p1;", "tcgen05.mma.ws"),
        ("tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::ld"),
        (
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %rs1;",
            "tcgen05.commit",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
            "[%r1], [%rd1, {%r2, %r3, %r4, %r5, %r6}], [%r7];",
            "cp.async.bulk.tensor",
        ),
        ("cvt.rs.satfinite.e2m1x4.f32 %rs1, {%f1, %f2, %f3, %f4}, %r1;", "cvt"),
        ("sub.rn.f32.f16 %f1, %rs1, %f2;", "sub"),
        ("ld.shared.b128 %q1, [%r1];", "ld"),
        ("ld.global.b32 %r1, [%rd1].unified;", "ld"),
        ("st.bulk.weak.shared::cta [%r1], %rd1, 0;", "st.bulk"),
    ],
)
def test_instructions_of_blackwell(text: str, row: str) -> None:
    assert only(text).row == row


@pytest.mark.parametrize(
    ("target", "text", "reads"),
    [
        ("sm_100f", "tcgen05.wait::ld.sync.aligned;", True),
        ("sm_103a", "tcgen05.wait::ld.sync.aligned;", True),
        ("sm_110a", "tcgen05.wait::ld.sync.aligned;", True),
        ("sm_100", "tcgen05.wait::ld.sync.aligned;", False),
        ("sm_120a", "tcgen05.wait::ld.sync.aligned;", False),
        ("sm_90a", "wgmma.fence.sync.aligned;", True),
        ("sm_100a", "wgmma.fence.sync.aligned;", False),
        ("sm_121a", "setmaxnreg.dec.sync.aligned.u32 40;", True),
    ],
)
def test_targets_and_their_families(target: str, text: str, reads: bool) -> None:
    module = f".version 9.0\n.target {target}\n.entry k() {{ {text} }}"
    if reads:
        assert read(module).kernels
    else:
        with pytest.raises(TilewrightError, match=f"does not exist for {target}"):
            read(module)
    assert instructions(read(module, tolerant=True).kernels[0])[0].row


def test_barrier_layouts_of_ptx_9_3() -> None:
    text = """.version 9.3\n.target sm_90a\n.entry k() { .reg .pred p<3>; .reg .b64 s; .reg .b32 a; .reg .b16 v;
mbarrier.init.layout::v1.shared::cta.b64 [a], 1;
mbarrier.check_layout.layout::v1.shared::cta.b64 p1, [a];
mbarrier.test_wait.phase_type::primary.shared::cta.b64 p1|p2, v, [a], s;
mbarrier.try_wait.parity.phase_type::conditional.shared::cta.b64 p1, [a], 0; }"""
    assert len(instructions(read(text).kernels[0])) == 4


# ---------------------------------------------------------------- tolerance


def test_a_tolerant_reader_keeps_unknown_instructions() -> None:
    found = kernel(
        "frob.async.shared::cta [%r1], %r2, {%r3, %r4};\n"
        "frob.new <%r1 ? %r2>;\n"
        "ld.global.frob.b32 %r1, [%rd1];\n"
        "@%p1 add.s32 %r1, %r2, %r3;",
        tolerant=True,
    )
    first, second, third, fourth, _ = instructions(found)
    assert (first.row, first.opcode) == ("", "frob.async.shared::cta")
    assert first.modifiers == ("async", "shared::cta")
    assert first.operands == (Address(Register("%r1")), Register("%r2"), Vector((Register("%r3"), Register("%r4"))))
    assert (second.row, second.operands) == ("", ())
    assert (third.row, third.modifiers) == ("", ("global", "frob", "b32"))
    assert fourth.row == "add" and fourth.guard is not None


def test_a_tolerant_reader_keeps_unknown_directives() -> None:
    text = (
        HEAD
        + """.frobnicate 3, "x"
.frob table { 1, { 2 } }
.visible .entry kernel() .newlimit 4, 5 .maxnreg 32
{
    .reg .b32 %r<3>;
    .hint unroll
    .hint2 a, b;
    ret;
}"""
    )
    found = read(text, tolerant=True)
    assert [item.text for item in found.unread] == [
        '.frobnicate 3 , "x"',
        ".frob table { 1 , { 2 } }",
        ".newlimit 4 , 5",
        ".hint unroll",
        ".hint2 a , b ;",
    ]
    assert [item.span.line for item in found.unread] == [4, 5, 6, 9, 10]
    assert found.kernels[0].directives == {"maxnreg": (32,)}
    with pytest.raises(TilewrightError, match=r"\.frobnicate is not a directive"):
        read(text)


@pytest.mark.parametrize(
    "body",
    ["add.s32 %r1, %r77, 1;", "add.s32 %r1, %r2", "bra NOWHERE;", "mov.u32 %r1, ;", "frob }"],
)
def test_a_tolerant_reader_still_refuses_what_is_no_ptx(body: str) -> None:
    with pytest.raises(TilewrightError):
        kernel(body, tolerant=True)


def test_a_tolerant_reader_leaves_versions_unchecked_and_refuses_targets_that_are_too_old() -> None:
    text = ".version 7.0\n.target {}\n.entry k() {{ wgmma.fence.sync.aligned; }}"
    (fence,) = instructions(read(text.format("sm_90"), tolerant=True).kernels[0])
    assert fence.row == "wgmma.fence"
    with pytest.raises(TilewrightError, match=r"needs PTX 8\.0"):
        read(text.format("sm_90a"))
    with pytest.raises(TilewrightError, match=r":3:.*wgmma\.fence\.sync\.aligned does not exist for sm_80"):
        read(text.format("sm_80"), tolerant=True)


# ---------------------------------------------------------------- sources


def test_places_of_the_source() -> None:
    text = (
        HEAD
        + """.file 1 "/src/kernel.py"
.visible .entry kernel() {
    .reg .b32 %r<3>;
    mov.u32 %r1, 0;
    .loc 1 10 5
    mov.u32 %r1, 1; mov.u32 %r2, 2;
    .loc 1 12 7, function_name $L__info_string0, inlined_at 1 30 2
    mov.u32 %r1, 3;
    .loc 1 0 0
    mov.u32 %r1, 4;
    .loc 9 3 1
    ret;
}
.section .debug_str { $L__info_string0: .b8 97, 0 }"""
    )
    found = read(text)
    (entry,) = found.kernels
    lines = source_map(found, entry)

    def place(span: Span) -> tuple[str, int, int] | None:
        stack = lines.stack(span)
        return (stack[0].place.span.file, stack[0].place.span.line, stack[0].place.span.column) if stack else None

    places = [place(item.span) for item in instructions(entry)]
    line = ("/src/kernel.py", 10, 5)
    assert places == [None, line, line, ("/src/kernel.py", 12, 7), None, None]
    assert entry.locations[1].inlined_at == (1, 30, 2)
    # A place inside a statement belongs to that statement; one before the body to none.
    assert place(Span("", 9, 30)) == line
    assert place(Span("", 1)) is None


def test_inline_assembly_stands_at_the_line_of_its_statement() -> None:
    text = (
        HEAD
        + """.file 1 "/src/kernel.py"
.visible .entry kernel() {
    .reg .b32 %r<3>;
    .loc 1 102 5
    mov.u32 %r1, 0;
    // begin inline asm
    {
    .loc 1 105 5                         // kernel.py:105:5
    mov.u32 %r1, 1;
    }
    // end inline asm
    mov.u32 %r1, 2;
    .loc 1 107 5
    mov.u32 %r1, 3;
    // begin inline asm
    ret;
}"""
    )
    found = read(text)
    (entry,) = found.kernels
    lines = source_map(found, entry)

    def place(span: Span) -> tuple[str, int, int] | None:
        stack = lines.stack(span)
        return (stack[0].place.span.file, stack[0].place.span.line, stack[0].place.span.column) if stack else None

    places = [place(item.span) for item in instructions(entry)]
    assert [place and place[1] for place in places] == [102, 102, 102, 107, 107]
    # An open comment is no piece of assembly.
    found = read(text.replace("// end inline asm", ""))
    lines = source_map(found, found.kernels[0])
    places = [lines.stack(item.span)[0].place.span.line for item in instructions(found.kernels[0])]
    assert places == [102, 105, 105, 107, 107]


# ---------------------------------------------------------------- against ptxas


def _ptxas() -> Path | None:
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        path = Path(root) / "cuda_nvcc" / "bin" / "ptxas"
        if path.exists():
            return path
    return None


ASSEMBLED = [
    ".visible .entry kernel() .maxntid 256 .reqnctapercluster 2 { ret; }",
    ".func (.reg .b32 d) f(.reg .b32 x) { add.s32 d, x, 1; ret; }",
    ".extern .func (.param .b32 out) variadic(.param .b32 n, .param .align 8 .b8 rest[]);",
    ".func g() { ret; } .func h(); .alias h, g;",
    ".global .s16 table[3][2] = {{1, 2}, {3}};",
    ".global .u32 words[4]; .global .u64 links[4] = {words, generic(words)+8, 7};",
    ".global .u32 words[4]; .global .u8 bytes[2] = {0xff(generic(words)), 0xFF00(words+4)};",
    ".global .samplerref s = {addr_mode_0 = clamp_to_border, filter_mode = nearest};",
    ".global .attribute(.managed) .b32 managed;",
    ".visible .entry kernel() { .reg .v4 .f32 v; .reg .b64 p; ld.global.v4.f32 v, [p]; add.f32 v.x, v.w, v.y; ret; }",
    ".visible .entry kernel() { .reg .b64 p; mov.u64 p, WARP_SZ * 2 - 1; mov.u64 p, (.s64) 1; ret; }",
    ".visible .entry kernel(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr .align 8 b) { ret; }",
]


@pytest.mark.skipif(_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("text", ASSEMBLED)
def test_ptxas_takes_what_is_read_and_what_is_written(text: str, tmp_path: Path) -> None:
    found: Module = read(HEAD + text)
    for name, source in (("read", HEAD + text), ("written", write(found))):
        path = tmp_path / f"{name}.ptx"
        path.write_text(source)
        command = [str(_ptxas()), "-arch=sm_100a", "-c", "-o", str(tmp_path / "out.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert write(read(write(found))) == write(found)
