"""A record of a race, and what is wrong with it."""

from __future__ import annotations

from bench.interleaved import (
    Contender,
    Race,
)

RACE = Race(
    {"ours": [10.0, 20.0, 10.0], "torch": [11.0, 22.0, 12.0], "triton": [9.0, 40.0, 30.0]},
    {name: ["kernel"] for name in ("ours", "torch", "triton")},
    calls=4,
    sets=2,
    device={"samples": 0, "why": "no GPU"},
)


CONTENDERS = [Contender(name, lambda index: index, None) for name in ("ours", "torch", "triton")]


def errors(ours: float, theirs: float, *, agree: bool = True) -> dict[str, dict[str, dict[str, object]]]:
    return {
        "ours": {"random": {"relative_error": ours, "specials_agree": agree}},
        "torch": {"random": {"relative_error": theirs, "specials_agree": True}},
        "triton": {"random": {"relative_error": 0.0, "specials_agree": True}},
    }
