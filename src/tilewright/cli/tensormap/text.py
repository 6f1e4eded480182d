"""What does `tilewright tensormap` say of a map in words?

The verdict; each rule that is broken with value, limit and source; the smallest sets of fields whose change would fix
it; what the driver passes and the device does not; the box in shared memory; repairs with their costs, the cheapest
first. Lines have a tone, which the terminal shows as a colour. Checked by: tests/cli/test_tensormap_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from tilewright.cli.tensormap.words import command_words, map_words

if TYPE_CHECKING:
    from tilewright.cli.tensormap.judge import Judged
    from tilewright.legal.plan.repair_plan import Repair
    from tilewright.legal.symbolic.symbolic import SymbolicFinding, SymbolicLegality
    from tilewright.legal.symbolic.symbolic_map import SymbolicMap
    from tilewright.legal.tensor_map.im2col_map import AnyMap
    from tilewright.legal.tensor_map.legality import Legality
    from tilewright.legal.tensor_map.violation import Violation

Tone = Literal["heading", "good", "bad", "doubt", "quiet", "plain"]
Line = tuple[Tone, str]
_COLUMNS = 110
_ROWS_DRAWN = 3
_BAR_COLUMNS = 32
REPAIRS_SHOWN = 5


def judged_lines(judged: Judged, *, limit: int | None = None, command: bool = False) -> Iterator[Line]:
    """The report of one map. limit: how many repairs, None for all; command: whether its command line is shown too."""
    legality = judged.legality
    yield "heading", map_words(judged.map)
    if command:
        yield "quiet", f"  = {command_words(judged.map, legality.target.name)}"
    yield _verdict(judged)
    for remark in judged.remarks:
        yield from _wrapped("doubt", "  note: ", remark)
    for violation in legality.violations:
        yield from _violation_lines(violation, "" if judged.repairs else _remedy(violation.code))
    for violation in judged.copy_violations:
        yield from _violation_lines(violation, _remedy(violation.code))
    yield from _change_lines(legality)
    for warning in judged.warnings:
        yield from _wrapped("doubt", f"  warning {warning.code} {warning.name}: ", warning.message)
        yield from _wrapped("quiet", "    source: ", warning.source)
    if legality.legal:
        yield from _picture(judged.map, legality)
    if judged.repairs:
        yield from _repairs(judged, limit)
    elif judged.synthesized:
        yield "doubt", "  no plan: nothing can be copied, or the rank is absurd"


def symbolic_lines(map: SymbolicMap, target: str, legality: SymbolicLegality) -> Iterator[Line]:
    """The report of one symbolic map."""
    yield "heading", map_words(map)
    match legality.answer:
        case "legal":
            yield "good", f"  legal on {target} for all sizes as declared"
        case "illegal":
            yield "bad", f"  illegal on {target} for all sizes as declared"
        case "maybe":
            yield "doubt", f"  legal on {target} for some sizes only"
    for finding in (*legality.violated, *legality.undecided):
        yield from _finding_lines(finding, broken=finding in legality.violated)
    if legality.answer == "maybe" and legality.guard is not None:
        yield from _wrapped("plain", "  guard: ", f"the map is legal exactly where {legality.guard.text}")


def _verdict(judged: Judged) -> Line:
    target, count = judged.legality.target.name, len(judged.violations)
    driver = judged.legality.driver
    where = target if driver is None else f"{target} with driver API {driver[0]}.{driver[1]}"
    if not count:
        return "good", f"  legal on {where}"
    rules = f"{count} rule{'s' if count > 1 else ''} broken{', each enough by itself' if count > 1 else ''}"
    if judged.legality.legal:
        return "bad", f"  the map is legal on {where}, this copy is not: {rules}"
    return "bad", f"  illegal on {where}: {rules}"


def _violation_lines(violation: Violation, remedy: str) -> Iterator[Line]:
    place = violation.field if violation.index is None else f"{violation.field}[{violation.index}]"
    yield from _wrapped("bad", f"  {violation.code} {violation.name}: ", violation.message)
    yield "plain", f"    {place} is {violation.value}, limit {violation.limit}"
    yield from _wrapped("quiet", "    source: ", violation.source)
    if remedy:
        yield from _wrapped("plain", "    help: ", remedy)


def _finding_lines(finding: SymbolicFinding, *, broken: bool) -> Iterator[Line]:
    yield from _wrapped("bad" if broken else "doubt", f"  {finding.code} {finding.name}: ", finding.message)
    yield from _wrapped("quiet", "    source: ", finding.source)


def _remedy(code: str) -> str:
    from tilewright.driver.rules.catalog import explain

    return next((rule.remedy for rule in explain(code)), "")


def _change_lines(legality: Legality) -> Iterator[Line]:
    """Which fields exclude each other, where that is not plain from the rules, and what would have to change."""
    for conflict in legality.conflicts:
        if len(conflict.fields) > 1:
            names = _joined(sorted(conflict.fields))
            yield "plain", f"  {names} cannot all stay: {_joined(conflict.codes)}"
    changes = legality.minimal_changes
    if not changes:
        return
    # What every set has is said once.
    always = changes[0].intersection(*changes[1:])
    choices = [_joined(sorted(names - always)) for names in changes if names - always]
    if not choices:
        yield from _wrapped("plain", "  to fix it, change ", _joined(sorted(always)))
        return
    head = f"{_joined(sorted(always))}, and one of these: " if always else "one of these: "
    yield from _wrapped("plain", "  to fix it, change ", head + "; ".join(choices))


def _joined(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _repairs(judged: Judged, limit: int | None) -> Iterator[Line]:
    shown = judged.repairs if limit is None else judged.repairs[:limit]
    noun = "plans" if judged.synthesized else "repairs"
    yield "heading", f"  {noun}, the cheapest first; every map was judged again:"
    for number, repair in enumerate(shown, 1):
        yield from _repair_lines(number, repair, judged, whole=judged.synthesized)
    if len(shown) < len(judged.repairs):
        yield "quiet", f"  and {len(judged.repairs) - len(shown)} more (--all)"


def _repair_lines(number: int, repair: Repair, judged: Judged, *, whole: bool) -> Iterator[Line]:
    yield from _wrapped("plain", f"  {number}. ", repair.title)
    yield from _wrapped("quiet", "     costs ", repair.cost.line)
    if not whole:
        return
    from tilewright.cli.tensormap.judge import maps_of

    for map in maps_of(repair):
        yield from _wrapped("plain", "     ", map_words(map))
        sizes = _sizes(map, judged)
        if sizes is not None:
            yield "quiet", f"       one copy: {sizes[1]} bytes on the barrier, {sizes[0]} bytes of shared memory"


def _sizes(map: AnyMap, judged: Judged) -> tuple[int, int] | None:
    from tilewright.legal.tensor_map.footprint import copy_bytes

    return copy_bytes(map, judged.legality.target)


def _picture(map: AnyMap, legality: Legality) -> Iterator[Line]:
    """One box in shared memory: what the barrier counts, what the buffer needs, rows as they stand."""
    transaction, footprint = legality.transaction_bytes, legality.footprint_bytes
    if transaction is None or footprint is None:
        return
    yield "plain", f"  one copy: {transaction} bytes on the barrier, {footprint} bytes of shared memory"
    rows = _rows(map, transaction)
    if rows is None:
        return
    count, row_bytes = rows
    pitch_bytes = footprint // count
    filled = max(1, _BAR_COLUMNS * row_bytes // pitch_bytes)
    bar = "#" * filled + "." * (_BAR_COLUMNS - filled)
    gap = "" if row_bytes == pitch_bytes else f", {pitch_bytes - row_bytes} left free"
    for row in range(min(count, _ROWS_DRAWN)):
        yield "quiet", f"    {row * pitch_bytes:#8x} |{bar}| row of {row_bytes} bytes{gap}"
    if count > _ROWS_DRAWN:
        yield "quiet", f"             ... {count - _ROWS_DRAWN} more, up to {footprint:#x}"


def _rows(map: AnyMap, transaction_bytes: int) -> tuple[int, int] | None:
    """Rows of a tiled box and the bytes of each. None where rows are not what shared memory holds: slices, columns."""
    from tilewright.legal.tensor_map.tensor_map import TensorMap

    data_type = map.data_type
    if not isinstance(map, TensorMap) or data_type is None or map.interleave != "none":
        return None
    counted_bytes = map.box[0] * data_type.global_bits // 8
    return transaction_bytes // counted_bytes, map.box[0] * data_type.shared_bits // 8


def _wrapped(tone: Tone, head: str, text: str) -> Iterator[Line]:
    """`text` behind `head`, broken into lines that stand below each other."""
    margin = " " * (len(head) - len(head.lstrip()) + 4)
    lines = wrap(text, _COLUMNS - len(head), break_long_words=False, break_on_hyphens=False)
    first, *rest = lines or [""]
    yield tone, head + first
    for line in wrap(" ".join(rest), _COLUMNS - len(margin), break_long_words=False, break_on_hyphens=False):
        yield tone, margin + line
