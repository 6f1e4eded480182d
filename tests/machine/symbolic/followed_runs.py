"""Small kernels whose runs are followed, and a check of what the expressions say of other launches.

A run says by its conditions how another launch would decide, as long as that comes the same way. `differences` makes
the other launch and compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.base.plan import Launch, NullPointerParam, Param, PointerParam, ScalarParam
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.lanes import selector
from tilewright.machine.protocol.protocol_run import run_protocol
from tilewright.machine.symbolic.expression import CannotEvaluate, Evaluation, Input, Table
from tilewright.machine.symbolic.tracker import Condition, Inputs, SymbolicRun

N, M, DATA = Input("number", 8, 4), Input("number", 12, 4), Input("pointer", 16, 8)
BLOCK = ((8, 12, N), (12, 16, M), (16, 24, DATA))
BUFFER = 4096
GRID, PLACE = Input("grid", 0, 4), Input("cluster", 0, 4)


def kernel(body: str, directives: str = "") -> Module:
    """A kernel of `out`, the numbers `n` and `m`, and the pointer `data`, which may be null."""
    return read(
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 out, .param .u32 n, .param .u32 m, .param .u64 data)"
        f" {directives} {{\n.reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<40>; .reg .b64 %d<16>;\n"
        f".shared .align 16 .b8 cells[256]; .shared .align 8 .b8 bar[8];\n"
        f".local .align 8 .b8 spill[16];\n{body}\nret;\n}}\n",
        "k.ptx",
    )


def follow(
    module: Module,
    values: Mapping[Input, int],
    table: Table,
    *,
    grid: bool = False,
    data: bool = False,
    cluster: int = 1,
) -> SymbolicRun:
    """Run one launch and follow its numbers. values: of inputs, 0 if missing but for the grid."""
    memory = {each: value for each, value in values.items() if each.kind in ("memory", "ticket")}
    run = SymbolicRun(table, Inputs(BLOCK, grid, memory, data))
    extent = values.get(GRID, 1)
    params: tuple[Param, ...] = (
        PointerParam("out"),
        ScalarParam("i32", values.get(N, 0)),
        ScalarParam("i32", values.get(M, 0)),
        PointerParam("data") if values.get(DATA) else NullPointerParam(),
    )
    launch = Launch("k", (extent * cluster, 1, 1), (32, 1, 1), params, (cluster, 1, 1), 0)
    buffers = {"out": np.zeros(BUFFER, np.uint8), "data": np.zeros(BUFFER, np.uint8)}
    run_protocol(
        module, launch, buffers, clusters=(values.get(PLACE, 0),), any_global_address=True, symbolic=run,
        unknown_parameters=(),
    )  # fmt: skip
    return run


def differences(
    module: Module, launches: Sequence[Mapping[Input, int]], *, grid: bool = False, data: bool = False, cluster: int = 1
) -> list[str]:
    """What the conditions of each launch say wrongly of itself or of another one."""
    table = Table()
    runs = [follow(module, values, table, grid=grid, data=data, cluster=cluster) for values in launches]
    given = sorted({each for values in launches for each in values}, key=repr)
    columns = {each: np.array([values.get(each, 0) for values in launches], np.uint64) for each in given}
    evaluation = Evaluation(table, columns, len(launches))
    found: list[str] = []
    for one, run in enumerate(runs):
        for other, values in enumerate(launches):
            found += [f"{launches[one]} of {values}: {line}" for line in _told(run, runs[other], evaluation, other)]
    return found


def _told(run: SymbolicRun, other: SymbolicRun, evaluation: Evaluation, row: int) -> list[str]:
    for warp in sorted({(each.cta, each.warp) for each in run.conditions}):
        mine = [each for each in run.conditions if (each.cta, each.warp) == warp]
        theirs = [each for each in other.conditions if (each.cta, each.warp) == warp]
        for place, condition in enumerate(mine):
            try:
                value = evaluation.lanes(condition.node)[row][selector(condition.mask)]
            except CannotEvaluate:
                break
            if place >= len(theirs):
                return [f"{condition.kind} at {condition.position}: the other launch does not come here"]
            expected = _outcome(theirs[place])
            if theirs[place].position != condition.position or theirs[place].mask != condition.mask:
                return [f"{condition.kind} at {condition.position}: the other one is at {theirs[place].position}"]
            if not np.array_equal(value.astype(np.uint64), expected.astype(np.uint64)):
                return [f"{condition.kind} at {condition.position}: {value} but {expected}"]
            if not np.array_equal(expected.astype(np.uint64), _outcome(condition).astype(np.uint64)):
                break
    return []


def _outcome(condition: Condition) -> np.ndarray:
    outcome = condition.outcome
    inside = selector(condition.mask)
    return np.repeat(outcome, int(inside.sum())) if outcome.size == 1 else outcome[inside]
