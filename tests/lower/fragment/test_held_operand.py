"""Fragments that are computed in A's registers: which are, and that no product finds another one's numbers there."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tests.fragment_kernels import Shape, kernel_text, multiply
from tests.fragment_runs import Array, inputs_of, run_text

from tilewright.driver.compile.lower_text import lower_text
from tilewright.frontends.ac.reader import read_ac
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentMapOp
from tilewright.lower.fragment.held_operand import held_bank
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx

SHAPE = Shape(rows=64)
ITERATIONS = 3
FIRST = """
%first = ac.fragment.map inputs(%x) (%one) -> X {
  %positive = ac.scalar relu %one
  ac.yield %positive
}
"""
NO_ROWS = "%r = ac.fragment.full [bits = 1077936128] -> R\n"  # 3.0


def product(a: str, phase: str, number: str) -> str:
    """%product{number} of a fragment with the slot's b; the slot, %done{number}, is kept."""
    text = multiply(SHAPE, "%A").replace("ac.mbarrier.arrive %done [peers = 1]\n", "")
    for name in ("sums", "reading", "done", "product"):
        text = text.replace(f"%{name}", f"%{name}{number}")
    return text.replace("phase(%held)", phase).replace("%A", a)


def scaled(name: str, value: str, kind: str = "X") -> str:
    """A 64th of a product."""
    return f"""
%{name} = ac.fragment.map inputs(%{value}) (%one) -> {kind} {{
  %part = ac.constant [bits = 1015021568]
  %less = ac.scalar mul %one, %part
  ac.yield %less
}}
"""


def loop(number: str, initial: str, held: str, body: str) -> str:
    """%a{number}: what an iteration is given; %next: what it hands on; %done: the slot behind its products."""
    return f"""
%read{number}, %last{number} = ac.loop over K [begin = 0] (%t{number})
    carrying (%now{number} : !ac.phase<ab, retired> = {held}, %a{number} = {initial}) {{
  {body}
}}
"""


def iteration(number: str, multiplied: str = "", late: bool = False) -> str:
    first = product(multiplied or f"%a{number}", f"phase(%now{number})", number)
    if not late:
        return f"{first}{scaled(f'next{number}', f'product{number}')}ac.yield %done{number}, %next{number}"
    second = product(multiplied or f"%a{number}", f"phase(%done{number})", f"{number}b")
    return f"{first}{scaled(f'next{number}', f'product{number}')}{second}ac.yield %done{number}b, %next{number}"


def ended(a: str, phase: str) -> str:
    """The last product is what is stored."""
    return f"""
{product(a, f"phase({phase})", "e")}
ac.mbarrier.arrive %donee [peers = 1]
%y_values = ac.fragment.map inputs(%producte) (%one) -> F {{
  ac.yield %one
}}
{NO_ROWS}"""


ONE_LOOP = loop("0", "%first", "%held", iteration("0"))
BODIES = {
    "a chain through a loop": FIRST + ONE_LOOP + ended("%last0", "%read0"),
    "multiplied twice": FIRST + loop("0", "%first", "%held", iteration("0").replace(
        "ac.yield %done0,", product("%next0", "phase(%done0)", "n") + "ac.yield %donen,"
    )) + ended("%last0", "%read0"),
    "a chain through two loops": (
        FIRST + ONE_LOOP + loop("1", "%last0", "%read0", iteration("1")) + ended("%last1", "%read1")
    ),
    "no loop": FIRST + ended("%first", "%held"),
    "one behind the other": (
        FIRST + product("%first", "phase(%held)", "f") + scaled("second", "productf") + ended("%second", "%donef")
    ),
    "another product between": FIRST + product("%x", "phase(%held)", "x") + ended("%first", "%donex"),
    "the first one behind the loop": FIRST + ONE_LOOP + ended("%first", "%read0"),
    "the first one in the loop": FIRST + loop("0", "%first", "%held", iteration("0", "%first")) + ended(
        "%last0", "%read0"
    ),
    "the first one in two loops": (
        FIRST + ONE_LOOP + loop("1", "%first", "%read0", iteration("1")) + ended("%last1", "%read1")
    ),
    "one loop's behind the next": (
        FIRST + ONE_LOOP + loop("1", "%last0", "%read0", iteration("1")) + ended("%last0", "%read1")
    ),
    "a map before the multiplication": FIRST + loop("0", "%first", "%held", iteration("0", late=True)) + ended(
        "%last0", "%read0"
    ),
    "another product of the size": FIRST + ONE_LOOP + product("%x", "phase(%read0)", "x") + ended("%last0", "%donex"),
    "stored as well": FIRST + ONE_LOOP + product("%last0", "phase(%read0)", "e") + """
        ac.mbarrier.arrive %donee [peers = 1]
        %y_values = ac.fragment.map inputs(%last0, %producte) (%one, %other) -> F {
          %both = ac.scalar add %one, %other
          ac.yield %both
        }
        """ + NO_ROWS,
}  # fmt: skip
RUN = (
    "a chain through two loops", "the first one behind the loop", "the first one in the loop",
    "a map before the multiplication", "one behind the other", "another product between",
)  # fmt: skip
HELD = ("a chain through a loop", "multiplied twice", "a chain through two loops", "no loop", "one behind the other")


def text_of(name: str) -> str:
    text = kernel_text(SHAPE, BODIES[name])
    return text.replace("symbols = {tiles = 2}", f"symbols = {{tiles = 2, K = {ITERATIONS}}}").replace(
        "minima = {tiles = 0}", "minima = {tiles = 0, K = 0}"
    )


def expected(name: str, inputs: dict[str, Array]) -> Array:
    a, b = (inputs[key].astype(np.float64) for key in "ab")

    def rounded(values: Array) -> Array:
        return values.astype(ml_dtypes.bfloat16).astype(np.float64)

    def walked(values: Array) -> Array:
        for _ in range(ITERATIONS):
            values = rounded(values @ b.T / 64)
        return values

    first = np.maximum(a, 0)
    match name:
        case "no loop" | "the first one behind the loop" | "another product between":
            last = first
        case "a chain through two loops":
            last = walked(walked(first))
        case "the first one in the loop" | "one behind the other":
            last = rounded(first @ b.T / 64)
        case _:
            last = walked(first)
    return last @ b.T + (last if name == "stored as well" else 0)


def are_held(name: str) -> set[bool]:
    """Of the fragments that are made to be multiplied, or that loops carry."""
    (kernel,) = read_ac(text_of(name), "k.ac.mlir").kernels
    maps = [op for op in kernel.module.walk() if isinstance(op, FragmentMapOp)]
    kinds = [op.outputs[0].type for op in maps]
    assert all(isinstance(kind, ac.FragmentType) for kind in kinds)
    return {
        held_bank(op.outputs[0]) is not None
        for op, kind in zip(maps, kinds, strict=True)
        if kind.element.data == "bf16"
    }


@pytest.mark.parametrize("name", BODIES)
def test_what_stands_in_the_registers_when_it_is_multiplied_is_held(name: str) -> None:
    assert are_held(name) == {name in HELD}


@pytest.mark.parametrize("name", RUN)
def test_values(name: str, tmp_path: Path) -> None:
    inputs = inputs_of(SHAPE)
    modules = [each.module for each in read_ac(text_of(name), "k.ac.mlir").kernels]
    found = run_text(lower_to_ptx(modules, "sm_90a"), SHAPE, inputs, tmp_path)
    # Numbers that are rounded on the way fall to the other side now and then.
    np.testing.assert_allclose(found["y"], expected(name, inputs), rtol=1e-4, atol=0.02)


def test_a_held_chain_is_proven_and_moves_nothing() -> None:
    lowered = lower_text(text_of("a chain through a loop"), "k.ac.mlir")
    assert lowered.ptx is not None, lowered.report.error or lowered.report.kernels[0]
    products = [line for line in lowered.ptx.splitlines() if "wgmma.mma_async" in line]
    registers = {register for line in products for register in line.split("{")[2].split("}")[0].split(", ")}
    moves = [line for line in lowered.ptx.splitlines() if "mov.b32" in line]
    assert len(registers) == 16 and not any(register in line for line in moves for register in registers)
    packs = [line for line in lowered.ptx.splitlines() if "cvt.rn.bf16x2" in line]
    assert len(packs) == 2 * 16


def test_a_s_registers_are_kept_until_they_are_computed_anew() -> None:
    """Before each of the two maps, a branch that is always taken passes over stores of all of them, to places apart."""
    lowered = lower_text(text_of("a chain through a loop"), "k.ac.mlir")
    assert lowered.ptx is not None
    lines = [line.strip() for line in lowered.ptx.splitlines()]
    a = {
        register
        for line in lines
        if "wgmma.mma_async" in line
        for register in line.split("{")[2].split("}")[0].split(", ")
    }
    branches = [at for at, line in enumerate(lines) if " bra kept" in line]
    assert len(branches) == 2 and all(lines[at].startswith("@%p") for at in branches)
    for at in branches:
        end = lines.index(lines[at].split()[-1].rstrip(";") + ":")
        stores = lines[at + 1 : end]
        assert {name for line in stores for name in line.split("{")[1].split("}")[0].split(", ")} == a
        assert len({line.split("]")[0] for line in stores}) == len(stores) == len(a) // 4
        written = next(
            line for line in lines[end:] if any(f" {register}," in line.split(",")[0] + "," for register in a)
        )
        assert written.startswith("cvt.rn.bf16x2.f32")
