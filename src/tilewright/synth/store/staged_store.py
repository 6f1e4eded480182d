"""By which instructions does an accumulator reach the rows that a bulk store takes from shared memory?

Theory: the fragment of wgmma's accumulator and a chunk of swizzled rows are both linear layouts of the same elements,
so the store is an exchange with memory that is given (`synth.exchange.memory`): every width of which a thread holds a
run and every matrix instruction are weighed by what they issue and the wavefronts they take. For 16 bits that is
`stmatrix`, without conflicts; for 32 bits pairs of columns, of which swizzled rows of 128 bytes bring two to a bank.
The plan is written into the store's decision, and the lowering follows it.

Columns that lie one after another (`synth.store.turned_store`) are such a chunk too: `stmatrix` turns its matrices.
Not handled, and left without a plan: chunks whose rows or columns are no power of two, for which the lowering has rules
of its own; elements that no layout divides. Who checks: tests/lower/test_staged_store.py; the text's staged addresses
are proved by `driver.reproof.address_proof`.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.base.plan import Swizzle
from tilewright.ir.decisions import MapDecision, StoreDecision
from tilewright.ir.exchange import ExchangePlan
from tilewright.layout.linear.maps import LinearLayout
from tilewright.synth.exchange.memory import plan_store
from tilewright.targets import Target

_SWIZZLE_BITS: dict[Swizzle, int] = {"128B": 3, "64B": 2, "32B": 1, "none": 0}
_SWIZZLE_SOURCE, _SWIZZLE_TARGET = 7, 4
"""Bits of the address that are exclusive-ored, and into which (PTX ISA, tensor swizzling modes)."""


def planned(store: StoreDecision, target: Target) -> StoreDecision:
    """The decision with the plans of its staging, of its boxes and of its tail's, where there are such."""
    plans = tuple(_plan(store, one, target) for one in (store.map, *store.tail))
    found = tuple(plan for plan in plans if plan is not None)
    return replace(store, staging=found) if len(found) == len(plans) else store


def _plan(store: StoreDecision, one: MapDecision, target: Target) -> ExchangePlan | None:
    columns, rows = one.box[1::-1] if store.turned else one.box[:2]
    element_bytes = one.tensor_map().element.bytes
    if not _is_tile(rows, columns, element_bytes):
        return None
    if one.swizzle != "none" and one.box[0] * element_bytes != 16 << _SWIZZLE_BITS[one.swizzle]:
        return None
    memory = staged_layout(rows, columns, element_bytes, one.swizzle, turned=bool(store.turned))
    plan = plan_store(fragment_layout(rows, columns), memory, element_bytes, target)
    return plan if isinstance(plan, ExchangePlan) else None


def _is_tile(rows: int, columns: int, element_bytes: int) -> bool:
    powers = rows & rows - 1 == 0 and columns & columns - 1 == 0
    return powers and rows >= 64 and columns >= 8 and element_bytes in (1, 2, 4)


def fragment_layout(rows: int, columns: int) -> LinearLayout:
    """A warpgroup's accumulator: element, lane and warp to row and column; elements as wgmma numbers them, 64 rows
    after the other (PTX ISA, wgmma register fragments). rows, columns: powers of two, at least 64 and 8."""
    row_bits, column_bits = rows.bit_length() - 1, columns.bit_length() - 1
    row = [1 << bit for bit in range(row_bits)]
    column = [1 << row_bits + bit for bit in range(column_bits)]
    register = [column[0], row[3], *column[3:], *row[6:]]
    lane = [column[1], column[2], row[0], row[1], row[2]]
    names = (("register", len(register)), ("lane", 5), ("warp", 2))
    return LinearLayout(names, (("row", row_bits), ("column", column_bits)), (*register, *lane, row[4], row[5]))


def staged_layout(
    rows: int, columns: int, element_bytes: int, swizzle: Swizzle, *, turned: bool = False
) -> LinearLayout:
    """A chunk in shared memory: offset, in elements, to row and column; rows one after another, swizzled. turned:
    columns one after another instead."""
    row_bits, column_bits, size_bits = (each.bit_length() - 1 for each in (rows, columns, element_bytes))
    exchanged = range(_SWIZZLE_SOURCE, _SWIZZLE_SOURCE + _SWIZZLE_BITS[swizzle])
    found: list[int] = []
    for bit in range(row_bits + column_bits):
        address = 1 << bit + size_bits
        if bit + size_bits in exchanged:
            address |= 1 << bit + size_bits - _SWIZZLE_SOURCE + _SWIZZLE_TARGET
        element = address >> size_bits
        found.append(element if turned else element >> column_bits | (element & columns - 1) << row_bits)
    names = (("offset", row_bits + column_bits),)
    return LinearLayout(names, (("row", row_bits), ("column", column_bits)), tuple(found))
