"""A mended map is legal by the same rules, keeps its elements apart, and an unmendable one is answered by None."""

from dataclasses import replace
from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.element import Element
from tilewright.base.plan import TensorMap
from tilewright.legal.mend import mend
from tilewright.legal.tensormap import violations
from tilewright.targets import target

HOPPER = target("sm_90a")
LEGAL = TensorMap(Element.BF16, dims=(4096, 4096), strides_bytes=(8192,), box=(64, 128), swizzle="128B")


def test_a_legal_map_comes_back_as_it_is() -> None:
    mended = mend(LEGAL, HOPPER)
    assert mended is not None
    assert (mended.map, mended.changes) == (LEGAL, ())


def test_an_odd_k_is_padded() -> None:
    mended = mend(replace(LEGAL, dims=(100, 64), strides_bytes=(200,)), HOPPER, dimension_names=("K", "M"))
    assert mended is not None
    assert mended.map.strides_bytes == (208,)
    assert [change.title for change in mended.changes] == ["pad K from 100 to 104 elements"]
    assert str(208 * 63 + 200) in mended.changes[0].cost


def test_a_box_beyond_the_span_and_beyond_256_is_split_evenly() -> None:
    mended = mend(replace(LEGAL, box=(128, 384)), HOPPER, dimension_names=("K", "M"))
    assert mended is not None
    assert mended.map.box == (64, 192)
    assert len(mended.changes) == 2


def test_a_prime_box_is_not_split_into_single_rows() -> None:
    mended = mend(replace(LEGAL, box=(64, 257)), HOPPER)
    assert mended is not None
    assert mended.map.box == (64, 129)


def test_a_narrow_box_is_widened_and_integers_are_filled_with_zeros() -> None:
    mended = mend(TensorMap(Element.U8, (64, 64), (64,), (12, 8), out_of_bounds="nan"), HOPPER)
    assert mended is not None
    assert (mended.map.box, mended.map.out_of_bounds) == ((16, 8), "zero")


def test_a_box_larger_than_shared_memory_is_cut_from_the_outside() -> None:
    mended = mend(TensorMap(Element.F32, (4096,) * 3, (1 << 14, 1 << 26), (64, 128, 32)), HOPPER)
    assert mended is not None
    assert mended.map.box[:2] == (64, 128)
    assert 1 <= mended.map.box[2] <= 7


def test_what_no_map_can_mend_is_none() -> None:
    assert mend(replace(LEGAL, offset_bytes=8), HOPPER) is None
    assert mend(replace(LEGAL, dims=(2**32 + 1, 2)), HOPPER) is None
    assert mend(replace(LEGAL, strides_bytes=(-16,)), HOPPER) is None
    assert mend(replace(LEGAL, strides_bytes=(-8,)), HOPPER) is None
    assert mend(replace(LEGAL, element_strides=(1, 9)), HOPPER) is None
    assert mend(replace(LEGAL, box=(0, 8)), HOPPER) is None


@st.composite
def small_maps(draw: st.DrawFn) -> TensorMap:
    """Maps of small tensors whose elements do not overlap, with any gaps and in any order of the outer dimensions."""
    element = draw(st.sampled_from((Element.U8, Element.BF16, Element.F32, Element.U64)))
    rank = draw(st.integers(1, 4))
    dims = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    order = draw(st.permutations(range(1, rank)))
    strides, reach = [0] * rank, dims[0] * element.bytes
    for index in order:
        strides[index] = reach + draw(st.integers(0, 20))
        reach += (dims[index] - 1) * strides[index]
    box = tuple(draw(st.integers(1, 600)) for _ in range(rank))
    swizzle = draw(st.sampled_from(("none", "32B", "64B", "128B")))
    return TensorMap(
        element, dims, tuple(strides[1:]), box, swizzle=swizzle, out_of_bounds=draw(st.sampled_from(("zero", "nan")))
    )


@settings(deadline=None, max_examples=300)
@given(small_maps())
def test_every_small_map_is_mended_and_its_elements_stay_apart(map: TensorMap) -> None:
    mended = mend(map, HOPPER)
    assert mended is not None
    assert violations(mended.map, HOPPER) == ()
    assert (mended.map.element, mended.map.dims, mended.map.swizzle) == (map.element, map.dims, map.swizzle)
    assert all(new >= old for new, old in zip(mended.map.strides_bytes, map.strides_bytes, strict=True))
    assert bool(mended.changes) == bool(violations(map, HOPPER))
    strides = (map.element.bytes, *mended.map.strides_bytes)
    starts = sorted(
        sum(index * stride for index, stride in zip(indices, strides, strict=True))
        for indices in product(*(range(extent) for extent in map.dims))
    )
    assert all(second - first >= map.element.bytes for first, second in pairwise(starts))
