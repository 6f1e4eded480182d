"""For which targets does a program compile, what is decided for each, and how long would it take?

Nothing is lowered or proved: the programs that it would become are decided for each target, as `compile` would decide
them. Times are those by which kernels are chosen (`synth.cut.time`), and predictions everywhere. Where they rest on
facts that stand in for what nobody has measured of a target (`Fact.estimate_of`), or on published ones alone, they are
estimates without a ground on that device, and are marked so.

Checked by: tests/cli/commands/test_portability_command.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import aligned, elements_of
from tilewright.driver.compile.sequence import Part, sequence
from tilewright.driver.views.placement import gain_words, placement_rows
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.report.portability import PortabilityReport, TargetRow
from tilewright.synth.cut.time import microseconds
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def portability(
    kernel: Kernel, targets: Sequence[Target], dims: Dims, dtype: str | Element | Mapping[str, str | Element]
) -> PortabilityReport:
    """Raises TilewrightError for a program that is none, or extents that do not fit it."""
    elements = elements_of(kernel, dtype)
    rows: list[TargetRow] = []
    for target in targets:
        given, wanted = aligned(kernel, elements, Wanted())
        program = trace(given, dims, elements, None)
        try:
            parts = sequence(program, target, wanted)
        except TilewrightError as error:
            where = f"{error.span}: " if error.span is not None else ""
            rows.append(TargetRow(target.name, target.title, f"{where}{error.message}", error.remedy))
            continue
        time = sum(microseconds(the_program(part.module), part.decisions, target) for part in parts)
        decisions = tuple((*part.decisions.reasons, *_placed(part, target)) for part in parts)
        rows.append(
            TargetRow(target.name, target.title, decisions=decisions, microseconds=time, grounds=_grounds(target))
        )
    shape = ", ".join(f"{name}={extent}" for name, extent in dims.items())
    return PortabilityReport(kernel.name, shape, tuple(rows))


def _placed(part: Part, target: Target) -> Iterator[str]:
    """Which slices lie where in a cluster, and what tensor memory gains."""
    program = the_program(part.module)
    for name, words in placement_rows(program, part.decisions):
        yield f"placed {name}: {words}"
    if words := gain_words(program, part.decisions, target):
        yield words


def _grounds(target: Target) -> str:
    """What a predicted time rests on."""
    stand_ins = sorted({fact.estimate_of for fact in target.facts.values() if fact.estimate_of})
    if stand_ins:
        return f"estimate: no such device was measured; published rates, and costs of {', '.join(stand_ins)}"
    return "predicted from rates that were measured"
