"""A profile as text, JSON and a page."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tilewright.report.html import render_page
from tilewright.report.profile import (
    Compared,
    Group,
    KernelProfile,
    ProfileReport,
    Reading,
    Roofline,
    Stall,
    number_words,
    profile_lines,
    profile_page,
    profile_to_json,
    waits_for,
)

ROOFLINE = Roofline(operations=1e12, dram_bytes=1e10, seconds=2e-3, peak_operations=1e15, peak_bytes=4e12)
KERNEL = KernelProfile(
    "k<1>",
    2,
    (Group("memory", (Reading("DRAM read", 1.5e6, "bytes"), Reading("hit rate", None, "%", "of L2"))),),
    (Stall("barrier", 3.0, "others"), Stall("selected", 1.0, "nothing"), Stall("wait", 1.0, "a latency")),
    (Compared("cycles", 100.0, 150.0, "", "a model"), Compared("bytes", 10.0, None, "bytes", "counting")),
    ROOFLINE,
)
REPORT = ProfileReport("program", "sm_90a", "a profiler", "caches flushed", (KERNEL,), ("a note",))


def test_the_roof_at_low_intensity_is_memorys() -> None:
    assert ROOFLINE.intensity == 100 and ROOFLINE.achieved == 5e14
    assert ROOFLINE.roof == 4e14 and ROOFLINE.bound_by == "DRAM"
    compute = replace(ROOFLINE, dram_bytes=1e8)
    assert compute.roof == 1e15 and compute.bound_by == "tensor cores"
    assert replace(ROOFLINE, dram_bytes=0.0).bound_by == "tensor cores"


def test_lines_say_readings_stalls_and_predictions() -> None:
    text = "\n".join(profile_lines(REPORT))
    for words in ("1.50 MB", "not measured", "measured 1.50 of it; a model", "note: a note", "k<1> (2 launches)"):
        assert words in text
    assert text.index("barrier  ") < text.index("selected  ")


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [(None, "", "not measured"), (12.0, "%", "12%"), (0.1104, "", "0.110"), (2.5e9, "bytes", "2.50 GB"),
     (999.0, "bytes", "999 bytes"), (1234567.0, "", "1,234,567"), (1.234, "us", "1.23 us")],
)  # fmt: skip
def test_numbers_in_words(value: float | None, unit: str, words: str) -> None:
    assert number_words(value, unit) == words


def test_what_a_kernel_waits_for_leaves_issuing_warps_out() -> None:
    assert waits_for(KERNEL).startswith("75 % of waiting warps stand at barrier (others), 25 % at wait")
    assert waits_for(replace(KERNEL, stalls=())) == "no stall was sampled"


def test_json_is_json_with_what_is_computed() -> None:
    document = json.loads(json.dumps(profile_to_json(REPORT), allow_nan=False))
    (kernel,) = document["kernels"]
    assert kernel["roofline"]["share_of_roof"] == 1.25 and kernel["roofline"]["bound_by"] == "DRAM"
    assert kernel["groups"][0]["readings"][1]["value"] is None
    no_bytes = replace(REPORT, kernels=(replace(KERNEL, roofline=replace(ROOFLINE, dram_bytes=0.0)),))
    assert json.loads(json.dumps(profile_to_json(no_bytes), allow_nan=False))


def test_the_page_escapes_names_and_draws_stalls() -> None:
    page = render_page(profile_page(REPORT))
    assert "k&lt;1&gt;" in page and "k<1>" not in page
    assert "Why warps wait" in page and "<svg" in page
