"""May a role ask for a box of a tensor to be brought into the L2 cache?

Nobody waits for it, and no thread or copy sees what it does: L2 is the point of coherence of a device's memory, so it
may come before the wait for the launches before, and so may a load whose number only such boxes begin at
(`launch_order`). What remains is that the engine takes its coordinates, as for copies.
Source: PTX ISA, cp.async.bulk.prefetch.tensor. Checked by: tests/contract/typestate/steps/test_box_prefetch.py.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.contract.typestate.places.copy_starts import check_start
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac


def box_prefetch_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it asks for a box."""
    if not isinstance(op, ac.BoxPrefetchOp):
        return False
    tensor_map, coordinates = walk.map_of(op, op.descriptor), walk.indices(op, list(op.coordinates))
    if tensor_map is not None:
        check_start(walk, op, tensor_map, coordinates)
    return True
