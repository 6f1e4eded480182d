"""Reads of bytes that nobody has written: exact for every byte, in shared memory and in workspaces, over the launches
of a plan; a right kernel reads none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.flag_kernel import flag_buffers, flag_launch, flag_text
from tests.contract.replay_kernels import copy_buffers, copy_launch, copy_text

from tilewright.base.diagnostic import Level
from tilewright.base.element import Element
from tilewright.base.plan import Buffer, Launch, LaunchPlan, PointerParam
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.history.granules import SEGMENT_BYTES
from tilewright.contract.history.shadow_memory import Record, ShadowMemory
from tilewright.contract.judge.happens_before import HappensBefore
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.unwritten import Contents, FreshBytes, UnwrittenBuffers, unwritten_buffers
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.whole_results import unwritten_results
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core import event as ev

STEPS = 4


def codes(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings} if isinstance(verdict, Refuted) else set()


# ---------------------------------------------------------------- bytes

RANGES = st.lists(st.tuples(st.integers(0, 190), st.integers(1, 40)), min_size=1, max_size=3)


def merged(parts: list[tuple[int, int]]) -> ev.Ranges:
    base = SEGMENT_BYTES - 96
    held = sorted({base + byte for begin, size in parts for byte in range(begin, begin + size)})
    starts = [byte for byte in held if byte - 1 not in held]
    return tuple((start, next(end for end in range(start + 1, held[-1] + 2) if end not in held)) for start in starts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), RANGES), min_size=1, max_size=8), RANGES)
def test_never_written_is_exact_for_every_byte(
    sequence: list[tuple[bool, list[tuple[int, int]]]], asked: list[tuple[int, int]]
) -> None:
    memory = ShadowMemory()
    written: set[int] = set()
    for number, (write, parts) in enumerate(sequence):
        ranges = merged(parts)
        memory.conflicts(Record(ev.WarpActor(0, 0), number, write, False, Span("s", number), ranges))
        held = {byte for begin, end in ranges for byte in range(begin, end)}
        assert memory.met_unwritten == bool(held - written)
        written |= held if write else set()
    ranges = merged(asked)
    found = {byte for begin, end in memory.never_written(ranges) for byte in range(begin, end)}
    assert found == {byte for begin, end in ranges for byte in range(begin, end)} - written


@settings(max_examples=60, deadline=None)
@given(RANGES, RANGES)
def test_fresh_bytes_are_met_exactly(fresh: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    held, ranges = merged(fresh), merged(asked)
    both = any(begin < stop and start < end for begin, end in held for start, stop in ranges)
    assert Contents((FreshBytes("w", 0, held),)).may_lack(ranges) == both


# ---------------------------------------------------------------- shared memory


def test_staging_that_nobody_fills() -> None:
    module = read(copy_text(stage=""), "double.ptx")
    assert codes(replay(module, copy_launch(STEPS), copy_buffers(STEPS))) == {"UM101"}
    verdict = replay(module, copy_launch(STEPS), copy_buffers(STEPS), interpretations=tolerant())
    assert isinstance(verdict, Proven) and any("UM101" in line for line in verdict.assumptions)


def test_the_bytes_that_lack_are_named() -> None:
    half = "setp.lt.u32 %p6, %r7, 16;\n@%p6 st.shared.v4.f32 [%r17], {%f0, %f1, %f2, %f3};\n"
    verdict = replay(read(copy_text(stage=half), "double.ptx"), copy_launch(STEPS), copy_buffers(STEPS))
    assert isinstance(verdict, Refuted) and codes(verdict) == {"UM101"}
    staging = 1024
    assert f"[{staging + 256:#x}, {staging + 512:#x})" in verdict.findings[0].message


def test_elements_out_of_bounds_are_written() -> None:
    """A tensor map with fewer rows than the boxes cover: the rest of the last box is filled with zeros."""
    launch = copy_launch(STEPS)
    source, *others = launch.params
    shorter = replace(source, map=replace(source.map, dims=(32, 4 * STEPS - 3)))  # type: ignore[union-attr]
    module = read(copy_text(), "double.ptx")
    verdict = replay(module, replace(launch, params=(shorter, *others)), copy_buffers(STEPS))
    assert isinstance(verdict, Proven), verdict


def test_what_depends_on_data_is_a_doubt() -> None:
    judge = HappensBefore(Launch("k", (1, 1, 1), (32, 1, 1), ()), contents=Contents())
    judge.feed(ev.Access(ev.WarpActor(0, 0), "shared", 0, ((0, 4),), False, "generic", Span("s", 1), uncertain=True))
    assert not judge.finish() and any("nobody has written" in doubt for doubt in judge.doubts)


def test_an_atomic_operation_reads() -> None:
    judge = HappensBefore(Launch("k", (1, 1, 1), (32, 1, 1), ()), contents=Contents())
    for line in (1, 2):
        judge.feed(
            ev.Access(
                ev.WarpActor(0, 0), "shared", 0, ((0, 4),), True, "generic", Span("s", line), atomic=True,
                order="relaxed", scope="cta", modifies=True,
            )
        )  # fmt: skip
    (finding,) = judge.finish()
    assert (finding.code, finding.level, finding.primary) == ("UM101", Level.ERROR, Span("s", 1))


# ---------------------------------------------------------------- buffers


def handed(unwritten: dict[str, int], **changed: str) -> tuple[Verdict, UnwrittenBuffers]:
    """The kernel whose CTAs hand sums on, on buffers of which some hold nothing."""
    buffers = flag_buffers()
    state = UnwrittenBuffers({name: ((0, size),) for name, size in unwritten.items()})
    module = read(flag_text(**changed), "flag.ptx")
    return replay(module, flag_launch(), buffers, restored=("flags",), unwritten=state), state


def test_handed_sums_are_written_first() -> None:
    sizes = {name: data.size for name, data in flag_buffers().items()}
    verdict, left = handed({"slots": sizes["slots"], "sums": sizes["sums"]})
    assert isinstance(verdict, Proven), verdict
    assert left.ranges == {"slots": ((1024, 1536),), "sums": ((0, 512),)}
    spoiled, _ = handed({"slots": sizes["slots"]}, write="")
    assert codes(spoiled) == {"UM102"}
    assert isinstance(spoiled, Refuted) and "of slots, which nobody has written" in spoiled.findings[0].message
    half, _ = handed({"slots": sizes["slots"]}, write="st.global.u32 [%rd6], %r6;\n")
    assert codes(half) == {"UM102"}
    flags, _ = handed({"flags": sizes["flags"]})
    assert "UM102" in codes(flags)


COPY = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry pass(.param .u64 source, .param .u64 target) {
.reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .f32 %f<2>;
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
ld.param.u64 %rd1, [source];
ld.param.u64 %rd2, [target];
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
ld.global.f32 %f0, [%rd4];
st.global.f32 [%rd5], %f0;
ret;
}
"""


def passed(first_threads: int, *, zeroed: bool = False) -> Verdict:
    """a to w by some threads, then w to c by 32."""
    names = (("a", "input", False), ("w", "workspace", zeroed), ("c", "output", False))
    plan = LaunchPlan(
        tuple(Buffer(name, Element.F32, (32,), (1,), role, zero) for name, role, zero in names),  # type: ignore[arg-type]
        tuple(
            Launch("pass", (1, 1, 1), (threads, 1, 1), (PointerParam(source), PointerParam(target)))
            for source, target, threads in (("a", "w", first_threads), ("w", "c", 32))
            if threads
        ),
    )
    return replay_plan(read(COPY, "pass.ptx"), plan, {}, (0, 1))


def test_a_launch_before_may_have_written_a_workspace() -> None:
    assert isinstance(passed(32), Proven)
    assert codes(passed(0)) == {"UM102"}
    short = passed(20)
    assert isinstance(short, Refuted) and "bytes [80, 128) of w" in short.findings[0].message
    assert isinstance(passed(0, zeroed=True), Proven)


def test_what_a_plan_begins_with() -> None:
    buffers = (
        Buffer("a", Element.F32, (4,), (1,), "input"),
        Buffer("w", Element.F32, (4,), (1,), "workspace"),
        Buffer("z", Element.U32, (4,), (1,), "workspace", zeroed=True),
        Buffer("c", Element.BF16, (2, 4), (8, 1), "output"),
    )
    assert unwritten_buffers(LaunchPlan(buffers, ())).ranges == {"w": ((0, 16),), "c": ((0, 24),)}


@pytest.mark.parametrize("size", [1, 100, 5 << 20])
def test_addresses_are_those_of_the_run(size: int) -> None:
    """A buffer of another size comes first; what is found is still named by its offset in the one that is meant."""
    buffers = {"before": np.zeros(size, np.uint8), "w": np.zeros(128, np.uint8), "c": np.zeros(128, np.uint8)}
    launch = Launch("pass", (1, 1, 1), (32, 1, 1), (PointerParam("w"), PointerParam("c")))
    verdict = replay(read(COPY, "pass.ptx"), launch, buffers, unwritten=UnwrittenBuffers({"w": ((64, 128),)}))
    assert isinstance(verdict, Refuted) and "bytes [64, 128) of w" in verdict.findings[0].message
    assert not isinstance(
        replay(read(COPY, "pass.ptx"), launch, buffers, unwritten=UnwrittenBuffers({"before": ((0, size),)})), Unknown
    )


def test_gaps_between_rows_belong_to_nobody() -> None:
    buffer = Buffer("c", Element.BF16, (2, 3), (5, 1), "output")
    plan = LaunchPlan((buffer,), ())
    gaps = UnwrittenBuffers({"c": ((6, 10),)})
    assert unwritten_results(plan, gaps, {"c"}, {}) == ()
    (finding,) = unwritten_results(plan, UnwrittenBuffers({"c": ((6, 11), (13, 14))}), {"c"}, {})
    assert finding.code == "UM103" and "2 elements of c" in finding.message and "[1, 0]" in finding.message
    assert unwritten_results(plan, UnwrittenBuffers({"c": ((0, 16),)}), frozenset(), {}) == ()
