"""Should a trip through shared memory go in two rounds, and which accesses belong to which?

Theory: addresses of an access are linear over F2 in lane and warp, exclusive-or a constant. Modulo what the lanes,
warps and bytes of a store or a load reach, all of a store lies in one class of memory, and all of a load; so a load
needs the stores of its class alone, and the classes can be written and read one after the other. Then a round's loads
are under way while the next round's words are packed and stored, at the price of waiting once more.

That pays, measured, where waiting is cheap (within a warp) and a side takes many wavefronts, or where words are packed
byte by byte; the limits are the target's, `exchange.rounds_*`. More than two rounds were never faster. A trip of a warp
that could go in two rounds by its wavefronts, and cannot by its addresses, is dearer: warps that wait for nobody drift
apart until loads of one stand between stores of another; measured where all accesses take four wavefronts. Not handled:
reusing the first round's memory in the second. Who checks: tests/synth/exchange/test_rounds.py.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.ir.exchange import Access, Stage
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.numbers.bit_matrix import Columns
from tilewright.targets import Target

_ROW_BYTES = 16
_WIDE_WAVEFRONTS = 4


def in_rounds(stage: Stage, element_bytes: int, target: Target) -> Stage:
    """The stage with its accesses dealt to two rounds, where that is possible and pays; else as it is."""
    if stage.scope == "warp":
        pays = wavefronts_of_a_side(stage) >= target.limit("exchange.rounds_warp_wavefronts")
    else:
        pays = element_bytes <= target.limit("exchange.rounds_block_element_bytes")
    return dealt(stage, element_bytes) if pays else stage


def drifts(stage: Stage, target: Target) -> bool:
    """Do warps that each make this trip over and over come to stand in each other's way?"""
    wide = all(access.wavefronts >= _WIDE_WAVEFRONTS for access in (stage.store, stage.load))
    alone = stage.scope == "warp" and bool(stage.store.warp_bytes) and not stage.rounds
    return alone and wide and wavefronts_of_a_side(stage) >= target.limit("exchange.rounds_warp_wavefronts")


def wavefronts_of_a_side(stage: Stage) -> int:
    """Of a warp, on the side that has fewer."""
    return min(len(access.elements) * access.wavefronts for access in (stage.store, stage.load))


def dealt(stage: Stage, element_bytes: int) -> Stage:
    """The stage in two rounds, or as it is where every load needs every store."""
    reached = [*_reached(stage.store, element_bytes), *_reached(stage.load, element_bytes)]
    basis = bit_matrix.image(reached)
    bits = (stage.size_bytes - 1).bit_length()
    free: list[int] = []
    for bit in range(bits):
        if bit_matrix.solve((*basis, *free), 1 << bit) is None:
            free.append(1 << bit)
    if not free:
        return stage
    # The last free bit tells the rounds apart.
    whole = (*basis, *free)
    store, stores = _ordered(stage.store, whole)
    load, loads = _ordered(stage.load, whole)
    if not (0 < stores < len(store.elements) and 0 < loads < len(load.elements)):
        return stage
    rounds = ((stores, loads), (len(store.elements), len(load.elements)))
    return replace(stage, store=store, load=load, rounds=rounds)


def _reached(access: Access, element_bytes: int) -> list[int]:
    """What addresses of one access differ by."""
    size = _ROW_BYTES if access.form != "vector" else len(access.elements[0]) * element_bytes
    within = [1 << bit for bit in range((size - 1).bit_length())]
    return [each for each in (*within, *access.lane_bytes, *access.warp_bytes) if each]


def _ordered(access: Access, basis: Columns) -> tuple[Access, int]:
    """The access with those of the first round first, and their number."""
    numbers = [_round_of(constant, basis) for constant in access.constants]
    order = sorted(range(len(numbers)), key=lambda each: (numbers[each], each))
    elements = tuple([access.elements[each] for each in order])
    constants = tuple([access.constants[each] for each in order])
    return replace(access, elements=elements, constants=constants), numbers.count(0)


def _round_of(constant: int, basis: Columns) -> int:
    weights = bit_matrix.solve(basis, constant)
    assert weights is not None, "the basis is of all addresses"
    return weights >> len(basis) - 1
