"""Is the region of an elementwise operation a function that can be computed: defined before use, and yielded once?

Checked by: tests/contract/typestate/test_typestate_scalar_region.py.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.element import parse_element
from tilewright.base.plural import counted
from tilewright.contract.typestate.finding import Findings
from tilewright.ir.ac import operations as ac
from tilewright.ir.function import Function


def check_scalar(op: Operation, known: set[SSAValue], findings: Findings) -> bool:
    """Doubt a scalar operation of unknown function or undefined inputs; False if `op` is no scalar operation.

    known: scalars defined so far; the result is added.
    """
    match op:
        case ac.ScalarOp():
            name = op.function.data
            if name not in set(Function):
                findings.doubt(f"unknown function {name!r}", op)
            elif len(op.inputs) != Function(name).arity:
                findings.doubt(f"{name} of {len(op.inputs)} values", op)
            result = op.result
        case ac.RoundOp():
            if parse_element(op.element.data) is None:
                findings.doubt(f"unknown element {op.element.data!r}", op)
            result = op.result
        case ac.IndexNumberOp():
            result = op.result
        case ac.ConstantOp():
            if not 0 <= op.bits.data < 1 << 32:
                findings.doubt(f"{op.bits.data} is no image of 32 bits", op)
            result = op.result
        case _:
            return False
    require_known(op, list(op.operands), known, findings)
    known.add(result)
    return True


def require_known(op: Operation, values: list[SSAValue], known: set[SSAValue], findings: Findings) -> None:
    if any(value not in known for value in values):
        findings.doubt("uses a value that nothing before it in its region defines", op)


def check_region(
    block: Block, owner: Operation, arguments: int, findings: Findings, *, results: int = 1, indices: bool = False
) -> None:
    """Doubt a region that is not scalar operations on `arguments` arguments, ended by a yield of `results` scalars.
    indices: whether it may compute indices of its own."""
    if len(block.args) != arguments:
        findings.doubt(f"a region of {len(block.args)} arguments for {arguments} values", owner)
    known: set[SSAValue] = set(block.args)
    for op in block.ops:
        if isinstance(op, ac.YieldOp):
            require_known(op, list(op.values), known, findings)
            if [value.type for value in op.values] != [ac.ScalarType()] * results or op.next_op is not None:
                findings.doubt(f"does not end its region with {counted(results, 'value')}", op)
        elif indices and isinstance(op, ac.AffineOp | ac.IndexDivideOp | ac.ExtentOp):
            require_known(op, list(op.operands), known, findings)
            known.add(op.result)
        elif not check_scalar(op, known, findings):
            findings.doubt(f"is not understood inside {owner.name}", op)
    if not isinstance(block.last_op, ac.YieldOp):
        findings.doubt("its region yields nothing", owner)
