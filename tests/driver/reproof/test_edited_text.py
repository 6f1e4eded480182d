"""A large text in which an immediate is edited to one that the small text does not contradict is refuted."""

import re

import pytest
from tests.driver.reproof.decided_parts import decided_alone
from tests.end_to_end import kernels
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.reproof.reproof import reprove
from tilewright.driver.reproof.small import immediate_pairs, same_but_for_extents, small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted

TARGET = "sm_90a"
_NUMBER = re.compile(r"(?<![%\w.$+])\d+(?![\w.])")


def text_of(module: ModuleOp) -> str:
    return lower_to_ptx([kernel.module for kernel in lower_program(the_program(module)).kernels], TARGET)


@pytest.mark.sample(1)
@pytest.mark.parametrize("m,n,k", [(256, 9000, 2048), (640, 640, 640)])
def test_an_edit_of_the_large_text_alone(m: int, n: int, k: int) -> None:
    """Each immediate that differs is given the small text's own number, at the same place."""
    module = decided_alone(kernels.matmul, {"M": m, "N": n, "K": k}, Wanted(tile=(64, 64), stages=2))
    instance = small_instance(module)
    large, small = text_of(module), text_of(instance)
    pairs = immediate_pairs(the_program(module), the_program(instance))
    assert isinstance(reprove(module, large, TARGET, "matmul"), Proven)
    unseen: dict[str, str] = {}
    lines, parsed = large.split("\n"), read(small)
    for at, (one, other) in enumerate(zip(lines, small.split("\n"), strict=True)):
        if one != other:
            edited = "\n".join([*lines[:at], other, *lines[at + 1 :]])
            if not same_but_for_extents(read(edited), parsed, pairs):
                unseen.setdefault(_NUMBER.sub("#", one), edited)
    assert unseen, "the small text contradicts each edit"
    for line, edited in unseen.items():
        assert isinstance(reprove(module, edited, TARGET, "matmul"), Refuted), line


def test_what_else_a_text_says() -> None:
    module = decided_alone(kernels.matmul, {"M": 128, "N": 128, "K": 256}, Wanted(tile=(64, 64), stages=2))
    text = text_of(module)
    edited = text.replace(".align 1024", ".align 16")
    assert edited != text
    verdict = reprove(module, edited, TARGET, "matmul")
    assert isinstance(verdict, Refuted)
    assert [finding.code for finding in verdict.findings] == ["LV090"]
