"""Locations of MLIR: places, names, calls, fused ones and aliases."""

from __future__ import annotations

import pytest

from tilewright.frontends.mlir.source import source_places

ALIASES = """#loc = loc(unknown)
#loc1 = loc("a.py":3:7)
#loc2 = loc("b.py":9:1)
#loc3 = loc("x"(#loc1))
#loc4 = loc(callsite(#loc1 at #loc2))
#loc5 = loc(callsite(#loc4 at "c d.py":2:2))
#loc6 = loc(fused<"why, at">[#loc4, #loc2])
#loc7 = loc(callsite(#loc7 at #loc7))
#loc8 = loc(callsite("say(\\") at"(#loc1) at #loc2))
"""


@pytest.mark.parametrize(
    ("location", "places"),
    [
        ("#loc1", [("a.py", 3)]),
        ('"d.py":4:0', [("d.py", 4)]),
        ("#loc3", [("a.py", 3)]),
        ("#loc4", [("a.py", 3), ("b.py", 9)]),
        ("#loc5", [("a.py", 3), ("b.py", 9), ("c d.py", 2)]),
        ("#loc6", [("a.py", 3), ("b.py", 9)]),
        ("#loc8", [("a.py", 3), ("b.py", 9)]),
        ("#loc", []),
        ("#loc99", []),
        ("unknown", []),
        ('"d.py":0:0', []),
    ],
)
def test_an_operations_location(location: str, places: list[tuple[str, int]]) -> None:
    text = f"{ALIASES}  %0 = arith.constant 1 : i32 loc({location})\n"
    found = source_places(text).get(text.count("\n"), ())
    assert [(each.span.file, each.span.line) for each in found] == places


@pytest.mark.parametrize("circle", ["callsite(#loc7 at #loc7)", '"x"(#loc7)', "fused[#loc7]"])
def test_a_location_that_runs_in_circles_ends(circle: str) -> None:
    text = ALIASES.replace("callsite(#loc7 at #loc7)", circle) + "  %0 = op loc(#loc7)\n"
    assert source_places(text) == {}


def test_a_stack_that_doubles_with_each_alias_is_cut() -> None:
    doubling = "".join(f"#d{number + 1} = loc(callsite(#d{number} at #d{number}))\n" for number in range(20))
    (places,) = source_places(f'#d0 = loc("a.py":1:1)\n{doubling}  %0 = op loc(#d20)\n').values()
    assert len(places) == 64


def test_a_text_without_locations_has_none() -> None:
    assert source_places("module {\n}\n") == {}
