"""What does a debug build assert of tensor memory while a kernel runs? Each assert ends in `trap`.

- The columns that are allocated begin at lane 0, and lie within tensor memory: where a role finds their address, and
  where they are freed.
- The address of a load or store is the same in all lanes of a warp, is of the quarter of lanes that the warp reaches,
  and of the columns that were allocated; that of an accumulator begins in them, too.

That each allocation is freed once needs no assert: both stand once, in a kernel's straight code (TC001).

`ac.tensor.memory` says whether there are asserts (`asserts`). Both proofs show each of them redundant where it stands:
the proof of the program has rules for what they ask (TC001, TC002), and the second proof runs the text with them, where
a trap that is reached is a fault (MF008). So what they find is what neither sees: another text, or another device.

Source: PTX ISA, Tensor Memory Addressing; tcgen05.ld, .st: access restrictions; tcgen05.alloc, .dealloc. Not handled:
columns of a pair's second CTA. Checked by: tests/lower/ptx/products/test_tensor_asserts.py.
"""

from __future__ import annotations

from tilewright.ir.ac.tensor_memory import MOST_COLUMNS
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import TensorMemoryPlace

_LANE_BITS, _QUARTER_SHIFT, _QUARTER_BITS = 16, 21, 2
"""An address has the column in its lower half, the lane in its upper; a quarter is 32 lanes."""
_WARP_SHIFT = 5


def assert_allocated(lowering: Lowering, memory: TensorMemoryPlace, base: str) -> None:
    """Of who has loaded where the columns begin."""
    if memory.asserts:
        # An address is its column where the lane is 0, else larger than any column.
        _trap_if(lowering, "gt.u32", base, MOST_COLUMNS - memory.columns)


def assert_access(lowering: Lowering, memory: TensorMemoryPlace, address: str, columns: int) -> None:
    """Of what all threads of a unit load from so many columns, or store to them."""
    if memory.asserts:
        text = lowering.text
        first = text.into("b32", "shfl.sync.idx.b32", address, 0, 31, -1)
        _trap_if(lowering, "ne.u32", address, first)
        quarter = text.into("b32", "bfe.u32", address, _QUARTER_SHIFT, _QUARTER_BITS)
        warp = text.into("b32", "bfe.u32", lowering.thread, _WARP_SHIFT, _QUARTER_BITS)
        _trap_if(lowering, "ne.u32", quarter, warp)
        assert_columns(lowering, memory, address, columns)


def assert_columns(lowering: Lowering, memory: TensorMemoryPlace, address: str, columns: int) -> None:
    """Of what begins there and has so many columns."""
    if memory.asserts:
        text = lowering.text
        assert lowering.tensor is not None, "a role that has to do with tensor memory"
        column = text.into("b32", "bfe.u32", address, 0, _LANE_BITS)
        behind = text.into("b32", "sub.u32", column, lowering.tensor.base)
        _trap_if(lowering, "gt.u32", behind, memory.columns - columns)


def _trap_if(lowering: Lowering, comparison: str, value: str, other: str | int) -> None:
    text = lowering.text
    text.emit("trap", guard=text.into("pred", f"setp.{comparison}", value, other))
