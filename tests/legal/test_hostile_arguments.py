"""Whatever a caller gives to `legal` and to `copy_box`, the answer is a verdict or a TilewrightError of one line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright import legal, machine
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.argument import ENTRIES_MAX, NUMBER_BITS_MAX, integer, integers, shown, target_of

GOOD = legal.TensorMap("bf16", (64, 64), (128,), (64, 64), swizzle="128B")
ODD = legal.TensorMap("bf16", (100, 64), (200,), (64, 64), swizzle="128B")
NUMBERS = (0, 1, -1, 2, 16, 64, 127, 128, 256, 257, 2**31, 2**32 + 1, 2**40, 2**63, 2**64, 2**200)
STRANGE: tuple[Any, ...] = (
    None, "x", "", b"ab", float("nan"), float("inf"), 2.0, 2 + 3j, True, [], (), [[1, 2]], {}, {1: 2}, {1, 2}, int,
    object(), range(3), 10**5000, [10**5000], np.float32(2), np.bool_(True), np.array(3), np.array([3, 4]),
    np.array([]), np.array([[1, 2], [3, 4]]), np.array([1.5]), np.array(["a"]), np.uint64(2**64 - 1), np.int32(-5), len,
)  # fmt: skip
"""Values of every kind that reached an argument in earlier trials, most of which no argument takes."""

numbers = st.sampled_from(NUMBERS)
strange = st.sampled_from(STRANGE)
choices = {
    "interleave": st.sampled_from(["none", "16B", "32B", 0, 1, 2, 7]),
    "swizzle": st.sampled_from(["none", "32B", "64B", "128B", "128B_atom_32B", 3, 5, 6, 7, -1]),
    "oob_fill": st.sampled_from(["zero", "nan", 1, 2]),
    "address": numbers,
}
types = st.sampled_from(["u8", "bf16", "f64", "u4x16_align8", "u4x16_align16", "u6x16_align16", 0, 15, 99, -1, 2**70])


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a tensor map, one of which may be anything."""
    rank = draw(st.sampled_from([0, 1, 2, 2, 3, 4, 5, 6, 12]))
    found: dict[str, Any] = {"dtype": draw(types)}
    for field, entries in (("dims", rank), ("strides", max(rank - 1, 0)), ("box", rank), ("element_strides", rank)):
        found[field] = draw(st.lists(numbers, min_size=entries, max_size=entries))
    found |= draw(st.fixed_dictionaries({}, optional=choices))
    if draw(st.booleans()):
        found[draw(st.sampled_from(sorted(found)))] = draw(strange)
    return found


def answered(question: Callable[[], Any]) -> Any:
    """What the question answers; None for a TilewrightError, which has one line."""
    try:
        return question()
    except TilewrightError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
        return None


@given(arguments(), strange, strange, strange)
def test_every_question_of_a_map_is_answered(
    given_arguments: dict[str, Any], target: object, driver: object, coords: object
) -> None:
    map = answered(lambda: legal.TensorMap(**given_arguments))
    if map is None:
        return
    assert isinstance(hash(map), int) and repr(map)
    for name in ("sm_90a", "sm_100a", target):
        verdict = answered(lambda name=name: legal.check(map, name))  # pyright: ignore[reportArgumentType]
        if verdict is None:
            continue
        assert verdict.legal == (not verdict.violations) == (not verdict.minimal_sets)
        assert all(violation.message and violation.source for violation in verdict.violations)
        assert (verdict.footprint_bytes is None) == (verdict.transaction_bytes is None)
        plans: list[legal.Repair] = legal.repair(map, target=name)  # pyright: ignore[reportArgumentType]
        for plan in plans:
            assert all(legal.check(each, name).legal for each in plan.maps)  # pyright: ignore[reportArgumentType]
    answered(lambda: legal.check(map, "sm_90a", driver=driver))
    answered(lambda: legal.repair(map, want=driver, target="sm_90a"))  # pyright: ignore[reportArgumentType]
    answered(lambda: machine.copy_box(map, np.zeros(4096, np.uint8), [0] * map.rank, target="sm_90a"))
    answered(lambda: machine.copy_box(map, np.zeros(4096, np.uint8), coords, target="sm_90a"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_anything_in_any_argument(value: Any) -> None:
    for question in (
        lambda: legal.check(GOOD, value),
        lambda: legal.check(value, "sm_90a"),
        lambda: legal.check(GOOD, "sm_90a", driver=value),
        lambda: legal.repair(ODD, value, target="sm_90a"),
        lambda: legal.repair(value, target="sm_90a"),
        lambda: legal.repair(ODD, target=value),
        lambda: legal.Want(box=value),
        lambda: legal.Want(keep=value),
        lambda: legal.Want(consumer=value),
        lambda: legal.Want(store=value),
        lambda: legal.check_copy(GOOD, value, target="sm_90a"),
        lambda: legal.check_copy(GOOD, direction=value, target="sm_90a"),
        lambda: legal.check_copy(GOOD, coords=value, target="sm_90a"),
        lambda: legal.check_rows(value, "sm_90a"),
        lambda: legal.check_rows({}, value),
        lambda: legal.Im2colMap("bf16", (64, 8, 8, 2), (128, 1024, 8192), value, value, 64, value),
        lambda: legal.read_map(value),
        lambda: legal.encode_map(value),
        lambda: legal.decode_wgmma(value, "sm_90a"),
        lambda: legal.decode_tcgen05(value, "sm_100a"),
        lambda: legal.SymbolicMap("bf16", ("K", 64), ("2*K",), (64, 64), sizes=value),
        lambda: legal.plan_operand(StridedView((64, 64), (128, 2), 0, 2), value, Element.BF16, target="sm_90a"),
        lambda: machine.copy_box(value, np.zeros(4096, np.uint8), (0, 0), target="sm_90a"),
        lambda: machine.copy_box(GOOD, value, (0, 0), target="sm_90a"),
        lambda: machine.copy_box(GOOD, np.zeros(8192, np.uint8), (0, 0), value, target="sm_90a"),
    ):
        answered(question)


def test_integers_of_any_make() -> None:
    assert integers("dims", [np.int64(64), np.uint64(2**64 - 1), np.int32(-5), 3]) == (64, 2**64 - 1, -5, 3)
    assert integers("dims", np.array([1, 2])) == integers("dims", iter((1, 2))) == (1, 2)
    assert integer("address", np.array(3)) == 3
    assert integer("address", 2**NUMBER_BITS_MAX - 1) == 2**NUMBER_BITS_MAX - 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array(3), "dims is array\\(3\\), not a list of integers"),
        ([1.5], "dims\\[0\\] is 1.5, not an integer"),
        (np.array([[1, 2]]), "dims\\[0\\] is array\\(\\[1, 2\\]\\), not an integer"),
        ([np.bool_(True)], "dims\\[0\\] is np.True_, not an integer"),
        ([2**NUMBER_BITS_MAX], "dims\\[0\\] is an integer of 4097 bits, more than any address or extent has"),
        (count(), f"dims has more than {ENTRIES_MAX} entries"),
        (int, "dims is <class 'int'>, not a list of integers"),
    ],
)
def test_what_is_no_list_of_integers_is_shown(values: object, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        integers("dims", values)


def test_messages_stay_short() -> None:
    assert len(shown("x" * 1000)) < 80
    assert shown([10**5000]) == "a list"
    with pytest.raises(TilewrightError, match="3 is no target"):
        target_of(3)


@pytest.mark.parametrize("driver", [13.1, "13.1", (13, 1), 13010, np.int64(13010)])
def test_a_driver_version_as_people_write_it(driver: object) -> None:
    assert legal.check(GOOD, "sm_90a", driver=driver).driver == (13, 1)


def test_a_want_by_the_names_of_its_fields() -> None:
    given = {"box": np.array([64, 32]), "keep": ["swizzle"], "copy_allowed": False}
    wanted = legal.Want(box=(64, 32), keep=frozenset({"swizzle"}), copy_allowed=False)
    assert legal.repair(ODD, given, target="sm_90a") == legal.repair(ODD, wanted, target="sm_90a")
    for want, message in (
        ({"boxes": 3}, "a want has no field 'boxes'"),
        ({"box": (64, 0)}, "nothing to copy"),
        ({"box": 64}, "box is 64, not a list of integers"),
        ({"keep": "box"}, "keep is 'box', not a set of field names"),
        ({"keep": [3]}, "no field 3 to keep"),
        ({"store": 1}, "store is 1, not True or False"),
        ("store", "'store' is no want"),
    ):
        with pytest.raises(TilewrightError, match=message):
            legal.repair(ODD, want, target="sm_90a")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("rank", range(8))
@pytest.mark.parametrize("wide", [False, True])
def test_im2col_maps_of_any_rank_are_explained(rank: int, wide: bool) -> None:
    dims, strides = (64,) * rank, (128,) * max(rank - 1, 0)
    for pixels in (0, 64, 2**40):
        map = (
            legal.Im2colWideMap("bf16", dims, strides, 0, 0, 64, pixels)
            if wide
            else legal.Im2colMap("bf16", dims, strides, (0,) * max(rank - 2, 0), (0,) * max(rank - 2, 0), 64, pixels)
        )
        verdict = legal.check(map, "sm_100a")
        assert verdict.legal == (3 <= rank <= 5 and pixels == 64)
        assert bool(verdict.minimal_changes) == bool(verdict.violations) == (not verdict.legal)


def test_columns_of_more_pixels_than_a_map_has_are_refused() -> None:
    map = legal.Im2colMap("u8", (64, 8, 8), (64, 512), (0,), (0,), 16, 1025)
    with pytest.raises(TilewrightError, match="1025 pixels are above a column's 1024"):
        machine.copy_box(map, np.zeros(4096, np.uint8), (0, 0, 0), target="sm_90a")
