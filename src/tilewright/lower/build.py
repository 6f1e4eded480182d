"""How ac ops are put together: a kernel under construction, and one constructor for each shape of op that recurs.

Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.base.size import Range, Size
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import TensorMemoryOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import MapDecision
from tilewright.ir.sizes import SizeAttr, ranges_attr, size_array
from tilewright.ir.tier import ExecutionAttr, MemoryType, int_array

INDEX = ac.IndexType()


@dataclass(slots=True)
class Build:
    """A kernel under construction: the block at whose end ops go now."""

    block: Block

    def add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def value(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def inside(self, block: Block) -> Build:
        return Build(block)

    def results(self) -> Sequence[SSAValue]:
        """Results of the operation inside of which ops go now."""
        around = self.block.parent_op()
        assert around is not None
        return around.results


def affine(build: Build, terms: Sequence[tuple[SSAValue, int]], constant: int) -> SSAValue:
    properties = {"coefficients": int_array([c for _, c in terms]), "constant": IntAttr(constant)}
    return build.value(ac.AffineOp.create(operands=[v for v, _ in terms], properties=properties, result_types=[INDEX]))


def global_array(
    build: Build, buffer: Buffer, shape: Sequence[Size] | None = None, strides: Sequence[Size] | None = None
) -> SSAValue:
    """shape, strides: where they are not the buffer's."""
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(buffer.name),
        "buffer": StringAttr(buffer.name),
        "shape": size_array(buffer.shape if shape is None else shape),
        "strides": size_array(buffer.strides if strides is None else strides),
    }
    result = ac.GlobalType(StringAttr(buffer.element.value), IntAttr(len(buffer.shape)))
    return build.value(ac.GlobalOp.create(properties=properties, result_types=[result]))


def name_arrays_apart(module: ModuleOp) -> None:
    """Give arrays other symbols where a kernel has theirs for something of its own, such as its roles and rings: what
    parameters are called is the author's affair. The plan goes by `buffer`, which stays."""
    for kernel in module.walk():
        if not isinstance(kernel, ac.KernelOp):
            continue
        ops = list(kernel.body.block.ops)
        own = (ac.RingOp, ac.BufferOp, ac.TensorMapOp, ac.RoleOp, TensorMemoryOp)
        taken = {op.sym_name.data for op in ops if isinstance(op, own)}
        arrays = [op for op in ops if isinstance(op, ac.GlobalOp)]
        names = taken | {op.sym_name.data for op in arrays}
        for op in arrays:
            if op.sym_name.data in taken:
                name = op.sym_name.data
                while name in names:
                    name += "_array"
                names.add(name)
                op.properties["sym_name"] = StringAttr(name)


def shared_buffer(build: Build, name: str, address: int, size_bytes: int) -> SSAValue:
    """Shared memory of bytes, one slot, that no ring guards."""
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "address": IntAttr(address),
        "instances": IntAttr(1),
    }
    kind = MemoryType(
        StringAttr("SMEM"), StringAttr(Element.U8.value), IntAttr(1), IntAttr(size_bytes), StringAttr("none")
    )
    return build.value(ac.BufferOp.create(properties=properties, result_types=[kind]))


def tensor_map(
    build: Build, name: str, buffer: str, decision: MapDecision, dims: Sequence[Size] | None = None,
    strides_bytes: Sequence[Size] | None = None,
) -> SSAValue:  # fmt: skip
    """dims, strides_bytes: where they are not those decided."""
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(f"{name}_map"),
        "buffer": StringAttr(buffer),
        "element": StringAttr(decision.element),
        "dims": size_array(decision.dims if dims is None else dims),
        "strides_bytes": size_array(decision.strides_bytes if strides_bytes is None else strides_bytes),
        "box": int_array(decision.box),
        "l2_promotion": StringAttr(decision.l2_promotion),
    }
    align = {"128B": 1024, "64B": 512, "32B": 256}.get(decision.swizzle, 128)
    result = ac.DescriptorType(
        IntAttr(len(decision.dims)), StringAttr(decision.swizzle), StringAttr("none"), IntAttr(align)
    )
    return build.value(ac.TensorMapOp.create(properties=properties, result_types=[result]))


def new_kernel(
    name: str,
    symbols: dict[str, tuple[int, int]],
    grid: tuple[Size, int, int],
    cluster: tuple[int, int, int],
    threads: int,
    smem_bytes: int,
    registers: int,
    ranges: Mapping[str, Range] = MappingProxyType({}),
    counts: Mapping[str, Size] = MappingProxyType({}),
) -> tuple[ModuleOp, Build]:
    """symbols: value and minimum by name; ranges: of run-time axes; counts: sizes of symbols, by name, of which those
    are kept that only the launch knows."""
    known_late = {key: SizeAttr(StringAttr(str(size))) for key, size in counts.items() if not isinstance(size, int)}
    block = Block()
    kernel = ac.KernelOp.create(
        properties={
            "sym_name": StringAttr(name),
            "symbols": DictionaryAttr({key: IntAttr(value) for key, (value, _) in symbols.items()}),
            "minima": DictionaryAttr({key: IntAttr(least) for key, (_, least) in symbols.items()}),
            **({"ranges": ranges_attr(ranges)} if ranges else {}),
            **({"counts": DictionaryAttr(known_late)} if known_late else {}),
            "grid": size_array(grid),
            "cluster": int_array(cluster),
            "block": int_array((threads, 1, 1)),
            "dynamic_smem_bytes": IntAttr(smem_bytes),
            "launch_registers": IntAttr(registers),
        },
        regions=[Region(block)],
    )
    return ModuleOp([kernel]), Build(block)


def new_role(
    build: Build,
    name: str,
    unit: str,
    count: int,
    first: int,
    registers: int,
    warp_rows: int | None = None,
    *,
    leader: bool = False,
    elected: bool = False,
) -> tuple[Build, SSAValue]:
    block = Block(arg_types=[INDEX])
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr(name),
        "execution": ExecutionAttr(StringAttr(unit), IntAttr(count), IntAttr(first)),
        "registers": IntAttr(registers),
    }
    properties |= {} if warp_rows is None else {"warp_rows": IntAttr(warp_rows)}
    properties |= {"leader": IntAttr(1)} if leader else {}
    properties |= {"elected": IntAttr(1)} if elected else {}
    build.add(ac.RoleOp.create(properties=properties, regions=[Region(block)]))
    return build.inside(block), block.args[0]


def wait_for_launch_before(build: Build, *, releases_first: bool = False) -> None:
    """The launches before have ended behind this, and the next one may begin: it then waits for this one alone.
    releases_first: whether the next one may begin before that. It waits for the end of this one, which ends behind its
    own wait."""
    for op in (ac.GridReleaseOp, ac.GridWaitOp) if releases_first else (ac.GridWaitOp, ac.GridReleaseOp):
        build.add(op.create())


def order_properties(d: CascadeDecisions) -> dict[str, Attribute]:
    """In which order tiles are taken; see `ir.tile.order`."""
    order: dict[str, Attribute] = {} if d.tile_order == "grouped" else {"order": StringAttr(d.tile_order)}
    return {"raster_group": IntAttr(d.raster_group), **order}


def counted_loop(
    build: Build,
    begin: int,
    carried: Sequence[SSAValue],
    copies: int = 1,
    symbol: str = "K",
    types: Sequence[Attribute] | None = None,
) -> tuple[Build, Block, ac.LoopOp]:
    """types: of carried values in the loop, where they are not those that enter it."""
    types = [value.type for value in carried] if types is None else types
    block = Block(arg_types=[INDEX, *types])
    op = ac.LoopOp.create(
        operands=list(carried),
        result_types=list(types),
        properties={"symbol": StringAttr(symbol), "begin": IntAttr(begin)}
        | ({"copies": IntAttr(copies)} if copies > 1 else {}),
        regions=[Region(block)],
    )
    build.add(op)
    return build.inside(block), block, op


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, with as many underscores behind it as nothing else is named."""
    return name if name not in taken else free_name(f"{name}_", taken)
