"""Which trip through shared memory: what do instructions move on both sides, and where do elements lie between them?

Theory: an instruction moves runs of consecutive bytes, whose elements are a space V: of one thread for a vector access
of 1 to 16 bytes, of four lanes for a row of `stmatrix` and `ldmatrix`, of the rows' lanes where these transpose. Both
sides agree on the memory's low bits if the shorter run begins the longer one. Accesses of a group of lanes that are
served together (8 lanes of 16 bytes, 16 of 8, all of 4 and less, the eight rows of a matrix) reach a space P; they
meet no bank twice if no element of V + P but 0 is a multiple of the line of all banks. So let S be a common complement
of V + P of the store and of the load, both filled up to the size of a line: then the line's number is the coordinate
along S, and neither side conflicts. Over F2 two spaces of one size always have such a complement: sums of paired
vectors of either modulo their intersection, and what completes both. Hence every plan here takes as few wavefronts as
its bytes; what remains to choose is how wide the accesses are, by cost. Linear layouts: arXiv 2505.23819, section 5.

A source that repeats elements stores each once: lanes first, then warps, then elements are taken. Groups of lanes:
`legal.bank.banks`, measured; matrices: PTX ISA, `stmatrix`, `ldmatrix`.

Loads of 8 and 16 bytes serve twice as many lanes together where neighbours ask for the same address: their space P is
that of all of these. Not handled: lines longer than 128 bytes (64 banks). Who checks:
tests/synth/exchange/test_search.py counts wavefronts of every access by `legal.bank.banks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.ir.exchange import Access, Form, Scope, Stage, Step
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.numbers.bit_matrix import Columns
from tilewright.synth.exchange.held import LANE_BITS, Held, Pair, extended, independent, shared_orders, solved, spans
from tilewright.synth.exchange.lanes import rearranged, toggle
from tilewright.synth.exchange.rounds import in_rounds
from tilewright.targets import Target

LINE_BITS = 7
WORD_BITS = 2
RUN_BITS = 4
"""log2 of the bytes of a line of all banks, of a word, of the longest run of an access."""
_MATRICES_BITS = 2


@dataclass(frozen=True, slots=True)
class Side:
    """How one side moves elements. run: of an instruction; bits: log2 of its bytes; word: of matrices, the elements of
    one register; group: what the lanes served together reach besides; pairs: a load that serves twice as many lanes,
    since neighbours ask for the same address."""

    form: Form
    bits: int
    run: Columns
    word: Columns
    group: Columns
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """A source without repetitions: `columns` is its element columns that are stored; lanes and warps with a bit under
    the masks do not take part, and have 0 there."""

    held: Held
    columns: Columns
    lane_active: int
    warp_active: int


def stages(pair: Pair, element_bits: int, target: Target) -> Iterator[tuple[Step, ...]]:
    """Trips that take the pair's elements of 2^element_bits bytes, and the moves within threads after them."""
    matrices = target.supports("stmatrix")
    store = stored_once(pair.source)
    loaded = tuple(pair.destination.register[at] for at in independent(pair.destination.register))
    seen: set[tuple[Side, Side]] = set()
    for run in _runs(pair, store, loaded, element_bits):
        for out in sides_of(run, store.held, store.columns, element_bits, matrices=matrices and not store.lane_active):
            for back in sides_of(run, pair.destination, loaded, element_bits, matrices=matrices, is_load=True):
                if (out, back) not in seen:
                    seen.add((out, back))
                    found = _stage(pair, store, loaded, (out, back), element_bits, target)
                    if found is not None:
                        yield found


def stored_once(source: Held) -> Stored:
    order = (*source.lane, *source.warp, *source.register)
    kept = set(independent(order))
    warps = len(source.warp)
    lane = tuple(each if at in kept else 0 for at, each in enumerate(source.lane))
    warp = tuple(each if LANE_BITS + at in kept else 0 for at, each in enumerate(source.warp))
    columns = tuple(each for at, each in enumerate(source.register) if LANE_BITS + warps + at in kept)
    return Stored(
        Held(source.register, lane, warp),
        columns,
        sum([1 << at for at in range(LANE_BITS) if at not in kept]),
        sum([1 << at for at in range(warps) if LANE_BITS + at not in kept]),
    )


def _runs(pair: Pair, store: Stored, loaded: Columns, element_bits: int) -> Iterator[Columns]:
    """Candidate spaces of at most 16 bytes, in the order of the bytes."""
    for order in shared_orders(pair):
        shared = tuple(each for each in order if spans(store.columns, (each,)))
        yield from _runs_from(shared, pair, store, loaded, element_bits)


def _runs_from(shared: Columns, pair: Pair, store: Stored, loaded: Columns, element_bits: int) -> Iterator[Columns]:
    """shared: what threads of both sides hold, in the order of the bytes."""
    most = RUN_BITS - element_bits
    word = WORD_BITS - element_bits
    shared = shared[:most]
    yield shared
    for own, lanes in ((store.columns, pair.destination.lane), (loaded, store.held.lane)):
        # A longer run of one side is of use where lanes of the other take its parts, or they would meet in few banks.
        for size in (RUN_BITS - element_bits, RUN_BITS - 1 - element_bits, word):
            yield extended(shared, tuple(each for each in own if spans((*shared, *lanes), (each,))), size)
    for own, lanes in ((store.columns, store.held.lane), (loaded, pair.destination.lane)):
        packed = extended(shared[:word], own, word)
        if len(packed) < word:
            continue
        for run in ((*packed, *lanes[:2]), (*packed[: word - 1], *lanes[2:]) if word else ()):
            if len(run) == most and len(independent(run)) == most:
                yield run


def sides_of(
    run: Columns,
    held: Held,
    own: Columns,
    element_bits: int,
    *,
    matrices: bool,
    every_width: bool = False,
    is_load: bool = False,
) -> Iterator[Side]:
    """How a side with element columns `own` can move this run, or a beginning of it."""
    longest = next((size for size in range(len(run), 0, -1) if spans(own, run[:size])), 0)
    for size in range(longest, -1, -1):
        bits = size + element_bits
        if every_width or size == longest or bits == WORD_BITS:
            served = {RUN_BITS: 3, RUN_BITS - 1: 4}.get(bits, LANE_BITS)
            pairs = is_load and served < LANE_BITS and 0 in held.lane[:2]
            yield Side("vector", bits, run[:size], (), held.lane[: served + pairs], pairs)
    word = WORD_BITS - element_bits
    if not matrices or len(run) != RUN_BITS - element_bits:
        return
    lanes = held.lane
    if run[word:] == lanes[:2] and spans(own, run[:word]):
        yield Side("matrix", RUN_BITS, run, run[:word], lanes[2:])
    if word and run[word - 1 :] == lanes[2:] and spans(own, run[: word - 1]):
        half = extended(run[: word - 1], own, word)
        if len(half) == word:
            yield Side("transposed matrix", RUN_BITS, run, half, (half[-1], *lanes[:2]))


def _stage(
    pair: Pair, store: Stored, loaded: Columns, sides: tuple[Side, Side], element_bits: int, target: Target
) -> tuple[Step, ...] | None:
    """None where runs of both sides do not fit, or lanes would meet in one bank."""
    out, back = sides
    memory = _memory(pair, store, loaded, sides, LINE_BITS - element_bits)
    if memory is None:
        return None
    stored = access_of(out, store.held, store.columns, memory, element_bits, store, pair.source.register)
    # Where the source's lanes go along a run of the load, what a lane finds first is not its element 0.
    turns = [0] * (LANE_BITS + len(pair.destination.warp))
    if back.form == "vector":
        low = (1 << len(back.run)) - 1
        turns = [bit_matrix.apply(memory, each) & low for each in (*pair.destination.lane, *pair.destination.warp)]
    aligned = _aligned(pair.destination, back.run, turns)
    fetched = access_of(back, aligned, loaded, memory, element_bits, None, None)
    if stored is None or fetched is None:
        return None
    (out_access, _), (back_access, order) = stored, fetched
    scope: Scope = "warp" if pair.in_warp else "block"
    size = max(16, 1 << pair.bits + element_bits)
    stage = in_rounds(Stage(out_access, back_access, scope, size, 1 << len(order)), 1 << element_bits, target)
    turn = toggle(tuple(turns[:LANE_BITS]), tuple(turns[LANE_BITS:]))
    return (stage, *(() if turn is None else (turn,)), rearranged(order, pair.destination.register))


def _aligned(held: Held, run: Columns, turns: list[int]) -> Held:
    moved = [bit_matrix.apply(run, turn) for turn in turns]
    lane = tuple(each ^ other for each, other in zip(held.lane, moved[:LANE_BITS], strict=True))
    return Held(
        held.register, lane, tuple(each ^ other for each, other in zip(held.warp, moved[LANE_BITS:], strict=True))
    )


def _memory(pair: Pair, store: Stored, loaded: Columns, sides: tuple[Side, Side], line: int) -> Columns | None:
    """Where coordinates lie: a matrix from coordinates to elements of memory, without conflicts of either side.

    The low bits number the longer run. What else that side's threads differ by, `others`, spans the rest of memory, so
    that its runs begin at multiples of their size.
    """
    out, back = sides
    low = out.run
    others = (*_rest(out, store.columns), *store.held.lane, *store.held.warp)
    if out.form != "vector":
        others = (*store.columns, *others)
    if len(back.run) > len(low):
        low = back.run
        others = (*_rest(back, loaded), *pair.destination.lane, *pair.destination.warp)
        if back.form != "vector":
            others = (*loaded, *others)
    others = extended(low, others)[len(low) :]
    basis = extended((*low, *others), bit_matrix.identity(pair.bits))
    count, bits = len(low), pair.bits - len(low)
    space = min(line, pair.bits) - count
    parts = [tuple(solved(basis, each) >> count for each in side.group) for side in sides]
    images = [bit_matrix.image(part) for part in parts]
    if space < 0 or any(len(image) > space for image in images):
        return None
    within, along = _line_and_number(images[0], images[1], bits, space)
    inverse = bit_matrix.inverse((*within, *along), bits)
    numbers = bit_matrix.inverse(basis, pair.bits)
    assert inverse is not None and numbers is not None, "a basis has an inverse"
    return tuple(each & (1 << count) - 1 | bit_matrix.apply(inverse, each >> count) << count for each in numbers)


def _rest(side: Side, own: Columns) -> Columns:
    return extended(side.run, own)[len(side.run) :] if side.form == "vector" else ()


def _line_and_number(one: Columns, other: Columns, bits: int, space: int) -> tuple[Columns, Columns]:
    """A basis of a common complement of both spaces, filled up to `space`; before it, what completes it to a basis."""
    units = bit_matrix.identity(bits)
    one = extended(one, (*other, *units), space)
    other = extended(other, (*one, *units), space)
    meet = bit_matrix.intersection(one, other)
    ours, theirs = extended(meet, one)[len(meet) :], extended(meet, other)[len(meet) :]
    paired = tuple(a ^ b for a, b in zip(ours, theirs, strict=True))
    along = (*paired, *bit_matrix.complement_basis((*one, *other), bits))
    return extended(along, (*one, *units), bits)[len(along) :], along


def access_of(
    side: Side,
    held: Held,
    own: Columns,
    memory: Columns,
    element_bits: int,
    store: Stored | None,
    numbered: Columns | None,
) -> tuple[Access, Columns] | None:
    """The access of a side, and what the bits of its file's numbers stand for; None where it is not aligned.

    store: of a store; numbered: columns of the file that elements are taken from; None for a file in the order of the
    instructions.
    """
    together = side.run if side.form == "vector" else side.word
    low = (1 << len(side.run)) - 1
    rest = extended(together, own)[len(together) :]
    if side.form == "vector":
        # Runs begin at multiples of their size.
        rest = tuple(each ^ bit_matrix.apply(side.run, bit_matrix.apply(memory, each) & low) for each in rest)
    matrices = () if side.form == "vector" else rest[:_MATRICES_BITS]
    order = (*together, *rest)
    inner = (*together, *matrices)
    images = bit_matrix.identity(len(order)) if numbered is None else tuple(solved(numbered, each) for each in order)
    outer = rest[len(matrices) :]
    elements: list[tuple[int, ...]] = []
    constants: list[int] = []
    for number in range(1 << len(outer)):
        begin = number << len(inner)
        elements.append(tuple(bit_matrix.apply(images, begin + each) for each in range(1 << len(inner))))
        constants.append(bit_matrix.apply(memory, bit_matrix.apply(outer, number)) << element_bits)
    if side.form == "vector":
        lanes = held.lane
        wavefronts = max(1, (1 << side.bits) * (1 << LANE_BITS) >> LINE_BITS + side.pairs)
    else:
        lanes = (*side.group, *matrices, *(0,) * (LANE_BITS - len(side.group) - len(matrices)))
        wavefronts = 1 << len(matrices)
    warps = held.warp
    if any(bit_matrix.apply(memory, each) & low for each in (*rest, *lanes, *warps)):
        return None
    access = Access(
        side.form,
        tuple(elements),
        tuple(constants),
        tuple(bit_matrix.apply(memory, each) << element_bits for each in lanes),
        tuple(bit_matrix.apply(memory, each) << element_bits for each in warps),
        wavefronts,
        0 if store is None else store.lane_active,
        0 if store is None else store.warp_active,
    )
    return access, order
