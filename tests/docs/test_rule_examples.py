"""The code on the pages of rules: the buggy one breaks the rule, the fixed one does not, and the page shows both."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator

import pytest
from tests.docs.pages import ROOT
from tests.docs.rule_examples import MADE, Pair, edited, example_of, excerpts, made, pairs
from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser

from tilewright.base.check_report import KernelReport, all_findings
from tilewright.base.verdict import Proven, Refuted
from tilewright.cli.main import main
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.driver.rules.catalog import all_rules, explain
from tilewright.driver.rules.rule_examples import rule_examples
from tilewright.ir import context
from tilewright.ir.ac.text import TARGET_ATTRIBUTE
from tilewright.targets import target

PAIRS = pairs()
_IN_WORDS = """
SC001 SC002 SC003 SC004 SC005 SC006 SC007 SC008 SC009 SC010 LY001 LY002 LY003 LY004 LY005 LY006 LY007 LY008
UM101 UM102 UM103 UM104 UM105 UM106 UM107 UM108 UM109 LV090 LV101 NB107
CA001 CA002 CA003 PX002 WG011 LV005
CL105 CL106 LV103 LV104 LV201 LV202 MB101 MB106 MF004 MF007 NB203 PX105 TC106 TC113 TC116 TC121 TM029 TM033 TM105
TM203 TX103
"""
IN_WORDS = set(_IN_WORDS.split())
"""Rules whose pages have an example in words. It must not grow: a rule that is added comes with a pair.

By line: schedules and fields of descriptors, which are numbers and no code, and what the second proof compares; what
only programs have into which threads copy, or with A in registers, or a ring of one stage; and rules of PTX where
another rule finds the same first, or that no small kernel shows."""


def of_kind(kind: str) -> list[Pair]:
    return [pair for pair in PAIRS.values() if pair.kind == kind]


def kernel(pair: Pair, text: str) -> tuple[KernelReport, set[str]]:
    """The report, and the codes of all that is found, reviews of the file among them."""
    launch = read_launch_file(str(ROOT / pair.launch)) if pair.launch else None
    options = CheckOptions(pair.isa, budget_seconds=20, repair_steps=0)
    report = check_text(text, "kernel.ptx", launch=launch, options=options)
    assert not report.error, report.error
    (found,) = report.kernels
    return found, {finding.code for finding in all_findings((report,))}


def codes_of_tensormap(command: str) -> tuple[int, set[str]]:
    """The exit code of a command, and the codes of all that it reports."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = main([*command.split()[1:], "--format", "json"])
    return status, {found["code"] for found in _findings(json.loads(output.getvalue()))}


def _findings(value: object) -> Iterator[dict[str, str]]:
    """Findings of the map and of the copy; those of repairs belong to other maps."""
    if isinstance(value, dict):
        if "code" in value and "message" in value:
            yield value
        for name, member in value.items():
            if name not in ("repairs", "plans"):
                yield from _findings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _findings(member)


@pytest.mark.sample(40)
@pytest.mark.parametrize("pair", of_kind("ptx"), ids=lambda pair: pair.code)
def test_the_buggy_kernel_breaks_the_rule_and_the_fixed_one_does_not(pair: Pair) -> None:
    (buggy, found), (fixed, left) = kernel(pair, pair.buggy), kernel(pair, pair.fixed)
    if pair.review:
        assert pair.code in found and buggy.verdict == "proven"
    else:
        assert pair.code in {finding.code for finding in buggy.errors} and buggy.verdict == "refuted"
    assert fixed.verdict == pair.fixed_verdict != "refuted", fixed.reasons
    assert pair.code not in left


@pytest.mark.sample(7)
@pytest.mark.parametrize("pair", of_kind("mlir"), ids=lambda pair: pair.code)
def test_the_edited_program_breaks_the_rule_and_the_program_does_not(pair: Pair) -> None:
    modules = [Parser(context(), text).parse_module() for text in (pair.buggy, pair.fixed)]
    named = [module.attributes.pop(TARGET_ATTRIBUTE, StringAttr("sm_90a")) for module in modules]
    assert isinstance(named[1], StringAttr)
    facts = target(named[1].data)
    buggy, fixed = (verify(module, facts) for module in modules)
    assert isinstance(buggy, Refuted) and pair.code in {finding.code for finding in buggy.findings}
    assert isinstance(fixed, Proven)


@pytest.mark.parametrize("pair", of_kind("sh"), ids=lambda pair: pair.code)
def test_the_buggy_map_breaks_the_rule_and_the_fixed_one_is_legal(pair: Pair) -> None:
    assert pair.code in codes_of_tensormap(pair.buggy)[1]
    status, codes = codes_of_tensormap(pair.fixed)
    assert status == 0 and pair.code not in codes


def test_every_rule_has_a_pair_or_is_listed() -> None:
    assert {rule.code for rule in all_rules()} == PAIRS.keys() | IN_WORDS
    assert not PAIRS.keys() & IN_WORDS


def test_the_packaged_excerpts_are_current() -> None:
    assert MADE.read_text("utf-8") == made(), (
        "run `python -m tests.docs.rule_examples`, then `tilewright explain --write`"
    )
    assert rule_examples() == {code: example_of(pair) for code, pair in PAIRS.items()}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=lambda pair: pair.code)
def test_excerpts_are_lines_of_the_pair_and_show_what_differs(pair: Pair) -> None:
    example = example_of(pair)
    for excerpt, whole in ((example.buggy, pair.buggy), (example.fixed, pair.fixed)):
        assert _stands_in(excerpt, whole)
    assert example.buggy != example.fixed
    assert all((ROOT / path).is_file() for path in example.files)


def _stands_in(excerpt: str, whole: str) -> bool:
    """Whether the lines stand in the text in this order, `...` for lines left out, ` ... ` for parts of a line."""
    position, lines = 0, [line.strip() for line in whole.splitlines()]
    for wanted in (line.strip() for line in excerpt.splitlines()):
        if wanted == "...":
            continue
        found = next((at for at in range(position, len(lines)) if _agrees(wanted, lines[at])), None)
        if found is None:
            return False
        position = found + 1
    return True


def _agrees(wanted: str, line: str) -> bool:
    pieces, position = f"{wanted} ".split(" ... "), 0
    if len(pieces) == 1:
        return wanted == line
    for piece in pieces:
        at = line.find(piece.strip(), position)
        if at < 0:
            return False
        position = at + len(piece.strip())
    return line.startswith(pieces[0].strip())


def test_what_is_not_in_a_text_is_noticed() -> None:
    assert _stands_in("a\n...\nc ... e\n", "a\nb\nc d e f\n")
    assert not _stands_in("c\na\n", "a\nb\nc\n") and not _stands_in("a ... c\n", "a b\n")


def test_an_excerpt_has_the_changes_and_little_else() -> None:
    lines = [f"line {number}" for number in range(40)]
    buggy, fixed = "\n".join(lines), "\n".join([*lines[:10], "new", *lines[11:30], "more", *lines[30:]])
    (left, wrong), (right, added) = excerpts(buggy, fixed, 80)
    assert left.splitlines() == [
        "line 8", "line 9", "line 10", "line 11", "line 12", "...", "line 28", "line 29", "line 30", "line 31",
    ]  # fmt: skip
    assert right.splitlines()[2] == "new" and right.splitlines()[8] == "more"
    assert wrong == (3,) and added == (3, 9)


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    assert edited("a\n  b\nc", [{"line": 2, "fixed": ["b"], "buggy": []}]) == "a\nc"
    with pytest.raises(AssertionError):
        edited("a\nb\n", [{"line": 1, "fixed": ["b"], "buggy": []}])


def test_explain_shows_the_pair(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "PX101"]) == 0
    shown = capsys.readouterr().out
    assert "  - st.shared.b32 [%r4], %r0; // here\n" in shown and "  + fence.proxy.async.shared::cta;\n" in shown
    assert "docs/bugs/store-without-a-proxy-fence/fixed.ptx" in shown
    assert "Contested: proxy_fence" in shown and "--isa tolerant,proxy_fence=strict" in shown
    (rule,) = explain("MB101")
    assert main(["explain", "MB101"]) == 0
    assert f"Example: {rule.example}" in capsys.readouterr().out
