"""TTGIR as input of the check: real kernels of Triton and Gluon are proven, what is broken in them is refuted by the
rule that it breaks, and edits that change nothing leave them proven."""

import json
import re

import pytest
from tests.driver.check.structured_text import (
    DATA,
    EXPECT,
    INIT,
    LOAD,
    PARITY,
    PENDING,
    RELEASE,
    WAIT,
    checked,
    edited,
    more,
    text_of,
)

from tilewright.cli.main import main
from tilewright.driver.check.check import check_file, check_text
from tilewright.driver.check.sources.text_file import is_mlir
from tilewright.driver.rules.catalog import explain

FAST = (
    "attention_specialized", "cp_async_ring", "matmul_pipelined", "matmul_tcgen05", "scale_ring", "specialized_copy",
    "tcgen05_ring", "wgmma_ring",
)  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FAST)
def test_kernels_are_proven_for_all_trip_counts(name):
    report = check_file(str(DATA / f"{name}.ttgir")).kernels[0]
    assert report.verdict == "proven", (report.reasons, report.findings)
    assert report.scope == "all trip counts"
    assert any("proxy fences" in each for each in report.assumptions)
    assert any("repeats with period" in claim for claim in report.claims)
    assert report.target == ("sm_100a" if "tc" in name or "attention" in name else "sm_90a")


def test_persistent_specialized_kernel_is_proven_but_for_no_trips():
    """The consumer releases a slot after its loop over K; with no trip there is nothing to release."""
    report = check_file(str(DATA / "wgmma_specialized.ttgir")).kernels[0]
    assert report.verdict == "proven", (report.reasons, report.findings)
    assert any("at least one trip" in each for each in report.assumptions)
    assert [(finding.code, finding.level.value) for finding in report.findings] == [("MB107", "review")]


# ---------------------------------------------------------------- mutants


def bytes_times(factor):
    return lambda match: match[1] + str(int(int(match[2]) * factor))


MUTANTS = [
    # kind, kernel, pattern, replacement, occurrence, codes, how far from the edit a line of the finding may be
    ("uninitialised", "wgmma_ring", INIT, None, 1, {"MB101"}, 20),
    ("uninitialised", "scale_ring", INIT, None, 0, {"MB101"}, 10),
    ("uninitialised", "tcgen05_ring", INIT, None, 2, {"MB101"}, 60),
    ("initialised twice", "wgmma_ring", INIT, "twice", 0, {"MB103"}, 1),
    ("initialised twice", "specialized_copy", INIT, "twice", 3, {"MB103"}, 1),
    ("one arrival too many counted", "wgmma_ring", INIT, more, 2, {"MB113"}, 0),
    ("one arrival too many counted", "specialized_copy", INIT, more, 0, {"MB113"}, 0),
    ("one arrival too many counted", "tcgen05_ring", INIT, more, 1, {"MB113"}, 0),
    ("bytes expected halved", "wgmma_ring", EXPECT, bytes_times(0.5), 2, {"TX101"}, 5),
    ("bytes expected halved", "scale_ring", EXPECT, bytes_times(0.5), 1, {"TX104"}, 0),
    ("bytes expected halved", "matmul_pipelined", EXPECT, bytes_times(0.5), 0, {"TX101"}, 5),
    ("bytes expected halved", "attention_specialized", EXPECT, bytes_times(0.5), 1, {"TX104"}, 0),
    ("bytes expected doubled", "specialized_copy", EXPECT, bytes_times(2), 0, {"TX104"}, 0),
    ("bytes expected doubled", "tcgen05_ring", EXPECT, bytes_times(2), 1, {"TX104"}, 0),
    ("bytes expected doubled", "matmul_tcgen05", EXPECT, bytes_times(2), 2, {"TX104"}, 0),
    ("expectation missing", "wgmma_ring", EXPECT, None, 2, {"TX104", "MB113"}, 5),
    ("expectation missing", "specialized_copy", EXPECT, None, 0, {"TX104", "MB113"}, 5),
    ("copy missing", "wgmma_ring", LOAD, None, 4, {"TX104"}, 4),
    ("copy missing", "attention_specialized", LOAD, None, 2, {"TX104"}, 4),
    ("copy twice", "scale_ring", LOAD, "twice", 1, {"TM102", "TX101"}, 1),
    ("copy twice", "matmul_tcgen05", LOAD, "twice", 0, {"TM102", "TX101"}, 1),
    ("wait missing", "wgmma_ring", WAIT, None, 0, {"MB111"}, 5),
    ("wait missing", "specialized_copy", WAIT, None, 0, {"MB111"}, 3),
    ("wait missing", "matmul_pipelined", WAIT, None, 0, {"MB111"}, 6),
    ("wait missing", "scale_ring", WAIT, None, 0, {"MB111"}, 3),
    ("wait for an empty slot missing", "specialized_copy", WAIT, None, 1, {"MB107", "TM101", "MB111"}, 6),
    ("parity constant", "wgmma_ring", PARITY, r"\1, %c0_i32", 0, {"MB108"}, 0),
    ("parity constant", "scale_ring", PARITY, r"\1, %c1_i32", 0, {"MB108", "MB111", "MB114"}, 3),
    ("parity constant", "specialized_copy", PARITY, r"\1, %c0_i32", 0, {"MB107", "MB108"}, 6),
    ("parity not inverted", "specialized_copy", r"arith\.xori %(\w+), %c1_i32\w*", r"arith.addi %\1, %\1", 0,
     {"MB107", "MB108", "MB113", "MB114", "LV102"}, 8),
    ("release missing", "specialized_copy", RELEASE, None, 0, {"MB113"}, 40),
    ("release missing", "attention_specialized", RELEASE, None, 1, {"MB113", "LV102", "MB114"}, 400),
    ("release twice", "specialized_copy", RELEASE, "twice", 0, {"MB106", "MB107"}, 1),
    ("release counts two", "specialized_copy", RELEASE, more, 0, {"MB106"}, 0),
    ("wgmma group left in flight", "wgmma_ring", PENDING, more, 0, {"WG105"}, 15),
    ("wgmma group left in flight", "matmul_pipelined", PENDING, more, 0, {"WG105"}, 15),
    ("result used too early", "wgmma_ring", PENDING, more, 1, {"WG104"}, 5),
    ("result used too early", "matmul_pipelined", r"(warp_group_dot_wait .*pendings = )0", r"\g<1>1", 0, {"WG104"}, 10),
    ("store not waited for", "scale_ring", r"async_tma_store_wait", None, 0, {"BG103"}, 4),
    ("store not waited for", "specialized_copy", PENDING, more, 0, {"BG103"}, 4),
    ("store in flight at the end", "wgmma_ring", r"async_tma_store_wait", None, 0, {"BG102"}, 1),
    ("store in flight at the end", "tcgen05_ring", r"async_tma_store_wait", None, 0, {"BG102"}, 1),
    ("accumulator read too early", "tcgen05_ring", WAIT, None, 2, {"TC107"}, 6),
    ("operand refilled too early", "tcgen05_ring", WAIT, None, 1, {"TC110"}, 8),
    ("operation without a commit", "tcgen05_ring", r"(tc_gen5_mma .*?), %\w+\[%\w+\]", r"\1", 0, {"MB113", "TC114"}, 8),
    ("cp.async waited for too late", "cp_async_ring", r"(async_wait .*num = )(\d+)", more, 0, {"BG105"}, 5),
    ("ring of another size", "specialized_copy", r"arith\.remsi (%\w+), %c2_i32\w*", r"arith.remsi \1, %c1_i32", 0,
     {"MB113", "LV102", "MB107", "MB108", "MB114"}, 400),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "pattern", "replacement", "occurrence", "codes", "distance"), MUTANTS)
def test_what_is_broken_is_refuted(kind, name, pattern, replacement, occurrence, codes, distance):
    text, line = edited(text_of(name), pattern, replacement, occurrence)
    report = checked(text)
    assert report.verdict == "refuted", (report.verdict, report.reasons)
    found = [finding for finding in report.errors if finding.code in codes]
    assert found, [(finding.code, finding.message) for finding in report.errors]
    lines = [span.line for finding in found for span in (finding.primary, finding.conflicts_with) if span is not None]
    assert min(abs(each - line) for each in lines) <= distance, lines
    assert all(explain(finding.code) for finding in report.errors)


def test_mutants_are_of_many_kinds():
    assert len({kind for kind, *_ in MUTANTS}) >= 12
    assert len({mutant[1] for mutant in MUTANTS}) >= 3


def test_roles_that_disagree_on_trips_are_refuted():
    """The filler goes on for a trip more than the consumer does."""
    text = text_of("specialized_copy")
    partition = text.index("partition0")
    loop = re.compile(r"(\n *)(scf\.for %\w+ = %\w+ to )(%\w+)( step )")
    match = loop.search(text, partition)
    longer = f"{match[1]}%longer = arith.addi {match[3]}, %one_more : i32{match[1]}{match[2]}%longer{match[4]}"
    begin = text.rindex("\n", 0, match.start()) + 1
    constant = "      %one_more = arith.constant 1 : i32\n"
    mutant = text[:begin] + constant + text[begin : match.start()] + longer + text[match.end() :]
    report = checked(mutant)
    assert report.verdict == "refuted", report.reasons
    assert {finding.code for finding in report.errors} & {"TM103", "MB110", "MB113"}


# ---------------------------------------------------------------- what changes nothing


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["wgmma_ring", "specialized_copy", "tcgen05_ring", "matmul_tcgen05", "scale_ring"])
def test_harmless_edits_leave_the_proof(name):
    text = text_of(name)
    edits = [
        edited(text, WAIT, "twice", 0)[0],
        edited(text, r"fence_async_shared", "twice", 0)[0],
        edited(text, r"async_tma_store_wait", "twice", -1)[0],
        re.sub(r"%(\w+)", r"%v_\1", text),
        text.replace("\n", "\n// a comment\n"),
    ]
    for edit in edits:
        report = checked(edit)
        assert report.verdict == "proven", (report.reasons, report.findings)


def test_a_wait_that_another_makes_unnecessary_may_go():
    """The first wait for a slot that was never filled passes at once."""
    text, _ = edited(text_of("attention_specialized"), r"wait_barrier %\w+, %c1_i32", None, 0)
    assert checked(text).verdict == "proven"


# ---------------------------------------------------------------- what is not understood


def test_an_unknown_operation_is_a_reason_for_doubt():
    text, line = edited(text_of("wgmma_ring"), r"ttng\.fence_async_shared.*", r"ttng.swap_barriers %0, %1")
    report = checked(text)
    assert report.verdict == "unknown"
    assert "ttng.swap_barriers" in report.reasons[0] and f":{line}:" in report.reasons[0]


def test_a_parity_that_data_decide_is_a_reason_for_doubt():
    text, line = edited(text_of("wgmma_ring"), PARITY, r"\1, %K")
    report = checked(text)
    assert report.verdict == "unknown"
    assert f":{line}:" in report.reasons[0] and "parity" in report.reasons[0]


def test_clusters_are_a_reason_for_doubt():
    report = checked(text_of("wgmma_ring").replace('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2'))
    assert report.verdict == "unknown" and "cluster" in report.reasons[0]


def test_a_loop_that_data_end_is_a_reason_for_doubt():
    text = text_of("scale_ring")
    wait = re.search(r"\n( *ttng\.wait_barrier[^\n]*)", text)[1]
    loop = f"""    scf.while : () -> () {{
      scf.condition(%true)
    }} do {{
{wait}
      scf.yield
    }}
"""
    report = checked(text.replace(wait + "\n", loop, 1))
    assert report.verdict == "unknown" and "loop" in report.reasons[0]


# ---------------------------------------------------------------- files and the command line


def test_what_counts_as_mlir():
    assert is_mlir("", "a.ttgir") and is_mlir("", "a.mlir")
    assert is_mlir(text_of("wgmma_ring")) and is_mlir("// a comment\nmodule {\n}")
    assert not is_mlir(".version 8.6\n.target sm_90a\n") and not is_mlir("")


def test_damaged_text_is_an_error_with_its_line():
    text = text_of("wgmma_ring")
    report = check_text(text[: len(text) // 2], "half.ttgir")
    assert report.error and report.error_line
    report = check_text("module {\n}\n", "empty.mlir")
    assert "no" in report.error


def test_an_allowance_in_the_text_suppresses():
    text, line = edited(text_of("wgmma_ring"), r"async_tma_store_wait", None, 0)
    lines = text.splitlines()
    lines.insert(line - 2, "    // tilewright: allow[BG102] because the next kernel waits")
    report = checked("\n".join(lines) + "\n")
    assert not report.errors and report.suppressed
    assert report.verdict == "unknown"


def test_command_line(tmp_path, capsys):
    good, bad = tmp_path / "good.ttgir", tmp_path / "bad.mlir"
    good.write_text(text_of("wgmma_ring"))
    bad.write_text(edited(text_of("wgmma_ring"), EXPECT, bytes_times(2), 0)[0])
    assert main(["check", str(good), "--format", "json"]) == 0
    kernel = json.loads(capsys.readouterr().out)["files"][0]["kernels"][0]
    assert (kernel["name"], kernel["target"], kernel["verdict"]) == ("wgmma_ring", "sm_90a", "proven")
    assert main(["check", str(good), str(bad), "--format", "json"]) == 1
    finding = json.loads(capsys.readouterr().out)["files"][1]["kernels"][0]["findings"][0]
    assert finding["code"] == "TX104" and finding["interleaving"]


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"(tc_gen5_mma .*)\{is_async\}", r"\1{is_async, two_ctas}"),
        (r"(ttng\.arrive_barrier %\w+, 1)", r"\1 {perThread}"),
        (r"(async_tma_copy_global_to_local .*) :", r"\1 {multicast = true} :"),
    ],
)
def test_attributes_that_change_what_an_operation_does_are_reasons_for_doubt(pattern, replacement):
    text, line = edited(text_of("attention_specialized"), pattern, replacement, 0)
    report = checked(text)
    assert report.verdict == "unknown" and f":{line}:" in report.reasons[0]


def test_functions_that_are_called_are_no_kernels():
    text = text_of("wgmma_ring")
    report = check_text(text.replace("tt.func public", "tt.func private"), "called.ttgir")
    assert "no tt.func" in report.error
