# ruff: noqa: F821, UP037  (axis names are quoted in annotations and are no forward references)
"""Runs without values that decide nothing: the events of full runs, and no answer where a value would decide."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.end_to_end.compiled_programs import emitted
from tests.machine.small_kernels import launch, module

import tilewright as tw
from tilewright.base.plan import PointerParam
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Event
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import region
from tilewright.machine.core.run import run_launch
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded, hull_of
from tilewright.machine.instruction.tensor_core import tcgen05_mma

POINTER = ".param .u64 out"
ALONE = ".reqnctapercluster 1"


def without_values(text: Module, out: NDArray[np.uint32], *made_up: str) -> tuple[list[Event], DroppedValues]:
    """Events of a kernel whose one parameter points to `out`, and what the run has dropped."""
    events: list[Event] = []
    dropped = DroppedValues(set(made_up))
    buffers = {"out": out.view(np.uint8)}
    run_launch(text, launch(PointerParam("out")), buffers, observe=events.append, dropped=dropped)
    return events, dropped


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["plain", "bias-gelu", "direct-store", "cluster-1x2-direct"])
def test_the_events_of_emitted_kernels_are_those_of_full_runs(name: str) -> None:
    item = emitted(name)
    text, each = read(item.text, "k.ptx"), item.plan.launches[-1]
    random = np.random.default_rng(0)
    seen: list[list[Event]] = []
    outputs: list[NDArray[np.uint8]] = []
    for dropped in (None, DroppedValues()):
        buffers = {
            buffer.name: np.zeros(max(1, buffer.span_bytes), np.uint8)
            if dropped is not None
            else random.integers(0, 64, size=max(1, buffer.span_bytes), dtype=np.uint8)
            for buffer in item.plan.buffers
        }
        events: list[Event] = []
        run_launch(text, each, buffers, seed=3, observe=events.append, dropped=dropped)
        seen.append(events)
        outputs.append(buffers["c"])
        assert dropped is None or ("c" in dropped.regions and "a" not in dropped.regions)
    assert [str(event) for event in seen[0]] == [str(event) for event in seen[1]]
    assert outputs[0].any() and not outputs[1].any()


ASYNC = (
    ".shared .align 16 .b8 memory[256]; mov.u32 %r1, %tid.x; mov.u32 %r4, memory; setp.eq.u32 %p1, %r1, 0;"
    "@%p1 mbarrier.init.shared::cta.b64 [%r4+128], 1; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+128], 128;"
    "bar.sync 0; ld.param.u64 %rd1, [out]; ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; mad.lo.u32 %r5, %r1, 4, %r4;"
    "mapa.shared::cluster.u32 %r6, %r5, 0; add.u32 %r7, %r4, 128; mapa.shared::cluster.u32 %r8, %r7, 0;"
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], {value}, [%r8];"
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+128], 0; @!%p2 bra WAIT;"
    "ld.shared.u32 %r9, [%r5]; {then} st.global.u32 [%rd1+8], %r9; ret;"
)
"""Every lane sends a word to its CTA's shared memory, and reads it there."""


def test_what_is_sent_asynchronously_is_followed() -> None:
    seen: list[list[str]] = []
    for dropped in (None, DroppedValues()):
        events: list[Event] = []
        out = np.arange(5, 13, dtype=np.uint32)
        run_launch(
            module(ASYNC.format(value="%r2", then=""), parameters=POINTER, directives=ALONE),
            launch(PointerParam("out")),
            {"out": out.view(np.uint8)}, observe=events.append, dropped=dropped,
        )  # fmt: skip
        seen.append([str(event) for event in events])
        assert out[2] == (6 if dropped is None else 7)
        assert dropped is None or len(dropped.regions) == 2
    assert seen[0] == seen[1]
    with pytest.raises(MachineFault, match="never wrote"):
        without_values(
            module(ASYNC.format(value="%r19", then=""), parameters=POINTER, directives=ALONE),
            np.arange(5, 13, dtype=np.uint32),
        )


def test_what_was_sent_undone_and_decides_is_needed() -> None:
    decides = "setp.eq.u32 %p3, %r9, 6; @%p3 bra OUT; bar.sync 0; OUT:"
    out = np.arange(5, 13, dtype=np.uint32)
    with pytest.raises(ValueNeeded):
        without_values(module(ASYNC.format(value="%r2", then=decides), parameters=POINTER, directives=ALONE), out)


DATA = "ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; {} st.global.u32 [%rd1+8], {}; ret;"


def test_what_is_only_stored_is_not_computed() -> None:
    out = np.arange(5, 9, dtype=np.uint32)
    events, dropped = without_values(module(DATA.format("", "%r2"), parameters=POINTER), out)
    assert dropped.regions == {"out"} and out.tolist() == [5, 6, 7, 8]
    assert [type(event).__name__ for event in events] == ["Access", "Access", "Exit"]


def test_what_a_warp_passes_over_decides_no_more_than_that_computes() -> None:
    """Arithmetic alone, for a whole warp by a vote; a branch of lanes may leave some of them behind."""
    passes = "setp.eq.u32 %p1, %r2, 6; {} @%p2 bra OUT; add.u32 %r2, %r2, 1; OUT:"
    votes = module(DATA.format(passes.format("vote.sync.all.pred %p2, %p1, -1;"), "%r2"), parameters=POINTER)
    events, dropped = without_values(votes, np.arange(5, 9, dtype=np.uint32), "out")
    assert dropped.regions == {"out"} and [type(event).__name__ for event in events] == ["Access", "Access", "Exit"]
    by_lanes = module(DATA.format(passes.format("mov.pred %p2, %p1;"), "%r2"), parameters=POINTER)
    with pytest.raises(ValueNeeded):
        without_values(by_lanes, np.arange(5, 9, dtype=np.uint32), "out")


def test_constants_are_stored() -> None:
    out = np.arange(5, 9, dtype=np.uint32)
    _, dropped = without_values(module(DATA.format("", "77"), parameters=POINTER), out)
    assert not dropped.regions and out.tolist() == [5, 6, 77, 8]


DECIDES = (
    "setp.eq.u32 %p1, %r2, 6; @%p1 bra OUT; bar.sync 0; OUT:",
    "setp.eq.u32 %p1, %r2, 6; @!%p1 bar.sync 0;",
    "and.b32 %r3, %r2, 4; cvt.u64.u32 %rd2, %r3; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 3;",
    "mov.u32 %r3, %r2; setp.eq.u32 %p1, %r3, 6; @!%p1 ret;",
    "shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; setp.eq.u32 %p1, %r3, 6; @!%p1 bra OUT; OUT:",
    "setp.eq.u32 %p1, %r2, 6; vote.sync.any.pred %p2, %p1, -1; @%p2 bra OUT; bar.sync 0; OUT:",
    "mov.u32 %r3, 0; setp.eq.u32 %p1, %r2, 6; vote.sync.all.pred %p2, %p1, -1; @%p2 bra OUT; mov.u32 %r3, 4; OUT:"
    "cvt.u64.u32 %rd2, %r3; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 3;",
)


@pytest.mark.parametrize("decides", DECIDES)
def test_a_value_that_decides_is_that_of_the_full_run(decides: str) -> None:
    text = module(DATA.format(decides, "%r2"), parameters=POINTER)
    seen: list[list[str]] = []
    for dropped in (None, DroppedValues()):
        events: list[Event] = []
        out = np.arange(5, 13, dtype=np.uint32)
        run_launch(
            text, launch(PointerParam("out")), {"out": out.view(np.uint8)}, observe=events.append, dropped=dropped
        )
        seen.append([str(event) for event in events])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("decides", DECIDES)
def test_a_value_that_decides_must_be_known(decides: str) -> None:
    text = module(DATA.format(decides, "%r2"), parameters=POINTER)
    with pytest.raises(ValueNeeded):
        without_values(text, np.arange(5, 13, dtype=np.uint32), "out")


def test_what_was_stored_undone_and_is_read_back_to_decide_is_needed() -> None:
    body = (
        "ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.u32 [%rd1+8], %r2;"
        "ld.global.u32 %r3, [%rd1+8]; setp.eq.u32 %p1, %r3, 6; @%p1 bra OUT; bar.sync 0; OUT: ret;"
    )
    with pytest.raises(ValueNeeded):
        without_values(module(body, parameters=POINTER), np.arange(5, 13, dtype=np.uint32))


def test_atomic_operations_keep_all_values() -> None:
    out = np.arange(5, 13, dtype=np.uint32)
    body = DATA.format("atom.global.add.u32 %r5, [%rd1+4], %r2;", "%r2")
    events, dropped = without_values(module(body, parameters=POINTER), out)
    assert events and not dropped.regions and out[:3].tolist() == [5, 6 + 32 * 6, 6]


@pytest.mark.parametrize(
    "use", ["add.u32 %r2, %r9, 1;", "mov.u32 %r2, %r9; cvt.rn.f32.u32 %f1, %r2;", "st.global.u32 [%rd1], %r9;"]
)
def test_a_register_that_was_never_written_is_refused_as_before(use: str) -> None:
    text = module(DATA.format(use, "%r2"), parameters=POINTER)
    with pytest.raises(MachineFault, match="never wrote"):
        without_values(text, np.arange(5, 13, dtype=np.uint32))


SHUFFLED = (
    "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, %r1;"
    "shfl.sync.bfly.b32 %r4, %r3, {lanes}, 31, -1; mad.wide.u32 %rd2, %r1, 4, %rd1; {then} st.global.u32 [%rd2+4], %r4;"
    "ret;"
)
"""Every lane stores what a neighbour has computed of a loaded word."""


def test_what_a_shuffle_hands_on_is_dropped_where_it_is_only_stored() -> None:
    text = module(SHUFFLED.format(lanes="1", then=""), parameters=POINTER)
    full, out = list[Event](), np.full(33, 5, np.uint32)
    run_launch(text, launch(PointerParam("out")), {"out": out.view(np.uint8)}, observe=full.append)
    assert out[1:3].tolist() == [6, 5]
    out = np.full(33, 5, np.uint32)
    events, dropped = without_values(text, out, "out")
    assert [str(event) for event in events] == [str(event) for event in full]
    assert not dropped.kept and out.tolist() == [5] * 33


@pytest.mark.parametrize(
    ("lanes", "then"),
    [("1", "setp.eq.u32 %p1, %r4, 5; @%p1"), ("%r2", "")],
    ids=["its result guards a store", "its lanes are loaded"],
)
def test_what_a_shuffle_hands_on_decides_where_its_result_or_its_lanes_do(lanes: str, then: str) -> None:
    text = module(SHUFFLED.format(lanes=lanes, then=then), parameters=POINTER)
    with pytest.raises(ValueNeeded):
        without_values(text, np.ones(33, np.uint32), "out")


def test_only_bytes_that_may_have_been_left_out_are_missed() -> None:
    shared = region("shared", 0, np.zeros(256, np.uint8), cta=0)
    dropped = DroppedValues()
    dropped.drop(shared, *hull_of(shared, ((64, 80), (96, 112))))
    for begin, end in ((0, 64), (112, 256)):
        dropped.need(shared, begin, end)
    for begin, end in ((60, 68), (80, 96), (108, 116), (0, 256)):
        with pytest.raises(ValueNeeded):
            dropped.need(shared, begin, end)
    # Of memory outside of a CTA all is missed, and what is left out without a place.
    assert hull_of(region("out", 1 << 20, np.zeros(8, np.uint8)), ((0, 4),))[1] > 1 << 40
    dropped.drop(shared)
    with pytest.raises(ValueNeeded):
        dropped.need(shared, 200, 204)


@tw.kernel
def product(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]) -> None:
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.relu(tw.dot(x[i, k], w[j, k], over=k))


def test_products_in_tensor_memory_are_carried_out_where_values_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the second proof of a text whose results decide nothing, which sees the same events."""
    made = compile_kernel(product, target="sm_100a", dims={"M": 64, "N": 32, "K": 64}, rerun=False, assembled=False)
    text, (each,), seen = read(made.ptx, "k.ptx"), made.plan.launches, list[list[str]]()
    done: list[object] = []
    monkeypatch.setattr(tcgen05_mma, "multiply", lambda *operands: done.append(operands))
    for dropped in (DroppedValues(), None):
        buffers = {buffer.name: np.zeros(buffer.span_bytes, np.uint8) for buffer in made.plan.buffers}
        events: list[Event] = []
        run_launch(text, each, buffers, seed=3, observe=events.append, dropped=dropped)
        seen.append([str(event) for event in events])
        assert bool(done) == (dropped is None)
    assert seen[0] == seen[1]
    assert compile_kernel(product, target="sm_100a", dims={"M": 64, "N": 32, "K": 64}, assembled=False).text_proof
