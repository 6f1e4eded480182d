"""What is the cheapest way from a register layout to shared memory whose layout is given?

Theory: the memory's layout is a one-to-one matrix from offsets to coordinates; the images of its lowest offset bits are
the run that the widest access could move. Every width of which each thread holds a run, and the matrix instructions
whose rows are such runs, are candidates; since addresses are linear, one constant XORed to all of a warp's addresses
permutes the banks, and the wavefronts of one access, counted by `legal.bank.banks`, are those of all. Swizzles by XOR,
such as the copy engine's, are such layouts.

Not handled: memory with padding or offsets that are no power of two, and moves between lanes before a store.
Who checks: tests/lower/test_exchange_memory.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.ir.exchange import Access, ExchangePlan, Store
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.numbers.bit_matrix import Columns
from tilewright.legal.bank.banks import wavefronts
from tilewright.synth.exchange.chain import plan_of_chain
from tilewright.synth.exchange.held import LANE_BITS, Held, aligned, held_of
from tilewright.synth.exchange.stage import RUN_BITS, access_of, sides_of, stored_once
from tilewright.targets import Target
from tilewright.targets import target as target_by_name

_PLANS_KEPT = 1 << 12


def plan_store(
    source: LinearLayout, memory: LinearLayout, element_bytes: int, target: Target | str
) -> ExchangePlan | NotExpressible:
    """The cheapest store of a tile from registers.

    source: from "register", "lane", "warp"; memory: from one input, the offset in elements, to the same outputs, one to
    one and onto. Elements that threads repeat are stored once. NotExpressible: memory that is not one to one. Raises
    TilewrightError for other inputs, tiles and element sizes.
    """
    return _planned(source, memory, element_bytes, target if isinstance(target, str) else target.name)


@lru_cache(maxsize=_PLANS_KEPT)
def _planned(
    registers: LinearLayout, memory: LinearLayout, element_bytes: int, name: str
) -> ExchangePlan | NotExpressible:
    if element_bytes not in (1, 2, 4):
        raise TilewrightError(
            f"an exchange of elements of {element_bytes} bytes", remedy="elements have 1, 2 or 4; split larger ones"
        )
    if len([bits for _, bits in memory.input_bits if bits]) != 1:
        raise TilewrightError(
            f"memory of an exchange: inputs {list(memory.input_sizes)}", remedy="give one: the offset in elements"
        )
    target = target_by_name(name)
    if target.limit("warp.threads") != 1 << LANE_BITS:
        raise TilewrightError(f"no exchange for {name}, whose warps have {target.limit('warp.threads')} lanes")
    held = held_of(registers, "the registers' side")
    matrix = aligned(memory, registers).columns
    inverse = bit_matrix.inverse(matrix, sum([bits for _, bits in registers.output_bits]))
    if inverse is None:
        return NotExpressible("the memory's layout is not one to one and onto")
    element_bits = element_bytes.bit_length() - 1
    plans = [
        plan_of_chain(kind, (store,), 1 << len(held.register), 1 << len(held.warp), element_bytes, target)
        for kind, store in _stores(held, matrix, inverse, element_bits, target)
    ]
    return min(plans, key=lambda plan: (plan.cost.cycles, plan.cost.issue_slots))


def _stores(
    held: Held, matrix: Columns, inverse: Columns, element_bits: int, target: Target
) -> Iterator[tuple[str, Store]]:
    run = matrix[: RUN_BITS - element_bits]
    size = 1 << len(matrix) + element_bits
    stored = stored_once(held)
    matrices = target.supports("stmatrix") and not stored.lane_active
    for side in sides_of(run, stored.held, stored.columns, element_bits, matrices=matrices, every_width=True):
        found = access_of(side, stored.held, stored.columns, inverse, element_bits, stored, held.register)
        if found is not None:
            kind = f"stores of {1 << side.bits} bytes, {side.form}"
            yield kind, Store(_counted(found[0], element_bits, target), size)


def _counted(access: Access, element_bits: int, target: Target) -> Access:
    lanes = np.arange(1 << LANE_BITS)
    places = np.zeros_like(lanes)
    for bit, image in enumerate(access.lane_bytes):
        places ^= (lanes >> bit & 1) * image
    moved_bytes = len(access.elements[0]) << element_bits
    kind = f"st.shared.b{8 * moved_bytes}" if access.form == "vector" else f"stmatrix.x{moved_bytes // 4}"
    active = lanes & access.lane_active == 0
    return replace(access, wavefronts=int(wavefronts(kind, places[None, :], target, active[None, :])[0]))
