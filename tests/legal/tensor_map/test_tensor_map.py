"""The public tensor map: names and numbers, lists and tuples, and one clear error for what is no map at all."""

import math

import numpy as np
import pytest

from tilewright import legal
from tilewright.base.error import TilewrightError
from tilewright.base.plan import TensorMap as PlanMap
from tilewright.legal.tensor_map.enumerations import DATA_TYPES

LEGAL = legal.TensorMap("bf16", (4096, 4096), (8192,), (64, 128), swizzle="128B", address=1 << 20)


def test_numbers_and_names_lists_and_tuples_are_the_same_map() -> None:
    other = legal.TensorMap(
        9, [np.int64(4096), 4096], [8192], [64, 128], [1, 1], interleave=0, swizzle=3, l2_promotion=0, oob_fill=0,
        address=np.uint64(1 << 20),
    )  # fmt: skip
    assert other == LEGAL and hash(other) == hash(LEGAL)
    assert (other.dtype, other.swizzle, other.steps) == ("bf16", "128B", (1, 1))
    assert legal.TensorMap("bfloat16", (8,), (), (8,)).dtype == "bf16"


def test_every_data_type_of_the_driver_has_a_name() -> None:
    names = "u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16 f32_ftz tf32 tf32_ftz u4x16_align8 u4x16_align16 u6x16_align16"
    assert [each.name for each in DATA_TYPES] == names.split()
    for number, name in enumerate(names.split()):
        assert legal.TensorMap(name, (128,), (), (128,)).fields.dtype == number


@pytest.mark.parametrize(
    ("arguments", "keywords", "complaint"),
    [
        (("bf16", (8, 8), (), (8, 8)), {}, "strides has 0 entries; rank 2 needs 1"),
        (("bf16", (8, 8), (16,), (8,)), {}, "box has 1 entries; rank 2 needs 2"),
        (("bf16", (8,), (), (8,)), {"element_strides": (1, 1)}, "element_strides has 2 entries"),
        (("bf16", (8.0,), (), (8,)), {}, r"dims\[0\] is 8.0, not an integer"),
        (("bf16", (math.nan,), (), (8,)), {}, r"dims\[0\] is nan"),
        (("bf16", (True,), (), (8,)), {}, r"dims\[0\] is True"),
        (("bf16", 8, (), (8,)), {}, "dims is 8, not a list"),
        (("bf16", "88", (), (8,)), {}, "dims is '88', not a list"),
        (("bf16", (None,), (), (8,)), {}, r"dims\[0\] is None"),
        (("bf16", (8,), (), (8,)), {"address": math.inf}, "address is inf"),
        (("bf61", (8,), (), (8,)), {}, "dtype has no value 'bf61'.*'bf16'"),
        (("bf16", (8,), (), (8,)), {"swizzle": "129B"}, "swizzle has no value '129B'.*'12"),
        (("bf16", (8,), (), (8,)), {"swizzle": None}, "swizzle is None"),
        (("bf16", (8,), (), (8,)), {"oob_fill": 0.5}, "oob_fill is 0.5"),
        (("bf16", (8,), (), (8,)), {"interleave": "qqqqqq"}, "the values are none, 16B, 32B"),
    ],
)
def test_what_is_no_map_is_one_clear_error(
    arguments: tuple[object, ...], keywords: dict[str, object], complaint: str
) -> None:
    with pytest.raises(TilewrightError, match=complaint):
        legal.TensorMap(*arguments, **keywords)  # type: ignore[arg-type]


def test_absurd_values_are_maps_that_rules_judge() -> None:
    absurd = legal.TensorMap(99, (2**64, 0, -1), (-(2**70), 7), (0, 0, 0), swizzle=-3, address=-1)
    assert absurd.data_type is None and absurd.fields.swizzle == -3
    assert legal.TensorMap("u8", (), (), ()).rank == 0


def test_to_a_launch_plan_and_back() -> None:
    plan = LEGAL.to_plan()
    assert isinstance(plan, PlanMap) and plan.offset_bytes == 1 << 20
    assert legal.TensorMap.from_plan(plan) == LEGAL
    assert legal.TensorMap.from_plan(plan, 4096).address == (1 << 20) + 4096
    for name in ("tf32", "f32_ftz", "u6x16_align16"):
        other = legal.TensorMap(name, (128,), (), (128,))
        assert legal.TensorMap.from_plan(other.to_plan()) == other
    for wrong in (legal.TensorMap(99, (8,), (), (8,)), legal.TensorMap("u8", (16,), (), (16,), swizzle=7)):
        with pytest.raises(TilewrightError, match="launch plan"):
            wrong.to_plan()
