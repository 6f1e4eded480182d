"""What does `tilewright banks` say in words, of a tile and of a kernel?

Lines have a tone, which the terminal shows as a colour. Checked by: tests/cli/commands/test_banks_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.cli.banks.judge import AccessCost, TileJudged
from tilewright.cli.layout.lines import Line
from tilewright.driver.views.bank_report import AccessLine, BankReport
from tilewright.layout.layout import Layout
from tilewright.legal.bank.swizzle_choice import Judged, SwizzleChoice
from tilewright.report.operand_lists import cut_operands

_FAMILIES = {
    "plain": "rows one after another",
    "tma": "copy engine",
    "swizzle": "swizzle",
    "xor": "row XOR",
    "padding": "padding",
}


def tile_lines(judged: TileJudged) -> Iterator[Line]:
    """The report of one tile."""
    size = judged.element_bytes
    yield "heading", f"{judged.layout}, elements of {size} byte{'' if size == 1 else 's'}, on {judged.target.name}"
    for cost in judged.costs:
        yield _cost_line(cost)
    if judged.choice is not None:
        yield from _choice_lines(judged, judged.choice)


def _cost_line(cost: AccessCost) -> Line:
    words = f"  {_access_words(cost)}: {counted(cost.accesses, 'access', 'accesses')}"
    words += f", {counted(cost.wavefronts, 'wavefront')}"
    if cost.wavefronts <= cost.ideal:
        return "good", f"{words}, no conflicts"
    return "bad", f"{words}, {cost.ideal} without conflicts: {ratio(cost.wavefronts, cost.ideal)} times"


def _access_words(cost: AccessCost) -> str:
    asked = cost.asked
    order = {"layout": "in the layout's order", "rows": "along rows", "columns": "along columns"}.get(asked.order, "")
    words = f"{asked.kind} {order}".rstrip()
    return f"{words}, weight {asked.weight}" if asked.weight > 1 else words


def _choice_lines(judged: TileJudged, choice: SwizzleChoice) -> Iterator[Line]:
    best = choice.best
    yield "good" if choice.conflict_free else "doubt", f"best of {choice.candidates} placements: {_words(best, choice)}"
    found = judged.layout_of(best)
    if isinstance(found, Layout):
        yield "heading", f"  {found}"
    else:
        yield "quiet", f"  as a layout {found}"
    placement = best.placement
    yield "quiet", f"  its base must be a multiple of {placement.alignment_bytes} bytes"
    if placement.panels > 1:
        yield "quiet", f"  in {placement.panels} panels, one box of the copy engine each"
    yield "quiet", f"  {proof_words(choice)}"
    others = [each for each in choice.by_family if each.placement != placement]
    if others:
        yield "quiet", "the best of each other family:"
    for each in others:
        yield "plain", f"  {_words(each, choice)}"


def _words(judged: Judged, choice: SwizzleChoice) -> str:
    placement = judged.placement
    family = _FAMILIES[placement.family]
    name = placement.name if placement.name == family else f"{family}: {placement.name}"
    words = f"{name}, {counted(judged.wavefronts, 'wavefront')}"
    if judged.wavefronts > choice.ideal:
        words += f" ({ratio(judged.wavefronts, choice.ideal)} times {choice.ideal})"
    if placement.extra_bytes:
        words += f", {placement.extra_bytes} bytes more"
    return words


def proof_words(choice: SwizzleChoice) -> str:
    """Why no placement is better."""
    if choice.conflict_free:
        return "no conflicts are left: no placement is better"
    if choice.proof == "bound":
        return f"no placement that keeps vectors whole takes fewer than {choice.bound} wavefronts"
    return f"all {choice.candidates} placements were judged, and none is better; a bound is {choice.bound}"


def kernel_lines(report: BankReport, *, all_lines: bool) -> Iterator[Line]:
    """The report of one launch. all_lines: also the lines without conflicts."""
    total, ideal = report.wavefronts, report.ideal
    yield "heading", f"{report.entry}: {counted(len(report.lines), 'line')} with accesses of shared memory"
    words = f"  {counted(total, 'wavefront')}"
    if total > ideal:
        yield "bad", f"{words}, {ideal} without conflicts: {ratio(total, ideal)} times"
    else:
        yield "good", f"{words}, no conflicts"
    if report.clusters < report.clusters_of_launch:
        yield "doubt", f"  of {report.clusters} of the launch's {report.clusters_of_launch} clusters"
    if report.ending is not None:
        yield "bad", f"  the run ended early: {report.ending.message}"
    shown = sorted(report.lines, key=lambda line: (-line.excess, line.span.line))
    for line in shown:
        if line.excess or all_lines:
            yield from _access_line(line)
    quiet = sum(not line.excess for line in report.lines)
    if quiet and not all_lines:
        yield "quiet", f"  {counted(quiet, 'line')} without conflicts (--all shows them)"
    for missed in report.uncounted:
        yield "doubt", f"  {missed.span}: not counted: {missed.reason}"


def _access_line(line: AccessLine) -> Iterator[Line]:
    words = f"  {line.span}: {line.kind}: {counted(line.wavefronts, 'wavefront')}"
    words += f" of {counted(line.executions, 'execution')}"
    if line.excess:
        yield "bad", f"{words}, {line.ideal} without conflicts; the worst takes {line.worst}"
    else:
        yield "good", f"{words}, no conflicts"
    if line.span.text.strip():
        yield "plain", f"      {cut_operands(line.span.text.strip())}"
    if line.origin is not None:
        yield "quiet", f"      compiled from {line.origin} {line.origin.text.strip()}".rstrip()


def counted(number: int, one: str, several: str = "") -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def ratio(number: int, of: int) -> str:
    """With one decimal where there is one."""
    return f"{number / of:.1f}".removesuffix(".0") if of else "0"
