"""Sizes of copies, against the copy engine's model on random legal maps."""

import numpy as np
from bench.probes.tensormap_rows import im2col_rows, tiled_rows

from tilewright import legal
from tilewright.base import plan
from tilewright.legal.tensor_map.enumerations import DATA_TYPES
from tilewright.legal.tensor_map.footprint import copy_bytes
from tilewright.legal.tensor_map.im2col_map import AnyMap
from tilewright.machine.copy.box import box_of
from tilewright.machine.copy.copy_engine import footprint_bytes
from tilewright.machine.copy.im2col import column_of
from tilewright.targets import target

HOPPER = target("sm_90a")


def maps(kind: str, count: int) -> list[AnyMap]:
    draw, judge = (tiled_rows, legal.check_rows) if kind == "tiled" else (im2col_rows, legal.check_im2col_rows)
    columns = draw(np.random.default_rng(4), count)
    found: list[AnyMap] = []
    for row in np.flatnonzero(judge(columns, HOPPER)).tolist():
        value = {name: int(column.view(np.int64)[row]) for name, column in columns.items()}
        rank = value["rank"]
        lists = {letter: tuple(value[f"{letter}{at}"] for at in range(rank)) for letter in "de"}
        strides = tuple(value[f"s{at}"] for at in range(rank - 1))
        formats = (value["interleave"], value["swizzle"], value["l2"], value["oob"], value["addr"])
        dtype = DATA_TYPES[value["dtype"]].name
        if kind == "tiled":
            box = tuple(value[f"b{at}"] for at in range(rank))
            found.append(legal.TensorMap(dtype, lists["d"], strides, box, lists["e"], *formats))
        else:
            lower, upper = (tuple(value[f"{side}{at}"] for at in range(rank - 2)) for side in ("lo", "up"))
            counts = (value["channels"], value["pixels"])
            found.append(legal.Im2colMap(dtype, lists["d"], strides, lower, upper, *counts, lists["e"], *formats))
    return found


def copied(map: legal.TensorMap | legal.Im2colMap) -> bool:
    """Whether the copy engine takes its extents: those above 2^31 it does not, though the driver encodes them."""
    return max(map.dims) <= HOPPER.limit("tensor_copy.extent_max")


def modelled(map: plan.TensorMap) -> tuple[int, int]:
    engine = box_of(map, HOPPER) if map.im2col is None else column_of(map, HOPPER)
    return footprint_bytes(map, HOPPER), engine.transaction_bytes


def test_boxes_are_as_large_as_the_engine_makes_them() -> None:
    some = [map for map in maps("tiled", 1500) if copied(map) and (copy_bytes(map, HOPPER) or (0, 0))[0] < 1 << 18]
    assert len(some) > 300 and any(map.interleave != "none" for map in some)
    for map in some:
        assert copy_bytes(map, HOPPER) == modelled(map.to_plan()), map


def test_columns_are_as_large_as_the_engine_makes_them() -> None:
    compared = 0
    for map in maps("im2col", 1500):
        if map.interleave == "none" and copied(map):
            assert copy_bytes(map, HOPPER) == modelled(map.to_plan()), map
            compared += 1
    assert compared > 50
