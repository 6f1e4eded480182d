"""Layouts of instructions against the machine's fragments and against each other."""

from __future__ import annotations

import re
from typing import Literal, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.layout.linear import hierarchy
from tilewright.layout.linear import maps as linear
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.layout.linear.maps import LinearLayout, is_bijective, is_injective
from tilewright.legal.bank.access_kind import access_kind, lane_groups
from tilewright.legal.descriptor.instruction_layout import (
    InstructionLayout,
    instruction_layout,
    instruction_names,
    operands_of,
)
from tilewright.legal.descriptor.shared_operand import OperandDescriptor, layout_of
from tilewright.legal.tensor_map.swizzle_code import swizzles
from tilewright.machine.copy import swizzle
from tilewright.machine.instruction.tensor_core import tcgen05_move
from tilewright.machine.tensor_core import fragment, mma_fragment
from tilewright.machine.tensor_core.tensor_product import data_path
from tilewright.targets import target
from tilewright.targets.fragment_table import fragment_instructions

Tables = dict[str, NDArray[np.int64]]
MMA = re.compile(r"mma\.m(\d+)n8k(\d+)\.(\w+)")
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f64": 64}


def _tables(found: InstructionLayout) -> Tables:
    match found.layout:
        case LinearLayout():
            return linear.coordinates(found.layout)
        case Hierarchy():
            return hierarchy.coordinates(found.layout)


def _same(tables: Tables, row: NDArray[np.int64], column: NDArray[np.int64]) -> None:
    assert tables["row"].shape == row.shape
    assert np.array_equal(tables["row"], row) and np.array_equal(tables["column"], column)


def _by_element(coordinates: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[NDArray[np.int64], ...]:
    """[register, lane, element of a register] as [element of a thread, lane]."""
    return tuple(each.transpose(0, 2, 1).reshape(-1, 32) for each in coordinates)


@pytest.mark.parametrize(
    "name", [each for each in instruction_names() if MMA.fullmatch(each) and "m8n8k4.f16" not in each]
)
def test_mma_is_the_machine_s(name: str) -> None:
    found = MMA.fullmatch(name)
    assert found is not None
    m, k, bits = int(found[1]), int(found[2]), BITS[found[3]]
    elements = max(1, 32 // bits)
    _same(_tables(instruction_layout(name, "A")), *_by_element(mma_fragment.a_coordinates(m, k, elements)))
    _same(_tables(instruction_layout(name, "B")), *_by_element(mma_fragment.b_coordinates(k, elements)))
    for packed in (1, 2):
        _same(_tables(instruction_layout(name, "D")), *_by_element(mma_fragment.accumulator_coordinates(m, packed)))


@pytest.mark.parametrize("n", [8, 24, 64, 104, 128, 256])
@pytest.mark.parametrize("k", [8, 16, 32])
def test_wgmma_is_the_machine_s(n: int, k: int) -> None:
    name = f"wgmma.m64n{n}k{k}"
    for operand, expected in (
        ("C", fragment.accumulator_coordinates(n)), ("A", fragment.operand_coordinates(32 // k))
    ):  # fmt: skip
        tables = _tables(instruction_layout(name, operand))
        by_thread = {key: table.transpose(2, 1, 0).reshape(128, -1) for key, table in tables.items()}
        _same(by_thread, *expected)
    assert isinstance(instruction_layout(name, "D").layout, LinearLayout) == (n in (8, 64, 128, 256))


@pytest.mark.parametrize(
    ("name", "shape", "count", "transposed", "width"),
    [(f"{move}.m8n8.x{count}{tail}", "m8n8", count, bool(tail), 2)
     for move in ("ldmatrix", "stmatrix") for count in (1, 2, 4) for tail in ("", ".trans")]
    + [(f"ldmatrix.m16n16.x{count}.trans", "m16n16", count, True, 1) for count in (1, 2)]
    + [(f"stmatrix.m16n8.x{count}.trans", "m16n8", count, True, 1) for count in (1, 2, 4)],
)  # fmt: skip
def test_matrix_moves_are_the_machine_s(name: str, shape: str, count: int, transposed: bool, width: int) -> None:
    expected = fragment.matrix_fragment(cast("fragment.MatrixShape", shape), count, transposed)
    places = expected.places[:, :, ::width].transpose(0, 2, 1).reshape(-1, 32)
    tables = _tables(instruction_layout(name, "fragment"))
    assert np.array_equal(16 * tables["row"] + width * tables["column"], places)
    assert tables["row"].max() + 1 == expected.lines


@pytest.mark.parametrize("name", [each for each in instruction_names() if re.match(r"tcgen05\.(ld|st)\.", each)])
def test_tensor_memory_moves_are_the_machine_s(name: str) -> None:
    shape, repetitions = re.findall(r"\.(16x\w+|32x32b)\.x(\d+)", name)[0]
    count = int(repetitions)
    registers = count * {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    lanes, columns = tcgen05_move.fragment(shape, registers, count)
    tables = _tables(instruction_layout(name, "fragment"))
    halves = 2 if "pack" in name else 1
    for warp in range(4):
        for half in range(halves):
            assert np.array_equal(tables["tensor_lane"][half::halves, :, warp], lanes + 32 * warp)
            assert np.array_equal(tables["tensor_column"][half::halves, :, warp], halves * columns + half)


@pytest.mark.parametrize(
    "name",
    [each for each in fragment_instructions() if re.match(r"tcgen05.mma.*n(8|48|64|240|256)k16", each)],
)
def test_accumulators_in_tensor_memory_are_the_machine_s(name: str) -> None:
    numbers = dict(fragment_instructions()[name].parameters)
    m, n, group = (int(numbers[each]) for each in "mng")
    path = data_path(m, n, group, ".ws" in name, 0)
    tables = _tables(instruction_layout(name, "D"))
    for cta in range(group):
        for lane, row, first in zip(path.lanes, path.row, path.first, strict=True):
            column = first + np.arange(path.columns)
            at = cta * path.rows + row
            assert (tables["cta"][at, column] == cta).all() and (tables["tensor_lane"][at, column] == lane).all()
            assert np.array_equal(tables["tensor_column"][at, column], np.arange(path.columns))
    assert tables["tensor_lane"].size == m * n


@pytest.mark.parametrize("mode", ["32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B"])
def test_swizzles_are_the_machine_s(mode: str) -> None:
    found = instruction_layout(f"tma.swizzle.{mode}", "shared")
    assert isinstance(found.layout, LinearLayout) and is_bijective(found.layout)
    known = cast("swizzle.Swizzle", mode)
    size, span = found.layout.size, swizzle.SPAN_BYTES[known]
    assert size == swizzle.period_bytes(known) and found.layout.input_sizes["byte"] == span
    logical = np.arange(size, dtype=np.int64)
    offsets = _tables(found)["offset"].T.reshape(-1)
    assert np.array_equal(offsets, swizzle.swizzled(logical, known))


@pytest.mark.parametrize("name", ["wgmma.m64n128k16", "wgmma.m64n8k32", "wgmma.m64n256k8"])
def test_operands_in_shared_memory_are_what_descriptors_name(name: str) -> None:
    """Of tiles of one atom across, where the least distances do not enter, and one to one elsewhere."""
    facts = target("sm_90a")
    for operand in operands_of(name):
        if "." not in operand:
            continue
        found = instruction_layout(name, operand, "sm_90a")
        assert isinstance(found.layout, LinearLayout) and is_injective(found.layout)
        matrix, major, mode = operand.split(".")
        numbers = dict(fragment_instructions()[name].parameters)
        depth, rows = int(numbers["k"]), int(numbers["m" if matrix == "A" else "n"])
        offsets = _tables(found)["offset"]
        by_row = offsets if matrix == "A" else offsets.T
        near = min(rows, 8)
        descriptor = OperandDescriptor(0, 128, 1024, cast("swizzle.Swizzle", mode))
        expected = layout_of(
            descriptor, cast(Literal["K", "MN"], major), rows, depth, 32 // depth, facts
        )  # fmt: skip
        inner = depth if major == "K" else min(depth, 8)
        assert np.array_equal(by_row[:near, :inner], expected[:near, :inner])


@pytest.mark.parametrize(
    ("name", "on"),
    [("ld.shared.v4.b32", "sm_90a"), ("ld.shared.b64", "sm_90a"), ("ldmatrix.x4", "sm_90a"),
     ("ds_read_b128", "gfx942"), ("ds_read_b64", "gfx942"), ("ds_read_b128", "gfx950"), ("ds_write_b128", "gfx942")],
)  # fmt: skip
def test_lanes_served_together(name: str, on: str) -> None:
    found = instruction_layout(name, "lanes", on)
    assert isinstance(found.layout, LinearLayout) and is_bijective(found.layout)
    lanes = _tables(found)["lane"]
    groups = {frozenset(lanes[:, each].tolist()) for each in range(lanes.shape[1])}
    assert groups == {frozenset(each) for each in lane_groups(access_kind(name), target(on))}


def test_matrix_multiplication_of_cdna_by_its_calculator() -> None:
    """Lane and element of A[i][k], B[k][j] and D[i][j], as the calculator prints them."""
    for m, k in ((16, 16), (32, 8)):
        name = f"mfma.{m}x{m}x{k}.bf16"
        for operand in ("A", "B"):
            found = instruction_layout(name, operand).layout
            for i in range(m):
                for depth in range(k):
                    place = found(register=depth % 4, lane=i + m * (depth // 4))
                    assert place == ({"row": i, "column": depth} if operand == "A" else {"row": depth, "column": i})
        found = instruction_layout(name, "D").layout
        for i in range(m):
            for j in range(m):
                register, high = (i % 4, i // 4) if m == 16 else (4 * (i // 8) + i % 4, i // 4 % 2)
                assert found(register=register, lane=j + m * high) == {"row": i, "column": j}


def test_products_of_quad_pairs_agree_on_their_lanes() -> None:
    """Operands of `mma.m8n8k4.f16`: each matrix of a quad pair is held once, by its eight lanes."""
    for operand in operands_of("mma.m8n8k4.f16"):
        found = instruction_layout("mma.m8n8k4.f16", operand)
        assert isinstance(found.layout, LinearLayout) and is_bijective(found.layout)
        tables = _tables(found)
        lane = np.broadcast_to(np.arange(32), tables["matrix"].shape)
        assert np.array_equal(tables["matrix"], lane // 4 % 4)
    single = instruction_layout("mma.m8n8k4.f16", "C.f32").layout
    assert single(register=6, lane=19) == {"row": 4 + 1 + 2, "column": 4 + 2, "matrix": 0}


def test_every_layout_is_one_to_one_and_registers_hold_whole_tiles() -> None:
    for name in instruction_names():
        for operand in fragment_instructions()[name].operands if name in fragment_instructions() else ():
            found = instruction_layout(name, operand[0])
            match found.layout:
                case LinearLayout() as layout:
                    assert is_injective(layout)
                case Hierarchy() as layout:
                    packed = 0
                    for table in hierarchy.coordinates(layout).values():
                        packed = packed * 1024 + table
                    assert len(np.unique(packed)) == layout.size
            assert found.source and found.targets
            if set(found.outputs) == {"row", "column"}:
                assert found.layout.size == np.prod(list(found.layout.output_sizes.values()))


def test_names_as_ptx_writes_them() -> None:
    same = instruction_layout("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "fragment")
    assert same == instruction_layout("ldmatrix.x4.trans", "fragment") and same.inputs == ("register", "lane")
    assert "wgmma.m64n128k16" in instruction_names("sm_90a") and "wgmma.m64n128k16" not in instruction_names("sm_100a")
    assert [each for each in instruction_names("gfx942") if "mfma" in each]
    assert {f"tma.swizzle.{each}" for each in swizzles(target("sm_90a")) if each != "none"} == {
        each for each in instruction_names("sm_90a") if each.startswith("tma")
    }


@pytest.mark.parametrize(
    ("name", "operand", "on", "message"),
    [
        ("wgmma.m64n128k17", "C", None, "did you mean"),
        ("wgmma.m64n128k16", "B", None, "B.K.128B"),
        ("wgmma.m64n128k16", "C", "sm_100a", "sm_90a have it"),
        ("wgmma.m64n24k16", "B.K.128B", None, "no power of two"),
        ("wgmma.m64n64k256", "B.K.128B", None, "below 8 bits"),
        ("wgmma.m64n64k16", "B.K.256B", None, "no swizzle"),
        ("wgmma.m64n64k32", "B.MN.128B", None, "no such operand"),
        ("tma.swizzle.7B", "shared", None, "no layout of"),
        ("tma.swizzle.128B_atom_32B", "shared", "sm_90a", "128B_atom_32B"),
        ("ds_read_b96", "lanes", "gfx942", "no model"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_told(name: str, operand: str, on: str | None, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        instruction_layout(name, operand, on)


@pytest.mark.parametrize(
    ("name", "words"), [("wgmma.m64n100k16", "did you mean 'wgmma.m64n"), ("foo", "such as wgmma")]
)
def test_operands_of_no_instruction(name: str, words: str) -> None:
    with pytest.raises(TilewrightError, match="no layouts of an instruction") as caught:
        operands_of(name)
    assert words in str(caught.value)
