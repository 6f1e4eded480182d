"""Findings as JSON: every key is always there, and the values survive a round trip through text."""

from __future__ import annotations

import json

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.report.findings.findings_json import finding_to_json, verdict_to_json

BARE = Diagnostic("LV101", "claim-differs", "three stages, not four")
FULL = Diagnostic(
    "PX101",
    "write-not-fenced",
    "a store reads unfenced bytes",
    Span("k.ptx", 333, 2, "\tcp.async.bulk;"),
    Span("k.ptx", 306, 2, "\tst.shared;"),
    ("write", "copy"),
    "PTX ISA 8.6",
    Repair("fence", ((Span("k.ptx", 307, 1, "bar.sync 1;"), "fence.proxy.async;\nbar.sync 1;"),), "2 cycles", True),
)


def test_keys_do_not_depend_on_the_finding() -> None:
    assert finding_to_json(BARE).keys() == finding_to_json(FULL).keys()


def test_values() -> None:
    document = json.loads(json.dumps(finding_to_json(FULL)))
    assert (document["code"], document["name"], document["level"]) == ("PX101", "write-not-fenced", "error")
    assert (document["file"], document["line"], document["conflicts_with_line"]) == ("k.ptx", 333, 306)
    assert document["text"] == "cp.async.bulk;"
    assert document["interleaving"] == ["write", "copy"]
    assert document["repair"]["rechecked"] is True
    assert document["repair"]["edits"][0]["line"] == 307


def test_a_finding_without_a_place_has_nulls() -> None:
    document = finding_to_json(BARE)
    assert (document["file"], document["line"], document["conflicts_with_line"], document["repair"]) == (None,) * 4


def test_the_three_verdicts() -> None:
    verdicts = [Proven("this launch", ("a",), ("c",)), Refuted((FULL,)), Unknown(("r",))]
    documents = [json.loads(json.dumps(verdict_to_json(verdict))) for verdict in verdicts]
    assert [document["verdict"] for document in documents] == ["proven", "refuted", "unknown"]
    assert documents[0]["scope"] == "this launch" and documents[0]["claims"] == ["c"]
    assert documents[1]["findings"][0]["code"] == "PX101"
    assert documents[2]["reasons"] == ["r"]
