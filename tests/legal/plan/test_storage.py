"""Padded and copied tensors: strides that maps take, elements apart, no more padding than said."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

from hypothesis import given
from hypothesis import strategies as st
from tests.legal.reading_places import address_of

from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.storage import overlaps, padded, padding_bytes, workspaces
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.targets import target

LIMITS = map_limits(target("sm_90a"))


@st.composite
def tensors(draw: st.DrawFn) -> Reading:
    width = draw(st.sampled_from((1, 2, 4)))
    rank = draw(st.integers(1, 4))
    dims = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    strides, reach = [width] * rank, dims[0] * width
    for at in draw(st.permutations(range(1, rank))):
        strides[at] = reach + draw(st.sampled_from((0, 0, width, 7)))
        reach += (dims[at] - 1) * strides[at]
    box = tuple(draw(st.integers(1, extent)) for extent in dims)
    starts = tuple(0 if size == extent else size for size, extent in zip(box, dims, strict=True))
    return Reading(width, dims, tuple(strides), box, (1,) * rank, starts, draw(st.sampled_from((0, 8, 16))))


def addresses(reading: Reading) -> list[int]:
    return sorted(address_of(index, reading) for index in product(*(range(extent) for extent in reading.dims)))


@given(tensors())
def test_a_padded_tensor_keeps_its_elements_apart(tensor: Reading) -> None:
    assert not overlaps(tensor)
    longer = padded(tensor, LIMITS)
    assert longer is not None
    assert all(stride % 16 == 0 for stride in longer.strides_bytes[1:])
    assert longer.address % 16 == 0
    assert all(new >= old for new, old in zip(longer.strides_bytes, tensor.strides_bytes, strict=True))
    assert all(second - first >= tensor.element_bytes for first, second in pairwise(addresses(longer)))


@given(tensors())
def test_workspaces_are_dense_but_for_what_they_say(tensor: Reading) -> None:
    found = workspaces(tensor, LIMITS)
    assert found
    for workspace in found:
        places = addresses(workspace)
        assert all(second - first >= tensor.element_bytes for first, second in pairwise(places))
        used = places[-1] + tensor.element_bytes
        assert used - prod(tensor.dims) * tensor.element_bytes == padding_bytes(workspace)
    assert [padding_bytes(each) for each in found] == sorted(padding_bytes(each) for each in found)


def test_overlapping_tensors_are_not_padded() -> None:
    windows = Reading(2, (8, 4), (2, 4), (8, 1), (1, 1), (0, 1), 0)
    assert overlaps(windows)
    assert padded(windows, LIMITS) is None
    assert padded(Reading(2, (8, 4), (4, 32), (8, 1), (1, 1), (0, 1), 0), LIMITS) is None
