"""Plain stores along rows write every element of the array and no byte beside it, wherever its rows begin."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import Lowered, gemm, instructions, lower, matmul, residual
from xdsl.dialects.builtin import IntAttr

from tilewright.base.element import Element
from tilewright.base.plan import PointerParam
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.machine.core.run import run_launch
from tilewright.runtime.arrays import numpy_dtype
from tilewright.synth.decide import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

DEPTH = 64
UNTOUCHED = 0xA7


def stored(lowered: Lowered, a: np.ndarray, b: np.ndarray, offset: int, margin: int) -> np.ndarray:
    """The bytes of `c` after a run, where it begins `offset` elements behind a multiple of 16 bytes."""
    (launch,) = lowered.plan.launches
    c = lowered.plan.buffer("c")
    params = tuple(
        replace(param, offset_bytes=c.element.bytes * offset)
        if isinstance(param, PointerParam) and param.buffer == "c"
        else param
        for param in launch.params
    )
    memory = np.full(c.element.bytes * offset + c.span_bytes + margin, UNTOUCHED, np.uint8)
    arrays = {"a": a.view(np.uint8).reshape(-1), "b": b.view(np.uint8).reshape(-1), "c": memory}
    run_launch(read(lowered.ptx), replace(launch, params=params), arrays)
    return memory


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 140),
    st.integers(2, 140),
    st.integers(0, 9),
    st.integers(0, 7),
    st.sampled_from([Element.BF16, Element.F16, Element.F32]),
    st.sampled_from([(64, 64), (128, 128), (64, 256)]),
)
def test_every_element_and_nothing_else(rows, columns, more, offset, element, tile):
    pitch = columns + more
    kind = element if element is not Element.F32 else Element.BF16
    dims = {"M": rows, "N": 8 * -(-columns // 8), "K": DEPTH}
    lowered = lower(
        matmul,
        dims | {"N": columns},
        {"a": kind, "b": kind, "c": element},
        {"b": (1, DEPTH), "c": (pitch, 1)},
        Wanted(tile=tile, misaligned=("c",)),
    )
    assert lowered.decisions.rows_bytes and not lowered.decisions.stores
    random = np.random.default_rng(rows)
    dtype = np.dtype(ml_dtypes.bfloat16) if kind is Element.BF16 else np.dtype(np.float16)
    a, b = (random.integers(-4, 5, shape).astype(dtype) for shape in ((rows, DEPTH), (columns, DEPTH)))
    memory = stored(lowered, a, b, offset, 6)
    size = element.bytes
    result = memory[size * offset : size * offset + lowered.plan.buffer("c").span_bytes]
    expected = np.full(memory.size, UNTOUCHED, np.uint8)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    typed = product.astype(numpy_dtype(element))
    for row in range(rows):
        begin = size * (offset + row * pitch)
        expected[begin : begin + size * columns] = typed[row].view(np.uint8)
    assert result.size == size * ((rows - 1) * pitch + columns)
    np.testing.assert_array_equal(memory, expected)


def test_words_of_32_lanes_lie_side_by_side():
    """One store writes a row's words, not eight rows' elements: as many words as elements take, and single ones."""
    lowered = gemm(64, 65, 64, tile=(64, 64))
    opcodes = [item.opcode for item in instructions(lowered.parsed)]
    assert opcodes.count("st.global.b32") == opcodes.count("st.global.b16") == 16
    assert opcodes.count("bar.warp.sync") == 2


def test_an_epilogue_is_computed_on_the_way():
    lowered = lower(residual, {"M": 64, "N": 65, "K": 64}, wanted=Wanted(swapped=False))
    assert lowered.decisions.rows_bytes and not lowered.decisions.stores
    assert all(isinstance(verify(kernel, HOPPER), Proven) for kernel in lowered.kernels)


def edited(edit):
    """Whether a program that stores along rows is still proven when `edit` has changed its kernel."""
    lowered = gemm(256, 255, 256, tile=(128, 128))
    module = lowered.kernels[-1]
    assert isinstance(verify(module, HOPPER), Proven)
    for op in module.walk():
        if isinstance(op, ac.BufferOp) and op.sym_name.data == "rows":
            edit(op)
    return isinstance(verify(module, HOPPER), Proven)


def resized(op: ac.BufferOp) -> None:
    kind = op.result.type
    small = type(kind)(*(IntAttr(4096) if item is kind.slot_bytes else item for item in kind.parameters))
    replacement = ac.BufferOp.create(properties=dict(op.properties), result_types=[small])
    op.parent_block().insert_op_before(replacement, op)
    op.result.replace_all_uses_with(replacement.results[0])
    op.detach()


@pytest.mark.parametrize(
    "edit",
    [
        lambda op: op.properties.update(instances=IntAttr(1)),
        lambda op: op.properties.update(address=IntAttr(0)),
        resized,
    ],
    ids=["one instance for two units", "over the ring's slots", "too small"],
)
def test_a_buffer_that_does_not_serve_is_refused(edit):
    assert not edited(edit)


@pytest.mark.parametrize("dims", [(257, 129, 72), (65, 33, 72)])
@pytest.mark.parametrize("element", ["bf16", "f32"])
def test_words_past_the_edge_are_not_read_either(dims, element):
    """Nobody has written them: the proof of the text refuses such a read, though nothing comes of it."""
    compiled = compile_kernel(
        matmul_kernel,
        dims=dict(zip("MNK", dims, strict=True)),
        dtype={"a": "bf16", "b": "bf16", "c": element},
        strides={"b": (1, dims[2])},
        assembled=False,
    )
    assert isinstance(compiled.text_proof, Proven)


@pytest.mark.full
def test_its_text_is_proven_wherever_the_result_begins() -> None:
    """Which words are stored is read off the result's address."""
    kind = Element.BF16
    lowered = lower(
        matmul,
        {"M": 100, "N": 100, "K": DEPTH},
        {"a": kind, "b": kind, "c": kind},
        {"b": (1, DEPTH), "c": (104, 1)},
        Wanted(tile=(64, 64), misaligned=("c",)),
    )
    assert "cvt.u32.u64" in lowered.ptx
    (report,) = check_text(lowered.ptx, "rows.ptx", options=CheckOptions(repair_steps=0)).kernels
    assert report.verdict == "proven", report.reasons
