"""One copy judged: each rule of coordinates, shared memory, mode, direction, multicast, by itself."""

import pytest

from tilewright import legal
from tilewright.base.error import TilewrightError

MAP = legal.TensorMap("bf16", (4096, 4096), (8192,), (64, 128), swizzle="128B", address=1 << 20)
ROW = legal.TensorMap("bf16", (4096, 4096), (8192,), (64, 1), swizzle="128B", address=1 << 20)
PIXELS = legal.Im2colMap("bf16", (64, 32, 32, 8), (128, 4096, 1 << 17), (-1, -1), (1, 1), 64, 128, swizzle="128B")
INNER_PIXELS = legal.Im2colMap("bf16", (64, 32, 32, 8), (128, 4096, 1 << 17), (0, 0), (0, 0), 64, 128, swizzle="128B")
SLICES = legal.Im2colMap(
    "bf16", (4, 2, 32, 8), (64, 128, 4096), (0, 0), (0, 0), 16, 4, interleave="16B", swizzle="none"
)
WIDE = legal.Im2colWideMap("bf16", (64, 32, 32, 8), (128, 4096, 1 << 17), -1, 1, 64, 128)
REAL = legal.TensorMap("f32", (4096, 4096), (16384,), (32, 8))
PADDED = legal.TensorMap("u6x16_align16", (512, 64), (384,), (128, 16), swizzle="128B")
HALF = legal.TensorMap("u4x16_align16", (512, 64), (256,), (128, 16), swizzle="128B")
PACKED = legal.TensorMap("u4x16_align8", (512, 64), (256,), (64, 16))


def judged(map: object, **arguments: object) -> list[str]:
    return [violation.code for violation in legal.check_copy(map, **({"target": "sm_90a"} | arguments)).violations]


@pytest.mark.parametrize(
    ("map", "arguments", "expected"),
    [
        (MAP, {}, []),
        (MAP, {"coords": (0, 0), "shared_address": 1024}, []),
        (MAP, {"coords": (-64, -1)}, []),
        (MAP, {"coords": (8, 3)}, []),
        (MAP, {"coords": (4, 3)}, ["TM054"]),
        (MAP, {"coords": (0,)}, ["TM052"]),
        (MAP, {"coords": ()}, ["TM052"]),
        (MAP, {"coords": (0, 2**31)}, ["TM053"]),
        (MAP, {"coords": (0, -(2**31))}, []),
        (MAP, {"coords": (0, -1), "direction": "store"}, ["TM055"]),
        (MAP, {"coords": (0, -1), "direction": "reduce"}, ["TM055"]),
        (MAP, {"coords": (0, -1), "direction": "prefetch"}, []),
        (MAP, {"shared_address": 1024 + 64}, ["TM056"]),
        (MAP, {"shared_address": 64, "direction": "prefetch"}, []),
        (MAP, {"mode": "im2col"}, ["TM050"]),
        (MAP, {"mode": "gather4"}, ["TM051"]),
        (MAP, {"buffer_bytes": 16384}, []),
        (MAP, {"buffer_bytes": 16383}, ["TM064"]),
        (MAP, {"buffer_bytes": 16384, "multicast_ctas": 2}, ["TM064"]),
        (legal.TensorMap("bf16", (4096, 4096), (8192,), (16, 256), swizzle="128B"), {"buffer_bytes": 8192}, ["TM064"]),
        (MAP, {"multicast_ctas": 4}, []),
        (MAP, {"multicast_ctas": 17}, ["TM059"]),
        (MAP, {"multicast_ctas": 0}, ["TM059"]),
        (MAP, {"multicast_ctas": 2, "direction": "store"}, ["TM059"]),
        (legal.TensorMap("u8", (4096,), (), (64,)), {"multicast_ctas": 2}, ["TM059"]),
        (MAP, {"direction": "reduce", "reduction": "add"}, []),
        (REAL, {"direction": "reduce", "reduction": "add"}, []),
        (REAL, {"direction": "reduce", "reduction": "max"}, ["TM060"]),
        (PIXELS, {"coords": (0, -1, -1, 0), "offsets": (2, 2)}, []),
        (PIXELS, {"coords": (0, -1, -1, 0), "offsets": (2,)}, ["TM062"]),
        (PIXELS, {"coords": (0, 32, 32, 7)}, []),
        (PIXELS, {"coords": (0, 33, -2, 7)}, ["TM065", "TM065"]),
        (SLICES, {"coords": (3, 0, 1, 5)}, []),
        (SLICES, {"coords": (4, 0, 1, 5)}, ["TM065"]),
        (PIXELS, {"offsets": (256, -1)}, ["TM062", "TM062"]),
        (PIXELS, {"mode": "im2col_no_offs"}, ["TM050"]),
        (PIXELS, {"mode": "im2col_no_offs", "direction": "store"}, ["TM061"] * 4),
        (INNER_PIXELS, {"mode": "im2col_no_offs", "direction": "store", "coords": (0, 0, 0, 0)}, []),
        (INNER_PIXELS, {"mode": "tile"}, ["TM050"]),
        (legal.TensorMap("bf16", (4096, 4096), (8191,), (64, 128)), {"coords": (1, 0)}, ["TM012", "TM054"]),
    ],
)  # fmt: skip
def test_each_rule_of_one_copy(map: object, arguments: dict[str, object], expected: list[str]) -> None:
    found = legal.check_copy(map, **({"target": "sm_90a"} | arguments))
    assert [violation.code for violation in found.violations] == expected
    assert found.legal == bool(found) == (not expected)
    assert found.minimal_sets == tuple((violation,) for violation in found.violations)
    assert all(violation.source and violation.message for violation in found.violations)


@pytest.mark.parametrize(
    ("map", "arguments", "expected"),
    [
        (ROW, {"mode": "gather4", "coords": (0, 5, -1, 7, 4095)}, []),
        (ROW, {"mode": "gather4", "coords": (0, 5)}, ["TM052"]),
        (ROW, {"mode": "gather4", "direction": "store"}, ["TM050"]),
        (ROW, {"mode": "scatter4", "direction": "store", "coords": (0, 5, 6, 7, -8)}, ["TM055"]),
        (MAP, {"mode": "gather4"}, ["TM057"]),
        (WIDE, {"offsets": (511, 31)}, []),
        (WIDE, {"offsets": (512, 31)}, ["TM062"]),
        (WIDE, {"mode": "im2col::w::128"}, ["TM050"]),
        (PADDED, {"coords": (128, 1)}, []),
        (PADDED, {"coords": (64, 1)}, ["TM054"]),
        (PADDED, {"direction": "reduce"}, ["TM060"]),
        (HALF, {"direction": "load"}, []),
        (HALF, {"direction": "store"}, ["TM044"]),
        (PACKED, {"coords": (32, 0)}, []),
        (PACKED, {"coords": (16, 0)}, ["TM054"]),
    ],
)
def test_each_rule_of_later_architectures(map: object, arguments: dict[str, object], expected: list[str]) -> None:
    assert judged(map, target="sm_100a", **arguments) == expected


def test_bytes_of_a_gather_are_those_of_four_rows() -> None:
    found = legal.check_copy(ROW, "gather4", target="sm_100a")
    assert (found.footprint_bytes, found.transaction_bytes) == (512, 512)
    assert legal.check_copy(ROW, target="sm_90a").transaction_bytes == 128


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"shared_address": 1024}, []),
        ({"shared_address": 128}, ["TM058"]),
        ({"coords": (4096, 0)}, ["TM063"]),
        ({"coords": (0, -128)}, ["TM063"]),
        ({"coords": (0, -127)}, []),
        ({"multicast_ctas": 2}, []),
    ],
)
def test_warnings_about_one_copy(arguments: dict[str, object], expected: list[str]) -> None:
    assert [
        warning.code for warning in legal.check_copy(MAP, **({"target": "sm_90a"} | arguments)).warnings
    ] == expected


def test_slices_that_begin_inside_the_pattern_are_warned_of() -> None:
    four_rows = legal.TensorMap("bf16", (4096, 4096), (8192,), (64, 4), swizzle="128B")
    assert [warning.code for warning in legal.check_copy(four_rows, multicast_ctas=2, target="sm_90a").warnings] == [
        "TM058"
    ]


def test_a_store_is_warned_of_clipping_where_it_reaches_the_end_of_a_row() -> None:
    odd = legal.TensorMap("bf16", (100, 64), (208,), (64, 8), swizzle="128B")
    assert [
        found.code for found in legal.check_copy(odd, coords=(64, 0), direction="store", target="sm_90a").warnings
    ] == ["TM036"]
    assert legal.check_copy(odd, coords=(0, 0), direction="store", target="sm_90a").warnings == ()
    assert legal.check_copy(odd, coords=(64, 0), direction="load", target="sm_90a").warnings == ()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"mode": "tilt"}, "mode has no value 'tilt'"),
        ({"direction": "sideways"}, "direction"),
        ({"reduction": "mul", "direction": "reduce"}, "reduction"),
        ({"coords": (0.5, 0)}, r"coords\[0\] is 0.5"),
        ({"shared_address": float("nan")}, "shared_address is nan"),
        ({"multicast_ctas": True}, "multicast_ctas is True"),
        ({"target": "sm_70"}, "unknown target"),
    ],
)
def test_what_is_no_copy_is_one_clear_error(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(TilewrightError, match=complaint):
        legal.check_copy(MAP, **({"target": "sm_90a"} | arguments))
