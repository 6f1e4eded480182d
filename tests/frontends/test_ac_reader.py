"""Texts of `ac` kernels are read with the place of every operation, and what is none is refused at its place."""

from __future__ import annotations

import random
import re

import pytest
from tests.ac_edits import edited
from tests.ac_samples import NAMES, TARGET, equal, modules_of, target_of
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.frontends.ac.reader import read_ac
from tilewright.ir.ac.text import ac_text

KERNEL = """\
ac.kernel @k [
    symbols = {K = 4}, minima = {K = 1}, grid = [1, 1, 1], cluster = [1, 1, 1], block = [128, 1, 1],
    dynamic_smem_bytes = 32, launch_registers = 0] {
  %r = ac.ring @r [stages = 2, full_arrivals = 1, empty_arrivals = 1, address = 0]
  ac.mbarrier.init %r
  // a comment with a "quote
  ac.role @reader [execution = #tier.exec<warpgroup128, count = 1, first_thread = 0>, registers = 0] (%unit) {
    %start = ac.cursor.start full %r
  }
}
"""


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_files_read_again_as_the_kernels_that_were_written(name: str) -> None:
    modules = modules_of(name)
    text = ac_text(modules, target_of(name))
    read = read_ac(text, "k.ac.mlir")
    assert read.target == target_of(name)
    for kernel, module in zip(read.kernels, modules, strict=True):
        assert equal(kernel.module, module)
    assert ac_text([kernel.module for kernel in read.kernels], target_of(name)) == text


def test_every_operation_has_the_place_where_it_begins() -> None:
    text = ac_text(modules_of("odd M and N"), TARGET)
    read = read_ac(text, "k.ac.mlir")
    assert len(read.kernels) == 2
    lines, places = text.split("\n"), []
    for kernel in read.kernels:
        for op in kernel.module.walk():
            if isinstance(op, ModuleOp):
                continue
            span = kernel.place(op)
            begin = lines[span.line - 1][span.column - 1 :]
            assert re.match(rf"(%[^=]* = )?{re.escape(op.name)}\b", begin), (op.name, begin)
            places.append((span.line, span.column))
    assert places == sorted(set(places))


def test_kernels_may_stand_in_modules_or_alone() -> None:
    assert [each.name for each in read_ac(KERNEL, "k").kernels] == ["k"]
    several = f"builtin.module {{\n{KERNEL}}}\nbuiltin.module {{\n{KERNEL.replace('@k', '@l')}}}\n"
    assert [each.name for each in read_ac(several, "k").kernels] == ["k", "l"]
    assert read_ac(f'builtin.module attributes {{ac.target = "sm_90a"}} {{\n{KERNEL}}}', "k").target == "sm_90a"


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "said"),
    [
        ("stages = 2", "stages = 2 three", 4, 31, "']' expected"),
        ("stages = 2", 'stages = "2', 4, 29, "a string does not end on its line"),
        ("stages = 2", "stages = [2]", 4, 29, "stages of ac.ring cannot be [2]"),
        ("ac.mbarrier.init %r", "ac.mbarrier.init %q", 5, 20, "%q is not defined before this use"),
        ("ac.mbarrier.init %r", "ac.mbarrier.init", 7, 3, "expected a value, such as %tx"),
        ("warpgroup128", "wargroup", 7, 81, "unknown execution unit 'wargroup'"),
        ("full %r", "full %r [side = full]", 8, 39, "ac.cursor.start has side twice"),
        ("%start = ac", "%start, %more = ac", 8, 5, "Operation has 1 results, but was given 2"),
        ("}\n}\n", "}\n", 10, 1, "expected an operation, or a closing }"),
        ("}\n}\n", "}\n}\n" + KERNEL, 11, 1, "a second kernel is called k"),
        ("}\n}\n", "}\n}\nac.unregistered\n", 12, 1, "not registered"),
        ("}\n}\n", '}\n}\n%0 = "ac.split.index"() : () -> !ac.index\n', 11, 1, "stands outside a kernel"),
        ("}\n}\n", "}\n}\nbuiltin.module attributes {ac.target = 90} {\n}\n", 11, 1, "ac.target is no name"),
    ],
)
def test_what_is_no_text_of_the_dialect_is_refused_at_its_place(
    old: str, new: str, line: int, column: int, said: str
) -> None:
    assert old in KERNEL
    with pytest.raises(TilewrightError) as caught:
        read_ac(KERNEL.replace(old, new), "k.ac.mlir")
    error = caught.value
    assert said in error.message and error.remedy and "\n" not in error.message
    assert error.span is not None and error.span.file == "k.ac.mlir"
    assert (error.span.line, error.span.column) == (line, column)


def test_modules_for_two_targets_are_refused() -> None:
    both = "".join(f'builtin.module attributes {{ac.target = "{name}"}} {{\n}}\n' for name in ("sm_90a", "sm_100a"))
    with pytest.raises(TilewrightError, match="sm_90a and sm_100a"):
        read_ac(both, "k")


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(30))
def test_edited_texts_are_read_or_refused(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(5):
        text = edited(ac_text(modules_of(source.choice(NAMES)), TARGET), source)
        try:
            read = read_ac(text, "k.ac.mlir")
        except TilewrightError as error:
            assert error.message and error.remedy and error.span is not None
        else:
            again = read_ac(ac_text([kernel.module for kernel in read.kernels], TARGET), "k.ac.mlir")
            for first, second in zip(read.kernels, again.kernels, strict=True):
                assert equal(first.module, second.module)
