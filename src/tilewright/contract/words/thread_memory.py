"""Which bytes of shared memory do the ops of thread-level MLIR name, and which thread touches which?

Shared memory is dynamic, with byte offsets from where it begins, or an allocation of its own: a `memref.global`, what
`nvgpu.mbarrier.create` makes, a function's workgroup memory. A global of no elements is dynamic shared memory under
another name, as lowering has it. Views, parts and casts of these are bytes with strides. What a thread touches follows
from its indices where these are known; else the op touches some of the view, and a conflict is a reason for doubt.

Not handled (doubts): strides that are left open where an index is not 0, memory in other spaces' disguise, ops that are
not listed. Checked by: tests/driver/check/test_check_upstream_nvgpu.py, test_check_nvgpu.py.
"""

from __future__ import annotations

import re

from tilewright.contract.words.operations import attribute_number, plain_uses
from tilewright.contract.words.scalar import Number, add
from tilewright.contract.words.threads import acting, by_thread, numbers
from tilewright.contract.words.values import OPAQUE, Environment, InFlight, NotFollowed, Value, View, bind, lookup
from tilewright.contract.words.walk import Walk
from tilewright.contract.words.word import GROUPS_PENDING_MAX, Piece, Region, Step
from tilewright.frontends.mlir.ast import Operation, Token
from tilewright.frontends.mlir.types import MemRef, memref, row_major, shaped, split_types

SHARED = "shared memory"
_ALL_BYTES = 1 << 30
_SHARED_TYPE = re.compile(r"memref<[^>]*?(?:>)?,(?:3|#gpu\.address_space<workgroup>)>")


def span(begin: int, end: int, allocation: str = SHARED) -> Region:
    """Bytes of an allocation, of dynamic shared memory if it is not named."""
    return Region(allocation, ((begin, end),))


def allocated(name: str, described: MemRef, line: int) -> View:
    """An allocation of a type."""
    if described.strides is None or -1 in described.shape:
        raise NotFollowed(line, f"%{name} is shared memory of a size that is not known")
    if 0 in described.shape:
        return View(span(0, _ALL_BYTES), described.shape, described.element_bits, (), "shared", described.strides, 0)
    size = described.element_bits
    for extent in described.shape:
        size *= extent
    region = span(0, size // 8, name)
    return View(region, described.shape, described.element_bits, (), "shared", described.strides, 0)


def type_after(operation: Operation) -> MemRef | None:
    """The memref that an op's types end with."""
    return memref(split_types(operation.types.rsplit("to ", 1)[-1])[-1]) if operation.types else None


# ---------------------------------------------------------------- views


def base(walk: Walk, operation: Operation, environment: Environment) -> None:
    """gpu.dynamic_shared_memory."""
    bind(environment, operation.results[0], View(span(0, _ALL_BYTES), (-1,), 8, (0,), "shared", (1,), 0))


def global_memory(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.get_global, memref.alloc and memref.alloca: memory of a block where its type says so."""
    described = type_after(operation)
    value: Value = OPAQUE
    if described is not None and described.shared:
        symbol = next((token.text for token in operation.tokens if token.kind == "symbol"), "")
        name = f"@{symbol}" if symbol else f"%{operation.results[0]} of line {operation.line}"
        value = allocated(name, described, operation.line)
    elif described is None and is_shared_type(operation.types):
        raise NotFollowed(operation.line, f"shared memory of type {operation.types} is not followed")
    bind(environment, operation.results[0], value)


def is_shared_type(types: str) -> bool:
    return _SHARED_TYPE.search(types) is not None


def pointer(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.extract_aligned_pointer_as_index."""
    value = lookup(environment, operation.uses[0], operation.line)
    found: Value = walk.unknown(operation.results[0])
    if isinstance(value, View) and value.region.allocation == SHARED:
        found = value.base
    bind(environment, operation.results[0], found)


def view(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.view: bytes from an offset on, as a type."""
    line = operation.line
    source = lookup(environment, operation.uses[0], line)
    described = shaped(operation.types.rsplit("to ", 1)[-1])
    if not isinstance(source, View):
        bind(environment, operation.results[0], OPAQUE)
        return
    if described is None:
        raise NotFollowed(line, f"shared memory of type {operation.types} is not followed")
    offset = walk.integer(environment, operation.uses[1], line, "an offset in shared memory")
    begin = source.base + offset
    region = span(begin, begin + described.size_bytes, source.region.allocation)
    shape, bits = described.shape, described.element_bits
    bind(environment, operation.results[0], View(region, shape, bits, (), "shared", row_major(shape), begin))


def part(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.subview."""
    line = operation.line
    source = lookup(environment, operation.uses[0], line)
    if not isinstance(source, View):
        bind(environment, operation.results[0], OPAQUE)
        return
    groups = [_entries(walk, group, environment, line) for group in _groups(operation)]
    described = type_after(operation)
    if len(groups) != 3 or described is None or len({len(group) for group in groups}) != 1 or source.strides is None:
        raise NotFollowed(line, "a part of shared memory that is not written as it is followed")
    offsets, extents, steps = groups
    shape = tuple(value for value in extents if isinstance(value, int))
    if len(shape) != len(source.strides) or any(not isinstance(each, int) for each in steps):
        raise NotFollowed(line, "a part of shared memory whose extents are not known")
    strides = tuple(stride * step for stride, step in zip(source.strides, steps, strict=True) if isinstance(step, int))
    begin = walk.resolved(_address(source, offsets, line))
    if not isinstance(begin, int):
        # It lies somewhere in the source.
        found = View(source.region._replace(exact=False), described.shape, source.element_bits, (), "shared")
        bind(environment, operation.results[0], found)
        return
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + 1
    region = span(begin, begin + last * source.element_bits // 8, source.region.allocation)
    kept = _kept_dimensions(shape, described.shape, line)
    strides = tuple(strides[place] for place in kept)
    bind(
        environment,
        operation.results[0],
        View(region, described.shape, source.element_bits, (), "shared", strides, source.base),
    )


def _groups(operation: Operation) -> list[list[Token]]:
    """What stands in each of an op's square brackets."""
    found: list[list[Token]] = []
    depth = 0
    for token in operation.tokens:
        if token.kind == "mark" and token.text == "[":
            depth += 1
            found.append([])
        elif token.kind == "mark" and token.text == "]":
            depth -= 1
        elif depth:
            found[-1].append(token)
    return found


def _entries(walk: Walk, tokens: list[Token], environment: Environment, line: int) -> list[Number]:
    """Numbers and values between commas."""
    found: list[Number] = []
    for token in tokens:
        if token.kind == "value":
            found.append(walk.number(environment, token.text, line))
        elif token.kind == "number" and token.text.isdigit():
            found.append(int(token.text))
        elif token.text != ",":
            raise NotFollowed(line, f"{token.text!r} among offsets or extents is not followed")
    return found


def _kept_dimensions(extents: tuple[int, ...], shape: tuple[int, ...], line: int) -> list[int]:
    """Which dimensions are left where those of extent 1 are dropped."""
    kept: list[int] = []
    for place, extent in enumerate(extents):
        left = len(extents) - place
        if len(kept) < len(shape) and extent == shape[len(kept)]:
            if extent == 1 and left > len(shape) - len(kept) and 1 not in shape:
                continue
            kept.append(place)
        elif extent != 1:
            break
    if len(kept) != len(shape):
        raise NotFollowed(line, "a part of memory whose shape is not that of its type")
    return kept


def _address(source: View, indices: list[Number], line: int) -> Number:
    """The byte of an element."""
    if source.strides is None or not source.region.exact:
        raise NotFollowed(line, "a part of memory that is not known itself")
    if len(source.strides) != len(indices):
        raise NotFollowed(line, "a memory is indexed by another number of indices than it has dimensions")
    found: Number = source.region.box[0][0]
    for index, stride in zip(indices, source.strides, strict=True):
        found = add(found, index, stride * source.element_bits // 8)
    return found


def recast(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.reinterpret_cast: a type from an offset of the pointer on."""
    line = operation.line
    source = lookup(environment, operation.uses[0], line)
    if not isinstance(source, View):
        bind(environment, operation.results[0], OPAQUE)
        return
    groups = [_entries(walk, group, environment, line) for group in _groups(operation)]
    if len(groups) != 3 or len(groups[0]) != 1 or len(groups[1]) != len(groups[2]):
        raise NotFollowed(line, "a cast of shared memory that is not written as it is followed")
    known = [[walk.resolved(value) for value in group] for group in groups]
    offset, shape, strides = (tuple(value for value in group if isinstance(value, int)) for group in known)
    if len(offset) != 1 or len(shape) != len(groups[1]) or len(strides) != len(groups[2]):
        raise NotFollowed(line, "a cast of shared memory whose extents are not known")
    begin = source.base + offset[0] * source.element_bits // 8
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + 1
    region = span(begin, begin + last * source.element_bits // 8, source.region.allocation)
    found = View(region, shape, source.element_bits, (), "shared", strides, source.base)
    bind(environment, operation.results[0], found)


def same(walk: Walk, operation: Operation, environment: Environment) -> None:
    """An op whose result is its operand."""
    value = environment.get(operation.uses[0], OPAQUE)
    for name in operation.results:
        bind(environment, name, value)


# ---------------------------------------------------------------- accesses


def touched(walk: Walk, source: View, indices: list[Number], size: int, line: int) -> Region:
    """What the acting threads touch, `size` bytes each from an element on."""
    if source.strides is None or len(source.strides) != len(indices):
        return source.region._replace(exact=False)
    address = walk.resolved(_address(source, indices, line)) if source.region.exact else None
    begins = by_thread(walk, address) if address is not None else None
    if begins is None:
        return source.region._replace(exact=False)
    return pieces_of(walk, source.region.allocation, [(begin, begin + size) for begin in begins])


def pieces_of(walk: Walk, allocation: str, ranges: list[tuple[int, int]]) -> Region:
    """Ranges by thread, those of threads that act."""
    if walk.part is not None and walk.part.elected:
        own = {ranges[place] for place in range(walk.threads) if walk.part.members >> place & 1}
        begin, end = min(begin for begin, _ in own), max(end for _, end in own)
        return Region(allocation, ((begin, end),), len(own) == 1)
    members = acting(walk)
    pieces = sorted(Piece(begin, end, place) for place, (begin, end) in enumerate(ranges) if members >> place & 1)
    box = (pieces[0].begin, max(piece.end for piece in pieces))
    return Region(allocation, (box,), True, False, tuple(pieces))


def _memory(operation: Operation, environment: Environment, name: str) -> View | None:
    """The shared memory that an access names; None for memory of other kinds."""
    value = environment.get(name)
    if isinstance(value, View):
        return value
    if is_shared_type(operation.types):
        raise NotFollowed(operation.line, f"%{name} is shared memory that is not followed")
    return None


def _indices(walk: Walk, operation: Operation, environment: Environment) -> list[Number]:
    groups = _groups(operation)
    return _entries(walk, groups[0], environment, operation.line) if groups else []


def _size(operation: Operation, source: View) -> int:
    """Bytes that a thread reads or writes: a vector, or one element."""
    vectors = [found for each in split_types(operation.types.replace("into ", ",")) if each.startswith("vector<")
               and (found := shaped(each)) is not None]  # fmt: skip
    if vectors and operation.name.startswith("vector."):
        return vectors[-1].size_bytes
    return source.element_bits // 8


def write(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.store and vector.store, whose memory stands second."""
    _touch_registers(walk, operation, environment)
    names, _ = plain_uses(operation)
    source = _memory(operation, environment, names[1])
    if source is not None:
        indices = _indices(walk, operation, environment)
        region = touched(walk, source, indices, _size(operation, source), operation.line)
        walk.step(Step("write", operation.line, regions=(region,)))


def write_somewhere(walk: Walk, operation: Operation, environment: Environment) -> None:
    """vector.scatter and vector.transfer_write: places that are not known one by one."""
    _touch_registers(walk, operation, environment)
    names, _ = plain_uses(operation)
    source = _memory(operation, environment, names[0 if operation.name == "vector.scatter" else 1])
    if source is not None:
        walk.step(Step("write", operation.line, regions=(source.region,)))


def read(walk: Walk, operation: Operation, environment: Environment) -> None:
    """memref.load and vector.load."""
    names, _ = plain_uses(operation)
    source = _memory(operation, environment, names[0])
    if source is not None:
        indices = _indices(walk, operation, environment)
        region = touched(walk, source, indices, _size(operation, source), operation.line)
        walk.step(Step("read", operation.line, regions=(region,)))
    for name in operation.results:
        bind(environment, name, walk.unknown(name))


def read_somewhere(walk: Walk, operation: Operation, environment: Environment) -> None:
    """Reads at places that are not known one by one: vector.gather, nvgpu.ldmatrix, whose rows go to other threads than
    those that name them."""
    names, _ = plain_uses(operation)
    source = _memory(operation, environment, names[0])
    if source is not None:
        walk.step(Step("read", operation.line, regions=(source.region._replace(exact=False),)))
    for name in operation.results:
        bind(environment, name, walk.unknown(name))


def _touch_registers(walk: Walk, operation: Operation, environment: Environment) -> None:
    for use in operation.uses:
        held = environment.get(use)
        if isinstance(held, InFlight):
            walk.use_in_flight(held, operation.line)


# ---------------------------------------------------------------- cp.async


def copy(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.device_async_copy: source, places, destination, places, elements (PTX ISA 9.7.9.25.3.1)."""
    line = operation.line
    names, _ = plain_uses(operation)
    if len(names) < 2:
        raise NotFollowed(line, "a copy that is not written as it is followed")
    target = _memory(operation, environment, names[1])
    if target is None:
        raise NotFollowed(line, f"%{names[1]} is no shared memory that is followed")
    elements = [token for token in operation.tokens if token.kind == "number" and token.text.isdigit()]
    groups = _groups(operation)
    if not elements or len(groups) != 2:
        raise NotFollowed(line, "a copy whose number of elements is not read")
    size = int(elements[-1].text) * target.element_bits // 8
    places = _entries(walk, groups[1], environment, line)
    walk.step(Step("copy", line, regions=(touched(walk, target, places, size, line),)))
    bind(environment, operation.results[0], OPAQUE)


def copy_commit(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.device_async_create_group."""
    walk.step(Step("copy_commit", operation.line))
    for name in operation.results:
        bind(environment, name, OPAQUE)


def copy_wait(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvgpu.device_async_wait: leaves no group pending where it does not say."""
    pending = attribute_number(operation, "numGroups") if "numGroups" in operation.attributes else 0
    if pending > GROUPS_PENDING_MAX:
        raise NotFollowed(operation.line, f"a wait that leaves {pending} groups pending is not followed")
    walk.step(Step("copy_wait", operation.line, value=pending))


def fragment_ranges(walk: Walk, target: View, columns: int, tiles: int) -> list[list[tuple[int, int]]]:
    """The bytes of each thread where a warpgroup stores accumulators of 64 rows: a warp has 16 rows, a thread two
    neighbours in every eighth column of two of them (PTX ISA 9.7.15.5.1.1). Tiles follow each other as upstream lowers
    `nvgpu.warpgroup.mma.store`: as many rows apart as a thread has registers."""
    element = target.element_bits // 8
    assert target.strides is not None
    rows, inner = target.strides
    start = target.region.box[0][0]
    found: list[list[tuple[int, int]]] = []
    for number in numbers(walk):
        own: list[tuple[int, int]] = []
        lane, warp = number % 32, number // 32
        for tile in range(tiles):
            for stacked in (0, 8):
                row = tile * (columns // 2) + 16 * warp + lane // 4 + stacked
                for column in range(2 * (lane % 4), columns, 8):
                    begin = start + (row * rows + column * inner) * element
                    own += [(begin, begin + element), (begin + inner * element, begin + inner * element + element)]
        found.append(own)
    return found
