"""Atomics: scalars, vectors, packed halves, 128 bits; what they return, leave, and tell."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch, module

from tilewright.base.plan import PointerParam
from tilewright.machine.core.event import Access, Event
from tilewright.machine.core.run import run_launch

START = """
ld.param.u64 %rd1, [memory]; ld.param.u64 %rd2, [given]; ld.param.u64 %rd3, [before];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd4, %r1, 16, %rd2;
mad.wide.u32 %rd5, %r1, 16, %rd3;
"""
RNG = np.random.default_rng(61)
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def run(body: str, memory: Bytes, given: Bytes, observe: list[Event] | None = None) -> Bytes:
    """Each lane has 16 bytes of `given`, and returns 16 bytes."""
    before = np.zeros((32, 16), np.uint8)
    parameters = ".param .u64 memory, .param .u64 given, .param .u64 before"
    run_launch(
        module(START + body + "ret;", parameters=parameters),
        launch(PointerParam("memory"), PointerParam("given"), PointerParam("before")),
        {"memory": memory, "given": given.reshape(-1), "before": before.reshape(-1)},
        observe=None if observe is None else observe.append,
    )
    return before


WORDS: list[tuple[str, Callable[[int, int], int]]] = [
    ("add.u32", lambda old, b: old + b),
    ("and.b32", lambda old, b: old & b),
    ("or.b32", lambda old, b: old | b),
    ("xor.b32", lambda old, b: old ^ b),
    ("exch.b32", lambda old, b: b),
    ("min.u32", min),
    ("max.u32", max),
    ("inc.u32", lambda old, b: 0 if old >= b else old + 1),
    ("dec.u32", lambda old, b: b if old == 0 or old > b else old - 1),
]


@pytest.mark.parametrize(("operation", "function"), WORDS, ids=[name for name, _ in WORDS])
def test_words(operation: str, function: Callable[[int, int], int]) -> None:
    given = RNG.integers(0, 1 << 32, (32, 4), np.uint32)
    memory = np.array([5], np.uint32)
    text = f"ld.global.u32 %r2, [%rd4]; atom.global.{operation} %r3, [%rd1], %r2; st.global.u32 [%rd5], %r3;"
    before = run(text, as_bytes(memory), as_bytes(given)).view(np.uint32)[:, 0]
    held = 5
    for lane in range(32):
        assert before[lane] == held
        held = function(held, int(given[lane, 0])) & 0xFFFF_FFFF
    assert memory[0] == held


def test_signed_extrema_and_compare_and_swap() -> None:
    given = RNG.integers(-100, 100, (32, 2)).astype(np.int64)
    memory = np.array([7, -3], np.int64)
    text = "ld.global.s64 %rd6, [%rd4]; red.global.min.s64 [%rd1], %rd6; red.global.max.s64 [%rd1+8], %rd6;"
    run(text, as_bytes(memory), as_bytes(given))
    assert memory.tolist() == [min(7, given[:, 0].min()), max(-3, given[:, 0].max())]
    counter = np.array([0, 0], np.uint16)
    run(
        "cvt.u16.u32 %h1, %r1; add.u16 %h2, %h1, 1; atom.global.cas.b16 %h3, [%rd1], %h1, %h2;",
        as_bytes(counter),
        as_bytes(given),
    )
    assert counter[0] == 32, "each lane finds the value that the lane before it left"


def test_vectors_of_floats() -> None:
    given = RNG.standard_normal((32, 4)).astype(np.float32)
    memory = np.array([1, 2, 3, 4], np.float32)
    text = (
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];"
        "atom.global.v4.f32.add {%f5, %f6, %f7, %f8}, [%rd1], {%f1, %f2, %f3, %f4};"
        "st.global.v4.f32 [%rd5], {%f5, %f6, %f7, %f8};"
    )
    before = run(text, as_bytes(memory), as_bytes(given)).view(np.float32)
    held = np.array([1, 2, 3, 4], np.float32)
    for lane in range(32):
        assert np.array_equal(before[lane], held)
        held = held + given[lane]
    assert np.array_equal(memory, held)


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("operation", ["add", "min", "max"])
def test_packed_halves(name: str, dtype: type[np.generic], operation: str) -> None:
    given = RNG.standard_normal((32, 8)).astype(dtype)
    memory = RNG.standard_normal(4).astype(dtype)
    held = memory.copy()
    vector = f"red.global.{operation}.noftz.v2.{name}x2 [%rd1], {{%r2, %r3}};"
    scalar = f"atom.global.add.noftz.{name}x2 %r4, [%rd1+4], %r3;"
    run(
        "ld.global.v2.u32 {%r2, %r3}, [%rd4];" + vector,
        as_bytes(memory.view(np.uint16)),
        as_bytes(given.view(np.uint16)),
    )
    function = {"add": np.add, "min": np.minimum, "max": np.maximum}[operation]
    for lane in range(32):
        held = function(held, given[lane, :4])
    assert np.array_equal(memory.view(np.uint16), held.view(np.uint16))
    run(
        "ld.global.v2.u32 {%r2, %r3}, [%rd4];" + scalar,
        as_bytes(memory.view(np.uint16)),
        as_bytes(given.view(np.uint16)),
    )
    for lane in range(32):
        held[2:] = held[2:] + given[lane, 2:4]
    assert np.array_equal(memory.view(np.uint16), held.view(np.uint16))


def test_sixteen_bytes() -> None:
    given = RNG.integers(0, 1 << 32, (32, 4), np.uint32)
    memory = np.zeros(4, np.uint32)
    text = (
        ".reg .b128 %q<4>; ld.global.v2.b64 {%rd6, %rd7}, [%rd4]; mov.b128 %q1, {%rd6, %rd7};"
        "atom.global.gpu.exch.b128 %q2, [%rd1], %q1; mov.b128 {%rd8, %rd9}, %q2; st.global.v2.b64 [%rd5], {%rd8, %rd9};"
    )
    before = run(text, as_bytes(memory), as_bytes(given)).view(np.uint32)
    assert np.array_equal(before[1:], given[:-1]) and not before[0].any()
    assert np.array_equal(memory, given[-1])
    swap = (
        ".reg .b128 %q<4>; ld.global.v2.b64 {%rd6, %rd7}, [%rd4]; mov.b128 %q1, {%rd6, %rd7};"
        "mov.u64 %rd8, 0; mov.b128 %q2, {%rd8, %rd8}; atom.global.gpu.cas.b128 %q3, [%rd1], %q2, %q1;"
    )
    memory[:] = 0
    run(swap, as_bytes(memory), as_bytes(given))
    assert np.array_equal(memory, given[0]), "only the first lane finds zeros"


def test_order_and_scope_are_told() -> None:
    for text, wanted in (
        ("atom.global.add.u32 %r3, [%rd1], 1;", ("relaxed", "gpu")),
        ("atom.acq_rel.sys.global.add.u32 %r3, [%rd1], 1;", ("acq_rel", "sys")),
        ("red.release.gpu.global.add.u32 [%rd1], 1;", ("release", "gpu")),
        ("ld.acquire.cluster.global.u32 %r3, [%rd1];", ("acquire", "cluster")),
        ("st.release.cta.global.u32 [%rd1], 1;", ("release", "cta")),
        ("ld.volatile.global.u32 %r3, [%rd1];", ("volatile", "")),
        ("ld.mmio.relaxed.sys.global.u32 %r3, [%rd1];", ("relaxed", "sys")),
        ("ld.global.nc.L1::no_allocate.u32 %r3, [%rd1];", ("weak", "")),
    ):
        events: list[Event] = []
        run(text, np.zeros(16, np.uint8), np.zeros((32, 16), np.uint8), events)
        (access,) = [event for event in events if isinstance(event, Access)]
        assert (access.order, access.scope) == wanted, text
        assert access.atomic == (wanted[0] != "weak")
        assert access.lanes == 0xFFFF_FFFF
