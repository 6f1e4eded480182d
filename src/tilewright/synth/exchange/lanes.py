"""Can the lanes of a warp hand each other their words, and with how few shuffles?

Theory: destination element i' of lane l' (warp w) is source element C i' + E l' + Q w of lane A i' + B l' + L w, all
matrices over F2. One shuffle fills one word of every lane, and each lane gives one word to it. So round i fills word
i + G l' of lane l', for a G such that what a lane gives depends on that lane alone: the kernel of N = A G + B lies in
that of C G + E, and then C G + E = H N for some H. Lanes turn their words by H before, by G after (two selections of a
word for each bit that turns), and round i reads lane N l' + A i + L w. Where A G = B + 1 has a solution, N is the
identity: rounds with A i = 0 need no shuffle, and the others are exclusive-ors by a constant. That is the least number
of shuffles of whole words, since a word from another lane costs one.

Elements narrower than a word go four or two to the word, which must be of one thread on both sides: the words' bits are
taken from the span of both layouts' element columns, and elements are packed by byte permutes before and after.

Not handled: words whose elements go to different lanes; pairs that need elements of other warps. There is no answer
then. Who checks: tests/synth/exchange/test_search.py.
"""

from __future__ import annotations

from tilewright.ir.exchange import Parity, Rearrange, Shuffle, Step, Toggle, Turn
from tilewright.layout.numbers import bit_matrix
from tilewright.layout.numbers.bit_matrix import Columns
from tilewright.synth.exchange.held import (
    LANE_BITS,
    Held,
    Pair,
    extended,
    independent,
    shared_registers,
    solved,
)

_IDENTITY = bit_matrix.identity(LANE_BITS)


def lane_steps(pair: Pair, word_bits: int) -> tuple[Step, ...] | None:
    """Steps by moves within threads and shuffles alone, or None. word_bits: log2 of the elements in a word."""
    if not pair.in_warp:
        return None
    found = _within_lanes(pair)
    if found is not None:
        return found
    # A file of less than a word is one word.
    word_bits = min(word_bits, max(len(pair.source.register), len(pair.destination.register)))
    words = shared_registers(pair)[:word_bits]
    if len(words) < word_bits:
        return None
    source = _repacked(pair.source, words)
    destination = _repacked(pair.destination, words)
    moves = _between_lanes(source, destination, word_bits)
    if moves is None:
        return None
    return (
        rearranged(pair.source.register, source.register),
        *moves,
        rearranged(destination.register, pair.destination.register),
    )


def turn_steps(pair: Pair) -> tuple[Step, ...] | None:
    """Steps by transposing matrices of 8 x 8 elements of 16 bits within their registers, or None.

    The element's lowest bit and the lane's bits 0 and 1 change places with the lane's bits 2, 3 and 4; everything else
    is where it was.
    """
    source, destination = pair.source, pair.destination
    if not pair.in_warp or source.warp != destination.warp or len(source.register) != len(destination.register):
        return None
    column, row = destination.lane[2], source.lane[2]
    if (*source.lane[3:], column, *source.lane[:2]) != destination.lane:
        return None
    kept = bit_matrix.intersection(source.register, destination.register)
    before, after = (column, *kept), (row, *kept)
    if len(before) != len(source.register) or len(independent(before)) != len(before):
        return None
    known = bit_matrix.solve_all(source.register, before), bit_matrix.solve_all(after, destination.register)
    if None in known:
        return None
    return rearranged(source.register, before), Turn(), rearranged(after, destination.register)


def rearranged(old: Columns, new: Columns) -> Rearrange:
    """From a file whose numbers stand for `old` to one whose numbers stand for `new`, in the span of old."""
    images = [solved(old, each) for each in new]
    return Rearrange(tuple(bit_matrix.apply(images, number) for number in range(1 << len(images))))


def toggle(lane: Columns, warp: Columns) -> Toggle | None:
    """Of element numbers by images of the bits of lane and warp; None where none turns anything."""
    every = (*lane, *warp)
    masks: list[tuple[int, Parity]] = []
    for mask in bit_matrix.image(every):
        # In a reduced basis the highest bit of each vector is in no other, and so tells its weight.
        leading = mask.bit_length() - 1
        parity = sum([(column >> leading & 1) << bit for bit, column in enumerate(every)])
        masks.append((mask, (parity & (1 << len(lane)) - 1, parity >> len(lane))))
    return Toggle(tuple(masks)) if masks else None


def _repacked(held: Held, words: Columns) -> Held:
    return Held(extended(words, held.register), held.lane, held.warp)


def _within_lanes(pair: Pair) -> tuple[Step, ...] | None:
    """Where every lane holds what it needs."""
    own = pair.source.register
    register = bit_matrix.solve_all(own, pair.destination.register)
    between = [
        first ^ second
        for first, second in zip(
            (*pair.source.lane, *pair.source.warp), (*pair.destination.lane, *pair.destination.warp), strict=True
        )
    ]
    turned = bit_matrix.solve_all(own, between)
    if register is None or turned is None:
        return None
    turn = toggle(turned[:LANE_BITS], turned[LANE_BITS:])
    order = Rearrange(tuple(bit_matrix.apply(register, number) for number in range(1 << len(register))))
    return (order,) if turn is None else (turn, order)


def _between_lanes(source: Held, destination: Held, word_bits: int) -> tuple[Step, ...] | None:
    count = len(source.register)
    own = (*source.register, *source.lane)
    register = [_split(solved(own, each), count) for each in destination.register]
    lane = [_lane_image(source, each, bit) for bit, each in enumerate(destination.lane)]
    warp = [
        _split(solved(own, first ^ second), count) for first, second in zip(source.warp, destination.warp, strict=True)
    ]
    to_lane, to_element = [each for _, each in register], [each for each, _ in register]
    turn = _turn(to_lane, [each for _, each in lane], [each for each, _ in lane])
    if turn is None:
        return None
    # N and C G + E, by lane bit.
    lanes = [bit_matrix.apply(to_lane, turn[bit]) ^ image for bit, (_, image) in enumerate(lane)]
    elements = [bit_matrix.apply(to_element, turn[bit]) ^ image for bit, (image, _) in enumerate(lane)]
    if any(bit_matrix.apply(elements, each) for each in bit_matrix.kernel(lanes)):
        return None
    given = bit_matrix.multiply(elements, bit_matrix.pseudo_inverse(lanes, LANE_BITS))
    before = toggle(given, tuple(image ^ bit_matrix.apply(given, other) for image, other in warp))
    picked = [each ^ bit_matrix.apply(given, other) for each, other in register]
    words = 1 << max(0, len(destination.register) - word_bits)
    shuffle = Shuffle(
        tuple(lanes),
        tuple([other for _, other in warp]),
        tuple([bit_matrix.apply(to_lane, word << word_bits) for word in range(words)]),
    )
    after = toggle(tuple(turn), (0,) * len(warp))
    steps: list[Step] = [] if before is None else [before]
    steps += [Rearrange(tuple(bit_matrix.apply(picked, number) for number in range(1 << len(picked)))), shuffle]
    return (*steps, *(() if after is None else (after,)))


def _split(weights: int, count: int) -> tuple[int, int]:
    """Element and lane of packed weights."""
    return weights & (1 << count) - 1, weights >> count


def _lane_image(source: Held, wanted: int, bit: int) -> tuple[int, int]:
    """Element and lane for one lane bit of the destination, in its own lane where that is possible."""
    at_home = bit_matrix.solve(source.register, wanted ^ source.lane[bit])
    if at_home is not None:
        return at_home, 1 << bit
    return _split(solved((*source.register, *source.lane), wanted), len(source.register))


def _turn(to_lane: list[int], lanes: list[int], elements: list[int]) -> Columns | None:
    """G: how each lane bit turns the words that a round fills."""
    identical = bit_matrix.solve_all(to_lane, [image ^ 1 << bit for bit, image in enumerate(lanes)])
    if identical is not None:
        return identical
    # Vectors that B loses and E does not must be brought to lanes outside the image of B.
    lost = bit_matrix.kernel(lanes)
    reached = list(bit_matrix.image(lanes))
    pairs: list[tuple[int, int]] = []
    for vector in lost:
        if not bit_matrix.apply(elements, vector):
            pairs.append((vector, 0))
            continue
        word = next((w for w, image in enumerate(to_lane) if bit_matrix.solve(reached, image) is None), None)
        if word is None:
            return None
        reached.append(to_lane[word])
        pairs.append((vector, 1 << word))
    basis = extended(tuple(vector for vector, _ in pairs), _IDENTITY)
    targets = [turn for _, turn in pairs] + [0] * (len(basis) - len(pairs))
    return tuple(bit_matrix.apply(targets, solved(basis, 1 << bit)) for bit in range(LANE_BITS))


def free_of_copies(held: Held) -> bool:
    """Does no thread, lane or warp repeat an element?"""
    return len(independent(held.columns)) == len(held.columns)
