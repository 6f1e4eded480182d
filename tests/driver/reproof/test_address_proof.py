"""Staged addresses of emitted text against the layouts they came from: all kernels proved, mutated texts refuted."""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import pytest
from tests.lower import lowered_programs as programs

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch, PointerParam
from tilewright.driver.compile.compile import accept_addresses
from tilewright.driver.reproof.address_proof import OtherAddress, SameAddresses, StagedStore, staged_stores
from tilewright.driver.reproof.thread_form import NoForm, ThreadForm, ThreadForms
from tilewright.frontends.ptx.reader import read
from tilewright.layout.answer import NotDecided
from tilewright.machine.core.run import run_launch
from tilewright.synth.decide import Wanted

MUTATED = 256
PROGRAMS = ["matmul", "matmul_bias_relu", "matmul_gelu", "residual"]


@lru_cache(maxsize=32)
def lowered(name: str, element: str, size: int) -> tuple[str, tuple[Launch, ...]]:
    kernel = getattr(programs, name)
    elements = {item.name: Element.BF16 for item in kernel.parameters} | {"c": Element(element)}
    # Mutations are of a text whose chunks are swizzled by 128 bytes.
    wanted = Wanted((128, 128)) if size == MUTATED else None
    done = programs.lower(kernel, {"M": size, "N": size, "K": 128}, elements, {"b": (1, 128)}, wanted)
    return done.ptx, done.plan.launches


def verdicts(text: str, launches: tuple[Launch, ...]) -> tuple[StagedStore, ...]:
    return staged_stores(read(text), launches)


@pytest.mark.sample(12)
@pytest.mark.parametrize("size", [64, 256, 4096])
@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_staged_store_of_our_kernels_is_proved(name: str, element: str, size: int) -> None:
    text, launches = lowered(name, element, size)
    found = verdicts(text, launches)
    assert text.count("cp.async.bulk.tensor.2d.global") == len(found)
    for each in found:
        assert isinstance(each.verdict, SameAddresses), each.verdict
        assert each.verdict.elements and each.map_name.startswith("c")
    assert found or "st.global" in text


def staging(text: str) -> tuple[list[str], int, int]:
    """The text's lines, and where the arithmetic of the staged addresses begins and ends."""
    lines = text.splitlines()
    end = next(at for at, line in enumerate(lines) if "cp.async.bulk.tensor.2d.global" in line)
    begin = max(at for at, line in enumerate(lines[:end]) if "wgmma.wait_group" in line)
    return lines, begin, end


MUTATIONS = [
    ("bf16", "and.b32 %", ", 7;", ", 3;"),  # rows that the swizzle takes
    ("bf16", "shl.b32 %", ", 4;", ", 3;"),  # where the swizzle puts them
    ("bf16", "and.b32 %", ", 16;", ", 8;"),  # the second half of 16 columns
    ("bf16", "and.b32 %", ", 96;", ", 32;"),  # warps
    ("bf16", "shl.b32 %", ", 6;", ", 5;"),  # a warp's rows
    ("bf16", "shl.b32 %", ", 7;", ", 6;"),  # the pitch
    ("bf16", "xor.b32 %", ", 32;", ", 64;"),  # columns 16 to 31
    ("bf16", "and.b32 %", ", 15;", ", 7;"),  # rows 8 to 15 of a warp
    ("f32", "and.b32 %", ", 28;", ", 12;"),
    ("f32", "shl.b32 %", ", 2;", ", 3;"),
    ("f32", "shl.b32 %", ", 5;", ", 4;"),
    ("f32", "xor.b32 %", ", 64;", ", 32;"),
    ("f32", "st.shared.v2.f32 [%", "+1024]", "+512]"),  # rows 8 to 15 of a warp
]


@pytest.mark.parametrize(("element", "opcode", "old", "new"), MUTATIONS)
def test_mutated_address_arithmetic_is_refuted(element: str, opcode: str, old: str, new: str) -> None:
    text, launches = lowered("matmul", element, 256)
    lines, begin, end = staging(text)
    places = [at for at in range(begin, end) if opcode in lines[at] and old in lines[at]]
    assert places
    refuted = 0
    for at in places:
        changed = [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]
        found = verdicts("\n".join(changed), launches)[0].verdict
        if isinstance(found, OtherAddress):
            refuted += 1
            assert found.wanted != found.found
            assert found.layout(found.row, found.column) == found.wanted
            assert "stmatrix" in changed[found.span.line - 1] or "st.shared" in changed[found.span.line - 1]
    assert refuted, "no mutation was refuted"


def test_a_compilation_with_a_counterexample_is_not_handed_out() -> None:
    text, launches = lowered("matmul", "bf16", 256)
    accept_addresses(verdicts(text, launches), "matmul")
    lines, begin, end = staging(text)
    at = next(at for at in range(begin, end) if "xor.b32 %" in lines[at] and ", 32;" in lines[at])
    lines[at] = lines[at].replace(", 32;", ", 96;")
    with pytest.raises(TilewrightError, match="stages elements where c_map_param does not expect them: thread"):
        accept_addresses(verdicts("\n".join(lines), launches), "matmul")


def test_swapped_data_is_refuted() -> None:
    """The addresses are right, and two lanes' halves change places."""
    text, launches = lowered("matmul", "bf16", 256)
    lines, begin, end = staging(text)
    at = next(at for at in range(begin, end) if "cvt.rn.bf16x2.f32" in lines[at])
    destination, high, low = lines[at].split("f32 ")[1].rstrip(";").split(", ")
    lines[at] = f"\tcvt.rn.bf16x2.f32 {destination}, {low}, {high};"
    found = verdicts("\n".join(lines), launches)[0].verdict
    assert isinstance(found, OtherAddress) and (found.row, found.column) in {(0, 0), (0, 1)}


def test_a_lost_store_is_no_proof() -> None:
    text, launches = lowered("matmul", "bf16", 256)
    lines, begin, end = staging(text)
    at = next(at for at in range(begin, end) if "stmatrix" in lines[at])
    found = verdicts("\n".join([*lines[:at], *lines[at + 1 :]]), launches)[0].verdict
    assert not isinstance(found, SameAddresses)


def test_addresses_that_depend_on_a_loop_are_not_decided() -> None:
    text, launches = lowered("matmul", "bf16", 256)
    lines, begin, end = staging(text)
    at = next(at for at in range(begin, end) if "stmatrix" in lines[at])
    register = lines[at].split("[")[1].split("]")[0]
    lines.insert(at, f"\tadd.u32 {register}, {register}, 0;")
    found = verdicts("\n".join(lines), launches)[0].verdict
    assert isinstance(found, NotDecided) and "2 places" in found.reason


# ---------------------------------------------------------------- forms of registers

OPERATIONS = ["add.u32", "sub.u32", "mul.lo.u32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32", "rem.u32",
              "div.u32", "min.u32", "max.u32", "mad.lo.u32", "add.s32", "mul.lo.s32"]  # fmt: skip
THREADS, BLOCKS = 64, 3


def chain(seed: int, length: int) -> str:
    """A kernel that writes the last of some random registers for each of its threads."""
    choice = random.Random(seed)
    lines = ["mov.u32 %r0, %tid.x;", "mov.u32 %r1, %ctaid.x;", "shl.b32 %r2, %r1, 10;", "shr.u32 %r3, %r0, 3;"]
    for number in range(4, 4 + length):
        opcode = choice.choice(OPERATIONS)
        first = f"%r{choice.randrange(number)}"
        small = opcode.startswith(("shl", "shr"))
        constant = choice.randrange(1, 8) if small else choice.choice([1, 3, 7, 64, 112, 128, 1023, 4096, 0xFFFFFC00])
        second = f"%r{choice.randrange(number)}" if not small and choice.random() < 0.5 else str(constant)
        if second.startswith("%") and opcode[:3] in ("rem", "div"):
            second = str(constant)
        third = f", %r{choice.randrange(number)}" if opcode.startswith("mad") else ""
        lines.append(f"{opcode} %r{number}, {first}, {second}{third};")
    last = 3 + length
    lines += [
        "ld.param.u64 %rd0, [out];",
        f"mad.lo.u32 %r{last + 1}, %r1, {THREADS}, %r0;",
        f"mul.wide.u32 %rd1, %r{last + 1}, 4;",
        "add.u64 %rd2, %rd0, %rd1;",
        f"st.global.b32 [%rd2], %r{last};",
        "ret;",
    ]
    body = "\n".join(f"\t{line}" for line in lines)
    return (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry chain(.param .u64 out)\n{\n"
        f"\t.reg .b32 %r<{last + 2}>;\n\t.reg .b64 %rd<3>;\n{body}\n}}\n"
    )


def test_forms_equal_what_the_machine_computes() -> None:
    known = 0
    for seed in range(60):
        text = chain(seed, 2 + seed % 7)
        module = read(text)
        out = np.zeros(4 * THREADS * BLOCKS, np.uint8)
        launch = Launch("chain", (BLOCKS, 1, 1), (THREADS, 1, 1), (PointerParam("out"),))
        run_launch(module, launch, {"out": out})
        ran = out.view(np.uint32).reshape(BLOCKS, THREADS)
        forms = ThreadForms(module.kernels[0], THREADS, {})
        last = 3 + 2 + seed % 7
        end = len(forms.text.flow.instructions) - 1
        value = forms.of_register(f"%r{last}", end)
        if isinstance(value, NoForm):
            continue
        known += 1
        assert isinstance(value, ThreadForm)
        for block in range(BLOCKS):
            added = sum(factor * block for _, factor in value.symbols)
            assert ((value.numbers + added) % (1 << 32) == ran[block]).all(), text
            assert added % value.multiple == 0 or not value.symbols
    assert known >= 25


def test_what_is_not_understood_has_no_form() -> None:
    text = chain(1, 3).replace("mov.u32 %r0, %tid.x;", "mov.u32 %r0, %clock;")
    forms = ThreadForms(read(text).kernels[0], THREADS, {})
    assert isinstance(forms.of_register("%r3", 8), NoForm)
    twice = chain(1, 3).replace("shr.u32 %r3", "add.u32 %r0, %r0, 1;\n\tshr.u32 %r3")
    forms = ThreadForms(read(twice).kernels[0], THREADS, {})
    assert isinstance(forms.of_register("%r3", 8), NoForm)


@pytest.mark.parametrize(
    "line",
    [
        "mov.b32 {%h0, %r3}, %r0;",
        "setp.eq.u32 %p0|%r3, %r0, 0;",
        "@%p0 mov.u32 %r3, %r0;",
        "mul.hi.u32 %r3, %r0, 4;",
        "mul.wide.u16 %r3, %h0, 4;",
        "add.cc.u32 %r3, %r0, %r0;",
        "shr.s32 %r3, %r9, 3;",
        "cvt.u32.u64 %r3, %rd0;",
        "ld.param.u32 %r3, [out];",
        "shfl.sync.bfly.b32 %r3, %r0, 1, 31, -1;",
    ],
)
def test_other_instructions_have_no_form(line: str) -> None:
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry odd(.param .u64 out)\n{\n"
    declared = "\t.reg .b32 %r<10>;\n\t.reg .b16 %h<2>;\n\t.reg .b64 %rd<1>;\n\t.reg .pred %p<1>;\n"
    first = "\tmov.u32 %r0, %tid.x;\n\tsub.u32 %r9, %r0, 40;\n"
    text = f"{head}{declared}{first}\t{line}\n\tst.global.b32 [%rd0], %r3;\n\tret;\n}}\n"
    forms = ThreadForms(read(text, tolerant=True).kernels[0], THREADS, {})
    assert isinstance(forms.of_register("%r9", 2), ThreadForm)
    assert isinstance(forms.of_register("%r3", 3), NoForm)
