"""Every operand and result of random products takes the cheapest legal way: in place where the rules allow it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.walked_products import HOPPER, decided, major_of, parts_of, slot_along, walk_of

from tilewright.base.error import TilewrightError
from tilewright.legal.tensor_map.tensormap import violations
from tilewright.synth.tile.wanted import Wanted

extent = st.sampled_from([1, 2, 5, 8, 16, 63, 64, 100, 255, 256, 1023, 1024, 4097])
layout = st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from([1, 1, 1, 2]))
"""(column-major?, elements from a dense pitch to the real one, stride of the inner axis)."""


def strides_of(rows, columns, chosen):
    by_columns, more, inner_stride = chosen
    pitch = ((rows if by_columns else columns) + more) * inner_stride
    return (inner_stride, pitch) if by_columns else (pitch, inner_stride)


def describable(shape, strides):
    """Written from the driver's documentation: one axis of neighbours, the last of two such, and the other at a
    multiple of 16 bytes, unless it has one element."""
    inner = 1 if strides[1] == 1 else 0
    return strides[inner] == 1 and (shape[1 - inner] == 1 or strides[1 - inner] * 2 % 16 == 0)


@settings(max_examples=25, deadline=None)
@given(extent, extent, extent, layout, layout, layout, st.sets(st.sampled_from("abc")))
def test_an_operand_is_copied_exactly_where_no_map_describes_it(m, n, k, a, b, c, misaligned):
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    strides = {name: strides_of(*shapes[name], chosen) for name, chosen in zip("abc", (a, b, c), strict=True)}
    wanted = Wanted(misaligned=tuple(sorted(misaligned)), unmapped="workspace")
    parts = parts_of({"M": m, "N": n, "K": k}, strides=strides, wanted=wanted)
    plan, words = walk_of(parts), [reason for part in parts for reason in part.decisions.reasons]
    for name, slot in (("a", slot_along(plan, "M")), ("b", slot_along(plan, "N"))):
        direct = name not in misaligned and describable(shapes[name], strides[name])
        assert (slot.buffer == name) == direct and not slot.piece_bytes
        assert not violations(slot.map.tensor_map(), HOPPER)
        assert any(f"{name} is copied: " in reason for reason in words) == (not direct)
    assert len(parts) <= 3
    for store in plan.stores:
        assert not violations(store.map.tensor_map(), HOPPER)
        assert "c" not in misaligned and store.map.dims[0] % 8 == 0


def of_a(dims, **more):
    """How A reaches its slot, and whether a kernel copies it first."""
    parts = parts_of(dims, **more)
    plan = walk_of(parts)
    slot = slot_along(plan, "M")
    return slot.buffer != "a", major_of(plan, "M"), slot.strides_bytes, parts


def test_a_copy_reads_along_its_sources_rows():
    """Where neither axis is dense, the workspace's rows run along the narrower stride."""
    for strides, major in (((8194, 2), "K"), ((2, 8194), "MN")):
        wanted = Wanted(unmapped="workspace")
        assert of_a({"M": 256, "N": 64, "K": 64}, strides={"a": strides}, wanted=wanted)[:2] == (True, major)


def test_a_slice_of_a_larger_array_is_read_in_place():
    """Keys of a fused projection: rows 3 x 4096 apart, of which each is a third."""
    dims, wanted = {"M": 2048, "N": 1024, "K": 4096}, Wanted(unmapped="workspace")
    copied, _, strides_bytes, _ = of_a(dims, strides={"a": (3 * 4096, 1)}, wanted=wanted)
    assert not copied and strides_bytes == (2 * 3 * 4096,)
    copied, _, strides_bytes, parts = of_a(dims, strides={"a": (3 * 4096 + 1, 1)}, wanted=wanted)
    assert copied and strides_bytes == (8192,)
    (reason,) = [words for words in parts[0].decisions.reasons if words.startswith("a is copied")]
    assert "row stride 24578 bytes is not a multiple of 16" in reason


KEY = "tensor_map.stride_limit_bytes"
NARROW = replace(HOPPER, facts={**HOPPER.facts, KEY: replace(HOPPER.fact(KEY), value=4096)})
"""A target whose strides end at 4096 bytes."""


def test_where_no_workspace_has_a_map_the_error_names_repairs():
    with pytest.raises(TilewrightError, match=r"no tensor map brings a") as caught:
        decided({"M": 4096, "N": 64, "K": 4095}, target=NARROW, wanted=Wanted(swapped=False))
    assert caught.value.remedy
