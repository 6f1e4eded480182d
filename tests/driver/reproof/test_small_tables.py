"""Tables in the proof of the text: what they hold, and texts in which they decide more than where is read."""

import re
from functools import cache

import numpy as np
import pytest
from tests.paged_programs import embedded, paged

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_tables import only_places, table_contents
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted


@cache
def compiled(name: str) -> Compilation:
    if name == "paged":
        dims = {"H": 3, "Q": 4, "T": 96, "E": 16, "F": 16, "P": 40, "S": 16}
        return compile_kernel(paged, dims=dims, wanted=Wanted(depth=32, consumers=1), rerun=False, assembled=False)
    return compile_kernel(embedded, dims={"R": 9, "N": 40, "M": 20}, rerun=False, assembled=False)


def small(name: str):
    """Text, plan and tables' contents of the small instance."""
    program = the_program(small_instance(compiled(name).parts[0].module))
    lowered = lower_program(program)
    text = lower_to_ptx([kernel.module for kernel in lowered.kernels], "sm_90a")
    return text, launch_plan(lowered), table_contents(program)


def judged(name: str, text: str):
    _, plan, contents = small(name)
    return replay_plan(parsed(text), plan, {}, (0,), contents, tables=frozenset(contents))


def parsed(text: str) -> Module:
    return read(text, "<small>")


def edited(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_tables_hold_places_some_twice_and_numbers_that_are_none():
    _, plan, contents = small("paged")
    held = contents["table"].view(np.int32)
    pages = next(buffer for buffer in plan.buffers if buffer.name == "K").shape[0]
    assert pages == 3 and set(held.tolist()) == {-1, 0, 1, 2, 3}


@pytest.mark.parametrize("name", ["paged", "embedded"])
def test_tables_say_where_is_read(name):
    text, plan, contents = small(name)
    assert only_places(parsed(text), plan, contents, frozenset(contents))
    assert isinstance(judged(name, text), Proven)


def index_load(text: str) -> tuple[str, str]:
    """The line that loads an index, and its register."""
    found = next(match for match in re.finditer(r".*ld\.global(?:\.nc)?\.b32 (%\w+),.*", text))
    return found.group(), found.group(1)


def _reason(verdict: Verdict) -> str:
    assert isinstance(verdict, Unknown)
    return verdict.reasons[0]


def with_more(text: str, behind: str, more: str) -> str:
    """With further lines behind one, and registers of their own."""
    body = text.index("{", text.index(".entry")) + 1
    declared = "\n\t.reg .pred %stray;\n\t.reg .b32 %left;"
    return text[:body] + declared + edited(text[body:], behind, f"{behind}\n{more}")


def test_a_table_that_decides_how_often_a_loop_runs_is_no_proof():
    text, _, _ = small("paged")
    line, register = index_load(text)
    loop = f"\tmov.b32 %left, {register};\n$stray:\n\tsub.s32 %left, %left, 1;\n"
    loop += "\tsetp.gt.s32 %stray, %left, 0;\n\t@%stray bra $stray;"
    changed = with_more(text, line, loop)
    assert "may decide more" in _reason(judged("paged", changed))


def test_a_table_may_decide_which_arithmetic_is_passed_over():
    text, _, _ = small("paged")
    line, register = index_load(text)
    passed = f"\tmov.b32 %left, 0;\n\tsetp.eq.s32 %stray, {register}, 7;\n\t@%stray bra $stray;\n"
    changed = with_more(text, line, f"{passed}\tadd.s32 %left, %left, 1;\n$stray:")
    assert isinstance(judged("paged", changed), Proven)


def test_a_table_that_decides_where_is_stored_is_no_proof():
    text, _, _ = small("embedded")
    _, register = index_load(text)
    store = next(each for each in text.split("\n") if "st.global.b16" in each)
    address = store.split("[")[1].split("]")[0]
    moved = f"\tmad.wide.s32 {address}, {register}, 0, {address};\n{store}"
    assert "may decide more" in _reason(judged("embedded", edited(text, store, moved)))


def test_a_table_that_decides_by_a_branch_where_is_stored_is_no_proof():
    text, _, _ = small("embedded")
    line, register = index_load(text)
    store = next(each for each in text.split("\n") if "st.global.b16" in each)
    address = store.split("[")[1].split("]")[0]
    passed = f"\tsetp.eq.s32 %stray, {register}, 7;\n\t@%stray bra $stray;\n\tadd.s64 {address}, {address}, 0;\n$stray:"
    changed = with_more(edited(text, store, f"{passed}\n{store}"), line, "")
    assert "may decide more" in _reason(judged("embedded", changed))


def test_bytes_that_pages_do_not_bring_are_refuted():
    text, _, _ = small("paged")
    line = next(each for each in text.split("\n") if "expect_tx" in each and "4096;" in each)
    verdict = judged("paged", edited(text, line, line.replace("4096;", "6144;")))
    assert isinstance(verdict, Refuted)


def test_a_page_less_is_refuted():
    text, _, _ = small("paged")
    _, register = index_load(text)
    copy = next(each for each in text.split("\n") if "cp.async.bulk.tensor" in each and f"{register}}}" in each)
    assert isinstance(judged("paged", edited(text, copy + "\n", "")), Refuted)


def test_other_arrays_still_decide_nothing():
    """What x holds may not say where is read, although ids may."""
    text, plan, contents = small("embedded")
    assert "cvta.to.global.u64 %rd1, %rd0;" in text and "ld.param.u64 %rd0, [x_param];" in text
    line, _ = index_load(text)
    changed = edited(text, line, line.split("[")[0] + "[%rd1];")
    assert not only_places(parsed(changed), plan, contents, frozenset(contents))
