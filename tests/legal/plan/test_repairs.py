"""Every repair is legal by the rules and delivers, element by element, what the box wants and nothing past the end."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.legal.reading_places import WIDTH_BYTES, address_of, faults_of, starts_of

from tilewright.base.error import TilewrightError
from tilewright.legal.plan.repair_plan import Repair
from tilewright.legal.plan.repairs import repair
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import target

HOPPER = target("sm_90a")
LEGAL = TensorMap("bf16", (4096, 4096), (8192,), (64, 128), swizzle="128B")


def is_legal(map: TensorMap) -> bool:
    return all(rule.stated(map.fields) for rule in tiled_rules(HOPPER))


def test_a_legal_map_comes_first_as_it_is() -> None:
    first = repair(LEGAL, target="sm_90a")[0]
    assert (first.kind, first.map, first.changes) == ("legal", LEGAL, ())
    assert first.cost.rank[0] == 0


def test_an_odd_row_stride_is_padded() -> None:
    found = repair(replace(LEGAL, dims=(100, 4096), strides=(200,)), target="sm_90a")
    first = found[0]
    assert first.kind == "pad"
    assert first.title == "pad the row stride from 200 to 208 bytes"
    assert first.map == replace(LEGAL, dims=(100, 4096), strides=(208,))
    assert first.cost.padded_bytes == 4095 * 8
    assert [change.field for change in first.changes] == ["strides"]
    copy = next(each for each in found if each.kind == "copy")
    assert copy.cost.copied_bytes == 100 * 4096 * 2
    assert copy.workspace_bytes == 4095 * 208 + 200


def test_a_row_beyond_the_span_and_a_box_beyond_256_are_cut() -> None:
    found = repair(replace(LEGAL, box=(128, 384)), target="sm_90a")
    boxes = {each.map.box for each in found if each.map and each.kind == "box"}
    assert (64, 192) in boxes
    split = next(each for each in found if each.kind == "split")
    assert split.cost.extra_copies == 0  # spans of a row, and runs of rows, are dimensions of their own
    assert split.map is not None
    assert prod(split.map.box) == 128 * 384
    assert any(each.kind == "swizzle" and each.map and each.map.swizzle == "none" for each in found)


def test_channels_of_three_bytes_are_merged_into_rows() -> None:
    pixels = TensorMap("u8", (3, 224, 224, 8), (3, 672, 150528), (3, 32, 8, 1))
    first = repair(pixels, target="sm_90a")[0]
    assert first.kind == "merge"
    assert first.cost.copied_bytes == first.cost.padded_bytes == 0
    assert faults_of(first, [(0, 0, 0, 0), (0, 32, 8, 1), (0, 192, 216, 7)]) == []


def test_six_dimensions_become_five() -> None:
    map = TensorMap("bf16", (64, 8, 4, 4, 4, 4), (128, 1024, 4096, 16384, 65536), (64, 8, 1, 1, 1, 1))
    first = repair(map, target="sm_90a")[0]
    assert first.kind == "merge"
    assert first.map is not None
    assert first.map.rank == 5
    assert faults_of(first, [(0, 0, 1, 2, 3, 1), (0, 0, 3, 3, 3, 3)]) == []


def test_more_than_2_to_the_32_elements_are_read_as_wider_ones_or_split() -> None:
    kinds = {each.kind for each in repair(TensorMap("u8", (2**33,), (), (256,)), target="sm_90a")}
    assert {"reinterpret", "split"} <= kinds


def test_a_base_inside_16_bytes_is_moved_or_read_from_before() -> None:
    found = repair(replace(LEGAL, address=0x1002), target="sm_90a")
    assert {"pad", "shift", "copy", "loads"} <= {each.kind for each in found}
    shift = next(each for each in found if each.kind == "shift")
    assert shift.map is not None
    assert shift.map.address == 0x1000
    assert "2 bytes later" in shift.title


def test_tensor_cores_get_no_shifted_rows() -> None:
    found = repair(replace(LEGAL, address=0x1002), Want(consumer="wgmma"), target="sm_90a")
    assert "shift" not in {each.kind for each in found}
    assert {"copy", "loads"} <= {each.kind for each in found}


def test_what_is_kept_does_not_change() -> None:
    odd = replace(LEGAL, dims=(4095, 4096), strides=(8190,))
    for each in repair(odd, Want(keep=frozenset({"strides"})), target="sm_90a"):
        assert all(change.field != "strides" for change in each.changes)
    assert all(each.kind != "copy" for each in repair(odd, Want(copy_allowed=False), target="sm_90a"))


def test_a_wanted_box_is_delivered_whole() -> None:
    found = repair(LEGAL, Want(box=(100, 48)), target="sm_90a")
    assert all(each.box == (100, 48) for each in found)
    assert found[0].maps


@pytest.mark.parametrize(
    "map",
    [
        replace(LEGAL, dims=(0, 4096)),
        replace(LEGAL, strides=(-8192,)),
        replace(LEGAL, box=(64, 0)),
        replace(LEGAL, address=-16),
        TensorMap(99, (64, 64), (128,), (64, 64)),
        TensorMap("bf16", (), (), ()),
    ],
)
def test_nothing_to_copy_has_no_repair(map: TensorMap) -> None:
    assert repair(map, target="sm_90a") == []


def test_bad_wants_are_named() -> None:
    with pytest.raises(TilewrightError, match="wanted box has 1 entries; rank 2 needs 2"):
        repair(LEGAL, Want(box=(64,)), target="sm_90a")
    with pytest.raises(TilewrightError, match="no field 'stride' to keep"):
        Want(keep=frozenset({"stride"}))


def test_a_launch_plan_s_map_is_repaired_too() -> None:
    odd = replace(LEGAL, dims=(100, 4096), strides=(200,))
    assert repair(odd.to_plan(), target="sm_90a") == repair(odd, target="sm_90a")


@st.composite
def small_maps(draw: st.DrawFn) -> TensorMap:
    """Maps of small tensors, mostly illegal: dense, padded or overlapping, anywhere, of rank up to 6."""
    dtype = draw(st.sampled_from(("u8", "bf16", "f32", "u64")))
    width = WIDTH_BYTES[dtype]
    rank = draw(st.integers(1, 6))
    dims = tuple(draw(st.integers(1, 6 if rank > 3 else 12)) for _ in range(rank))
    reach, strides = dims[0] * width, [0] * rank
    for at in draw(st.permutations(range(1, rank))):
        kind = draw(st.sampled_from(("dense", "dense", "gap", "equal")))
        strides[at] = {"dense": reach, "gap": reach + draw(st.integers(0, 20)), "equal": max(width, reach // 2)}[kind]
        reach = max(reach, strides[at] * dims[at])
    return TensorMap(
        dtype,
        dims,
        tuple(strides[1:]),
        tuple(draw(st.integers(1, extent + 2)) for extent in dims),
        tuple(draw(st.sampled_from((1, 1, 1, 1, 2, 9))) if at else 1 for at in range(rank)),
        swizzle=draw(st.sampled_from(("none", "32B", "128B"))),
        oob_fill=draw(st.sampled_from(("zero", "zero", "nan"))),
        address=draw(st.sampled_from((0, 16, 32, 1, 2, 8, 24))),
    )


@given(small_maps(), st.sampled_from((None, "ldmatrix", "wgmma")), st.booleans())
def test_every_repair_is_legal_and_delivers_every_element(map: TensorMap, consumer: str | None, wanted: bool) -> None:
    found = repair(map, Want(box=map.box if wanted else None, consumer=consumer), target="sm_90a")  # type: ignore[arg-type]
    assert {"loads"} <= {each.kind for each in found}
    for each in found:
        assert each.checked
        assert all(is_legal(made) for made in each.maps)
        starts = starts_of(each.stored)
        assert not each.maps or faults_of(each, starts[:1] + starts[-2:]) == [], each
    ranks = [each.cost.rank for each in found]
    assert ranks == sorted(ranks)


@given(small_maps())
def test_stores_write_what_is_wanted_and_no_more(map: TensorMap) -> None:
    for each in repair(map, Want(box=map.box, store=True), target="sm_90a"):
        stored = each.stored
        for start in starts_of(stored)[:2] if each.maps else ():
            wanted: set[int] = set()
            entries = zip(start, stored.box, stored.element_strides, strict=True)
            for index in product(*(range(at, at + size, step) for at, size, step in entries)):
                if all(i < extent for i, extent in zip(index, stored.dims, strict=True)):
                    at = address_of(index, stored)
                    wanted.update(range(at, at + stored.element_bytes))
            assert written(each, start) <= wanted, each
        if each.maps and each.kind not in ("copy", "pad"):
            assert all(made.dims[0] * WIDTH_BYTES[str(made.dtype)] % 16 == 0 for made in each.maps)


def written(plan: Repair, start: tuple[int, ...]) -> set[int]:
    """Addresses of the bytes that the boxes at `start` hold, inside the maps' tensors."""
    found: set[int] = set()
    for copy in plan.copies(start):
        map = plan.maps[copy.map_index]
        width = WIDTH_BYTES[str(map.dtype)]
        ends = (min(at + size, extent) for at, size, extent in zip(copy.coords, map.box, map.dims, strict=True))
        steps = (1, *map.steps[1:])
        ranges = (range(at, end, step) for at, end, step in zip(copy.coords, ends, steps, strict=True))
        for index in product(*ranges):
            at = map.address + sum(i * stride for i, stride in zip(index, (width, *map.strides), strict=True))
            found.update(range(at, at + width))
    return found
