"""Of which arrays do consumers make an operand anew, since the tensor core does not take them as slots have them?

Of 8-bit elements the tensor core of some targets takes operands along the contracted axis alone. What a walk brings row
by row, as the values of attention are, lies across it: threads turn it on the way (`ir.ac.remade`), each consumer for
itself. Or a kernel before copies the array so that it lies along that axis, which is what a copy that is asked for
does (`Wanted(unmapped="workspace")`), and what remains where an operand is no row of the walk.

What is multiplied as 16-bit elements may be stored in 8 bits, as caches of keys and values are: `k[t, e].to(tw.bf16)`.
Threads widen it, exactly.

Checked by: tests/synth/cascade/slots/test_remade.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tilewright.base.element import Element
from tilewright.ir.cascade import SPAN_BYTES, SlotDecision
from tilewright.ir.cascade_facts import (
    CascadeAxes,
    Product,
    all_slot_sums,
    axis_of,
    first_alike,
    products_of,
    refuse_at,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import loads, parameter_name
from tilewright.ir.tile.gather import read_dimensions, read_tensor
from tilewright.ir.tile.types import read_type
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_WARPS_BYTES = SPAN_BYTES // 2
"""Of a row, that the four warps of a consumer take at a time, 16 bytes each."""


def remaking(
    program: tile.ProgramOp, axes: CascadeAxes, load: tile.LoadOp, inner: str, needed: str, wanted: Wanted
) -> tuple[Literal["", "turned", "widened"], Element]:
    """How consumers make an operand of what a load brings, and of which element. inner: the axis along which its array
    is contiguous; needed: the one along which the tensor core takes it, "" where it takes it along any. Raises
    TilewrightError at the author's line where several products take it in several ways."""
    products, element = products_of(program), read_type(load.tensor).element_kind
    taken = [each for each in products if each.brought is load]
    widened = {each.element for each in taken if each.widened}
    if widened:
        if len(widened) > 1 or not all(each.widened for each in taken) or _is_held(products, load):
            name = parameter_name(program, read_tensor(load.tensor))
            refuse_at(load, f"{name} is multiplied as elements of several kinds", "cast it in a kernel before")
        return "widened", widened.pop()
    # Walks that only sum have both operands in slots, and consumers that compute nothing meanwhile.
    across = needed not in ("", inner) and not all_slot_sums(program)
    across = across and all(each.op.axis.data == axes.streamed for each in taken)
    if across and taken and inner in axes.columns and not _is_held(products, load) and wanted.unmapped != "workspace":
        return "turned", element
    return "", element


def _held(program: tile.ProgramOp, product: Product) -> tile.LoadOp | None:
    owner = product.held.owner
    return first_alike(program, owner) if isinstance(owner, tile.LoadOp) else None


def inner_axis(load: tile.LoadOp) -> str:
    """The axis along which a load's array is contiguous, of its last two at best."""
    dense = [each.where for each in read_dimensions(load.tensor) if each.stride == 1]
    return base_axis(axis_of(dense[-1])) if dense else ""


def needed_inner(program: tile.ProgramOp, load: tile.LoadOp, target: Target) -> str:
    """The axis along which an operand has to be contiguous: the contracted one, where the tensor core takes elements of
    this size along no other; "" where it takes them along either."""
    if read_type(load.tensor).element_kind.bytes >= target.limit("product.mn_major_bytes_min"):
        return ""
    products = [each for each in products_of(program) if each.brought is load or _held(program, each) is load]
    over = [each.op.axis.data for each in products]
    # Of several, one along which it is not contiguous.
    return next((axis for axis in over if axis != inner_axis(load)), over[0])


def _is_held(products: Sequence[Product], load: tile.LoadOp) -> bool:
    """Whether a product takes rows of the load's array."""
    return any(isinstance(each.held.owner, tile.LoadOp) and each.held.owner.tensor is load.tensor for each in products)


def chunks_of(inner_bytes: int) -> int:
    """Chunks of 16 bytes that are made of each row of a slot, of which so many bytes count."""
    return 4 * -(-inner_bytes // _WARPS_BYTES)


def made_anew(program: tile.ProgramOp, slots: Sequence[SlotDecision]) -> tuple[int, ...]:
    """The products, by their numbers in the program, whose operands consumers make."""
    listed = loads(program)
    remade = [listed[each.load] for each in slots if each.remade]
    return tuple(number for number, each in enumerate(products_of(program)) if each.brought in remade)


def in_words(slot: SlotDecision) -> str:
    """What consumers do with a slot, behind words that name it."""
    if not slot.remade:
        return ""
    return f", each consumer {'turns it' if slot.remade == 'turned' else f'widens it to {slot.remade_element}'}"


def room_bytes(slots: Sequence[SlotDecision]) -> int:
    """Of each consumer, for all that it makes."""
    return sum(each.room_bytes for each in slots)
