"""A small text read beside the large one is what the reader makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.end_to_end.compiled_programs import PROGRAMS, TARGET, decided
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_text import read_beside
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program


def text_of(module: ModuleOp) -> str:
    return lower_to_ptx([kernel.module for kernel in lower_program(the_program(module)).kernels], TARGET)


def in_one_file(module: Module) -> Module:
    """The module with all spans in one file."""

    def moved(kernel: Module) -> Module:
        return replace(
            kernel,
            kernels=tuple(
                replace(
                    each,
                    body=tuple(replace(item, span=replace(item.span, file="")) for item in each.body),
                    span=replace(each.span, file=""),
                )
                for each in kernel.kernels
            ),
        )

    return moved(module)


def in_words(module: Module) -> str:
    return str(in_one_file(module)).replace("large.ptx", "small.ptx")


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_what_the_reader_makes_of_it(name: str) -> None:
    large, small = text_of(decided(name)), text_of(small_instance(decided(name)))
    found = read_beside(read(large, "large.ptx"), large, small, "small.ptx")
    assert in_words(found) == in_words(read(small, "small.ptx"))


EDITS = (
    ("\tmov.u32 %r", "\tmov.u32 %r1, 7; mov.u32 %r"),
    ("\tmov.u32 %r", "\t/* a comment */ mov.u32 %r"),
    ("\tmov.u32 %r", "\tmov.u32\n%r"),
    (".reg .pred", ".reg .b32 %more<4>; .reg .pred"),
    (".maxntid 2", ".maxntid 3"),
    ("bar.sync", "bar.arrive"),
)


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_texts_that_differ_in_other_ways_are_read_as_well(old: str, new: str) -> None:
    large = text_of(decided("plain"))
    small = large.replace(old, new, 1)
    module = read(large, "large.ptx")
    try:
        expected = in_words(read(small, "small.ptx"))
    except TilewrightError as error:
        with pytest.raises(TilewrightError, match=error.message.split("`")[0].replace(".", r"\.")):
            read_beside(module, large, small, "small.ptx")
        return
    assert in_words(read_beside(module, large, small, "small.ptx")) == expected
