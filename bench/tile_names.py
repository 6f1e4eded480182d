"""What was decided of a product's tile, by the names that result files have, whichever generator it is.

A pipeline's decisions have these names; those of a walk say the same by `row`, `column` and slots. `swapped` is of
products whose rows are named M.

Checked by: tests/benchmarks/test_tile_names.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def by_tile_names(decisions: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle's decisions, with the names of a pipeline's beside those of a walk of products, the last of several
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
