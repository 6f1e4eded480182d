"""Plain statements read at once are what they are token by token; what is refused is refused as it was."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.frontends.ptx.ast import Immediate, Instruction, Module, Register, Symbol, Vector
from tilewright.frontends.ptx.lexer import STATEMENT, Cursor
from tilewright.frontends.ptx.reader import read, read_tokens

GEMM = (Path(__file__).parents[1] / "data" / "ptx" / "gemm_warp_specialized.ptx").read_text()
HEAD = (
    ".version 8.3\n.target sm_90a\n.address_size 64\n\n.shared .align 16 .b8 memory[64];\n"
    ".visible .entry k(.param .u64 p)\n{\n"
)


def both(body: str):
    """What statements taken at once make of it, and its tokens."""
    text = f"{HEAD}{body}}}\n"
    strict = read(text)
    assert strict == read(text, tolerant=True) == read_tokens(text) == read_tokens(text, tolerant=True)
    return [item for item in strict.kernels[0].body if isinstance(item, Instruction)]


def test_statements_are_read_as_their_tokens_are():
    items = both(
        "\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<4>;\n\t.reg .pred %p<2>;\n\n\tld.param.u64 %rd0, [p];\n"
        "\tmov.u32 %r0, %tid.x;\n\tmov.u32 %r1, memory;\n\tadd.u32 %r2, %r1, -0x10;\n\tsetp.eq.u32 %p0, %r0, 0;\n"
        "\t@!%p0 st.shared.v2.b32 [%r1+8], {%r0, %r2};\n\tst.shared.b32 [memory+4], {%r0};\n\tmov.u32 %r3, WARP_SZ;\n"
        "AGAIN:\n\tbar.sync 0;\n\t@%p0 bra AGAIN;\n\tmov.u32 %r4, %clock;\n\tret;\n"
    )
    assert [item.span.line for item in items] == [12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24]
    assert items[3].operands[2] == Immediate(-16) and items[5].guard is not None and items[5].guard.negated
    assert items[5].operands[1] == Vector((Register("%r0"), Register("%r2")))
    assert items[6].operands[1] == Register("%r0")
    assert items[7].operands[1] == Immediate(32) and items[9].operands == (Symbol("AGAIN"),)


def test_a_tab_behind_the_opcode_is_a_space():
    """As LLVM prints instructions."""
    body = (
        "\t.reg .b32 %r<9>;\n\t.reg .pred %p<2>;\n\tmov.b32 \t%r0, 1;\n\tadd.s32 \t%r1, %r0, 65536;\n"
        "\tsetp.eq.b32 \t%p1, %r1, 0;\nL:\n\tbar.sync \t0;\n\t@%p1 bra \tL;\n\t@!%p1\tbra L;\n\tret;\n"
    )
    assert len(both(body)) == 7
    assert Cursor(f"{HEAD}{body}}}\n", "f", statements=True).kinds.count(STATEMENT) == 7


def test_a_name_means_what_its_scope_says():
    items = both(
        "\t.reg .b32 a;\n\tmov.u32 a, 1;\n\t{\n\t.reg .b32 a;\n\tmov.u32 a, 2;\n\tbra OUT;\nOUT:\n"
        "\tmov.u32 a, 3;\n\t}\n"
        "\tmov.u32 a, 4;\n\tbra OUT;\nOUT:\n\tmov.u32 a, 5;\n"
    )
    named = [item.operands[0] for item in items]
    inner = named[1]
    assert isinstance(inner, Register) and inner.name != "a"
    assert named[0] == named[4] == named[6] == Register("a") and named[3] == inner
    assert named[2] != named[5] and isinstance(named[2], Symbol)


def test_vector_registers():
    items = both(
        "\t.reg .v2 .b32 v;\n\t.reg .b32 %r<2>;\n\tmov.u32 %r0, v.x;\n\tst.shared.v2.b32 [memory], v;\n\tret;\n"
    )
    assert isinstance(items[1].operands[1], Vector)


@pytest.mark.parametrize(
    "line", ["mov.u32 %r0, _;", "add.u32 %r0, _, %r0;", "mov.u32 _, 1;\n\tld.shared.u32 %r0, [_];"]
)
def test_what_is_called_underscore_is_no_source(line: str):
    text = f"{HEAD}\t.reg .b32 %r<9>;\n\t.reg .b32 _;\n\t{line}\n\tret;\n}}\n"
    with pytest.raises(TilewrightError, match=r"sink|_ cannot be an address"):
        read(text)


@pytest.mark.parametrize(
    "line",
    [
        "mov.u32 %r9, 1;", "mov.u32 %r0, %r1.x;", "mov.u32 %r0, nothing;", "mov.u32 %r0, 99999999999999999999;",
        "bra %r0;", "@%r9 ret;", "@memory ret;", "ld.shared.u32 %r0, [_];", "mov.u32 %r0;", "mov.u33 %r0, 1;",
        "frobnicate %r0;", "mov.u32 %r0, AFTER;", "bra memory;", "st.shared.v2.b32 [%r0], {%r0};", "_;",
    ],
)  # fmt: skip
def test_what_is_refused_is_told_of_tokens(line: str):
    text = f"{HEAD}\t.reg .b32 %r<9>;\n\t{line}\nAFTER:\n\tret;\n}}\n"
    with pytest.raises(TilewrightError) as refused:
        read(text)
    with pytest.raises(TilewrightError) as moved:
        # Behind a blank no statement is taken at once.
        read(text.replace(f"\t{line}", f" {line}"))
    assert str(refused.value) == str(moved.value)
    assert refused.value.span is not None and refused.value.span.line == 9


def made(reader: Callable[..., Module], text: str, *, tolerant: bool) -> Module | str:
    """The module, or what is refused of it, and where."""
    try:
        return reader(text, tolerant=tolerant)
    except TilewrightError as error:
        return f"{error.span}: {error.message}; {error.remedy}"


@pytest.mark.parametrize("tolerant", [False, True])
def test_edited_texts_are_read_alike(tolerant: bool):
    """What statements taken at once make of an edited text, token by token it is the same, or refused alike."""
    original, rnd, taken, unknown = GEMM, random.Random(5), 0, 0
    lines = original.split("\n")
    words = sorted({word for line in lines for word in re.findall(r"[%\w.:]+|[^\s\w]", line)})
    for _ in range(150):
        at = rnd.randrange(len(lines))
        parts = re.findall(r"\s+|[%\w.:]+|[^\s\w]", lines[at]) or [""]
        parts[rnd.randrange(len(parts))] = rnd.choice([rnd.choice(words), "", "\n\t", rnd.choice(words) + " "])
        text = "\n".join([*lines[:at], "".join(parts), *lines[at + 1 :]])
        module = made(read, text, tolerant=tolerant)
        assert module == made(read_tokens, text, tolerant=tolerant)
        if isinstance(module, Module):
            taken += 1
            unknown += any(isinstance(item, Instruction) and not item.row for item in module.kernels[0].body)
    assert taken > 10
    assert bool(unknown) is tolerant, "a tolerant reader keeps instructions that it does not know"


@pytest.mark.parametrize("line", ["frobnicate.u32 %r0, [%r1], <x>;", "add.u33 %r0, %r1, 4;", "add.u32 %r0;"])
def test_a_tolerant_reader_takes_unknown_statements_token_by_token(line: str):
    text = f"{HEAD}\t.reg .b32 %r<9>;\n\tmov.u32 %r1, 1;\n\t{line}\n\tret;\n}}\n"
    module = read(text, tolerant=True)
    assert module == read_tokens(text, tolerant=True)
    assert [item.row for item in module.kernels[0].body if isinstance(item, Instruction)] == ["mov", "", "ret"]
