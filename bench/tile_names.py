"""What was decided of a product's tile, by the names that result files have.

Result files name a tile's rows, columns and depth `tile_m`, `tile_n` and `tile_k`, and have names of their own for what
walks say by `row`, `cluster`, `cut` and slots. `swapped` is of products whose rows are named M.

Checked by: tests/benchmarks/test_tile_names.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.ir.cascade import CascadeDecisions

_AS_DECIDED = (
    "consumers", "split", "turns", "ctas", "staging_slots", "launch_registers", "smem_bytes", "prefetch",
    "release_distance", "raster_group", "teams",
)  # fmt: skip
"""Names that result files share with the decisions."""


def by_tile_names(decisions: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle's decisions, with the names of result files beside those of a walk of products, the last of several
    programs; others as they are."""
    found = dict(decisions)
    if "programs" in found:
        return found | by_tile_names(found["programs"][-1])
    joined = any(slot["joined"] for slot in found.get("slots", ()))
    if not joined:
        return found
    cut: Mapping[str, Any] = found["cut"][0] if found["cut"] else {}
    return found | {
        "tile_m": found["unit_rows"] * (1 if found["turns"] else found["consumers"]),
        "tile_n": found["tile_columns"],
        "tile_k": found["tile_streamed"],
        "stages": found["slots"][0]["slots"],
        "swapped": int(found["row"] != "M"),
        "cluster_m": found["cluster"][0],
        "cluster_n": found["cluster"][1],
        "step_m": found["steps"][0],
        "step_n": found["steps"][1],
        "streamed": cut.get("tiles", 0),
        "head_slices": cut.get("head_slices", 0),
    }


def tile_names(decisions: CascadeDecisions) -> dict[str, Any]:
    """The same of a walk's decisions themselves."""
    from tilewright.ir.decisions import to_json

    return by_tile_names(to_json(decisions))


def with_tile_names(decisions: CascadeDecisions, kept: Mapping[str, int]) -> CascadeDecisions:
    """The decisions of a walk with this tile, with what else a result file keeps of it: how many slots, CTAs and bytes,
    and which tiles are cut."""
    from tilewright.ir.tile_stream import TileStream

    ctas, tiles = kept["ctas"], kept.get("streamed", 0)
    return replace(
        decisions,
        slots=tuple(replace(slot, slots=kept["stages"]) for slot in decisions.slots),
        cut=(TileStream(tiles, ctas - tiles, kept["head_slices"]),) if tiles else (),
        **{name: kept[name] for name in _AS_DECIDED if name in kept},
    )
