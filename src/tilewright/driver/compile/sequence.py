"""Into which programs, each a kernel of its own, is a traced program compiled, and what is decided of each?

The program as one, and every sequence that cuts of it give (`synth.cut`), cut again where that is better still. Each
is given its walks and its decisions, and the sequence with the least estimated time is taken: one kernel, unless
several take less by more than the estimates' error, or one is refused. What no kernel of a cut undercuts is asked
first, so most are never decided. Certificates are made of the cuts and the walks that are taken. Overrides that fix a
tile are of one kernel; with them nothing is cut that need not be.

Kernels are cut off in launch order: the first of a cut is not cut at a value again, since whatever that would hand over
is a value of the whole program, at which it is cut too. So no sequence is met in more than one order of its cuts. The
margin by which several kernels must win is one of the program that is cut: a sequence that another order of its cuts
would let through may be held for no gain.

Not handled: a workspace of which the program before leaves elements out. Checked by:
tests/driver/compile/test_sequence.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.base.size import Size, computed
from tilewright.base.span import Span
from tilewright.driver.compile.met import Met
from tilewright.driver.compile.walked import walk_of
from tilewright.driver.reproof.schedule_proof import settle_schedule
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.tile.loop_form import in_loop_form
from tilewright.frontends.tile.value_form import in_value_form
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import NoTensorMap, contractions
from tilewright.ir.decisions import Decisions, ElementwiseDecisions, to_attribute
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops, reductions, stores, the_program
from tilewright.synth.cascade.slots.unmapped_slots import copied_by_threads, pass_microseconds
from tilewright.synth.cascade.sums.register_sum import ComputedBefore
from tilewright.synth.cut.certificate import require_same
from tilewright.synth.cut.copied_together import copied_together
from tilewright.synth.cut.factors_before import factors_before
from tilewright.synth.cut.few_places import ends_of_few, microseconds_over_range
from tilewright.synth.cut.handover import Cut, apart, cuts
from tilewright.synth.cut.laid_out import laid_out
from tilewright.synth.cut.operand_before import operand_before
from tilewright.synth.cut.split import splits
from tilewright.synth.cut.time import (
    array_bytes,
    busy_multiprocessors,
    least_microseconds,
    microseconds,
    shares_of_work,
)
from tilewright.synth.cut.widened_before import widened_before
from tilewright.synth.decide import decide
from tilewright.synth.empty_axes import cases_of_range, empty_words, parts_of_range, without_empty_axes
from tilewright.synth.joining import joined_forms
from tilewright.synth.joining.row_axis import with_rows
from tilewright.synth.run_time_extents import refuse_run_time
from tilewright.synth.schedule.early_launch import in_chain
from tilewright.synth.store.rows import last_first
from tilewright.synth.store.runs import kept_for_next
from tilewright.synth.streaming import Streamed
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import COMPILED_TARGET_NAMES, Target

_WORTH = 0.85
"""Of one kernel's estimated time, what several may take at most: the estimates are no better."""
_WORTH_PARTS = 0.96
"""The same of parts of its axis: both are estimated as walks alike, or by the bytes of device memory."""
_OF_ARRAYS = ("misaligned", "mapped", "aligned", "cut", "schedule", "programmatic", "asserts")
"""Overrides that are of arrays or of any kernel, and fix no tile."""

_Cuttable = Literal["anywhere", "in parts", "not"]
"""Where a program may be cut: at values and into parts of an axis; into parts alone; nowhere."""


@dataclass(frozen=True, slots=True)
class Part:
    """One program of a sequence. module: with its walks, and its decisions as an attribute; traced: without;
    derivation: of walks that the compiler found; entries: of its kernels, once it is lowered; launched: 0 at extents at
    which another part takes its place."""

    module: ModuleOp
    decisions: Decisions
    traced: ModuleOp
    derivation: Streamed | None = None
    entries: tuple[str, ...] = ()
    launched: Size = 1

    @property
    def name(self) -> str:
        """Of the program, no other's in a sequence."""
        return the_program(self.traced).sym_name.data


@dataclass(frozen=True, slots=True)
class _Sequence:
    """parts: in launch order; cuts: that made them."""

    parts: tuple[Part, ...]
    microseconds: float
    cuts: tuple[tuple[ModuleOp, Cut], ...] = ()


def sequence(module: ModuleOp, target: Target, wanted: Wanted) -> tuple[Part, ...]:
    """The parts of a traced program, in launch order, none where no result has an element: behind operands that no walk
    takes, and copies of arrays that no tensor map describes, but those that the author wants described. Raises
    TilewrightError, at the author's line, where there is no such sequence: what a single kernel is refused for."""
    if target.name not in COMPILED_TARGET_NAMES:
        raise TilewrightError(
            f"programs are not compiled for {target.name}",
            remedy=f"compile it for {', '.join(COMPILED_TARGET_NAMES)}",
        )
    found: list[Part] = []
    for case, there in cases_of_range(module):
        programs = without_empty_axes(case)
        parts = tuple(part for each in programs for part in _with_few_in_parts(each, target, wanted))
        if programs != (case,):
            words = f"{empty_words(the_program(case))}, so that folds are numbers"
            parts = tuple(_explained(part, words) for part in parts)
        parts = tuple(replace(part, launched=computed("*", there, part.launched)) for part in _derived(parts))
        found += launched(parts, target, wanted)
    return tuple(found)


def _with_few_in_parts(module: ModuleOp, target: Target, wanted: Wanted) -> tuple[Part, ...]:
    """The parts of a program; where one kernel serves a batch of a range, and few places of it leave multiprocessors
    idle, with others before that are launched for these: in parts of the axis that it walks."""
    parts = _chain(module, target, wanted)
    ends = list[tuple[str, int]]()
    if len(parts) == 1 and wanted.cut is None and not _is_decided(wanted):
        ends = ends_of_few(the_program(parts[0].module), parts[0].decisions, target)
    pieces, rest, here = list[tuple[ModuleOp, Size]](), module, 1
    for axis, end in ends:
        (few, is_few), (rest, is_more) = parts_of_range(rest, axis, end)
        pieces.append((few, computed("*", here, is_few)))
        here = computed("*", here, is_more)
    found: list[Part] = []
    for few, there in pieces:
        in_parts = _chain(few, target, wanted)
        if len(in_parts) == 1:
            return parts
        found += [replace(each, launched=there) for each in in_parts]
    return (*found, *(replace(each, launched=here) for each in _chain(rest, target, wanted))) if found else parts


def decided_anew(parts: Sequence[Part], target: Target, wishes: Mapping[str, Wanted]) -> tuple[Part, ...]:
    """The parts with other overrides for those of these names; those that are to be cut are several, for which the
    overrides of their own names count in the same way. Raises TilewrightError."""
    found: list[Part] = []
    for part in parts:
        wish = wishes.get(part.name)
        if wish is not None and wish.cut:
            others = {name: each for name, each in wishes.items() if name != part.name}
            anew = decided_anew(_derived(_chain(part.traced, target, wish)), target, others)
        else:
            anew = (part,) if wish is None else _derived((decided(part.traced, target, wish),))
        found += [replace(each, launched=part.launched) for each in anew]
    return tuple(found)


def _derived(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts, once the walks that the compiler found are shown to be theirs."""
    for part in parts:
        if part.derivation is not None:
            part.derivation.require()
    return parts


def uncut(module: ModuleOp, target: Target, wanted: Wanted) -> tuple[Part, ...]:
    """The parts of a traced program that is cut at no value: what its author wrote is the last of them, behind kernels
    that copy and compute its operands. Raises TilewrightError as `sequence` does, and where there is none."""
    parts = sequence(module, target, replace(wanted, cut=False))
    if not parts:
        program = the_program(module)
        message = f"{program.sym_name.data} launches nothing, since {empty_words(program)}"
        file, _, line = program.place.data.rpartition(":")
        raise TilewrightError(message, span=Span(file, int(line)), remedy="give each axis at least one element")
    return parts


def _chain(module: ModuleOp, target: Target, wanted: Wanted, *, by_threads: bool = True) -> tuple[Part, ...]:
    """Each part as it is decided alone. by_threads: whether threads may copy what no tensor map brings."""
    factored = factors_before(module, target)
    if factored is not None:
        ones, rest = factored
        return (decided(ones, target, wanted), *_chain(rest, target, wanted, by_threads=by_threads))
    found = _with_copies(module, target, wanted, by_threads=by_threads)
    if wanted.unmapped is not None or wanted.cut is False:
        return found
    forms = [found]
    with suppress(TilewrightError):
        if _remade(found, "turned"):
            forms.append(_with_copies(module, target, replace(wanted, unmapped="workspace")))
    with suppress(TilewrightError):
        forms += _widened_first(module, target, wanted, _remade(found, "widened"))
    return min(forms, key=lambda parts: _microseconds(parts, target))


def _remade(parts: Sequence[Part], how: str) -> list[str]:
    """The arrays of which consumers make operands anew, which a kernel before could have made."""
    decided = [part.decisions for part in parts if isinstance(part.decisions, CascadeDecisions)]
    return list(dict.fromkeys(slot.buffer for each in decided for slot in each.slots if slot.remade == how))


def _widened_first(
    module: ModuleOp, target: Target, wanted: Wanted, names: Sequence[str]
) -> Iterator[tuple[Part, ...]]:
    """The parts of a program whose arrays of these names are widened by kernels before, where all can be."""
    copies: list[Part] = []
    for name in names:
        found = widened_before(module, name)
        if found is None:
            return
        copy, module = found
        copies.append(decided(copy, target, wanted))
    if copies:
        yield (*copies, *_chain(module, target, wanted))


def _microseconds(parts: Sequence[Part], target: Target) -> float:
    return sum(microseconds(the_program(part.module), part.decisions, target) for part in parts)


def _with_copies(module: ModuleOp, target: Target, wanted: Wanted, *, by_threads: bool = True) -> tuple[Part, ...]:
    try:
        return _sequence(module, target, wanted)
    except ComputedBefore as apart:
        return _because(tuple(part for each in apart.programs for part in _chain(each, target, wanted)), apart.reason)
    except NoTensorMap as refusal:
        name, inner = refusal.parameter, refusal.inner
        if name in wanted.mapped:
            raise _demanded(refusal) from None
        found = laid_out(module, name, target, inner, misaligned=name in wanted.misaligned)
        if found is None:
            raise _first(refusal) from None
        copy, rest = found
        # Where tiles of run-time rows lie is followed in copies of the copy engine alone.
        by_threads = by_threads and not the_program(module).run_time
        threads = _by_threads(module, target, wanted) if by_threads else None
        after = wanted if threads is None else replace(wanted, unmapped="workspace")
        try:
            before = _explained(decided(copy, target, wanted), f"{name} is copied: {refusal.message}")
            copied = _joined_copies((before, *_chain(rest, target, after, by_threads=False)), target, wanted)
            return copied if threads is None else _quicker(copied, threads, target)
        except NoTensorMap as again:
            workspaces = {each.data for each in the_program(copy).parameters} - {refusal.parameter}
            raise _first(refusal if again.parameter in workspaces else again) from None
        except TilewrightError as again:
            raise _first(refusal) if _first(refusal) is not refusal else again from None
    except TilewrightError as refusal:
        if _is_decided(wanted) or target.supports("tensor_memory"):
            raise
        # Of several products, one that is the only computed operand may be in the way, too.
        found = operand_before(module) or operand_before(module, alone=True)
        if found is None:
            raise
        try:
            return tuple(part for each in found for part in _chain(each, target, wanted))
        except TilewrightError:
            raise refusal from None


def _demanded(refusal: NoTensorMap) -> TilewrightError:
    """Why an array has no map that its author wants it to have."""
    words = f"{refusal.parameter} has no tensor map of its own: {refusal.message}"
    return TilewrightError(words, span=refusal.span, remedy="change it, or drop it from by_map")


def _joined_copies(parts: tuple[Part, ...], target: Target, wanted: Wanted) -> tuple[Part, ...]:
    """The parts with the first two as one, where both copy arrays in runs."""
    first, second, *others = parts
    if not (_in_runs(first.decisions) and _in_runs(second.decisions)):
        return parts
    module = copied_together(first.traced, second.traced)
    found = None if module is None else decided(module, target, wanted)
    if found is None or not _in_runs(found.decisions):
        return parts
    own, *whys = found.decisions.reasons, first.decisions.reasons[1:], second.decisions.reasons[1:]
    return (_redecided(found, replace(found.decisions, reasons=(*own, *whys[0], *whys[1]))), *others)


def _in_runs(decisions: Decisions) -> bool:
    return isinstance(decisions, ElementwiseDecisions) and decisions.run > 1


def _by_threads(module: ModuleOp, target: Target, wanted: Wanted) -> tuple[Part, ...] | None:
    """The quickest parts of a program in which threads copy what no tensor map brings; None where none do, or where
    one way is asked for."""
    found: list[tuple[Part, ...]] = []
    offered = copied_by_threads(the_program(module), wanted, target) if wanted.unmapped is None else ()
    for each in offered:
        with suppress(TilewrightError):
            parts = _with_copies(module, target, each)
            last = parts[-1].decisions
            found += [parts] if isinstance(last, CascadeDecisions) and last.copies_by_threads else []
        if not found:
            break  # larger tiles are weighed beside the one that the product would have
    return min(found, key=lambda parts: _passed_microseconds(parts, target), default=None)


def _quicker(copied: tuple[Part, ...], threads: tuple[Part, ...], target: Target) -> tuple[Part, ...]:
    """A product behind kernels that copy all its operands, or the one whose threads copy some."""
    first, second = (_passed_microseconds(parts, target) for parts in (copied, threads))
    if first <= second:
        return _because(copied, f"about {first:.1f} us, against {second:.1f} us if threads copied it in pieces")
    return _because(threads, f"about {second:.1f} us, against {first:.1f} us with a kernel that copies first")


def _because(parts: tuple[Part, ...], words: str) -> tuple[Part, ...]:
    *before, last = parts
    return (*before, _explained(last, words))


def _passed_microseconds(parts: tuple[Part, ...], target: Target) -> float:
    """Of a product and all that is copied before it."""
    *before, product = parts
    copied = sum(array_bytes(store.tensor) for each in before for store in stores(the_program(each.module)))
    return pass_microseconds(copied, target) + microseconds(the_program(product.module), product.decisions, target)


def _first(refusal: TilewrightError) -> TilewrightError:
    """What a program was refused for before cuts of it were."""
    return _first(refusal.__cause__) if isinstance(refusal.__cause__, TilewrightError) else refusal


def _sequence(module: ModuleOp, target: Target, wanted: Wanted) -> tuple[Part, ...]:
    if wanted.cut and not _is_decided(wanted) and loops(the_program(module)):
        module = in_value_form(module) or module
    if not _is_cut(the_program(module)):
        refuse_run_time(the_program(module))
        return _of_loops(module, target, wanted)
    rowed = with_rows(module)
    module = module if rowed is module else in_loop_form(rowed)
    return _certified(_best(module, target, wanted, _met(module), forced=wanted.cut is True))


def _of_loops(module: ModuleOp, target: Target, wanted: Wanted) -> tuple[Part, ...]:
    """One kernel of a program whose products stand in loops; where that is refused, those of it without its loops."""
    try:
        return (decided(module, target, wanted),)
    except (NoTensorMap, ComputedBefore):
        raise  # for a copy of the array, and a kernel that computes an operand
    except TilewrightError as refusal:
        valued = None if wanted.cut is False or _is_decided(wanted) else in_value_form(module)
        try:
            if valued is not None:
                return _certified(_best(valued, target, wanted, _met(valued)))
        except TilewrightError:
            pass  # what the author wrote is refused
        raise refusal


def _certified(found: _Sequence) -> tuple[Part, ...]:
    """The parts of a sequence, once its cuts are shown to change nothing."""
    for whole, cut in found.cuts:
        require_same(the_program(whole), cut)
    if not found.cuts:
        return found.parts
    words = f"{len(found.parts)} kernels, about {found.microseconds:.0f} us in all: " + ", ".join(
        f"{f'{cut.parts} parts' if cut.parts else 'cut'} at {cut.place.rpartition('/')[2]}, {cut.size_bytes} bytes"
        for _, cut in found.cuts
    )
    return tuple(_explained(part, words) for part in found.parts)


def decided(module: ModuleOp, target: Target, wanted: Wanted) -> Part:
    """One kernel's program of a traced one, its derivation not yet checked. Raises TilewrightError."""
    own = _of_program(module, wanted)
    walk = walk_of(module, target, own)
    found = module.clone() if walk.module is module else walk.module
    return Part(found, decide(the_program(found), target, own), module, walk.derivation)


def settled(part: Part, wanted: Wanted) -> Part:
    """The part with the schedule of its loop proved."""
    return replace(part, decisions=settle_schedule(the_program(part.module), part.decisions, wanted.schedule))


def joined(modules: Sequence[ModuleOp]) -> ModuleOp:
    """One module with the programs of all."""
    if len(modules) == 1:
        return modules[0]
    return ModuleOp([the_program(module).clone() for module in modules])


def _is_cut(program: tile.ProgramOp) -> bool:
    """Whether cuts are looked for: in a program with products as values, or with folds."""
    return bool(contractions(program) or reductions(program))


def _explained(part: Part, words: str) -> Part:
    return _redecided(part, replace(part.decisions, reasons=(*part.decisions.reasons, words)))


def launched(parts: Sequence[Part], target: Target, wanted: Wanted) -> tuple[Part, ...]:
    """The parts of a program, in launch order, with how each of them begins, and what is kept for the next: of those
    that are launched together."""
    found: list[Part] = []
    for there in dict.fromkeys(part.launched for part in parts):
        found += _begun([part for part in parts if part.launched == there], target, wanted)
    return tuple(found)


def _begun(parts: Sequence[Part], target: Target, wanted: Wanted) -> tuple[Part, ...]:
    chain = [(the_program(part.module), part.decisions) for part in parts]
    chain = [*((program, kept_for_next(program, each, target)) for program, each in chain[:-1]), *chain[-1:]]
    after = [(program, last_first(program, each, chain[at][0], target)) for at, (program, each) in enumerate(chain[1:])]
    chain = [chain[0], *after]
    return tuple(map(_redecided, parts, in_chain(chain, wanted)))


def _redecided(part: Part, decisions: Decisions) -> Part:
    the_program(part.module).attributes["decisions"] = to_attribute(decisions)
    return replace(part, decisions=decisions)


def _of_program(module: ModuleOp, wanted: Wanted) -> Wanted:
    """The overrides without those of arrays that the program does not have."""
    names = {name.data for name in the_program(module).parameters}
    return replace(
        wanted,
        misaligned=tuple(name for name in wanted.misaligned if name in names),
        mapped=tuple(name for name in wanted.mapped if name in names),
        aligned=tuple(each for each in wanted.aligned if each[0] in names),
    )


def _met(module: ModuleOp) -> Met:
    """Nothing yet, of a search that begins with this program."""
    return Met(frozenset(name.data for name in the_program(module).parameters))


def _best(
    module: ModuleOp,
    target: Target,
    wanted: Wanted,
    met: Met,
    *,
    forced: bool = False,
    cuttable: _Cuttable = "anywhere",
    limit: float = math.inf,
) -> _Sequence:
    """The best sequence. forced: of several kernels; cuttable: if it is not, one that is compiled as one kernel stays
    one; limit: microseconds beyond which no sequence of several is of use. Raises TilewrightError where neither one
    kernel nor several are compiled."""
    program, refusal = the_program(module), None
    one: _Sequence | None = None
    try:
        refuse_run_time(program)
        part = decided(module, target, wanted)
        one = _Sequence((part,), microseconds(the_program(part.module), part.decisions, target))
    except TilewrightError as error:
        refusal = error
    if one is not None and not forced and (_is_decided(wanted) or wanted.cut is False or cuttable == "not"):
        return one
    limits = (limit, limit)
    if one is not None and not forced:
        limits = (min(limit, _WORTH_PARTS * one.microseconds), min(limit, _WORTH * one.microseconds))
    unmapped: list[NoTensorMap] = []
    best = None if wanted.cut is False else _cut_best(module, target, wanted, met, limits, one, cuttable, unmapped)
    if best is None and forced and one is not None:
        # What one kernel's threads compute may be another's, though no sum is divided.
        best = _cut_best(module, target, wanted, met, limits, None, cuttable, unmapped)
    if best is not None:
        return best
    if one is None:
        assert refusal is not None
        names = {each.data for each in program.parameters}
        # With a copy of such an array a cut may be compiled.
        copied = next((each for each in unmapped if each.parameter in names), None)
        if copied is not None and not isinstance(refusal, NoTensorMap):
            raise copied from refusal
        raise refusal
    return one


def _is_decided(wanted: Wanted) -> bool:
    """Whether a decision of a kernel is asked for, which those of others would leave out."""
    return any(getattr(wanted, each.name) != each.default for each in fields(Wanted) if each.name not in _OF_ARRAYS)


def _cut_best(
    module: ModuleOp,
    target: Target,
    wanted: Wanted,
    met: Met,
    limits: tuple[float, float],
    one: _Sequence | None,
    cuttable: _Cuttable,
    unmapped: list[NoTensorMap],
) -> _Sequence | None:
    """The best sequence of at least two kernels that takes less than a limit: the first, of parts of an axis, else the
    second. one: kernel, None where it is refused; unmapped: cuts that no tensor map serves are noted there."""
    of_parts, of_values = limits
    least = least_microseconds(the_program(module), target)
    if least >= of_parts:
        return None
    best: _Sequence | None = None
    for whole, cut in _offered(module, target, one, cuttable):
        limit = of_parts if cut.parts else of_values
        if least >= limit:
            break  # parts are offered first
        try:
            found = _of_cut(whole, cut, target, replace(wanted, cut=None), met, limit)
        except NoTensorMap as refusal:
            unmapped.append(refusal)
            continue
        except TilewrightError:
            continue
        if found is not None:
            # What follows a split is another kind of kernel, or more parts.
            best, limit = found, found.microseconds * (_WORTH if cut.parts else 1)
            of_parts, of_values = limit, limit
    return best


def _offered(
    module: ModuleOp, target: Target, one: _Sequence | None, cuttable: _Cuttable
) -> Iterator[tuple[ModuleOp, Cut]]:
    """Cuts, and what they are of, the likelier first: parts of an axis where one kernel leaves multiprocessors idle, of
    the program over joined axes too; then values."""
    program, idle = the_program(module), one is None
    if one is not None:
        part, most = one.parts[0], target.limit("device.multiprocessors")
        launched = (the_program(part.module), part.decisions, target)
        idle = busy_multiprocessors(*launched) < _WORTH * most
        for form in (module, *joined_forms(program)) if idle else ():
            in_parts = microseconds_over_range(part.module, part.decisions, target)
            yield from ((form, cut) for cut in splits(the_program(form), most / shares_of_work(*launched), in_parts))
    elif (cut := apart(program)) is not None:
        yield module, cut
    if cuttable == "in parts":
        return
    # Of sums that stay together on one side nothing is gained, but that this side may be split.
    yield from ((module, cut) for cut in cuts(program) if cut.divides_sums or idle)


def _of_cut(module: ModuleOp, cut: Cut, target: Target, wanted: Wanted, met: Met, limit: float) -> _Sequence | None:
    """The best sequence of a cut that takes less than `limit`. What its programs take at least is asked first."""
    rest: _Cuttable = "not" if cut.parts else "anywhere"
    first: _Cuttable = "in parts" if cut.workspaces and not cut.parts else rest
    how: list[_Cuttable] = [first, *(rest for _ in cut.programs[1:])]
    forms = [met.form(side) for side in cut.programs]
    open_ = [
        max(least_microseconds(the_program(side), target), met.least_microseconds(form, cuttable))
        for side, form, cuttable in zip(cut.programs, forms, how, strict=True)
    ]
    sides: list[_Sequence] = []
    for side, form, cuttable in zip(cut.programs, forms, how, strict=True):
        left = limit - sum(each.microseconds for each in sides) - sum(open_)
        if left <= 0:
            return None
        left += open_.pop(0)
        try:
            sides.append(_side(in_loop_form(side), target, wanted, met, cuttable, left))
        except NoTensorMap:
            raise  # whoever cuts asks whether a copy of the array helps
        except TilewrightError:
            met.note(form, cuttable, left)
            raise
        met.note(form, cuttable, left, sides[-1].microseconds)
        if len(sides) == 1 and not _are_stored_whole(sides[0].parts, cut.workspaces):
            return None
    found = _one_after_another(sides)
    return None if found.microseconds >= limit else replace(found, cuts=((module, cut), *found.cuts))


def _side(module: ModuleOp, target: Target, wanted: Wanted, met: Met, cuttable: _Cuttable, limit: float) -> _Sequence:
    """The best sequence of a program of a cut, behind one that computes an operand which no walk takes. Raises
    TilewrightError where there is none."""
    try:
        return _best(module, target, wanted, met, cuttable=cuttable, limit=limit)
    except ComputedBefore as apart:
        return _one_after_another([_side(each, target, wanted, met, cuttable, limit) for each in apart.programs])


def _one_after_another(found: Sequence[_Sequence]) -> _Sequence:
    """Sequences one after the other."""
    parts = tuple(part for each in found for part in each.parts)
    return _Sequence(parts, sum(each.microseconds for each in found), tuple(cut for each in found for cut in each.cuts))


def _are_stored_whole(parts: Sequence[Part], workspaces: Sequence[str]) -> bool:
    whole = frozenset[str]().union(*(whole_results(the_program(part.module)) for part in parts))
    return whole.issuperset(workspaces)
