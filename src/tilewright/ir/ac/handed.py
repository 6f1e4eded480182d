"""Tiles that the hardware hands out, in the asynchronous contract (`ac.tiles` with `handed`).

The grid has a CTA for each tile. A CTA that runs asks for the work of one that has not begun, by
`clusterlaunchcontrol.try_cancel`, and goes on with that one's tile; where none is left, it ends. The answers stand in
slots of a ring of their own, 16 bytes each: one role fills a slot by asking, in each tile once, and every role takes
each answer at the tile's end. So all roles go through the same tiles, in the same order, as many as there are.

Source: PTX ISA, clusterlaunchcontrol.try_cancel, clusterlaunchcontrol.query_cancel. Checked by:
tests/contract/typestate/steps/test_handed.py and tests/end_to_end/test_blackwell_handed.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def

from tilewright.ir.ac.format import AcOperation
from tilewright.ir.ac.types import IndexType, PhaseType, TransactionType
from tilewright.ir.tier import MemoryType

ANSWER_BYTES = 16


@irdl_op_definition
class WorkAskOp(AcOperation):
    """Ask for another CTA's work: the answer comes into the slot, whose barrier counts its 16 bytes. The slot is filled
    as far as its issuer is concerned."""

    name = "ac.work.ask"
    buffer = operand_def(MemoryType)
    tx = operand_def(TransactionType)


@irdl_op_definition
class WorkTakeOp(AcOperation):
    """Each thread of the unit reads the answer, which says whether the loop over tiles goes on, and with which tile;
    then the unit releases the slot. first_barrier: the threads of unit u meet on named barrier `first_barrier` + u
    before; absent in a role of one thread."""

    name = "ac.work.take"
    first_barrier = opt_prop_def(IntAttr)
    buffer = operand_def(MemoryType)
    phase = operand_def(PhaseType)
    unit = operand_def(IndexType)


OPERATIONS = (WorkAskOp, WorkTakeOp)
