"""What do wgmma's ops in thread-level MLIR read, and when are they done? `nvvm.wgmma.*` and `nvgpu.warpgroup.*`.

A wgmma's operands are decoded from its matrix descriptors, which `footprint` turns into byte ranges. `nvvm`'s
descriptors are integers. `nvgpu.warpgroup.generate.descriptor` has a view and a tensor map; which wgmmas the product of
two such descriptors becomes, and that it fences, commits and waits itself, is how upstream lowers it
(`NVGPUToNVVM`).

Not handled (doubts): elements of other than 16 bits, maps without a swizzle, products by a part of a warpgroup.
Checked by: tests/driver/check/test_check_nvgpu.py, test_check_upstream_nvgpu.py.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tilewright.contract.typestate.places.footprint import DEPTH_BYTES, merged, operand_ranges
from tilewright.contract.words.operations import attribute_number, number_token, plain_uses
from tilewright.contract.words.scalar import add
from tilewright.contract.words.thread_memory import fragment_ranges, span
from tilewright.contract.words.values import OPAQUE, Environment, InFlight, NotFollowed, View, bind, lookup
from tilewright.contract.words.walk import Walk
from tilewright.contract.words.word import GROUPS_PENDING_MAX, Piece, Region, Step
from tilewright.frontends.mlir.ast import Operation
from tilewright.frontends.mlir.reader import joined
from tilewright.frontends.mlir.types import memref
from tilewright.targets.operand_bits import offsets_of

GROUP_THREADS = 128
_DEPTH = DEPTH_BYTES // 2
"""Elements of 16 bits."""
_WGMMA_ROWS = 64
_SHAPE = re.compile(r"m=(\d+),n=(\d+),k=(\d+)")
_OPERAND = re.compile(r"\b([AB])\[<(\w+)>,<(\w+)>,<(\w+)>\]")
_SWIZZLES = {0: "none", 1: "128B", 2: "64B", 3: "32B"}
_SPANS = {"swizzle_128b": ("128B", 128), "swizzle_64b": ("64B", 64), "swizzle_32b": ("32B", 32)}
_MAP = re.compile(r"tensor=(memref<.*?>),swizzle=(\w+)")
_TENSOR = re.compile(r"tensor=(memref<[^>]*(?:<[^>]*>)?>)")
_FRAGMENT = re.compile(r"fragmented=vector<(\d+)x(\d+)x(\w+)>")
_NOT_AS_FOLLOWED = "a product that is not written as it is followed"


def together(walk: Walk, operation: Operation) -> None:
    """Raise NotFollowed unless all threads of a warpgroup come to the op."""
    if walk.part is not None:
        raise NotFollowed(operation.line, f"{operation.name} by a part of a warpgroup is not followed")
    if operation.name.startswith(("nvvm.wgmma", "nvgpu.warpgroup")) and walk.threads != GROUP_THREADS:
        raise NotFollowed(operation.line, f"{operation.name} in a block of no whole warpgroups is not followed")


def pending(operation: Operation) -> int:
    """The groups that a wait leaves pending."""
    found = number_token(operation)
    if found > GROUPS_PENDING_MAX:
        raise NotFollowed(operation.line, f"a wait that leaves {found} groups pending is not followed")
    return found


# ---------------------------------------------------------------- nvvm


def product(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvvm.wgmma.mma_async: its operands' bytes belong to the group that is committed next."""
    line = operation.line
    together(walk, operation)
    text = joined(operation.tokens).replace(" ", "")
    shape = _SHAPE.search(text)
    operands = {found[1]: (found[2], found[4]) for found in _OPERAND.finditer(text)}
    if shape is None or set(operands) != {"A", "B"} or shape[3] != "16":
        raise NotFollowed(line, "a wgmma that is not written as it is followed")
    names, _ = plain_uses(operation)
    for which, name, extent in (("A", names[0], int(shape[1])), ("B", names[1], int(shape[2]))):
        element, major = operands[which]
        if element not in ("bf16", "f16"):
            raise NotFollowed(line, f"a wgmma of {element} is not followed")
        descriptor = walk.integer(environment, name, line, "a matrix descriptor")
        transposed = (major == "col") if which == "A" else (major == "row")
        walk.pieces += _operand(descriptor, "MN" if transposed else "K", extent, line)
    bind(environment, operation.results[0], InFlight(add(walk.groups, 1)))


@lru_cache(maxsize=1024)
def _operand(descriptor: int, major: str, extent: int, line: int) -> tuple[Region, ...]:
    """The bytes that a matrix descriptor's operand has (PTX ISA 9.7.15.5.1.2)."""
    start, leading, stride = offsets_of(descriptor)
    swizzle = _SWIZZLES.get(descriptor >> 62 & 3)
    if swizzle is None:
        raise NotFollowed(line, "a matrix descriptor whose swizzle is not read")
    ranges = operand_ranges(major, swizzle, extent, leading, stride, (start,))
    return tuple([span(begin, end) for begin, end in ranges])


def commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    together(walk, operation)
    _committed(walk, operation.line)


def _committed(walk: Walk, line: int) -> None:
    regions: list[Region] = []
    for allocation in dict.fromkeys(piece.allocation for piece in walk.pieces):
        ranges = merged(piece.box[0] for piece in walk.pieces if piece.allocation == allocation)
        regions += [span(begin, end, allocation) for begin, end in ranges]
    walk.pieces = []
    walk.step(Step("dot", line, regions=tuple(regions)))
    walk.groups = add(walk.groups, 1)


def product_fence(walk: Walk, operation: Operation, environment: Environment) -> None:
    together(walk, operation)
    walk.step(Step("dot_fence", operation.line))


def wait_products(walk: Walk, operation: Operation, environment: Environment) -> None:
    together(walk, operation)
    walk.step(Step("dot_wait", operation.line, value=pending(operation)))


# ---------------------------------------------------------------- nvgpu


def descriptor(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.warpgroup.generate.descriptor: a view that remembers its map's swizzle and rows."""
    line = operation.line
    source = walk.view(environment, operation.uses[0], line)
    found = _MAP.search(operation.types)
    box = memref(found[1]) if found is not None else None
    if found is None or box is None or found[2] not in _SPANS or not box.shape:
        raise NotFollowed(line, "a matrix descriptor of a map without a swizzle is not followed")
    if not source.region.exact:
        raise NotFollowed(line, "a matrix descriptor of memory that is not known")
    if source.region.box[0][0] % (8 * _SPANS[found[2]][1]):
        raise NotFollowed(line, "a matrix descriptor of memory that does not begin with its swizzle's pattern")
    kind = f"operand {found[2]} {box.shape[0]}"
    bind(environment, operation.results[0], View(source.region, source.shape, source.element_bits, (), kind))


def whole_product(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.warpgroup.mma: fences, multiplies, commits, and waits for all groups but `waitGroup`."""
    line = operation.line
    together(walk, operation)
    names, _ = plain_uses(operation)
    tensors = [memref(text) for text in _TENSOR.findall(operation.types)]
    if len(names) != 3 or len(tensors) != 2 or tensors[0] is None or tensors[1] is None:
        raise NotFollowed(line, _NOT_AS_FOLLOWED)
    (rows, depth), (_, columns) = tensors[0].shape, tensors[1].shape
    if tensors[0].element_bits != 16 or tensors[1].element_bits != 16 or depth % _DEPTH or rows % _WGMMA_ROWS:
        raise NotFollowed(line, "a product of other elements than of 16 bits, or of a part of a wgmma, is not followed")
    flags = {token.text for token in operation.tokens if token.kind == "word"} | set(operation.attributes)
    walk.step(Step("dot_fence", line))
    left, left_rows = _descriptor(environment, names[0], line)
    right, right_rows = _descriptor(environment, names[1], line)
    steps = range(depth // _DEPTH)
    starts = tuple(
        _whole((_DEPTH * k + depth * depth * tile) * 2) for tile in range(rows // _WGMMA_ROWS) for k in steps
    )
    walk.pieces += _read(left, left_rows, "transposeA" in flags, _WGMMA_ROWS, starts)
    starts = tuple(_whole(tensors[1].shape[0] * _DEPTH * k * 2) for k in steps)
    walk.pieces += _read(right, right_rows, "transposeB" in flags, columns, starts)
    _committed(walk, line)
    left_pending = attribute_number(operation, "waitGroup") if "waitGroup" in operation.attributes else 1
    walk.step(Step("dot_wait", line, value=left_pending))
    bind(environment, operation.results[0], InFlight(walk.groups))


def _descriptor(environment: Environment, name: str, line: int) -> tuple[View, int]:
    found = lookup(environment, name, line)
    if not isinstance(found, View) or not found.kind.startswith("operand "):
        raise NotFollowed(line, f"%{name} is no matrix descriptor that is followed")
    return found, int(found.kind.split()[2])


def _whole(offset_bytes: int) -> int:
    """An offset as a descriptor holds it: in units of 16 bytes."""
    return offset_bytes >> 4 << 4


def _read(source: View, rows: int, transposed: bool, extent: int, starts: tuple[int, ...]) -> list[Region]:
    """What the wgmmas of one operand read, with the strides that the lowering gives its descriptor."""
    swizzle, width = _SPANS[source.kind.split()[1]]
    ranges = operand_ranges("MN" if transposed else "K", swizzle, extent, _whole(rows * width), 8 * width, starts)
    begin = source.region.box[0][0]
    return [span(begin + first, begin + last, source.region.allocation) for first, last in ranges]


def store(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.warpgroup.mma.store: each thread writes its accumulators to memory."""
    line = operation.line
    together(walk, operation)
    value = environment.get(operation.uses[0])
    if isinstance(value, InFlight):
        walk.use_in_flight(value, line)
    target = lookup(environment, operation.uses[1], line)
    fragment = _FRAGMENT.search(operation.types)
    if not isinstance(target, View):
        if (described := memref(operation.types.rsplit("to ", 1)[-1])) is None or described.shared:
            raise NotFollowed(line, "a store of accumulators to memory that is not followed")
        return
    if fragment is None or target.strides is None or len(target.strides) != 2 or int(fragment[1]) % _WGMMA_ROWS:
        raise NotFollowed(line, "a store of accumulators that is not written as it is followed")
    threads = fragment_ranges(walk, target, int(fragment[2]), int(fragment[1]) // _WGMMA_ROWS)
    pieces = sorted(Piece(begin, end, place) for place, own in enumerate(threads) for begin, end in own)
    box = (pieces[0].begin, max(piece.end for piece in pieces))
    walk.step(Step("write", line, regions=(Region(target.region.allocation, (box,), True, False, tuple(pieces)),)))


def begin(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.warpgroup.mma.init.accumulator."""
    bind(environment, operation.results[0], OPAQUE)
