"""How far today's release distances are behind the best of stored times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.slots import judge_again


def test_distances_are_held_against_stored_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # With two slots the consumer gives each back at once: the first ring's best, and half as fast as the second's.
    times = {(128, 256, 2): {0: 100.0, 1: 200.0}, (128, 192, 2): {0: 300.0, 1: 150.0}}
    rows = [
        {"tile": tile, "slots": 2, "distance": distance, "nanoseconds": nanoseconds}
        for tile, found in times.items()
        for distance, nanoseconds in found.items()
    ]
    path = tmp_path / "slots.json"
    path.write_text(json.dumps({"rows": rows}))
    assert judge_again(path) == 0
    first, second, all_rings = capsys.readouterr().out.splitlines()
    assert first.endswith("2 slots: 0 late, 0.0% behind the best")
    assert second.endswith("2 slots: 0 late, 100.0% behind the best")
    assert all_rings == (
        "2 rings: what is chosen is 41.42% behind the best in the geometric mean, 100.0% at the most; one product late "
        "throughout 41.4%"
    )
