"""May a kernel in thread-level MLIR begin while the one before it still runs? Where it waits for that one
(`nvvm.griddepcontrol wait`) is looked up in the text.

The judge sees one launch. Waiting for the grids before orders whole grids, and changes nothing in what the threads of
one grid do to each other. It is taken for that only where it stands in the function's own body, so that every thread
comes to it, and nothing before it could touch global memory: what comes before is one of a few operations that are
known not to. Letting dependents begin early needs such a wait; where it stands is the dependents' matter, who wait
themselves. Everything else is a doubt. A kernel with neither is taken to be launched after those before it have ended.
Source: PTX ISA 9.7.13.13 (griddepcontrol). Checked by: tests/driver/check/test_check_nvgpu.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.frontends.mlir.ast import Operation, Region, walk

GRID_ORDER = "nvvm.griddepcontrol"

_LOCAL = (
    "arith.", "math.", "llvm.mlir.", "gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.shuffle",
    "gpu.barrier", "gpu.dynamic_shared_memory", "memref.extract_aligned_pointer_as_index", "memref.view",
    "builtin.unrealized_conversion_cast", "nvgpu.mbarrier.", "nvgpu.tma.prefetch.descriptor", "nvvm.fence.",
    "nvvm.barrier", "nvvm.griddepcontrol", "scf.",
)  # fmt: skip
"""How the names of operations begin that touch no global memory, but for the tensor maps in a kernel's parameters."""


def grid_order_doubt(body: Region) -> tuple[int, str] | None:
    """The line and the reason why the order among grids is not followed in a function's body; None if it is."""
    found = [each for each in _all(body) if each.name == GRID_ORDER]
    waits = [each for each in found if _is_wait(each)]
    for each in found:
        if _kind(each) not in ("wait", "launch_dependents"):
            return each.line, f"{GRID_ORDER} that is not written as it is followed"
    if not found:
        return None
    if not waits:
        return found[0].line, "dependent grids may begin early, and nothing waits for the grids before this one"
    own = [place for place, each in enumerate(body.operations) if _is_wait(each)]
    if len(own) != len(waits) or body.blocks > 1:
        return waits[0].line, "a wait for the grids before that not every thread comes to is not followed"
    for before in body.operations[: own[0]]:
        for each in walk(before):
            if not each.name.startswith(_LOCAL):
                return each.line, f"{each.name} comes before the wait for the grids before, and may use what they write"
    return None


def _all(body: Region) -> Iterator[Operation]:
    for operation in body.operations:
        yield from walk(operation)


def _is_wait(operation: Operation) -> bool:
    return operation.name == GRID_ORDER and _kind(operation) == "wait"


def _kind(operation: Operation) -> str:
    return " ".join(token.text for token in operation.tokens)
