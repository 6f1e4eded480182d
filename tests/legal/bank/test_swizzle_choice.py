"""Placements of a tile: costs of whole spaces against enumeration, what is known to be best, what is no buffer."""

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright.base.error import TilewrightError
from tilewright.legal.bank.access_kind import access_kind
from tilewright.legal.bank.bank_linear import lane_count
from tilewright.legal.bank.banks import wavefronts
from tilewright.legal.bank.placement import (
    Buffer,
    BufferAccess,
    Digit,
    Engine,
    Placement,
    positions,
)
from tilewright.legal.bank.placement_space import placements
from tilewright.legal.bank.swizzle_choice import choose_placement, judge_placements
from tilewright.legal.tensor_map.swizzle_code import swizzled, swizzles
from tilewright.targets import target

LDMATRIX = (Digit(8, 1), Digit(2, 8), Digit(2, 0, 16))
"""The rows of a 16 by 16 tile of 16-bit elements."""


def enumerated(access: BufferAccess, buffer: Buffer, placement: Placement, name: str) -> int:
    facts = target(name)
    rows, columns = positions((*access.lanes, *access.loops))
    addresses = placement.addresses(rows, columns, buffer)
    assert len(np.unique(addresses)) == len(np.unique(rows * (1 << 20) + columns)), "a placement loses nothing"
    lanes = lane_count(access.kind, facts)
    table = np.zeros((len(addresses) // lanes, facts.limit("warp.threads")), np.int64)
    table[:, :lanes] = addresses.reshape(-1, lanes)
    return int(wavefronts(access.kind, table, facts).sum())


@st.composite
def buffers(draw: st.DrawFn) -> tuple[str, Buffer]:
    name, kinds = draw(
        st.sampled_from(
            [
                ("sm_90a", ("ld.shared.b16", "st.shared.b32", "ld.shared.b64", "ld.shared.b128", "ldmatrix.x4")),
                ("sm_100a", ("st.shared.b128", "stmatrix.x2", "ld.shared.b32")),
                ("gfx942", ("ds_read_b128", "ds_write_b128", "ds_read_b32")),
                ("gfx950", ("ds_read_b128", "ds_read_b64")),
            ]
        )
    )
    rows = draw(st.sampled_from([32, 64, 128, 96, 40]))
    row_bytes = draw(st.sampled_from([16, 32, 64, 128, 256, 96, 48, 192, 80, 100, 36, 20, 10]))
    accesses: list[BufferAccess] = []
    kinds = tuple(kind for kind in kinds if access_kind(kind).lane_bytes <= row_bytes)
    assume(kinds)
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        width = access_kind(kind).lane_bytes
        left_rows, left_bytes = rows, row_bytes // width
        digits: list[Digit] = []
        lanes = lane_count(kind, target(name))
        at_row, at_byte = 1, width
        while lanes > 1 or (len(digits) < 8 and draw(st.booleans())):
            largest = lanes if lanes > 1 else 8
            by_row = draw(st.booleans())
            count = draw(st.sampled_from([2, 4, 8, 3] if lanes == 1 else [2, 4, 8]))
            count = min(count, largest)
            left = left_rows if by_row else left_bytes
            if left < count:
                digits.append(Digit(2 if lanes > 1 else 1))
                lanes = max(1, lanes // 2)
                continue
            digits.append(Digit(count, at_row) if by_row else Digit(count, 0, at_byte))
            if by_row:
                left_rows, at_row = left_rows // count, at_row * count
            else:
                left_bytes, at_byte = left_bytes // count, at_byte * count
            lanes = max(1, lanes // count)
        taken, product = 0, 1
        while product < lane_count(kind, target(name)):
            product *= digits[taken].count
            taken += 1
        accesses.append(BufferAccess(kind, tuple(digits[:taken]), tuple(digits[taken:]), draw(st.integers(1, 3))))
    copied = name.startswith("sm") and row_bytes % 16 == 0 and draw(st.booleans())
    engines: tuple[Engine, ...] = ("tma",) if copied else ()
    return name, Buffer(rows, row_bytes, tuple(accesses), engines)


@given(buffers(), st.integers(0, 1 << 30))
def test_every_placement_costs_what_its_accesses_take(drawn: tuple[str, Buffer], seed: int) -> None:
    name, buffer = drawn
    judged = judge_placements(buffer, name)
    choice = choose_placement(buffer, name)
    assert len(judged) == choice.candidates
    for each in [*Random(seed).sample(judged, min(8, len(judged))), choice.best, choice.plain]:
        expected = [enumerated(access, buffer, each.placement, name) for access in buffer.accesses]
        assert list(each.by_access) == expected, (each.placement, buffer)
        assert each.wavefronts == sum(n * a.weight for n, a in zip(expected, buffer.accesses, strict=True))
    assert choice.ideal <= choice.bound <= choice.best.wavefronts == min(each.wavefronts for each in judged)
    assert (choice.proof == "bound") == (choice.bound == choice.best.wavefronts)


def test_modes_of_the_copy_engine_are_its_patterns() -> None:
    buffer = Buffer(64, 128, (BufferAccess("ldmatrix.x4", LDMATRIX),), ("tma",))
    facts = target("sm_100a")
    rows, columns = positions((Digit(64, 1), Digit(128, 0, 1)))
    seen: set[str] = set()
    for placement in placements(buffer, facts):
        mode = placement.name.partition(",")[0]
        if mode in swizzles(facts) and mode != "none" and not placement.panel_bytes and placement.pitch_bytes == 128:
            expected = swizzled(rows * 128 + columns, mode, facts)  # pyright: ignore[reportArgumentType]
            assert (placement.addresses(rows, columns, buffer) == expected).all()
            seen.add(mode)
    # The mode that flips bytes inside a chunk would tear the rows of ldmatrix apart.
    assert seen == {"128B", "128B_atom_32B", "128B_atom_64B"}


def test_a_tile_of_128_byte_rows_needs_all_three_bits() -> None:
    loops = (Digit(4, 16), Digit(4, 0, 32))
    stores = BufferAccess("st.shared.b128", (Digit(8, 0, 16), Digit(4, 1)), (Digit(16, 4),))
    buffer = Buffer(64, 128, (stores, BufferAccess("ldmatrix.x4", LDMATRIX, loops)))
    choice = choose_placement(buffer, "sm_90a")
    assert (choice.best.placement.name, choice.proof, choice.conflict_free) == ("Swizzle<3, 4, 3>", "bound", True)
    assert choice.plain.by_access == (64, 16 * 32)
    families = {each.placement.family: each for each in choice.by_family}
    assert families["padding"].wavefronts == choice.best.wavefronts
    assert families["padding"].placement.extra_bytes == 64 * 16


def test_a_tile_between_two_engines_stands_as_both_say() -> None:
    choice = choose_placement(Buffer(128, 128, (), ("tma", "wgmma")), "sm_90a")
    assert (choice.best.placement.name, choice.conflict_free) == ("128B", True)
    epilogue = BufferAccess("stmatrix.x4", LDMATRIX, (Digit(4, 16), Digit(4, 0, 32)))
    choice = choose_placement(Buffer(64, 128, (epilogue,), ("tma",)), "sm_90a")
    assert choice.conflict_free and choice.best.placement.family == "tma"


def test_where_nothing_is_free_of_conflicts_the_best_is_proved_by_exhaustion() -> None:
    """Rows of 20 bytes read by column in vectors of 4, with the copy engine's panels alone: no mode spreads them."""
    column = BufferAccess("ld.shared.b32", (Digit(32, 1),), (Digit(32, 0, 4),))
    choice = choose_placement(Buffer(32, 128, (column,), ("tma",)), "sm_90a")
    assert (choice.proof, choice.conflict_free) == ("exhausted", False)
    assert choice.bound < choice.best.wavefronts < choice.plain.wavefronts


def test_the_classic_transpose_is_padded_or_swizzled() -> None:
    rows = BufferAccess("st.shared.b32", (Digit(32, 0, 4),), (Digit(32, 1),))
    columns = BufferAccess("ld.shared.b32", (Digit(32, 1),), (Digit(32, 0, 4),))
    choice = choose_placement(Buffer(32, 128, (rows, columns)), "sm_90a")
    assert choice.plain.by_access == (32, 32 * 32)
    assert choice.best.by_access == (32, 32)
    families = {each.placement.family: each.placement for each in choice.by_family}
    assert (families["padding"].extra_bytes, families["padding"].pitch_bytes) == (32 * 4, 132)
    assert families["swizzle"].name == "Swizzle<5, 2, 5>"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Buffer(0, 16, ()), "no buffer"),
        (lambda: Buffer(1 << 40, 16, ()), "no buffer"),
        (lambda: Buffer(8, 16, (BufferAccess("ldmatrix.x4", LDMATRIX),)), "reaches row 15"),
        (lambda: Buffer(8, 64, (BufferAccess("ld.shared.b64", (Digit(8, 0, 4),)),)), "not aligned"),
        (lambda: Buffer(8, 64, (BufferAccess("ld.shared.b32", (Digit(3, 0, 4),)),)), "powers of two"),
        (lambda: choose_placement(Buffer(8, 64, ()), "sm_90a"), "nobody accesses"),
        (lambda: choose_placement(Buffer(8, 64, (), ("wgmma",)), "sm_100a"), "has no wgmma"),
        (lambda: choose_placement(Buffer(64, 64, (BufferAccess("ds_read_b32", (Digit(64, 1),)),), ("tma",)), "gfx942"),
         "no tensor copies"),
        (lambda: choose_placement(Buffer(8, 64, (BufferAccess("ld.shared.b32", (Digit(8, 1),)),)), "sm_90a"),
         "8 lanes"),
    ],
)  # fmt: skip
def test_what_is_no_buffer_is_an_error(make: object, complaint: str) -> None:
    assert callable(make)
    with pytest.raises(TilewrightError, match=complaint):
        make()
