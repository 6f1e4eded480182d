"""An order in which a role's units issue their products, in the asynchronous contract.

Units that share a tile wait for the same slots. Left alone, they issue their wgmmas at the same time, the tensor core
serves them by turns, and all are done at once: then all of them add to their totals, and the tensor core waits. In
order, unit 0's product runs first and unit 0 adds while those of the others run. So it is where units compute between
the products of a walk.

- `ac.issue_order.start`: makes the order. The last unit gives unit 0 the first turn. Results: the unit's own named
  barrier and the next unit's.
- `ac.issue_order.take`: wait for the unit's turn; `ac.issue_order.pass`: give it to the next unit, unit 0 after the
  last. Between the two stands what issues products, waits for slots and products, and releases slots; an iteration of a
  loop may hand the turn to the next one.
- `ac.issue_order.end`: unit 0 takes the last turn that was given, so that no arrival is left over.

Each is bar.sync or bar.arrive of the two units' threads (PTX ISA, bar). Checked by:
tests/contract/typestate/steps/test_issue_order.py and tests/lower/distribution/test_issue_order.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.format import AcOperation


@irdl_op_definition
class IssueOrderStartOp(AcOperation):
    """Unit u's barrier is `first_barrier` + u."""

    name = "ac.issue_order.start"
    first_barrier = prop_def(IntAttr)
    unit = operand_def(ac.IndexType)
    own = result_def(ac.IndexType)
    following = result_def(ac.IndexType)


@irdl_op_definition
class IssueTakeOp(AcOperation):
    """barrier: the `own` of the order's start."""

    name = "ac.issue_order.take"
    barrier = operand_def(ac.IndexType)


@irdl_op_definition
class IssuePassOp(AcOperation):
    """barrier: the `following` of the order's start."""

    name = "ac.issue_order.pass"
    barrier = operand_def(ac.IndexType)


@irdl_op_definition
class IssueOrderEndOp(AcOperation):
    """barrier: the `own` of the order's start."""

    name = "ac.issue_order.end"
    barrier = operand_def(ac.IndexType)
    unit = operand_def(ac.IndexType)
