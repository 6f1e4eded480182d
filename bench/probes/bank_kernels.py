"""PTX text of kernels that repeat one warp-wide access of shared memory and count its cycles.

A CTA of 16 warps finds its 32 addresses at its index; all warps make the same access over and over, so that what limits
them is the shared memory's pipe: its cycles over the number of accesses are the access's wavefronts. Eight accesses
follow one another 128 bytes apart, which is all banks once, and the address goes through an addition of a zero that the
assembler does not know, so that nothing is hoisted or dropped. Loaded words are XORed and, hardly ever, written.

In the masked kernels a lane whose address has the highest bit set takes no part: it branches once, around all accesses.
Predicates would not do, since assemblers make branches of them, or reuse one register for all loads, and then an access
of one wavefront costs more than one cycle. How often the accesses repeat is a parameter, so that a profiler counts few.

A multiprocessor holds one CTA, by the shared memory that it asks for. Source: PTX ISA, ld, st, ldmatrix, stmatrix.
"""

from __future__ import annotations

THREADS = 512
WARPS = THREADS // 32
UNROLLED = 8
LAPS = 96
SHARED_BYTES = 160 * 1024
ADDRESS_LIMIT = SHARED_BYTES - 1024 - UNROLLED * 128

_HEADER = """\
.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 window[];
"""

_KERNEL = """\
.visible .entry {name}(.param .u64 addresses, .param .u64 cycles, .param .u32 zero, .param .u32 laps)
.reqntid {threads}
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<16>;
    .reg .b32 %a<4>;
    .reg .b64 %rd<8>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    ld.param.u64 %rd0, [addresses];
    ld.param.u64 %rd1, [cycles];
    ld.param.u32 %r2, [zero];
    and.b32 %r3, %r0, 31;
    shl.b32 %r4, %r1, 5;
    add.u32 %r3, %r3, %r4;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd2, %rd0, %rd2;
    ld.global.u32 %r5, [%rd2];
    setp.lt.s32 %p1, %r5, 0;
    and.b32 %r5, %r5, 0x7FFFFFFF;
    mov.u32 %r6, window;
    add.u32 %r5, %r5, %r6;
    mov.u32 %r7, 0;
    ld.param.u32 %r8, [laps];
    mov.u32 %a0, %r0;
    mov.u32 %a1, %r1;
    mov.u32 %a2, %r0;
    mov.u32 %a3, %r1;
    cvt.u16.u32 %h0, %r0;
    bar.sync 0;
    mov.u64 %rd3, %clock64;
{around}again:
    .pragma "nounroll";
{body}
    add.u32 %r5, %r5, %r2;
    sub.u32 %r8, %r8, 1;
    setp.ne.u32 %p0, %r8, 0;
    @%p0 bra again;
{together}    bar.sync 0;
    mov.u64 %rd4, %clock64;
    setp.eq.u32 %p2, %r7, 0x5A5A1234;
    @%p2 st.global.u32 [%rd1], %r7;
    setp.ne.u32 %p3, %r0, 0;
    @%p3 ret;
    sub.s64 %rd4, %rd4, %rd3;
    cvt.u32.u64 %r9, %rd4;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd5, %rd1, %rd5;
    st.global.u32 [%rd5], %r9;
    ret;
}}
"""

_VECTORS = {4: ("u32", ("%a0",)), 8: ("v2.u32", ("%a0", "%a1")), 16: ("v4.u32", ("%a0", "%a1", "%a2", "%a3"))}
WIDTHS = (1, 2, 4, 8, 16)
MATRICES = (1, 2, 4)


def kernel_names() -> dict[str, tuple[str, bool]]:
    """Of every kernel: the kind that it makes, and whether its lanes may take no part."""
    found: dict[str, tuple[str, bool]] = {}
    for operation in ("ld", "st"):
        for width in WIDTHS:
            for masked in (False, True):
                name = f"{operation}_{width}{'_masked' if masked else ''}"
                found[name] = (f"{operation}.shared.b{8 * width}", masked)
        for count in MATRICES:
            for tail in ("", ".trans"):
                kind = f"{operation}matrix.x{count}{tail}"
                found[kind.replace(".", "_")] = (kind, False)
    return found


def module_text() -> str:
    """All kernels in one module."""
    text = _HEADER
    for name, (kind, masked) in kernel_names().items():
        body = "".join(_access(kind, 128 * place) for place in range(UNROLLED))
        around, together = (
            ("    @%p1 bra together;\n", "together:\n    bar.warp.sync 0xFFFFFFFF;\n") if masked else ("", "")
        )
        text += _KERNEL.format(name=name, threads=THREADS, body=body.rstrip("\n"), around=around, together=together)
    return text


def _access(kind: str, offset: int) -> str:
    place = f"[%r5+{offset}]"
    operation = kind.partition(".")[0]
    if operation in ("ldmatrix", "stmatrix"):
        count = int(kind.split(".")[1][1:])
        registers = [f"%a{each}" for each in range(count)]
        several = "{" + ", ".join(registers) + "}"
        name = f"{operation}.sync.aligned.m8n8.x{count}{'.trans' if kind.endswith('.trans') else ''}.shared.b16"
        if operation == "stmatrix":
            return f"    {name} {place}, {several};\n"
        return f"    {name} {several}, {place};\n" + _kept(registers)
    width = int(kind.rsplit("b", 1)[1]) // 8
    if width < 4:
        if operation == "st":
            return f"    st.shared.u{8 * width} {place}, %h0;\n"
        return f"    ld.shared.u{8 * width} %h0, {place};\n    cvt.u32.u16 %a0, %h0;\n" + _kept(["%a0"])
    suffix, registers = _VECTORS[width]
    several = registers[0] if len(registers) == 1 else "{" + ", ".join(registers) + "}"
    if operation == "st":
        return f"    st.shared.{suffix} {place}, {several};\n"
    return f"    ld.shared.{suffix} {several}, {place};\n" + _kept(registers)


def _kept(registers: list[str] | tuple[str, ...]) -> str:
    return "".join(f"    xor.b32 %r7, %r7, {register};\n" for register in registers)
