"""Which fragments may be computed right into the registers from which products take A?

`ac.wgmma.issue_fragment` moves its fragment to registers of the kernel's own. A fragment can stand there from the
start, round loops as well, where nothing else comes there before it is multiplied. The proof of the kernel has seen
that no such product is in flight where a fragment of 16-bit elements is computed. What remains to be shown is that of
the values which loops hand on one to another (a chain) the registers have the one that is multiplied:

- every use of a value of the chain multiplies it, or hands it on;
- it stands in the value's own block, and no map or loop that computes another value of the chain stands between;
- all its products are of one bank, and no other fragment of this size is multiplied in that bank, or, of a value that
  no loop hands on, none between the map and its products;
- no threads exchange what they have of it before.

Not handled: products inside of a loop whose operand is computed before it.
Checked by: tests/lower/fragment/test_held_operand.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp, FragmentMapOp
from tilewright.ir.ac.register_operand import ComputedIssueOp
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES


@dataclass(slots=True)
class _Chain:
    """values: those that stand in the registers one after the other; maps: which compute them; issues: the products,
    banks: of these; whole: whether nothing else is done with the values, and nothing else makes them."""

    values: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    maps: list[FragmentMapOp] = field(default_factory=list[FragmentMapOp])
    issues: list[FragmentIssueOp] = field(default_factory=list[FragmentIssueOp])
    loops: dict[ac.LoopOp, int] = field(default_factory=dict[ac.LoopOp, int])
    banks: set[int] = field(default_factory=set[int])
    whole: bool = True


def held_bank(value: SSAValue) -> int | None:
    """The bank of A's registers that a map's result may be computed right into; None where there is none."""
    chain = _Chain()
    _follow(value, chain)
    if len(chain.banks) != 1 or not chain.whole or not all(_is_there(each, chain) for each in chain.values):
        return None
    (bank,) = chain.banks
    return bank if _alone(chain, value, bank) else None


def is_kept_by_waits(value: SSAValue) -> bool:
    """Whether each product of a chain is waited for by an operation that names it: there the registers' life may end,
    and it need not last until they are written again. Values that loops hand on are multiplied right before others are
    written."""
    chain = _Chain()
    _follow(value, chain)
    return not chain.loops and all(waits_of(issue.reading) for issue in chain.issues)


def waits_of(reading: SSAValue) -> list[SSAValue]:
    """The values by which what a product reads is waited for: it itself, or where a loop carries it, what the next
    iteration and what follows the loop call it. None where not each of them is, or where the loop carries on what
    another product reads, whose operand is not computed right into the same registers."""
    (use, *others) = reading.uses or (None,)
    if use is None or others:
        return []
    end = use.operation
    if isinstance(end, ac.WgmmaWaitOp):
        return [reading]
    loop = end.parent_op() if isinstance(end, ac.YieldOp) else end
    if not isinstance(loop, ac.LoopOp):
        return []
    carried = loop.carried[use.index], _yield_of(loop).operands[use.index]
    issues = [each.op for each in carried if isinstance(each, OpResult) and isinstance(each.op, FragmentIssueOp)]
    held = {(held_bank(issue.a), _size(issue.a)) for issue in issues}
    waited: list[SSAValue] = [loop.body.block.args[1 + use.index], loop.outputs[use.index]]
    alike = len(issues) == len(carried) and len(held) == 1 and None not in {bank for bank, _ in held}
    return waited if alike and all(map(_is_waited_for, waited)) else []


def _is_waited_for(value: SSAValue) -> bool:
    return [type(use.operation) for use in value.uses] == [ac.WgmmaWaitOp]


def _follow(value: SSAValue, chain: _Chain) -> None:
    if value in chain.values:
        return
    chain.values[value] = None
    match value:
        case OpResult():
            if isinstance(value.op, FragmentMapOp):
                chain.maps.append(value.op)
            elif isinstance(value.op, ac.LoopOp):
                _hand_on(value.op, value.index, chain)
            else:
                chain.whole = False
        case BlockArgument() if isinstance(loop := value.block.parent_op(), ac.LoopOp) and value.index > 0:
            _hand_on(loop, value.index - 1, chain)
        case _:
            chain.whole = False
    for use in value.uses:
        op = use.operation
        match op:
            case FragmentIssueOp() if op.a is value:
                chain.whole = chain.whole and not op.is_exchanged
                chain.banks.add(op.bank_number)
                chain.issues.append(op)
            case ac.LoopOp():
                _hand_on(op, use.index, chain)
            case ac.YieldOp() if isinstance(loop := op.parent_op(), ac.LoopOp):
                _hand_on(loop, use.index, chain)
            case _:
                chain.whole = False


def _hand_on(loop: ac.LoopOp, number: int, chain: _Chain) -> None:
    """Everything that this carried value of a loop is."""
    if chain.loops.setdefault(loop, number) != number:
        chain.whole = False
        return
    for each in (loop.carried[number], loop.body.block.args[1 + number], _yield_of(loop).operands[number]):
        _follow(each, chain)
    _follow(loop.outputs[number], chain)


def _yield_of(loop: ac.LoopOp) -> Operation:
    end = loop.body.block.last_op
    assert isinstance(end, ac.YieldOp)
    return end


def _is_there(value: SSAValue, chain: _Chain) -> bool:
    """Whether the registers have this value wherever it is used."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    if block is None:
        return False
    order = {op: at for at, op in enumerate(block.ops)}
    made = order[value.op] if isinstance(value, OpResult) else -1
    others = [order[op] for op in (*chain.maps, *chain.loops) if op.parent is block and order[op] > made]
    until = min(others, default=len(order))
    return all(order.get(use.operation, len(order)) <= until for use in value.uses)


def _alone(chain: _Chain, value: SSAValue, bank: int) -> bool:
    """Whether all products of the bank that take as many registers take values of the chain."""
    top: Block | None = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while top is not None and (parent := top.parent_op()) is not None and not isinstance(parent, ac.KernelOp):
        top = parent.parent
    kernel = top.parent_op() if top is not None else None
    if kernel is None:
        return False
    size = _size(value)
    for op in kernel.walk():
        if isinstance(op, ComputedIssueOp):
            return False
        if (
            isinstance(op, FragmentIssueOp)
            and op.a not in chain.values
            and (op.bank_number, _size(op.a)) == (bank, size)
            and (chain.loops or _is_between(chain, op) or _is_between(chain, op.a.owner))
        ):
            return False
    return True


def _is_between(chain: _Chain, op: Operation | Block) -> bool:
    """Whether an operation stands between a map of a chain that no loop hands on and its products, or in what does; a
    block, of which a value is an argument, does not tell."""
    (made,) = chain.maps
    block = made.parent
    while isinstance(op, Operation) and op.parent is not block:
        op = op.parent_op() or made  # an operation around, or none
        if op is made:
            return False
    if not isinstance(op, Operation) or block is None:
        return True
    order = {each: at for at, each in enumerate(block.ops)}
    return order[made] <= order[op] <= max(order.get(issue, len(order)) for issue in chain.issues)


def _size(value: SSAValue) -> int:
    kind = value.type
    assert isinstance(kind, ac.FragmentType)
    return kind.m.data * kind.n.data * ELEMENT_BYTES[kind.element.data]
