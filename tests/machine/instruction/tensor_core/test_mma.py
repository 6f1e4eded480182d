"""mma.sync of every shape and type, against products taken from matrices whose fragments the test builds itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.small_kernels import REGISTERS, as_bytes, launch

from tilewright.base.error import TilewrightError
from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch

Array = NDArray[np.generic]
HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
RNG = np.random.default_rng(11)

_DTYPES: dict[str, type[np.generic]] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "f64": np.float64,
}
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "f64": 64,
}


def numbers(element: str, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Small integers that the type holds, so that every product and sum is exact."""
    low, high = {"u8": (0, 255), "s8": (-128, 127), "u4": (0, 15), "s4": (-8, 7), "b1": (0, 1)}.get(element, (-4, 4))
    return RNG.integers(low, high + 1, shape)


def fields(element: str, values: NDArray[np.int64]) -> list[int]:
    """The bit image of each value, in one flat list."""
    width = _BITS[element]
    if width >= 8:
        images = values.astype(_DTYPES[element]).reshape(-1)
        raw = np.frombuffer(images.tobytes(), f"u{width // 8}")
        return [int(image) for image in raw.tolist()]
    return [int(value) & ((1 << width) - 1) for value in values.reshape(-1).tolist()]


def registers_of(element: str, places: list[list[list[tuple[int, int]]]], matrix: NDArray[np.int64]) -> Array:
    """places[register][lane] lists the elements from the low bits up. Returns words [register, lane]."""
    width = _BITS[element]
    images: list[int] = fields(element, matrix)
    columns = matrix.shape[1]
    words: list[list[int]] = [
        [
            sum([images[row * columns + column] << (width * j) for j, (row, column) in enumerate(lane)])
            for lane in register
        ]
        for register in places
    ]
    return np.array(words, np.uint64 if width == 64 else np.uint32)


def places_of_a(m: int, k: int, width: int) -> list[list[list[tuple[int, int]]]]:
    """The ISA's formulas for A, spelled shape by shape."""
    per = max(32, width) // width
    found: list[list[list[tuple[int, int]]]] = []
    for register in range((m // 8) * k // (4 * per)):
        # a0, a1 of m16: rows g and g + 8; then the next k block. m8 has rows g only.
        row_block, k_block = (register % 2, register // 2) if m == 16 else (0, register)
        found.append(
            [
                [(lane // 4 + 8 * row_block, k_block * 4 * per + lane % 4 * per + j) for j in range(per)]
                for lane in range(32)
            ]
        )
    return found


def places_of_b(k: int, width: int) -> list[list[list[tuple[int, int]]]]:
    per = max(32, width) // width
    return [
        [[(block * 4 * per + lane % 4 * per + j, lane // 4) for j in range(per)] for lane in range(32)]
        for block in range(k // (4 * per))
    ]


def run_mma(text: str, wide: bool, a: Array, b: Array, c: Array, results: int) -> Array:
    """D's registers [register, lane]: `text` names %x0.. for A, B, C and %y0.. for D."""
    size = 8 if wide else 4
    kind = f"b{8 * size}"
    inputs = np.concatenate([a, b, c])
    out = np.zeros((results, 32), inputs.dtype)
    loads = "\n".join(f"ld.global.{kind} %x{i}, [%rd1+{i * 32 * size}];" for i in range(len(inputs)))
    stores = "\n".join(f"st.global.{kind} [%rd2+{i * 32 * size}], %y{i};" for i in range(results))

    def names(first: int, count: int) -> str:
        return "{" + ", ".join(f"%x{first + i}" for i in range(count)) + "}"

    d = "{" + ", ".join(f"%y{i}" for i in range(results)) + "}"
    mma = f"{text} {d}, {names(0, len(a))}, {names(len(a), len(b))}, {names(len(a) + len(b), len(c))};"
    body = f"""
        .reg .{kind} %x<32>; .reg .{kind} %y<8>;
        mov.u32 %r1, %tid.x;
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
        mad.wide.u32 %rd1, %r1, {size}, %rd1; mad.wide.u32 %rd2, %r1, {size}, %rd2;
        {loads}
        {mma}
        {stores}
        ret;
    """
    module = read(f"{HEADER}.visible .entry k(.param .u64 in, .param .u64 out) {{\n{REGISTERS}\n{body}\n}}\n", "k.ptx")
    buffers = {"in": as_bytes(inputs), "out": as_bytes(out)}
    run_launch(module, launch(PointerParam("in"), PointerParam("out")), buffers)
    return out


SHAPES = {
    16: [(16, 8), (16, 16)],
    32: [(16, 4), (16, 8)],
    8: [(8, 16), (16, 16), (16, 32)],
    4: [(8, 32), (16, 32), (16, 64)],
    1: [(8, 128), (16, 128), (16, 256)],
    64: [(8, 4), (16, 4), (16, 8), (16, 16)],
}
PAIRS = [
    ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"),
    ("f32", "e4m3", "e5m2"), ("f16", "e5m2", "e5m2"), ("s32", "s8", "u8"), ("s32", "u8", "u8"), ("s32", "s4", "u4"),
    ("s32", "b1", "b1"), ("f64", "f64", "f64"),
]  # fmt: skip
CASES = [
    (m, k, result, a, b) for result, a, b in PAIRS for m, k in SHAPES[_BITS[a]] if not (a.startswith("e") and m == 8)
]


@pytest.mark.parametrize(("m", "k", "result", "a_type", "b_type"), CASES)
def test_products_of_small_integers_are_exact(m: int, k: int, result: str, a_type: str, b_type: str) -> None:
    a, b = numbers(a_type, (m, k)), numbers(b_type, (k, 8))
    c = RNG.integers(-30, 30, (m, 8))
    bits = ".and.popc" if a_type == "b1" else ""
    text = f"mma.sync.aligned.m{m}n8k{k}.row.col.{result}.{a_type}.{b_type}.{result}{bits}"
    width = _BITS[a_type]
    a_words = registers_of(a_type, places_of_a(m, k, width), a)
    b_words = registers_of(b_type, places_of_b(k, width), b)
    kind = np.dtype({"f32": np.float32, "f16": np.float16, "s32": np.int32, "f64": np.float64}[result])
    lane = np.arange(32)
    rows = [lane // 4 + 8 * (i // 2) for i in range(m // 4)]
    columns = [2 * (lane % 4) + i % 2 for i in range(m // 4)]
    values = np.array([c[row, column] for row, column in zip(rows, columns, strict=True)]).astype(kind)
    if result == "f16":
        c_words: Array = np.ascontiguousarray(values.reshape(-1, 2, 32).swapaxes(1, 2)).view(np.uint32)[:, :, 0]
    else:
        c_words = values.view(np.uint64 if result == "f64" else np.uint32)
    found = run_mma(text, result == "f64", a_words, b_words, c_words, len(c_words))
    wanted = a @ b + c
    if result == "f16":
        halves = found.view(np.float16).reshape(-1, 32, 2)
        got = [halves[i // 2, :, i % 2] for i in range(m // 4)]
    else:
        got = list(found.view(kind))
    for i in range(m // 4):
        assert np.array_equal(got[i].astype(np.float64), wanted[rows[i], columns[i]].astype(np.float64))


def test_bits_that_differ_are_counted() -> None:
    a, b = numbers("b1", (16, 256)), numbers("b1", (256, 8))
    words = registers_of("b1", places_of_a(16, 256, 1), a), registers_of("b1", places_of_b(256, 1), b)
    text = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc"
    found = run_mma(text, False, *words, np.zeros((4, 32), np.uint32), 4)
    wanted = np.array([[int((a[row] != b[:, column]).sum()) for column in range(8)] for row in range(16)])
    assert found[0].tolist() == [wanted[lane // 4, lane % 4 * 2] for lane in range(32)]
    assert found[3].tolist() == [wanted[lane // 4 + 8, lane % 4 * 2 + 1] for lane in range(32)]


def test_integers_wrap_or_saturate() -> None:
    a, b = np.full((16, 32), 127), np.full((32, 8), 127)
    words = registers_of("s8", places_of_a(16, 32, 8), a), registers_of("s8", places_of_b(32, 8), b)
    c = np.full((4, 32), (1 << 31) - 1, np.uint32)
    for text, wanted in (("", ((1 << 31) - 1 + 32 * 127 * 127) & 0xFFFF_FFFF), (".satfinite", (1 << 31) - 1)):
        found = run_mma(f"mma.sync.aligned.m16n8k32.row.col{text}.s32.s8.s8.s32", False, *words, c, 4)
        assert (found == wanted).all()


def test_not_a_number_is_canonical() -> None:
    a = np.full((4, 32), 0x7C00_7C00, np.uint32)  # infinities
    b = np.zeros((2, 32), np.uint32)
    text = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    assert (run_mma(text, False, a, b, np.zeros((4, 32), np.uint32), 4) == 0x7FFF_FFFF).all()


def test_the_machine_refuses_shapes_that_it_does_not_know() -> None:
    zeros = np.zeros((4, 32), np.uint32)
    with pytest.raises(TilewrightError):
        run_mma("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", False, zeros[:2], zeros[:2], zeros, 4)
