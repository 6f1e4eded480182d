"""How does a tile go from the registers where it is to those where it is wanted? The steps of one plan, as values.

Theory: a thread's part of a tile is a file of elements, numbered as the layout's input "register" counts them and
packed into 32-bit words, the lowest number in the lowest bits. A plan is a chain of steps, each of which makes a new
file of every thread: moves within a thread, exclusive-ors of the element's number by bits of the lane and warp, reads
of other lanes' words, and one trip through shared memory. All are linear over F2 in the numbers of element, lane and
warp, which is what lets `synth` find them without trying; the steps here carry the resulting masks and matrices, not
the layouts.

A parity is a pair of masks (of the lane's number, of the warp's): it is odd in threads for which the bits of both
numbers under the masks have an odd sum. An address is a base, linear in lane and warp, exclusive-or a constant of the
access.

Not handled: elements of more than 4 bytes; threads of other CTAs. Who checks: tests/synth/exchange/test_search.py
follows the elements through the steps; tests/lower/exchange/test_steps.py runs the lowered text on the machine and has
it proved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Scope = Literal["warp", "block"]
Form = Literal["vector", "matrix", "transposed matrix"]
Parity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rearrange:
    """Within each thread: new element i is the old one `elements[i]`. Some may come twice, some not at all."""

    elements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Toggle:
    """Within each thread: new element i is the old one i XOR (the masks whose parity is odd). masks: (element mask,
    parity), the element masks linearly independent."""

    masks: tuple[tuple[int, Parity], ...]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Between lanes: each word of a lane comes from the same word of another lane: of `lanes` l XOR `warps` w XOR the
    word's constant, for lane l of warp w.

    lanes, warps: the images of the bits of lane and warp; constants: one for each word.
    """

    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    constants: tuple[int, ...]

    @property
    def is_exclusive_or(self) -> bool:
        """Is the other lane's number this one's XOR a constant? With constant 0 the word stays."""
        return self.lanes == (1, 2, 4, 8, 16) and not any(self.warps)

    @property
    def moved_words(self) -> int:
        """Words that another lane's register fills: one instruction each."""
        return sum([1 for constant in self.constants if constant or not self.is_exclusive_or])


@dataclass(frozen=True, slots=True)
class Cross:
    """Between lanes: the bit `element_bit` of the element's number changes places with bit `lane_bit` of the lane's.
    The element bit lies within a word, so that two words share one shuffle."""

    element_bit: int
    lane_bit: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Between lanes: every word, of two elements of 16 bits, is one of an 8 x 8 matrix's, which is transposed: the bit
    of the element and the lane's bits 0 and 1, which count columns, change places with the lane's bits 2, 3 and 4."""


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a trip through shared memory: every instruction of it.

    form: how an instruction takes registers; elements: by instruction, the elements moved, in the order of registers;
    constants: by instruction, the bytes XORed to the address; lane_bytes, warp_bytes: address of each bit of lane and
    warp; lane_active, warp_active: masks of bits of lane and warp that are 0 in the
    threads that take part; wavefronts: of each instruction of one warp.
    """

    form: Form
    elements: tuple[tuple[int, ...], ...]
    constants: tuple[int, ...]
    lane_bytes: tuple[int, ...]
    warp_bytes: tuple[int, ...]
    wavefronts: int
    lane_active: int = 0
    warp_active: int = 0

    def part(self, begin: int, end: int) -> Access:
        """Some of its instructions."""
        return replace(self, elements=self.elements[begin:end], constants=self.constants[begin:end])


@dataclass(frozen=True, slots=True)
class Stage:
    """Through shared memory: every thread stores, waits for those of its warp or its block, and loads. size_bytes: of
    the memory, which may be used again once the same threads have met again. The load makes a new file of `elements`
    elements.

    rounds: numbers of stores and of loads done when each round ends; empty for one round. In every round threads store,
    wait, and load what was stored up to then."""

    store: Access
    load: Access
    scope: Scope
    size_bytes: int
    elements: int
    rounds: tuple[tuple[int, int], ...] = ()

    @property
    def parts(self) -> tuple[tuple[Access, Access], ...]:
        """Stores and loads of each round."""
        ends = self.rounds or ((len(self.store.elements), len(self.load.elements)),)
        begins = ((0, 0), *ends)
        return tuple(
            [
                (self.store.part(begin[0], end[0]), self.load.part(begin[1], end[1]))
                for begin, end in zip(begins, ends, strict=False)
            ]
        )


@dataclass(frozen=True, slots=True)
class Store:
    """To shared memory that a layout was given for, of `size_bytes` bytes. Nothing is waited for."""

    access: Access
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Load:
    """From such memory: a new file of `elements` elements."""

    access: Access
    size_bytes: int
    elements: int


Step = Rearrange | Toggle | Shuffle | Cross | Turn | Stage | Store | Load


@dataclass(frozen=True, slots=True)
class ExchangeCost:
    """What a plan costs, of one CTA. cycles: an estimate of one exchange after another; issue_slots: instructions of
    one warp; wavefronts: of all warps in shared memory; shuffles: of one warp; barriers: of the whole CTA;
    shared_bytes: memory held; moved_bytes: through shared memory or between lanes, by all warps."""

    cycles: int
    issue_slots: int
    wavefronts: int
    shuffles: int
    barriers: int
    shared_bytes: int
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """The cheapest known exchange. elements_in: of each thread; warps: of the CTA; kind: what the chain does."""

    kind: str
    element_bytes: int
    elements_in: int
    warps: int
    steps: tuple[Step, ...]
    cost: ExchangeCost

    @property
    def shared_bytes(self) -> int:
        return self.cost.shared_bytes
