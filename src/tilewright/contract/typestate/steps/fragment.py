"""What do fragments in registers do to a unit's state, and which of their operations break a rule on the spot?

A fragment in registers is a plain value: reading it disturbs nothing, and loops may carry it. What binds it to the
tensor core are three things.

- It is computed of accumulators, which must have settled; reading those counts as touching their registers.
- An accumulator that begins as a fragment is written by threads, so that a `wgmma.fence` follows before any product.
- A product with A in registers reads them until it is done. They are registers of the kernel's own, to which the
  operation moves the fragment, and no such product may be in flight then. Nor may one be where a fragment is computed
  that may be multiplied: then a lowering that takes the fragment's own registers is right too. What is read of a slot
  comes to registers of its own.

A slot that threads read obeys what `steps.register_operand` says; the slot's token is handed on.

Not handled: indices that are computed from others than the map's own places, consumers in turns, slots that CTAs fill
together and threads read (doubts). Source: PTX ISA, wgmma: register fragments of A and D, wgmma.fence. Checked by:
tests/contract/typestate/steps/test_fragment.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.element import Element, parse_element
from tilewright.contract.typestate.program import integers, type_of
from tilewright.contract.typestate.scalar_region import check_region
from tilewright.contract.typestate.steps.register_operand import (
    ELEMENTS,
    NARROW,
    accumulate,
    footprint,
    in_known_role,
    multiplied_columns,
)
from tilewright.contract.typestate.steps.tensor_core import fence, read_slot
from tilewright.contract.typestate.steps.unit_barriers import meet
from tilewright.contract.typestate.token import Accumulating, Fragment, Index, Settled, Slot, Values, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import (
    AccumulatorPartsOp,
    AccumulatorStartOp,
    FragmentFoldOp,
    FragmentFullOp,
    FragmentIssueOp,
    FragmentMapOp,
    FragmentReadOp,
    region_axes,
)
from tilewright.ir.function import REDUCERS

_OF_A_PLACE = 2
"""Indices: its row and its column."""
_FLOAT = "f32"
_COLUMNS = 8
"""Columns of an accumulator that whole registers hold (PTX ISA, wgmma register fragments)."""
_STEP_BYTES = 32
OPERAND_AXES = "mk"
"""Of what is A of a product of 8-bit elements, and nothing else."""


def fragment_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns fragments in registers."""
    match op:
        case FragmentFullOp():
            _full(walk, op)
        case FragmentMapOp():
            _map(walk, op)
        case FragmentFoldOp():
            _fold(walk, op)
        case FragmentReadOp():
            _read(walk, op)
        case AccumulatorStartOp():
            _start(walk, op)
        case AccumulatorPartsOp():
            _parts(walk, op)
        case FragmentIssueOp():
            _issue(walk, op)
        case _:
            return False
    if walk.role.unit != "warpgroup128":
        walk.report("WG009", op, f"{op.name} in a role of {walk.role.unit}")
    if isinstance(op, FragmentReadOp | FragmentIssueOp):
        in_known_role(walk, op, releases=isinstance(op, FragmentReadOp))
    return True


def _declared(walk: RoleWalk, op: Operation, value: SSAValue) -> Values | None:
    """The fragment that a result is declared to be, of a shape that registers hold; None, with a doubt, for another."""
    kind = type_of(value)
    if not isinstance(kind, ac.FragmentType) or kind.axes.data not in ("mn", "mk", "m"):
        walk.findings.doubt("its result is no fragment over rows, or rows and columns", op)
        return None
    m, n, element = kind.m.data, kind.n.data, parse_element(kind.element.data)
    rows, most = walk.kernel.facts.limit("product.rows"), walk.kernel.facts.limit("product.columns_max")
    if m < rows or m % rows or not 0 < n <= most or n % _COLUMNS:
        walk.findings.doubt(f"a fragment of {m} x {n} elements", op)
        return None
    if (
        element is None
        or not (element.is_float or element is Element.S8)
        or element.bytes > 4
        or element.value != kind.element.data
    ):
        walk.findings.doubt(f"a fragment of {kind.element.data}", op)
        return None
    if kind.axes.data == OPERAND_AXES and (kind.element.data not in NARROW or n % _STEP_BYTES):
        walk.findings.doubt(f"an operand of {m} x {n} of {kind.element.data} over {kind.axes.data!r}", op)
        return None
    return Values(m, n, kind.axes.data, kind.element.data)


def _give(walk: RoleWalk, op: Operation, value: SSAValue, made: Values | None) -> None:
    if made is not None and _is_operand(made) and walk.state.operand_ages:
        _in_flight(walk, op, "a fragment that may be multiplied is computed")
    walk.give(op, value, made)


def _is_operand(made: Values) -> bool:
    """Whether a product may take a fragment for A."""
    return made.axes == OPERAND_AXES or (made.axes == "mn" and made.element in ELEMENTS)


def _in_flight(walk: RoleWalk, op: Operation, what: str) -> None:
    walk.report(
        "WG011",
        op,
        f"{what} while a wgmma that takes A from registers may be in flight",
        steps=(
            "a wgmma with A in registers is issued",
            "the warpgroup's threads write the same registers for the next one",
            "the tensor core, which may not have read them yet, multiplies the wrong numbers",
        ),
    )


def _full(walk: RoleWalk, op: FragmentFullOp) -> None:
    made = _declared(walk, op, op.result)
    if made is not None and (made.element != _FLOAT or not 0 <= op.bits.data < 1 << 32):
        walk.findings.doubt(f"fills a fragment of {made.element} with {op.bits.data}", op)
        made = None
    _give(walk, op, op.result, made)


# ---------------------------------------------------------------- maps and folds


def _map(walk: RoleWalk, op: FragmentMapOp) -> None:
    tokens = [_input(walk, op, value) for value in op.inputs]
    places = walk.indices(op, list(op.places))
    made = [_declared(walk, op, result) for result in op.outputs]
    shapes = [token for token in (*tokens, *made) if token is not None]
    wide = [token for token in shapes if isinstance(token, Settled) or token.axes == OPERAND_AXES or "n" in token.axes]
    if len({token.m for token in shapes}) > 1 or len({token.n for token in wide}) > 1:
        walk.findings.doubt("accumulators and fragments of different shapes", op)
    if not op.outputs:
        walk.findings.doubt("has no result", op)
    if _check_body(walk, op, len(tokens), places) and None not in tokens:
        along = ["m", "n", *[""] * (len(places) - _OF_A_PLACE)]
        axes = region_axes(op.body.block, [*(_axes(token) for token in tokens if token is not None), *along])
        end = op.body.block.last_op
        assert isinstance(end, ac.YieldOp)
        for value, result in zip(end.values, made, strict=True):
            if result is not None and result.axes == "m" and "n" in axes.get(value, ""):
                walk.findings.doubt("gives one number for each row of what changes along it", op)
    if op.is_deferred:
        _defer(walk, op, made)
        return
    for result, token in zip(op.outputs, made, strict=True):
        _give(walk, op, result, token)


def _defer(walk: RoleWalk, op: FragmentMapOp, made: Sequence[Values | None]) -> None:
    """Its numbers are computed where they are stored."""
    one = made[0] if len(made) == 1 else None
    if one is None or one.axes != "mn":
        walk.findings.doubt("puts off what is no single fragment over rows and columns", op)
        for result in op.outputs:
            walk.give(op, result, None)
        return
    walk.give(op, op.outputs[0], Fragment(one.m, one.n, one.axes, one.element))


def _input(walk: RoleWalk, op: FragmentMapOp, value: SSAValue) -> Settled | Fragment | Values | None:
    token = walk.take(op, value)
    match token:
        case Values() if token.axes == OPERAND_AXES:
            walk.findings.doubt(f"computes of {describe(token)} over {token.axes!r}", op)
        case None | Values():
            return token
        case Settled() | Fragment():
            walk.state.fenced = False
            return token
        case Accumulating():
            walk.report("WG003", op, f"touches {describe(token)}")
        case _:
            walk.wrong(op, token)
    return None


def _axes(token: Settled | Fragment | Values) -> str:
    return "mn" if isinstance(token, Settled) else token.axes


def _check_body(walk: RoleWalk, op: FragmentMapOp, inputs: int, places: Sequence[Index]) -> bool:
    """Is the region a function of its arguments, with as many results as the operation has?"""
    block, findings = op.body.block, walk.findings
    kinds = [ac.ScalarType()] * inputs + [ac.IndexType()] * len(places)
    if 0 < len(places) < _OF_A_PLACE or [argument.type for argument in block.args] != kinds:
        findings.doubt(f"a region of {len(block.args)} arguments for {inputs} inputs and {len(places)} places", op)
        return False
    check_region(block, op, len(kinds), findings, results=len(op.outputs), indices=True)
    _check_quotients(walk, block, inputs, places)
    end = block.last_op
    return isinstance(end, ac.YieldOp) and len(end.values) == len(op.outputs)


def _check_quotients(walk: RoleWalk, block: Block, inputs: int, places: Sequence[Index]) -> None:
    """What is divided must not be negative."""
    least: dict[SSAValue, bool] = {}
    for argument, place in zip(block.args[inputs:], places, strict=True):
        least[argument] = place.constant >= 0 and all(factor >= 0 for _, factor in place.terms)
    for op in block.ops:
        match op:
            case ac.AffineOp():
                factors = (*integers(op.coefficients), op.constant.data)
                least[op.result] = min(factors) >= 0 and all(least.get(value, False) for value in op.operands_)
            case ac.IndexDivideOp():
                if op.size.data < 1 or not least.get(op.operand, False):
                    walk.findings.doubt("divides an index that may be negative, or by what is no size", op)
                least[op.result] = True
            case _:
                pass


def _fold(walk: RoleWalk, op: FragmentFoldOp) -> None:
    fragment = walk.take_as(op, op.fragment, Values)
    if op.function.data not in REDUCERS:
        walk.findings.doubt(f"folds by {op.function.data!r}", op)
    if fragment is None or (fragment.axes, fragment.element) != ("mn", _FLOAT):
        if fragment is not None:
            walk.findings.doubt(f"folds rows of a fragment of {fragment.element} over {fragment.axes!r}", op)
        walk.give(op, op.result, None)
        return
    _give(walk, op, op.result, Values(fragment.m, fragment.n, "m", _FLOAT))


# ---------------------------------------------------------------- slots and products


def _read(walk: RoleWalk, op: FragmentReadOp) -> None:
    slot, made = walk.take(op, op.phase), _declared(walk, op, op.result)
    walk.require_unit(op, op.unit)
    meet(walk, op, op.first_barrier.data)
    if made is not None and (made.axes != "mn" or made.element not in ELEMENTS):
        walk.findings.doubt(f"reads a fragment of {made.element} over {made.axes!r}", op)
        made = None
    slot = walk.expect_filled(op, slot)
    if slot is not None and made is not None:
        footprint(walk, op, (made.m, made.n), slot.ring)
        buffer = walk.buffer_of(op, op.a)
        if buffer is not None and buffer.element != made.element:
            walk.findings.doubt(f"reads {buffer.element} as {made.element}", op)
    walk.give(op, op.result, made)
    walk.give(op, op.held, slot)


def _start(walk: RoleWalk, op: AccumulatorStartOp) -> None:
    fragment, state = walk.take_as(op, op.fragment, Values), walk.state
    # The next product of any accumulator comes after a fence: which registers are whose, only the lowering knows.
    state.fenced, state.started = False, True
    if fragment is None:
        walk.give(op, op.result, None)
        return
    if (fragment.axes, fragment.element) != ("mn", _FLOAT):
        walk.findings.doubt(f"begins with a fragment of {fragment.element} over {fragment.axes!r}", op)
    walk.give(op, op.result, Accumulating(fragment.m, fragment.n, state.count("groups") - 1, idle=True))


def _parts(walk: RoleWalk, op: AccumulatorPartsOp) -> None:
    """They are read where they are used, as the accumulator would be."""
    accumulator, kinds = walk.take(op, op.accumulator), [type_of(part) for part in op.parts]
    if accumulator is not None and not isinstance(accumulator, Settled):
        walk.report("WG003", op, f"touches {describe(accumulator)}")
        accumulator = None
    count = len(kinds)
    if accumulator is not None and (count < 1 or accumulator.n % (_COLUMNS * count)):
        walk.findings.doubt(f"{count} parts of {accumulator.n} columns", op)
        accumulator = None
    made = None if accumulator is None else Settled(accumulator.m, accumulator.n // count)
    for part, kind in zip(op.parts, kinds, strict=True):
        fits = isinstance(kind, ac.AccumulatorType) and made == Settled(kind.m.data, kind.n.data)
        if made is not None and not fits:
            walk.findings.doubt("a part that is no equal one of its accumulator", op)
        walk.give(op, part, made if fits else None)


def _issue(walk: RoleWalk, op: FragmentIssueOp) -> None:
    fragment, slot, state = walk.take_as(op, op.a, Values), walk.take(op, op.phase), walk.state
    m, n, group = op.m.data, op.n.data, state.count("groups")
    if op.bank_number in state.operand_ages:
        _in_flight(walk, op, "A's registers are written")
    accumulate(walk, op)
    columns = multiplied_columns(walk, op, slot if isinstance(slot, Slot) else None)
    if fragment is not None and columns:
        wanted = Values(m, columns, OPERAND_AXES if op.element.data in NARROW else "mn", op.element.data)
        if op.is_exchanged and wanted.axes != OPERAND_AXES:
            walk.findings.doubt(f"exchanges elements of {op.element.data}", op)
        if fragment != wanted:
            walk.findings.doubt(
                f"multiplies {wanted.m} x {wanted.n} of {wanted.element}, of a fragment of {fragment.m} x {fragment.n} "
                f"of {fragment.element} over {fragment.axes!r}",
                op,
            )
    # The operation's own fence comes after its moves, and the threads touch nothing in between.
    fence(walk)
    state.uncommitted += 1
    state.operand_ages[op.bank_number] = 0
    walk.give(op, op.inflight, Accumulating(m, n, group))
    walk.give(op, op.reading, read_slot(walk, op, slot, group))
