# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""The small instance of a product over groups: which sizes it runs with, how close its groups stand, what it claims."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.driver.reproof.decided_parts import decided_alone
from tests.end_to_end.kernels import consecutive
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_groups import at_these_sizes, group_sizes, group_tiles, limits_of
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def apart(x: tw.Tensor["G", "T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G"], y: tw.Tensor["G", "T", "N"]):
    g, i, j = tw.grid("G", tw.within("T", ends), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, j, k].T)
    y[g, i, j] = acc


def decided(kernel: tw.Kernel = consecutive, rows: int = 4096, groups: int = 64) -> ModuleOp:
    elements = {parameter.name: Element.BF16 for parameter in kernel.parameters} | {"ends": Element.S32}
    module = walked(trace(kernel, {"T": rows, "G": groups, "K": 4096, "N": 8192}, elements), HOPPER)
    decide(the_program(module), HOPPER, Wanted(tile=(64, 128), stages=2))
    return module


def text_of(module: ModuleOp) -> str:
    return lower_to_ptx([kernel.module for kernel in lower_program(the_program(module)).kernels], "sm_90a")


@given(st.integers(1, 9), st.integers(1, 400), st.sampled_from([64, 128]), st.booleans())
def test_sizes_fit_the_rows(groups: int, rows: int, tile_rows: int, apart: bool) -> None:
    sizes = group_sizes(groups, rows, tile_rows, apart=apart)
    assert len(sizes) == groups
    assert min(sizes) >= 0
    assert (max(sizes) if apart else sum(sizes)) <= rows


def test_enough_rows_make_every_sort_of_group() -> None:
    sizes = group_sizes(5, 400, 64, apart=False)
    assert sizes[0] == 0
    assert any(size > 64 and size % 64 for size in sizes)
    assert any(0 < size < 64 for size in sizes)
    assert 0 in sizes[1:-1]
    assert sum(sizes) < 400


@pytest.mark.sample(5)
@pytest.mark.parametrize("rows", [3, 8, 14, 15, 64, 70, 400])
@pytest.mark.parametrize("tile_rows", [64, 128])
def test_few_rows_are_shared_by_several_groups(rows: int, tile_rows: int) -> None:
    sizes = group_sizes(5, rows, tile_rows, apart=False)
    assert [size > 0 for size in sizes] == [False, True, False, True, True]
    assert group_tiles(5, rows, tile_rows, apart=False) >= 3


def test_a_slot_that_is_lost_between_tiles_of_few_rows_is_refuted() -> None:
    instance = small_instance(decided(rows=64))
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    claims = at_these_sizes(
        instance, {entry: protocol_claims(module, HOPPER, boundaries=False)[0] for entry, module in modules.items()}
    )
    lines = lower_to_ptx(list(modules.values()), "sm_90a").split("\n")
    # The producer's: where its loop over slices ends.
    loop_end = next(number for number, line in enumerate(lines) if line.startswith("loop_end"))
    lost = next(number for number in range(loop_end, len(lines)) if lines[number].startswith("\tmov.b32 %r"))
    for text, kind in ((lines, Proven), ([*lines[:lost], *lines[lost + 1 :]], Refuted)):
        verdict = replay_plan(read("\n".join(text)), launch_plan(lowered), claims, (0,), limits_of(instance))
        assert isinstance(verdict, kind)


@pytest.mark.parametrize("kernel", [consecutive, apart])
def test_the_text_is_proven(kernel: tw.Kernel) -> None:
    module = decided(kernel)
    assert isinstance(reprove(module, text_of(module), "sm_90a", kernel.name), Proven)


@pytest.mark.parametrize("kernel", [consecutive, apart])
def test_groups_of_the_instance_take_little_memory(kernel: tw.Kernel) -> None:
    plan = launch_plan(lower_program(the_program(small_instance(decided(kernel)))))
    assert all(buffer.span_bytes < 1 << 24 for buffer in plan.buffers)


def test_limits_are_ends_or_counts() -> None:
    (ends,) = limits_of(small_instance(decided())).values()
    (counts,) = limits_of(small_instance(decided(apart))).values()
    assert np.array_equal(np.cumsum(counts.view(np.int32)), ends.view(np.int32))


def test_a_program_without_groups_has_no_limits() -> None:
    @tw.kernel
    def plain(x: tw.Tensor["T", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["T", "N"]):
        i, j = tw.grid("T", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(x[i, k], w[k, j])
        y[i, j] = acc

    assert limits_of(small_instance(decided_alone(plain, {"T": 256, "K": 128, "N": 256}))) == {}


def test_another_number_of_tiles_than_the_sizes_make_is_refuted() -> None:
    """The claims are put at one number, and a run that does more or less work departs from them."""
    instance = small_instance(decided())
    lowered = lower_program(the_program(instance))
    (kernel,) = lowered.kernels
    claims = at_these_sizes(instance, {kernel.name: protocol_claims(kernel.module, HOPPER)[0]})
    text, limits = read(lower_to_ptx([kernel.module], "sm_90a")), limits_of(instance)
    plan = launch_plan(lowered)
    assert isinstance(replay_plan(text, plan, claims, (0,), limits), Proven)
    values = dict(claims[kernel.name].symbols)
    for tiles in (values["tiles"] - 1, values["tiles"] + 1):
        other = {kernel.name: replace(claims[kernel.name], symbols=tuple({**values, "tiles": tiles}.items()))}
        assert isinstance(replay_plan(text, plan, other, (0,), limits), Refuted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ld.global.b32", "ld.relaxed.gpu.global.b32"),
        ("add.u32 {tile}, {tile}", "sub.u32 {tile}, {tile}"),
    ],
)
def test_an_edited_walk_is_another_text(old: str, new: str) -> None:
    module = decided()
    text = text_of(module)
    register = next(line.split()[1].rstrip(",") for line in text.splitlines() if "%ctaid.x" in line)
    edited = text.replace(old.format(tile=register), new.format(tile=register), 1)
    assert edited != text
    assert isinstance(reprove(module, edited, "sm_90a", "consecutive"), Refuted)


@tw.kernel
def with_a_bias(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "N", "K"],
    b: tw.Tensor["G", "N"],
    ends: tw.Tensor["G"],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc + b[g, j]


@pytest.mark.parametrize("turns", [False, True])
def test_vectors_of_groups_and_turns_keep_their_text(turns: bool) -> None:
    elements = {parameter.name: Element.BF16 for parameter in with_a_bias.parameters} | {"ends": Element.S32}
    module = walked(trace(with_a_bias, {"T": 4096, "G": 64, "K": 2048, "N": 8192}, elements), HOPPER)
    decide(the_program(module), HOPPER, Wanted(tile=(128, 128), turns=turns))
    assert isinstance(reprove(module, text_of(module), "sm_90a", "with_a_bias"), Proven)
