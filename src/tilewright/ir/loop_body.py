"""What does one iteration of a tile loop compute? Loads, products and work on elements, before anyone says who does it.

A body is what a task graph is made from: of a program's dots by the synthesiser, or written down by a person for a loop
that no kernel is compiled of yet, such as attention's. Values are tiles of rows by columns; rows are divided among the
consumer warpgroups, which therefore repeat every operation but the loads.

Checked by: tests/synth/schedule/test_loop_tasks.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.error import TilewrightError


@dataclass(frozen=True, slots=True)
class LoadTile:
    """rows x columns elements from memory by the copy engine. ring: whose slots it fills, with other loads perhaps."""

    name: str
    ring: str
    rows: int
    columns: int
    element_bytes: int


@dataclass(frozen=True, slots=True)
class Multiply:
    """rows x depth by depth x columns. accumulates: onto what the iteration before left, held in registers throughout;
    otherwise the product is a value of this iteration. Operands are loads, or values of this iteration in registers;
    empty where an operand lies in shared memory throughout."""

    name: str
    left: str
    right: str
    rows: int
    columns: int
    depth: int
    element_bytes: int
    accumulates: bool = True


@dataclass(frozen=True, slots=True)
class Compute:
    """Work on each of rows x columns elements: cuda_operations of the CUDA cores and special_operations of the
    special-function units, in hundredths of an operation. result_registers: that a thread of a warpgroup needs for the
    result, in hundredths for each of its elements; 0 where it changes what is there. kept_registers: the same for what
    it keeps from iteration to iteration."""

    name: str
    reads: tuple[str, ...]
    rows: int
    columns: int
    cuda_operations: int = 100
    special_operations: int = 0
    result_registers: int = 0
    kept_registers: int = 0


@dataclass(frozen=True, slots=True)
class Carried:
    """`target` of an iteration needs `source` of the iteration before."""

    source: str
    target: str


BodyOperation = LoadTile | Multiply | Compute


@dataclass(frozen=True, slots=True)
class LoopBody:
    """operations in the order of the program. consumers: warpgroups that share the rows. consumer_registers: per thread
    for values and accumulators. slots_min, slots_max: of each ring. shared_bytes: for all rings. trips: iterations of
    the loop. release_distance: a consumer waits for a slot's products onto accumulators, and releases it, once those of
    so many further iterations are issued, which keep the tensor cores busy meanwhile, and before it issues any more;
    None where nothing says when it waits. cached: what is loaded lies in the L2 cache, and does not come from device
    memory."""

    name: str
    operations: tuple[BodyOperation, ...]
    carried: tuple[Carried, ...]
    consumers: int
    consumer_registers: int
    shared_bytes: int
    trips: int
    slots_max: int = 32
    slots_min: int = 1
    release_distance: int | None = None
    cached: bool = True


def check_body(body: LoopBody) -> LoopBody:
    """The body. Raises TilewrightError, naming the operation, for one that reads what does not come before it."""

    def refuse(what: str, remedy: str) -> TilewrightError:
        return TilewrightError(f"loop {body.name}: {what}", remedy=remedy)

    if (
        body.consumers < 1
        or body.trips < 1
        or body.slots_max < 1
        or min(body.consumer_registers, body.shared_bytes, body.release_distance or 0) < 0
    ):
        raise refuse(
            "no consumer, iteration or slot, or a negative budget or distance",
            "consumers, trips and slots_max are 1 or more",
        )
    seen: list[str] = []
    for operation in body.operations:
        numbers = [operation.rows, operation.columns]
        match operation:
            case LoadTile():
                reads: tuple[str, ...] = ()
                numbers.append(operation.element_bytes)
            case Multiply():
                reads = tuple(name for name in (operation.left, operation.right) if name)
                numbers += [operation.depth, operation.element_bytes]
            case Compute():
                reads = operation.reads
        if not operation.name or operation.name in seen or "@" in operation.name:
            raise refuse(f"operation {operation.name!r} is nameless or there twice", "give each a name without @")
        if min(numbers) < 1:
            raise refuse(f"{operation.name} has an extent below 1", "give rows, columns and depth of the tile")
        if not isinstance(operation, LoadTile) and operation.rows % body.consumers:
            raise refuse(
                f"{body.consumers} consumers cannot share {operation.name}'s {operation.rows} rows", "divide evenly"
            )
        for name in reads:
            if name not in seen:
                raise refuse(f"{operation.name} reads {name}, which no earlier operation makes", "order the operations")
        if (
            isinstance(operation, Compute)
            and min(
                operation.cuda_operations,
                operation.special_operations,
                operation.result_registers,
                operation.kept_registers,
            )
            < 0
        ):
            raise refuse(f"{operation.name} has a negative cost", "costs are 0 or more")
        seen.append(operation.name)
    if not seen:
        raise refuse("no operations", "give it a load and a product at least")
    loads = {operation.name for operation in body.operations if isinstance(operation, LoadTile)}
    for each in body.carried:
        if not {each.source, each.target} <= set(seen) - loads:
            raise refuse(f"{each.source} -> {each.target} is carried between no operations", "name products or work")
    return body
