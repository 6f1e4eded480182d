"""tcgen05.mma, cp and shift on the machine against NumPy: every kind, data path and operand place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.machine.tcgen05_kernels import Frame, multiply

from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.tensor_core_descriptor import (
    InstructionDescriptor,
    SharedDescriptor,
    encode_instruction,
    encode_shared,
)
from tilewright.machine.core.fault import MachineFault

A_AT, B_AT, SIZE = 0, 32768, 65536
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
BF16 = InstructionDescriptor("f16", 128, 64, 16, "f32", "bf16", "bf16")


def placed(matrix: NDArray[Any]) -> NDArray[np.uint8]:
    """A K-major tile without swizzle: rows of 32 bytes, in core matrices of 8 rows of 16 bytes, 8 rows after 8 rows."""
    rows = matrix.shape[0]
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows // 8, 8, 2, 16)
    return np.ascontiguousarray(raw.transpose(0, 2, 1, 3)).reshape(-1)


PLAIN = SharedDescriptor(0, 128, 256)


def shared(*tiles: tuple[int, NDArray[Any]]) -> NDArray[np.uint8]:
    data = np.zeros(SIZE, np.uint8)
    for at, tile in tiles:
        flat = placed(tile)
        data[at : at + flat.size] = flat
    return data


def operands(fields: InstructionDescriptor, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    generator = np.random.default_rng(seed)
    low = 0 if "u8" in (fields.a, fields.b) else -4
    a = generator.integers(low, 5, (fields.m, fields.k)).astype(DTYPES[str(fields.a)])
    b = generator.integers(low, 5, (fields.n, fields.k)).astype(DTYPES[str(fields.b)])
    return a, b


def exact(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float32]:
    return a.astype(np.float32) @ b.astype(np.float32).T


def text(
    fields: InstructionDescriptor, *, group: int = 1, ws: bool = False, accumulate: int = 0, d: str = "%r5",
    a: str | None = None, tail: str = "", middle: str = "", scales: str = "", form: str = "",
) -> str:  # fmt: skip
    """The instructions of one multiply. d: D's address; a: A's address in tensor memory, if there."""
    opcode = f"tcgen05.mma{'.ws' if ws else ''}.cta_group::{group}.kind::{fields.kind}{form}"
    a_text = "%rd8" if a is None else f"[{a}]"
    return (
        f"mov.b64 %rd8, {encode_shared(replace(PLAIN, start_address=A_AT))};\n"
        f"mov.b64 %rd9, {encode_shared(replace(PLAIN, start_address=B_AT))};\n"
        f"mov.b32 %r22, {encode_instruction(fields)};\nsetp.ne.u32 %p5, {accumulate}, 0;\n"
        f"{opcode} [{d}], {a_text}, %rd9, %r22{scales}{middle}, %p5{tail};\n"
    )


KINDS = [
    BF16,
    replace(BF16, a="f16", b="f16"),
    replace(BF16, a="f16", b="f16", accumulator="f16"),
    InstructionDescriptor("tf32", 128, 64, 8, "f32", "tf32", "tf32"),
    InstructionDescriptor("f8f6f4", 128, 64, 32, "f32", "e4m3", "e5m2"),
    InstructionDescriptor("i8", 128, 64, 32, "s32", "s8", "s8"),
    InstructionDescriptor("i8", 128, 64, 32, "s32", "u8", "u8"),
    replace(BF16, n=8),
    replace(BF16, n=256),
    replace(BF16, negate_a=True),
    replace(BF16, negate_b=True),
]


def cells_of(words: NDArray[np.uint32], accumulator: str | None) -> NDArray[np.float32]:
    if accumulator == "s32":
        return words.view(np.int32).astype(np.float32)
    if accumulator == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float32)
    return words.view(np.float32)


@pytest.mark.sample(8)
@pytest.mark.parametrize("fields", KINDS, ids=lambda f: f"{f.kind}-{f.a}-{f.accumulator}-{f.n}-{f.negate_a:d}")
@pytest.mark.parametrize("seed", [0, 5])
def test_kinds(fields: InstructionDescriptor, seed: int) -> None:
    a, b = operands(fields, seed)
    frame = Frame(text(fields) + text(fields, accumulate=1), SIZE, fields.n)
    (found,) = multiply(frame, shared((A_AT, a), (B_AT, b))[None], seed=seed)
    sign = -1 if fields.negate_a or fields.negate_b else 1
    assert np.array_equal(cells_of(found, fields.accumulator), 2 * sign * exact(a, b))


def test_integers_saturate_or_wrap() -> None:
    fields = InstructionDescriptor("i8", 128, 8, 32, "s32", "u8", "u8")
    a, b = np.full((128, 32), 255, np.uint8), np.full((8, 32), 255, np.uint8)
    cells = np.full((1, 128, 8), 2**31 - 5, np.uint32)
    data = shared((A_AT, a), (B_AT, b))[None]
    for saturate, wanted in ((False, 2**31 - 5 + 32 * 255 * 255 - 2**32), (True, 2**31 - 1)):
        chosen = replace(fields, saturate=saturate)
        (found,) = multiply(Frame(text(chosen, accumulate=1), SIZE, 8, cells=8), data, cells)
        assert (found.view(np.int32) == wanted).all()


def test_scale_of_d_and_lanes_that_are_kept() -> None:
    a, b = operands(replace(BF16, n=8))
    cells = np.full((1, 128, 8), 6.0, np.float32).view(np.uint32)
    fields = replace(BF16, n=8)
    mask = "mov.b32 %r24, 0x80000001;\nmov.b32 %r25, 0;\nmov.b32 %r26, 0xffffffff;\n"
    frame = Frame(mask + text(fields, accumulate=1, middle=", {%r24, %r25, %r26, %r25}", tail=", 1"), SIZE, 8, cells=8)
    (found,) = multiply(frame, shared((A_AT, a), (B_AT, b))[None], cells)
    wanted = exact(a, b) + 3.0
    kept = [0, 31, *range(64, 96)]
    wanted[kept] = 6.0
    assert np.array_equal(found.view(np.float32), wanted)


@pytest.mark.parametrize("base", [0, 16])
def test_m_64_uses_half_of_every_quarter(base: int) -> None:
    fields = replace(BF16, m=64, n=16)
    a, b = operands(fields)
    cells = np.full((1, 128, 16), 9.0, np.float32).view(np.uint32)
    start = f"add.u32 %r23, %r5, {base << 16};\n"
    (found,) = multiply(
        Frame(start + text(fields, d="%r23"), SIZE, 16, cells=16), shared((A_AT, a), (B_AT, b))[None], cells
    )
    wanted = np.full((128, 16), 9.0, np.float32)
    product = exact(a, b)
    for row in range(64):
        wanted[row // 16 * 32 + row % 16 + base] = product[row]
    assert np.array_equal(found.view(np.float32), wanted)


@pytest.mark.parametrize(("m", "parts"), [(64, 2), (32, 4), (128, 1)])
def test_weight_stationary_spreads_columns_over_lanes(m: int, parts: int) -> None:
    fields = replace(BF16, m=m, n=64)
    a, b = operands(fields)
    (found,) = multiply(Frame(text(fields, ws=True), SIZE, 64 // parts), shared((A_AT, a), (B_AT, b))[None])
    product, width = exact(a, b), 64 // parts
    wanted = np.concatenate([product[:, part * width : (part + 1) * width] for part in range(parts)])
    assert np.array_equal(found.view(np.float32), wanted)


def test_a_from_tensor_memory() -> None:
    fields = replace(BF16, n=16)
    a, b = operands(fields)
    cells = np.zeros((1, 128, 40), np.uint32)
    cells[0, :, 32:] = np.ascontiguousarray(a).view(np.uint32)
    start = "add.u32 %r23, %r5, 32;\n"
    (found,) = multiply(Frame(start + text(fields, a="%r23"), SIZE, 16, cells=40), shared((B_AT, b))[None], cells)
    assert np.array_equal(found.view(np.float32), exact(a, b))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("m", "n"), [(256, 64), (128, 64)])
def test_a_pair_of_ctas(m: int, n: int, seed: int) -> None:
    fields = replace(BF16, m=m, n=n)
    a, b = operands(fields, seed)
    half, columns = m // 2, n if m == 256 else n // 2
    data = np.stack([
        shared((A_AT, a[half * i : half * (i + 1)]), (B_AT, b[n // 2 * i : n // 2 * (i + 1)])) for i in range(2)
    ])  # fmt: skip
    found = multiply(Frame(text(fields, group=2), SIZE, columns, group=2), data, seed=seed).view(np.float32)
    product = exact(a, b)
    for i in range(2):
        mine = product[half * i : half * (i + 1)]
        wanted = mine if m == 256 else np.concatenate((mine[:, : n // 2], mine[:, n // 2 :]))
        assert np.array_equal(found[i], wanted)


def scale_cells(scales: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """Scale factors [rows, at most 4] as `count` columns of 128 lanes: row i in lane i % 32 of every quarter."""
    cells = np.zeros((128, count, 4), np.uint8)
    for row in range(scales.shape[0]):
        cells[row % 32 :: 32, row // 32, : scales.shape[1]] = scales[row]
    return cells.reshape(128, -1).view(np.uint32)


@pytest.mark.parametrize(
    ("kind", "element", "vector", "identifier", "form"),
    [
        ("mxf8f6f4", "e4m3", 1, 0, ".block_scale.scale_vec::1X"),
        ("mxf8f6f4", "e4m3", 1, 3, ".block_scale.block32"),
        ("mxf4", "e2m1", 2, 2, ".block_scale.scale_vec::2X"),
        ("mxf4nvf4", "e2m1", 4, 0, ".block_scale.scale_vec::4X"),
        ("mxf4nvf4", "e2m1", 2, 0, ".block_scale.block32"),
    ],
)
def test_block_scales(kind: Any, element: Any, vector: int, identifier: int, form: str) -> None:
    k = 32 if element == "e4m3" else 64
    scale: Any = "ue4m3" if vector == 4 else "ue8m0"
    fields = InstructionDescriptor(
        kind, 128, 64, k, "f32", element, element, scale=scale, scale_a_id=identifier, scale_b_id=identifier
    )
    generator = np.random.default_rng(11)
    if element == "e4m3":
        a, b = operands(fields)
        a_values, b_values = a.astype(np.float64), b.astype(np.float64)
    else:
        codes = [generator.integers(0, 16, (rows, k)).astype(np.uint8) for rows in (128, 64)]
        a, b = (each[:, 0::2] | each[:, 1::2] << 4 for each in codes)
        a_values, b_values = (each.view(ml_dtypes.float4_e2m1fn).astype(np.float64) for each in codes)
    codes_a, codes_b = (generator.integers(0x30, 0x48, (rows, 4)).astype(np.uint8) for rows in (128, 64))
    if scale == "ue8m0":
        codes_a, codes_b = codes_a + 80, codes_b + 80
    cells = np.concatenate((np.zeros((128, 64), np.uint32), scale_cells(codes_a, 4), scale_cells(codes_b, 2)), axis=1)
    start = "add.u32 %r23, %r5, 64;\nadd.u32 %r24, %r5, 68;\n"
    frame = Frame(start + text(fields, scales=", [%r23], [%r24]", form=form), SIZE, 64, cells=70)
    (found,) = multiply(frame, shared((A_AT, a), (B_AT, b))[None], cells[None])

    def factors(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
        chosen = codes[:, identifier : identifier + vector]
        powers = 2.0 ** (chosen.astype(np.float64) - 127)
        values = powers if scale == "ue8m0" else chosen.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
        return np.repeat(values, k // vector, axis=1)

    wanted = (a_values * factors(codes_a)) @ (b_values * factors(codes_b)).T
    assert np.array_equal(found.view(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "rows", "size"),
    [
        ("128x256b", 128, 32), ("128x128b", 128, 16), ("4x256b", 4, 32), ("64x128b.warpx2::02_13", 64, 16),
        ("64x128b.warpx2::01_23", 64, 16), ("32x128b.warpx4", 32, 16),
    ],
)  # fmt: skip
def test_copies_from_shared_memory(shape: str, rows: int, size: int) -> None:
    tile = np.random.default_rng(2).integers(0, 256, (128, 32)).astype(np.uint8)
    words = tile.view(np.uint32)[:rows, : size // 4]
    wanted = np.zeros((128, 8), np.uint32)
    for row in range(rows):
        match shape:
            case "4x256b":
                lanes = [32 * row]
            case "64x128b.warpx2::02_13":
                lanes = [row, row + 64]
            case "64x128b.warpx2::01_23":
                lanes = [row % 32 + row // 32 * 64, row % 32 + row // 32 * 64 + 32]
            case "32x128b.warpx4":
                lanes = [row, row + 32, row + 64, row + 96]
            case _:
                lanes = [row]
        wanted[lanes, : size // 4] = words[row]
    body = f"mov.b64 %rd8, {encode_shared(PLAIN)};\ntcgen05.cp.cta_group::1.{shape} [%r5], %rd8;\n"
    (found,) = multiply(Frame(body, SIZE, 8, cells=8), shared((0, tile))[None], np.zeros((1, 128, 8), np.uint32))
    assert np.array_equal(found, wanted)


def test_a_copy_comes_before_the_multiply_behind_it() -> None:
    fields = replace(BF16, n=16)
    a, b = operands(fields)
    body = (
        f"mov.b64 %rd8, {encode_shared(PLAIN)};\nadd.u32 %r23, %r5, 32;\n"
        "tcgen05.cp.cta_group::1.128x256b [%r23], %rd8;\n" + text(fields, a="%r23")
    )
    for seed in range(4):
        (found,) = multiply(Frame(body, SIZE, 16), shared((A_AT, a), (B_AT, b))[None], seed=seed)
        assert np.array_equal(found.view(np.float32), exact(a, b))


def test_shift() -> None:
    cells = np.arange(128 * 8, dtype=np.uint32).reshape(1, 128, 8)
    (found,) = multiply(Frame("tcgen05.shift.cta_group::1.down [%r5];\n", SIZE, 8, cells=8), shared()[None], cells)
    wanted = cells[0].copy()
    for quarter in range(0, 128, 32):
        wanted[quarter : quarter + 31] = cells[0, quarter + 1 : quarter + 32]
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (text(replace(BF16, n=12 * 8, m=192)), "TC208"),
        (text(replace(BF16, reserved=1 << 29)), "TC208"),
        (text(replace(BF16, m=256)), "TC208"),
        (text(replace(BF16, sparse=True)), "TC208"),
        ("add.u32 %r23, %r5, 0x100000;\n" + text(BF16, d="%r23"), "TC207"),
        ("add.u32 %r23, %r5, 500;\n" + text(BF16, d="%r23"), "TC206"),
        (text(BF16).replace(str(encode_shared(PLAIN)), str(encode_shared(replace(PLAIN, constant=0)))), "TC209"),
        (text(BF16, group=2), "TC210"),
        (f"mov.b64 %rd8, {encode_shared(PLAIN)};\ntcgen05.cp.cta_group::1.128x256b [%r5+0x10000], %rd8;", "TC207"),
        ("tcgen05.shift.cta_group::1.down [%r5+0x10000];", "TC207"),
        (text(BF16).replace(str(encode_shared(PLAIN)), str(encode_shared(replace(PLAIN, start_address=65520)))),
         "MF001"),
    ],
)  # fmt: skip
def test_faults(body: str, code: str) -> None:
    with pytest.raises(MachineFault) as caught:
        multiply(Frame(body, SIZE, 8), shared()[None])
    assert caught.value.code == code


def test_a_sparse_operand_is_refused_where_values_are_wanted() -> None:
    fields = replace(BF16, k=32, sparse=True)
    body = text(fields).replace("tcgen05.mma.", "tcgen05.mma.sp.").replace("%rd9, %r22", "%rd9, [%r5], %r22")
    with pytest.raises(TilewrightError, match="sparse"):
        multiply(Frame(body, SIZE, 8), shared()[None])
