"""How the tiles that are streamed over CTAs enter a walk: a head and a tail before the whole tiles.

Each role goes through three loops in the same order: the CTA's heads, its tail (`ac.stream_part`), its whole tiles.
What a consumer makes of a head is stored as a partial sum, which the tile's owner adds to its tail, and only then comes
what is done with any tile.

Not handled, because nothing is decided so: clusters, batches, groups of rows, scaled products.
Checked by: tests/lower/test_stream.py, tests/end_to_end/test_walked_streams.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.base.size import Size, number_of
from tilewright.ir.ac.stream import STREAM_INDICES, PartialAddOp, PartialStoreOp, StreamPartOp, TurnStreamPartOp
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers
from tilewright.ir.tile_stream import TileStream
from tilewright.lower.build import INDEX, Build, free_name, global_array

_FIRST_BARRIER = 1
"""Named barriers of the consumers' units: the same as their staging uses, at other times."""


@dataclass(frozen=True, slots=True)
class Section:
    """One of a role's loops over what its CTA computes. part: "head", "tail", or empty for whole tiles; slices: the
    symbol that is the number of slices of each."""

    part: str
    slices: str


WHOLE = Section("", "K")


@dataclass(frozen=True, slots=True)
class PartialSums:
    """The arrays of partial sums and of their flags."""

    partials: SSAValue
    flags: SSAValue


def sections(stream: TileStream | None) -> tuple[Section, ...]:
    """The loops of each role, in order."""
    return (WHOLE,) if stream is None else (Section("head", "head"), Section("tail", "tail"), WHOLE)


def stream_symbols(stream: TileStream | None, slices: int, least: int) -> dict[str, tuple[int, int]]:
    """Symbols of a kernel with streamed tiles: value and minimum. slices: of a tile; least: of a part."""
    if stream is None:
        return {}
    heads = -(-stream.tiles // stream.helpers)
    return {
        "heads": (heads, 0),
        "tails": (1, 0),
        "head": (stream.head_slices, least),
        "tail": (slices - stream.head_slices, least),
    }


def stream_workspaces(
    program: tile.ProgramOp, stream: TileStream | None, units: int, part: tuple[int, int]
) -> tuple[Buffer, ...]:
    """The arrays through which helpers hand partial sums to owners; none where no tile is streamed. units: that have
    rows of one tile; part: rows and columns of each."""
    if stream is None:
        return ()
    taken = {buffer.name for buffer in buffers(program)}
    names = [free_name(name, taken) for name in ("partial_sums", "partial_flags")]
    units *= stream.tiles
    values = part[0] * part[1]
    return (
        Buffer(names[0], Element.F32, (units, values), (values, 1), "workspace"),
        Buffer(names[1], Element.U32, (units,), (1,), "workspace", zeroed=True),
    )


def declare_partial_sums(build: Build, workspaces: Sequence[Buffer]) -> PartialSums | None:
    """None where no tile is streamed, and there are no arrays for it."""
    arrays = [global_array(build, buffer) for buffer in workspaces]
    return PartialSums(arrays[0], arrays[1]) if arrays else None


def stream_part_loop(
    build: Build,
    stream: TileStream,
    section: Section,
    counts: tuple[Size, Size],
    order: Mapping[str, Attribute],
    carried: Sequence[SSAValue],
    turns: SSAValue | None,
) -> tuple[Build, Block]:
    """Inside the loop over a head or a tail, its body. counts: tiles along rows and columns; order: the properties of
    `ac.tiles` that say in which order they are taken."""
    block = Block(arg_types=[*([INDEX] * STREAM_INDICES), *(value.type for value in carried)])
    properties: dict[str, Attribute] = {
        "part": StringAttr(section.part),
        "symbol": StringAttr(f"{section.part}s"),
        "slices": StringAttr(section.slices),
        "first_slice": IntAttr(stream.head_slices if section.part == "tail" else 0),
        "tiles_m": IntAttr(number_of(counts[0])),
        "tiles_n": IntAttr(number_of(counts[1])),
        **order,
        "streamed": IntAttr(stream.tiles),
        "helpers": IntAttr(stream.helpers),
    }
    kind = StreamPartOp if turns is None else TurnStreamPartOp
    op = kind.create(
        operands=[*([turns] if turns is not None else []), *carried],
        result_types=[value.type for value in carried],
        properties=properties,
        regions=[Region(block)],
    )
    build.add(op)
    return build.inside(block), block


def store_partial(build: Build, sums: PartialSums, accumulator: SSAValue, slot: SSAValue, unit: SSAValue) -> None:
    """Hand a head's accumulator to the CTA that owns the tile. slot: the tile's number."""
    build.add(
        PartialStoreOp.create(
            operands=[accumulator, sums.partials, sums.flags, slot, unit],
            properties={"first_barrier": IntAttr(_FIRST_BARRIER)},
        )
    )


def add_partial(build: Build, sums: PartialSums, accumulator: SSAValue, slot: SSAValue, unit: SSAValue) -> SSAValue:
    """A tail's accumulator, and what the helper has of the tile."""
    return build.value(
        PartialAddOp.create(
            operands=[accumulator, sums.partials, sums.flags, slot, unit],
            properties={"first_barrier": IntAttr(_FIRST_BARRIER)},
            result_types=[accumulator.type],
        )
    )
