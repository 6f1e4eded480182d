"""nvgpu MLIR as input of the check: what this compiler emits in it is proven for all trip counts, and what is broken in
the text is refuted by the rule that it breaks."""

import re
from pathlib import Path

import pytest
from tests.driver.check.structured_text import checked, edited, more
from tests.lower.lowered_programs import blur, gemm, lower, matmul_bias_relu

from tilewright.cli.main import main


@pytest.fixture(scope="module")
def text() -> str:
    """Several tiles for each CTA, and more of its steps than the ring has slots."""
    return gemm(4096, 2048, 512, turns=False).nvgpu


@pytest.mark.parametrize("programmatic", [True, False])
def test_tiles_in_turn_are_a_reason_for_doubt(programmatic):
    """Their loops' trip counts follow from one place in the grid; taken apart they would seem to hang."""
    lowered = gemm(4096, 2048, 512, programmatic=programmatic)
    assert lowered.decisions.turns
    report = checked(lowered.nvgpu, "turns.mlir")
    assert report.verdict == "unknown" and not report.errors
    assert "numbers of trips which depend on each other" in report.reasons[0]


def test_kernels_may_wait_for_the_grids_before(text):
    assert "nvvm.griddepcontrol wait" in text and "nvvm.griddepcontrol launch_dependents" in text
    without = gemm(4096, 2048, 512, turns=False, programmatic=False).nvgpu
    assert "griddepcontrol" not in without
    assert checked(without, "matmul.mlir").verdict == "proven"


WAIT = r"nvvm\.griddepcontrol wait"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (None, "nothing waits for the grids before"),
        (r"nvvm\.setmaxregister decrease", "not every thread comes to"),
        (r"gpu\.return", "comes before the wait"),
        ("misspelt", "not written as it is followed"),
    ],
    ids=["missing", "one role alone", "after the work", "of no known kind"],
)
def test_other_waits_for_grids_are_reasons_for_doubt(text, place, reason):
    if place == "misspelt":
        mutant, _ = edited(text, "griddepcontrol wait", "griddepcontrol await")
    else:
        mutant, _ = edited(text, WAIT, None)
    if place not in (None, "misspelt"):
        mutant = re.sub(rf"(\n *)({place})", r"\1nvvm.griddepcontrol wait\1\2", mutant, count=1)
        assert "griddepcontrol wait" in mutant
    report = checked(mutant, "grids.mlir")
    assert report.verdict == "unknown" and reason in report.reasons[0], (
        report.verdict,
        report.reasons,
    )


def test_round_trip(text):
    report = checked(text, "matmul.mlir")
    assert report.verdict == "proven", (report.reasons, report.findings)
    assert (report.name, report.target, report.scope) == ("matmul", "sm_90a", "all trip counts")
    assert any("multiple of 1024" in each for each in report.assumptions)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "lowered",
    [
        lambda: gemm(1024, 1024, 1024, tile=(256, 128)),
        lambda: lower(matmul_bias_relu, {"M": 256, "N": 256, "K": 192}),
        lambda: lower(blur, {"M": 64, "N": 64}),
    ],
    ids=["two blocks", "bias and relu", "no protocol"],
)
def test_other_programs_are_proven(lowered):
    report = checked(lowered().nvgpu, "other.mlir")
    assert report.verdict == "proven", (report.reasons, report.findings)


def test_clusters_are_a_reason_for_doubt():
    report = checked(gemm(1024, 1024, 1024, tile=(128, 128), cluster=(1, 2)).nvgpu, "cluster.mlir")
    assert report.verdict == "unknown" and report.reasons


MUTANTS = [
    # kind, pattern, replacement, occurrence, codes, how far from the edit a line of the finding may be
    ("uninitialised", r"nvgpu\.mbarrier\.init", None, 3, {"MB101"}, 100),
    ("initialised twice", r"nvgpu\.mbarrier\.init", "twice", 0, {"MB103"}, 1),
    ("no barrier after the initialisation", r"gpu\.barrier", None, 0, {"MB101", "MB104"}, 100),
    ("wait for an empty slot missing", r"try_wait\.parity", None, 0, {"MB107", "WG105"}, 3),
    ("wait for a full slot missing", r"try_wait\.parity", None, 1, {"MB111"}, 35),
    ("wait for a full slot missing in the loop", r"try_wait\.parity", None, 2, {"MB111"}, 35),
    ("parity not inverted", r"(try_wait\.parity %\S+), %parity_0", r"\1, %carried_3", 0, {"MB114", "LV102"}, 0),
    ("expectation missing", r"arrive\.expect_tx", None, 0, {"TX104", "MB113"}, 40),
    ("copy missing", r"nvgpu\.tma\.async\.load", None, 1, {"TX104"}, 12),
    ("copy twice", r"nvgpu\.tma\.async\.load", "twice", 0, {"TM102", "TX101"}, 12),
    ("no fence before wgmma", r"nvvm\.wgmma\.fence", None, 0, {"WG101"}, 30),
    ("wgmma not committed", r"nvvm\.wgmma\.commit", None, 1, {"WG104", "WG105"}, 30),
    ("wgmma left in flight", r"(wait\.group\.sync\.aligned )(\d)", more, 0, {"WG105"}, 110),
    ("result used too early", r"(wait\.group\.sync\.aligned )(\d)", more, 1, {"WG104"}, 12),
    ("release missing", r"nvgpu\.mbarrier\.arrive %", None, 0, {"MB113"}, 130),
    ("release by all threads", r"scf\.if %is_first_0 \{", "scf.if %c_true {", 1, {"MB106"}, 3),
    # The slot is waited for before the last products, and written behind them and a line for each accumulator.
    ("staging reused too early", r"bulk\.wait_group", None, 0, {"BG103"}, 170),
    ("nobody told that staging is free", r"nvvm\.barrier id", None, 0, {"BG103"}, 170),
    ("stores not fenced", r"nvvm\.fence\.proxy", None, 0, {"PX101"}, 10),
    ("stores not synchronized", r"nvvm\.barrier id", None, 1, {"TM101"}, 10),
    ("store in flight at the end", r"bulk\.wait_group", None, -1, {"BG102"}, 12),
    ("store in no group", r"bulk\.commit\.group", None, 0, {"BG103", "BG101", "BG102"}, 12),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "pattern", "replacement", "occurrence", "codes", "distance"), MUTANTS)
def test_what_is_broken_is_refuted(text, kind, pattern, replacement, occurrence, codes, distance):
    mutant, line = edited(text, pattern, replacement, occurrence)
    if "%c_true" in mutant:
        mutant = re.sub(r"(\n *)(%thread_0 =)", r"\1%c_true = arith.constant true\1\2", mutant, count=1)
    report = checked(mutant, "broken.mlir")
    assert report.verdict == "refuted", (report.verdict, report.reasons)
    found = [finding for finding in report.errors if finding.code in codes]
    assert found, [(finding.code, finding.message) for finding in report.errors]
    lines = [span.line for finding in found for span in (finding.primary, finding.conflicts_with) if span is not None]
    assert min(abs(each - line) for each in lines) <= distance, lines


@pytest.mark.full
def test_harmless_edits_leave_the_proof(text):
    for edit in (
        edited(text, r"try_wait\.parity", "twice", 1)[0],
        edited(text, r"nvvm\.fence\.proxy", "twice", 0)[0],
        edited(text, r"nvvm\.barrier id", "twice", 0)[0],
        edited(text, r"nvvm\.wgmma\.fence", "twice", 0)[0],
    ):
        report = checked(edit, "same.mlir")
        assert report.verdict == "proven", (report.reasons, report.findings)


def test_what_threads_do_apart_is_a_reason_for_doubt(text):
    mutant, _ = edited(text, r"arith\.cmpi eq, (%lane_0, %c_\d+)", r"arith.cmpi ne, \1", 0)
    report = checked(mutant, "apart.mlir")
    assert report.verdict == "unknown" and "by 127 threads" in report.reasons[0]


def test_inline_ptx_is_a_reason_for_doubt(text):
    mutant, line = edited(text, r"nvvm\.fence\.mbarrier\.init", 'nvvm.inline_ptx "bar.sync 0;"', 0)
    report = checked(mutant, "inline.mlir")
    assert report.verdict == "unknown" and f":{line}:" in report.reasons[0]


def test_command_line_on_emitted_text(text, tmp_path: Path):
    path = tmp_path / "matmul.mlir"
    path.write_text(text)
    assert main(["check", str(path)]) == 0
