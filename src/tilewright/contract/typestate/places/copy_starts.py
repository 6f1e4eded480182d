"""May a tensor copy start where its coordinates say, in every iteration, for every unit and every CTA?

A coordinate is an affine function of tile numbers, loop indices, the unit's number and the CTA's rank. The engine takes
a start along the innermost dimension only at multiples of 16 bytes (measured: others raise an illegal instruction), and
a store at no negative coordinate. If the constant and every coefficient are multiples, so is every value; if only the
constant is not, no value is one, which is a finding. All else depends on the values and is a doubt.

Not handled: coordinates beyond 32 bits. Checked by: tests/contract/typestate/test_typestate_copy_starts.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.contract.typestate.program import Map
from tilewright.contract.typestate.token import UNIT, Index
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac


def check_start(
    walk: RoleWalk, op: ac.CopyIssueOp | ac.CopyStoreOp | ac.BoxPrefetchOp, tensor_map: Map,
    coordinates: Sequence[Index],
) -> None:  # fmt: skip
    """Report or doubt in `walk` coordinates (innermost first) that the engine may refuse."""
    rank = len(tensor_map.box)
    if len(coordinates) != rank:
        walk.report("TX008", op, f"{len(coordinates)} coordinates for a map of rank {rank}")
        return
    inner = coordinates[0]
    constant = inner.constant * tensor_map.element_bytes
    moves = [coefficient * tensor_map.element_bytes for _, coefficient in _varying(walk, inner)]
    if isinstance(op, ac.CopyIssueOp):
        moves += _rank_moves(walk, op, tensor_map)
    multiple = walk.kernel.facts.limit("tensor_map.coordinate_0_multiple_bytes")
    if any(move % multiple for move in moves):
        walk.findings.doubt(f"its innermost coordinate may be no multiple of {multiple} bytes", op)
    elif constant % multiple:
        walk.report("TX008", op, f"starts {constant} bytes into a row, no multiple of {multiple}")
    if isinstance(op, ac.CopyStoreOp):
        for number, index in enumerate(coordinates):
            if index.constant < 0 or any(coefficient < 0 for _, coefficient in _varying(walk, index)):
                walk.findings.doubt(f"a store whose coordinate {number} may be negative", op)


def _varying(walk: RoleWalk, index: Index) -> list[tuple[str, int]]:
    """Terms that are not always 0: the number of a role's only unit is."""
    return [(atom, factor) for atom, factor in index.terms if atom != UNIT or walk.role.count != 1]


def _rank_moves(walk: RoleWalk, op: ac.CopyIssueOp, tensor_map: Map) -> list[int]:
    """Bytes by which the CTA's rank moves the innermost coordinate."""
    if op.rank_dimension is None and op.rank_elements is None:
        return []
    if op.rank_dimension is None or op.rank_elements is None:
        walk.findings.doubt("names the rank's dimension or its elements, but not both", op)
        return []
    if not 0 <= op.rank_dimension.data < len(tensor_map.box):
        walk.findings.doubt(f"the rank moves coordinate {op.rank_dimension.data} of {len(tensor_map.box)}", op)
        return []
    if op.rank_dimension.data != 0 or walk.kernel.cluster_ctas == 1:
        return []
    return [op.rank_elements.data * tensor_map.element_bytes]
