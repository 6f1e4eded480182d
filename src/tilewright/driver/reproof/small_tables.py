"""What do arrays of integers hold that say where a small instance reads, and what do they decide in its text?

They hold places in no order, some twice, and numbers that are no place on either side. Whatever they hold, the protocol
must be the same: a second run, in which they are not known, may differ from the first in where global memory is read
and in nothing else. That other arrays decide nothing is asked with these known, as of every text.
Checked by: tests/driver/reproof/test_small_tables.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import LaunchPlan
from tilewright.frontends.ptx.ast import Instruction, Module
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import gathers, parameter_name
from tilewright.ir.tile.gather import Table
from tilewright.ir.tile.types import tensor_type
from tilewright.machine.core.event import Access, Event
from tilewright.machine.protocol.protocol_run import run_protocol

_ADDRESS = "global address"
"""What the machine calls the address of a load that depends on something unknown."""
_STRIDE = 3
"""From one place to the next; with the numbers that are none, most extents have no factor in common with it."""


def table_contents(program: tile.ProgramOp) -> dict[str, NDArray[np.uint8]]:
    """The bytes of the arrays of integers that say where a program reads, by parameter."""
    places: dict[str, int] = {}
    for op in gathers(program):
        for each in op.dimensions:
            if isinstance(each.where, Table):
                name = parameter_name(program, each.where.tensor)
                places[name] = max(places.get(name, 0), each.extent)
    found: dict[str, NDArray[np.uint8]] = {}
    for argument in program.body.block.args:
        name = parameter_name(program, argument)
        if name in places:
            kind = tensor_type(argument)
            held = np.zeros(1 + sum((n - 1) * s for n, s in zip(kind.extents, kind.stride_elements, strict=True)), "i4")
            numbers = (np.arange(math.prod(kind.extents)) * _STRIDE + 1) % (places[name] + 2) - 1
            view = np.lib.stride_tricks.as_strided(held, kind.extents, [4 * each for each in kind.stride_elements])
            view[...] = numbers.reshape(kind.extents)
            found[name] = held.view(np.uint8)
    return found


def only_places(
    module: Module, plan: LaunchPlan, contents: Mapping[str, NDArray[np.uint8]], tables: frozenset[str]
) -> bool:
    """Whether tables say where global memory is read, and decide nothing else; and whether nothing else decides that
    much. contents: bytes of arrays, of tables among them."""
    buffers = {buffer.name: np.zeros(max(1, buffer.span_bytes), np.uint8) for buffer in plan.buffers}
    for name, data in contents.items():
        buffers[name][: len(data)] = data
    loading = {
        item.span
        for kernel in module.kernels
        for item in kernel.body
        if isinstance(item, Instruction) and item.row == "ld"
    }
    for known in (frozenset(contents), frozenset(contents) - tables):
        uncertain: list[Access] = []

        def note(event: Event, uncertain: list[Access] = uncertain) -> None:
            if isinstance(event, Access) and event.uncertain:
                uncertain.append(event)

        reports = [run_protocol(module, launch, buffers, observe=note, known_buffers=known) for launch in plan.launches]
        if any(report.doubts or report.branches or report.fault is not None for report in reports):
            return False
        taints = [taint for report in reports for taint in report.taints]
        if tables <= known and (uncertain or taints):
            return False
        if not all(map(_is_read, uncertain)) or any(
            taint.what != _ADDRESS or taint.span not in loading for taint in taints
        ):
            return False
    return True


def _is_read(access: Access) -> bool:
    return access.space == "global" and not access.write and not access.atomic
