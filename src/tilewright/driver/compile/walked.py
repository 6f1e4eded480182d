"""A program of products, with the loops by which they are computed.

Which form of a program is compiled is for the decisions to say, so they are asked. One that needs several walks along
an axis needs one where a tile holds the axis. Axes that are rows to every product may be joined (`synth.joining`): that
form is taken which costs least, of equal ones the program as it is.

Checked by: tests/synth/streaming, tests/synth/joining and tests/lower/cascade.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import computed_sum, contractions
from tilewright.ir.decisions import Decisions
from tilewright.ir.tile.facts import dots, grouping, the_program
from tilewright.ir.tile.products import shared_products
from tilewright.synth.cascade.cost import cost
from tilewright.synth.cascade.sums.register_sum import ComputedBefore, sum_in_registers
from tilewright.synth.cascade.sums.sum_tile import suits_its_tile
from tilewright.synth.cascade.sums.tensor_factors import refuse_pairs
from tilewright.synth.cut.operand_before import operand_before
from tilewright.synth.decide import decide
from tilewright.synth.joining import joined_forms
from tilewright.synth.streaming import Streamed, streamed
from tilewright.synth.streaming.loop_products import as_walk
from tilewright.synth.streaming.whole import in_one_tile
from tilewright.synth.supported import is_supported
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class Walk:
    """module: a program with its loops; derivation: of those that the compiler found, None where the author wrote
    them."""

    module: ModuleOp
    derivation: Streamed | None = None


def walked(module: ModuleOp, target: Target, wanted: Wanted | None = None) -> ModuleOp:
    """The program of `walk_of`, its derivation checked."""
    found = walk_of(module, target, wanted)
    if found.derivation is not None:
        found.derivation.require()
    return found.module


def walk_of(module: ModuleOp, target: Target, wanted: Wanted | None = None) -> Walk:
    """The streamed form of a program that has products as values, over joined axes where that costs less; any other
    program as it is. Its derivation is not checked yet.

    Raises TilewrightError, at the author's line, for what has no such form yet, and ComputedBefore where a program of
    its own had better compute an operand."""
    refuse_pairs(the_program(module), target)
    wanted = wanted or Wanted()
    walks: list[Walk] = []
    apart: ComputedBefore | None = None
    for each in (module, *joined_forms(the_program(module))):
        try:
            walks.append(_streamed(each, target, wanted))
        except ComputedBefore as refusal:
            apart = apart or refusal
    if not walks:
        assert apart is not None, "every form that is no module was refused"
        raise apart
    plain, *others = walks
    if not others:
        return plain
    forms = [(each, _decided(each.module, target, wanted)) for each in walks]
    decided = [(form, found) for form, found in forms if found is not None]
    # Costs compare where decisions are of one kind.
    alike = [(form, found) for form, found in decided if type(found) is type(decided[0][1])]
    return min(alike, key=lambda each: _cost(each[0].module, each[1], target))[0] if alike else plain


def _streamed(module: ModuleOp, target: Target, wanted: Wanted) -> Walk:
    program = the_program(module)
    found = streamed(program) if contractions(program) else None
    if found is None:
        return Walk(_summed(module, target, wanted))
    if found.walks > 1:
        whole = in_one_tile(program, found.axis)
        if _decided(whole, target, wanted) is not None:
            return Walk(whole, found)
    return Walk(found.module, found)


def _summed(module: ModuleOp, target: Target, wanted: Wanted) -> ModuleOp:
    """A loop over products as a walk, in the orientation that suits its tile; the program itself where it is none.

    Raises ComputedBefore where a program before had better compute an operand, or no walk takes the operands as they
    are."""
    program = the_program(module)
    found, groups = as_walk(module), grouping(program)
    if found is None or groups is not None or target.supports("tensor_memory"):
        # On the way threads compute one operand, of single products of 16 bits.
        programs = operand_before(module)
        if programs is not None:
            raise ComputedBefore(programs, "no walk takes it as it is")
        return found or module
    alone = not any(dot.scales for dot in dots(program)) and is_supported(program, target)
    if alone and computed_sum(the_program(found)):
        return _computing(module, found, target, wanted)
    products = shared_products(program)
    if products is not None and len(products.products) > 1:
        # What all products have is what has the rows.
        return as_walk(module, swapped=products.shared == "right") or module
    if suits_its_tile(the_program(found), target, wanted):
        return found
    return as_walk(module, swapped=True) or module


def _computing(module: ModuleOp, walk: ModuleOp, target: Target, wanted: Wanted) -> ModuleOp:
    """The walk of a product that computes an operand. Raises ComputedBefore where a program before does, if it can."""
    reasons: list[str] = []
    if not sum_in_registers(the_program(walk), target, wanted, reasons):
        programs = operand_before(module, alone=True)
        if programs is not None:
            raise ComputedBefore(programs, reasons[-1] if reasons else "as asked for")
    return walk


def _decided(module: ModuleOp, target: Target, wanted: Wanted) -> Decisions | None:
    """The decisions; None where no tile fits."""
    try:
        return decide(the_program(module.clone()), target, wanted)
    except TilewrightError:
        return None


def _cost(module: ModuleOp, decisions: Decisions, target: Target) -> tuple[float, int]:
    """What a decided program takes, and what it reads where that is the question."""
    match decisions:
        case CascadeDecisions():
            return cost(the_program(module), decisions, target)
        case _:
            return math.inf, 0
