"""How the tiles that are streamed over CTAs enter a pipeline: a head and a tail before the whole tiles.

Each role goes through three loops in the same order: the CTA's heads, its tail (`ac.stream_part`), its whole tiles.
What a consumer makes of a head is stored as a partial sum, which the tile's owner adds to its tail, and only then comes
what is done with any tile.

Not handled, because nothing is decided so: clusters, batches, groups of rows, scaled products.
Checked by: tests/lower/test_stream.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.base.size import number_of
from tilewright.ir.ac.stream import STREAM_INDICES, PartialAddOp, PartialStoreOp, StreamPartOp, TurnStreamPartOp
from tilewright.ir.decisions import PipelineDecisions
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers
from tilewright.lower.build import INDEX, Build, global_array, order_properties
from tilewright.lower.program import Counts

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


def sections(d: PipelineDecisions) -> tuple[Section, ...]:
    """The loops of each role, in order."""
    return (Section("head", "head"), Section("tail", "tail"), WHOLE) if d.streamed else (WHOLE,)


def stream_symbols(d: PipelineDecisions, slices: int, least: int) -> dict[str, tuple[int, int]]:
    """Symbols of a kernel with streamed tiles: value and minimum. slices: of a tile; least: of a part."""
    if not d.streamed:
        return {}
    heads = -(-d.streamed // d.helpers)
    return {
        "heads": (heads, 0),
        "tails": (1, 0),
        "head": (d.head_slices, least),
        "tail": (slices - d.head_slices, least),
    }


def stream_workspaces(program: tile.ProgramOp, d: PipelineDecisions) -> tuple[Buffer, ...]:
    """The arrays through which helpers hand partial sums to owners; none where no tile is streamed."""
    if not d.streamed:
        return ()
    taken = {buffer.name for buffer in buffers(program)}
    names = [_free(name, taken) for name in ("partial_sums", "partial_flags")]
    units = d.streamed * d.tile_units
    values = d.unit_rows * d.multiplied_columns
    return (
        Buffer(names[0], Element.F32, (units, values), (values, 1), "workspace"),
        Buffer(names[1], Element.U32, (units,), (1,), "workspace", zeroed=True),
    )


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def declare_partial_sums(build: Build, program: tile.ProgramOp, d: PipelineDecisions) -> PartialSums | None:
    """None where no tile is streamed."""
    arrays = [global_array(build, buffer) for buffer in stream_workspaces(program, d)]
    return PartialSums(arrays[0], arrays[1]) if arrays else None


def stream_part_loop(
    build: Build,
    d: PipelineDecisions,
    section: Section,
    counts: Counts,
    carried: Sequence[SSAValue],
    turns: SSAValue | None,
) -> tuple[Build, Block]:
    """Inside the loop over a head or a tail, its body. counts: tiles along rows and columns."""
    block = Block(arg_types=[*([INDEX] * STREAM_INDICES), *(value.type for value in carried)])
    properties: dict[str, Attribute] = {
        "part": StringAttr(section.part),
        "symbol": StringAttr(f"{section.part}s"),
        "slices": StringAttr(section.slices),
        "first_slice": IntAttr(d.head_slices if section.part == "tail" else 0),
        "tiles_m": IntAttr(number_of(counts[0])),
        "tiles_n": IntAttr(number_of(counts[1])),
        **order_properties(d),
        "streamed": IntAttr(d.streamed),
        "helpers": IntAttr(d.helpers),
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
