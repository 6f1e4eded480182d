"""Tiles that several CTAs walk, by the general generator: sums, proofs of program and text, mutants of both."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.contract.typestate.steps.stream_edits import MUTATIONS, SPOILED
from tests.end_to_end.walked_programs import finished, walked

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.program_sums import program_sums
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile_stream import TileStream
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

sys.path.insert(0, str(Path(__file__).parents[1] / "lower"))
from tests.lower.lowered_programs import Lowered, assert_close, lower, lower_decided, random_inputs

HOPPER = target("sm_90a")
TOGETHER: dict[str, Any] = {"tile": (128, 128), "stages": 3, "turns": False}
PING_PONG: dict[str, Any] = {"tile": (128, 64), "stages": 3, "turns": True, "consumers": 2}
LEVELS: dict[str, Any] = {"tile": (128, 192), "stages": 3, "accumulation": "precise"}


def streamed(
    shape: tuple[int, int, int], stream: TileStream, wanted: dict[str, Any], kernel: Kernel = matmul_kernel
) -> Lowered:
    """A product whose first tiles are cut, on a few CTAs."""
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    dims = dict(zip("MNK", shape, strict=True))
    decided = lower(kernel, dims, elements, wanted=Wanted(stream_k=False, **wanted))
    assert isinstance(decided.decisions, CascadeDecisions)
    decisions = replace(decided.decisions, cut=(stream,), ctas=stream.ctas)
    the_program(decided.module).attributes["decisions"] = to_attribute(decisions)
    return lower_decided(decided.module, decisions)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("shape", "stream", "wanted"),
    [
        pytest.param((128, 640, 448), TileStream(2, 1, 2), TOGETHER, id="one helper of two tiles"),
        pytest.param((128, 384, 384), TileStream(1, 3, 3), TOGETHER, id="more helpers than tiles"),
        pytest.param((200, 320, 392), TileStream(3, 2, 2), TOGETHER, id="edges of all axes"),
        pytest.param((128, 448, 640), TileStream(3, 2, 3), PING_PONG, id="ping-pong: helpers with two tiles and one"),
        pytest.param((128, 64, 384), TileStream(1, 1, 2), PING_PONG, id="ping-pong: one tile only"),
        pytest.param((128, 400, 320), TileStream(2, 1, 2), LEVELS, id="two levels"),
    ],
)
def test_the_sums_are_right(shape: tuple[int, int, int], stream: TileStream, wanted: dict[str, Any]) -> None:
    program = streamed(shape, stream, wanted)
    assert isinstance(verify(program.kernels[0], HOPPER), Proven)
    assert_close(program, random_inputs(program))


def test_an_epilogue_is_applied_to_whole_sums_alone() -> None:
    program = streamed((128, 192, 512), TileStream(2, 1, 2), PING_PONG, finished)
    assert_close(program, random_inputs(program))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("dims", "options"),
    [
        ({"M": 4096, "N": 4096, "K": 4096}, {"strides": {"b": (1, 4096)}}),
        ({"M": 1792, "N": 1280, "K": 2048}, {"tile": (128, 128), "stream_k": True}),
        (
            {"M": 4096, "N": 2112, "K": 4096},
            {"tile": (128, 128), "stream_k": True, "dtype": "f8e4m3", "strides": {"b": (1, 4096)}},
        ),
    ],
)
def test_leftover_tiles_are_cut_and_proved_twice(dims: dict[str, int], options: dict[str, Any]) -> None:
    """Where the model of stream-K expects a gain, and where it is asked for."""
    kind = options.get("dtype", "bf16")
    wishes = options | {"dtype": {"a": kind, "b": kind, "c": "bf16"}}
    wishes |= {"accumulation": "fast"} if kind == "f8e4m3" else {}
    _, decisions = walked(matmul_kernel, dims, **wishes)
    stream = decisions.stream
    assert stream is not None and decisions.ctas == stream.ctas == HOPPER.limit("device.multiprocessors")


def test_tiles_that_a_cluster_shares_are_not_cut() -> None:
    with pytest.raises(TilewrightError, match="CTAs of a cluster share what they load"):
        walked(matmul_kernel, {"M": 1792, "N": 1280, "K": 2048}, tile=(128, 128), cluster=(2, 1), stream_k=True)


@cache
def four_tiles(alternately: bool) -> Lowered:
    wanted = PING_PONG if alternately else TOGETHER
    return streamed((128, 4 * wanted["tile"][1], 4 * 64), TileStream(2, 1, 2), wanted)


@pytest.mark.parametrize("alternately", [False, True])
def test_the_protocol_is_proven(alternately: bool) -> None:
    assert isinstance(verify(four_tiles(alternately).kernels[0], HOPPER), Proven)


@pytest.mark.sample(8)
@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=[each.__name__ for each in MUTATIONS])
def test_what_the_argument_rests_on_may_not_be_missing(number: int) -> None:
    module = four_tiles(bool(number % 2)).kernels[0].clone()
    MUTATIONS[number](module)
    assert not isinstance(verify(module, HOPPER), Proven)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_text_is_refuted(name: str) -> None:
    old, new, codes = SPOILED[name]
    program = four_tiles(False)
    text = lower_to_ptx([program.kernels[0]], "sm_90a")
    assert old in text
    if name == "the flag not set back":
        text = "\n".join(line for line in text.splitlines() if old not in line)
    verdict = replay_plan(read(text.replace(old, new)), program.plan, {}, (0,))
    assert isinstance(verdict, Refuted), verdict
    assert {finding.code for finding in verdict.findings} & codes


def test_a_head_that_begins_where_its_tail_does_is_refuted() -> None:
    """Every slice is multiplied once: by the text's own sums, whatever is claimed."""
    large = lower(
        matmul_kernel, {"M": 4096, "N": 2112, "K": 4096},
        wanted=Wanted(tile=(128, 128), stream_k=True, stages=3),
    )  # fmt: skip
    instance = small_instance(large.module)
    small = lower_decided(instance, decisions_of(the_program(instance).attributes["decisions"]))
    (module,) = small.kernels
    (launch,) = small.plan.launches
    entry, claims = launch.entry, protocol_claims(module, HOPPER, boundaries=False)[0]
    sums = program_sums(the_program(instance), {})
    assert sums is not None
    text = lower_to_ptx([module], "sm_90a")
    assert isinstance(replay_plan(read(text), small.plan, {entry: claims}, (0,), sums=sums), Proven)
    assert isinstance(small.decisions, CascadeDecisions)
    stream = small.decisions.stream
    assert stream is not None
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if line.endswith(f", {stream.head_slices};") and "mov.u32" in line)
    lines[at] = lines[at].replace(f", {stream.head_slices};", ", 0;")
    verdict = replay_plan(read("\n".join(lines)), small.plan, {entry: claims}, (0,), sums=sums)
    assert isinstance(verdict, Refuted), verdict
    assert "UM105" in {finding.code for finding in verdict.findings}
