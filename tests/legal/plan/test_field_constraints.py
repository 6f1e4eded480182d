"""Rules as constraints between fields: what is chosen by them, against enumeration with the rules themselves."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.legal.plan.field_constraints import field_values, rule_constraints, small, with_values
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.solve.constraints.fields import Chosen, Constraint, Cost, Infeasible, choose
from tilewright.targets import target


def chosen(map, free, device, costs, wants=()):
    """The cheapest legal map that is `map` but for the fields of `free`; None where there is none."""
    values = field_values(map)
    known = ("interleave", "swizzle", "l2_promotion", "oob_fill")
    baked = tuple((name, values[name]) for name in known if name not in free)
    rules = rule_constraints(device, map.rank, values["dtype"], baked)
    fields = {name: free.get(name, (value,)) for name, value in values.items()}
    found = choose(fields, (*rules, *wants), costs)
    assert isinstance(found, Infeasible) or (isinstance(found, Chosen) and found.least)
    return with_values(map, {name: found.values[name] for name in free}) if isinstance(found, Chosen) else None


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
        found = chosen(map, free, device, costs)
        candidates = [with_values(map, dict(zip(free, values, strict=True))) for values in product(*free.values())]
        reached = [candidate.box[0] for candidate in candidates if legal(candidate, device)]
        if reached:
            assert found is not None and legal(found, device)
            assert found.box[0] == (max(reached) if largest else min(reached))
            assert with_values(found, {field: field_values(map)[field] for field in free}) == map
        else:
            assert found is None

    check()


def test_a_stride_is_padded_to_the_next_that_is_legal():
    map = TensorMap("bf16", (100, 4096), (200,), (64, 128), swizzle="128B")
    found = chosen(map, {"strides[0]": range(200, 2**40)}, target("sm_90a"), [small("strides[0]")])
    assert found is not None and found.strides == (208,)


def test_a_wider_row_asks_for_another_swizzle():
    map = TensorMap("bf16", (100, 4096), (208,), (64, 128), swizzle="128B")
    whole_rows = Constraint("whole rows", ("box[0]", "dims[0]"), lambda box, extent: box >= extent)
    free = {"box[0]": range(1, 257)}
    assert chosen(map, free, target("sm_90a"), [], [whole_rows]) is None
    wide = chosen(map, free | {"swizzle": range(4)}, target("sm_90a"), [small("box[0]")], [whole_rows])
    assert wide is not None and wide.box == (104, 128) and wide.swizzle == "none"


@pytest.mark.parametrize("rank", [0, 6])
def test_an_illegal_rank_leaves_no_choice(rank):
    map = TensorMap("bf16", (64,) * rank, (128,) * max(rank - 1, 0), (8,) * rank)
    assert chosen(map, {}, target("sm_90a"), []) is None
