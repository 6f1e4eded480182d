"""Field choice against enumeration with the rules themselves; conflicts and releases against asking again."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.legal.plan.field_choice import (
    FieldChoice,
    NoChoice,
    choose_fields,
    field_values,
    largest_box,
    small,
    with_values,
)
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.solve.fields import Constraint, Cost
from tilewright.targets import target

SHARED_BYTES = target("sm_90a").limit("tensor_map.box_footprint_bytes_max")


def legal(map, device):
    return all(rule.stated(map.fields) is True for rule in tiled_rules(device))


@st.composite
def maps(draw, data_types, swizzles):
    """Maps near the limits of their rules: some legal, most not."""
    rank = draw(st.integers(1, 4))

    def entries(near, count):
        return tuple(draw(st.sampled_from(near)) for _ in range(count))

    return TensorMap(
        draw(st.integers(0, data_types - 1)),
        entries((1, 7, 64, 128, 2**32, 0, 2**32 + 1), rank),
        entries((16, 32, 208, 200, 2**40 - 16, 2**40, 0), rank - 1),
        entries((8, 16, 32, 64, 128, 256, 3, 0, 257), rank),
        element_strides=entries((1, 1, 2, 8, 0, 9), rank),
        interleave=draw(st.sampled_from((0, 0, 0, 1, 2))),
        swizzle=draw(st.integers(0, swizzles - 1)),
        oob_fill=draw(st.integers(0, 1)),
        address=draw(st.sampled_from((0, 16, 32, 8, 2**57 - 16, 2**57))),
    )


OPEN = {
    "box[0]": (0, 8, 16, 24, 32, 64, 128, 257),
    "strides[0]": range(190, 230),
    "swizzle": (0, 1, 2, 3, 9),
    "address": (0, 8, 16, 32),
    "element_strides[0]": (0, 1, 2, 9),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "data_types", "swizzles"), [("sm_90a", 13, 4), ("sm_100a", 16, 7)])
def test_the_choice_is_the_cheapest_legal_map(name, data_types, swizzles):
    device = target(name)

    @settings(max_examples=60)
    @given(maps(data_types, swizzles), st.sets(st.sampled_from(sorted(OPEN)), max_size=2), st.booleans())
    def check(map, opened, largest):
        free = {field: OPEN[field] for field in sorted(opened) if field in field_values(map)}
        costs = [Cost("box", ("box[0]",), lambda box: -box if largest else box)]
        found = choose_fields(map, free, device, costs=costs)
        candidates = [with_values(map, dict(zip(free, values, strict=True))) for values in product(*free.values())]
        reached = [candidate.box[0] for candidate in candidates if legal(candidate, device)]
        if reached:
            assert isinstance(found, FieldChoice) and found.least and legal(found.map, device)
            assert found.map.box[0] == (max(reached) if largest else min(reached))
            assert with_values(found.map, {field: field_values(map)[field] for field in free}) == map
        else:
            assert isinstance(found, NoChoice)

    check()


@settings(max_examples=15)
@given(maps(13, 4))
def test_conflicts_and_releases_are_what_they_say(map):
    device = target("sm_90a")
    found = choose_fields(map, {}, device)
    broken = {rule.code for rule in tiled_rules(device) if rule.stated(map.fields) is not True}
    assert isinstance(found, NoChoice) == bool(broken)
    if not isinstance(found, NoChoice):
        return
    assert found.complete and found.cores
    # A rule that stands alone against the map's own values is named by a core.
    named = {name.split()[0] for core in found.cores for name in core}
    assert broken <= named
    fields = [field for field in field_values(map) if field != "dtype"]
    for release in found.releases[:3]:
        released = [field for field in fields if any(name.startswith(f"{field} = ") for name in release)]
        assert len(released) == len(release)
        widest = {field: range(0, 2**64) if "[" in field or field == "address" else range(16) for field in released}
        assert isinstance(choose_fields(map, widest, device), FieldChoice)
        for kept in released:
            fewer = {field: domain for field, domain in widest.items() if field != kept}
            assert isinstance(choose_fields(map, fewer, device), NoChoice)


def test_the_worked_example():
    device = target("sm_90a")
    map = TensorMap("bf16", (100, 4096), (200,), (64, 128), swizzle="128B")
    why = choose_fields(map, {}, device)
    assert isinstance(why, NoChoice)
    assert why.cores == (("TM012 stride-multiple globalStrides[0]", "strides[0] = 200 bytes"),)
    assert why.releases == (("strides[0] = 200 bytes",),)
    padded = choose_fields(map, {"strides[0]": range(200, 2**40)}, device, costs=[small("strides[0]")])
    assert isinstance(padded, FieldChoice) and padded.map.strides == (208,)


def test_wants_take_part_in_conflicts():
    device = target("sm_90a")
    map = TensorMap("bf16", (100, 4096), (208,), (64, 128), swizzle="128B")
    whole_rows = Constraint("whole rows", ("box[0]", "dims[0]"), lambda box, extent: box >= extent)
    free = {"box[0]": range(1, 257)}
    why = choose_fields(map, free, device, wants=[whole_rows])
    assert isinstance(why, NoChoice) and why.complete
    assert why.cores == (("TM016 box-span boxDim[0]", "whole rows", "dims[0] = 100", "swizzle = 128B"),)
    assert set(why.releases) == {("whole rows",), ("dims[0] = 100",), ("swizzle = 128B",)}
    wide = choose_fields(map, free | {"swizzle": ("none", "128B")}, device, wants=[whole_rows], costs=[small("box[0]")])
    assert isinstance(wide, FieldChoice) and wide.map.box == (104, 128) and wide.map.swizzle == "none"


@pytest.mark.parametrize("engine", ["search", "z3"])
def test_the_largest_box(engine):
    device = target("sm_90a")
    map = TensorMap("bf16", (4096, 4096, 64), (8192, 8192 * 4096), (1, 1, 1))
    free = {"swizzle": ("32B", "64B", "128B"), **{f"box[{i}]": range(1, 257) for i in range(3)}}
    found = choose_fields(map, free, device, costs=[largest_box(map, SHARED_BYTES)], engine=engine)
    assert isinstance(found, FieldChoice) and found.least and found.costs == (-SHARED_BYTES,)


def test_an_open_field_without_values_is_named():
    map = TensorMap("bf16", (100, 4096), (208,), (64, 128))
    why = choose_fields(map, {"strides[0]": range(2**41, 2**40)}, target("sm_90a"))
    assert isinstance(why, NoChoice) and why.cores == (("strides[0] has no value to choose",),)


@pytest.mark.parametrize("rank", [0, 6])
def test_an_illegal_rank_is_the_conflict_by_itself(rank):
    map = TensorMap("bf16", (64,) * rank, (128,) * max(rank - 1, 0), (8,) * rank)
    why = choose_fields(map, {}, target("sm_90a"))
    assert isinstance(why, NoChoice) and why.complete
    assert why.cores == (("TM007 rank tensorRank",),) and why.releases == ()


def test_mistakes_are_errors():
    map = TensorMap("bf16", (100, 4096), (208,), (64, 128))
    for free in ({"box[2]": (1,)}, {"rank": (2,)}, {"dtype": (1,)}, {"box[0]": ("64",)}, {"swizzle": ("129B",)}):
        with pytest.raises(TilewrightError):
            choose_fields(map, free, target("sm_90a"))
