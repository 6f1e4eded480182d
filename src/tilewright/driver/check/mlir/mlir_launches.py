"""Which functions of a module of thread-level MLIR are kernels, by how many threads is each run, and with what values?

A kernel is a `gpu.func`, or the body of a `gpu.launch` inside a host function, which upstream outlines under the
function's name. A block's extents are those of the launch (`gpu.launch`, or the `gpu.launch_func`s that name the
kernel), else the function's own. Of the host code around a launch, integers are evaluated as far as they are made of
constants; what the host allocates, copies and calls is not looked at: it is done before the kernel begins.

Functions that use a block's memory or barriers, and that nothing launches, are reported as unknown.
Checked by: tests/driver/check/test_check_upstream_nvgpu.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright.contract.words import thread_memory, threads
from tilewright.contract.words.integers import INTEGER_HANDLERS
from tilewright.contract.words.nvgpu import begin_threads, block_extents
from tilewright.contract.words.operations import is_integer
from tilewright.contract.words.scalar import Number
from tilewright.contract.words.values import OPAQUE, Environment, NotFollowed, Value
from tilewright.contract.words.walk import Program, Walk
from tilewright.contract.words.word import Word
from tilewright.frontends.mlir.ast import Argument, Document, Operation, Region, Token, walk
from tilewright.frontends.mlir.reader import arguments_of, joined
from tilewright.frontends.mlir.types import memref

_AXES = "xyz"
_NAME = r"%([\w$.#-]+)"
_NAMED = rf"\({_NAME},{_NAME},{_NAME}\)in\({_NAME}={_NAME},{_NAME}={_NAME},{_NAME}={_NAME}\)"
_CHIP = re.compile(r'chip="(\w+)"')
_THREADS = re.compile(r"\bthreads" + _NAMED)
_BLOCKS = re.compile(r"\bblocks" + _NAMED)
_CLUSTERS = re.compile(r"\bclusters" + _NAMED)
_THREADS_OF_FUNCTION = re.compile(rf"\bthreads in\({_NAME},{_NAME},{_NAME}\)")
_BLOCK_OPERATIONS = ("nvgpu.mbarrier", "nvgpu.tma.async", "nvgpu.warpgroup", "nvgpu.device_async", "nvgpu.ldmatrix",
                     "nvvm.", "gpu.barrier", "gpu.thread_id")  # fmt: skip
THREADS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel of thread-level MLIR. operation: the function, or the launch; begin: evaluates its agents' words; lacks:
    why it can't be judged, if it can't."""

    name: str
    target: str
    operation: Operation
    body: Region
    begin: Callable[[Program], None]
    lacks: str = ""


def launched_kernels(document: Document) -> Iterator[Launched]:
    """The kernels of thread-level MLIR, in the order of the text."""
    launches = _launches_of_functions(document)
    for top in document.operations:
        yield from _kernels(top, "", launches)


@dataclass(frozen=True, slots=True)
class _Host:
    """Where a launch stands: the operations around it that come before it, and the arguments that are in sight."""

    function: str
    before: tuple[Operation, ...] = ()
    arguments: tuple[Argument, ...] = ()


def _kernels(top: Operation, target: str, launches: dict[str, list[tuple[_Host, Operation]]]) -> Iterator[Launched]:
    if top.name == "gpu.module" and (chip := _CHIP.search(joined(top.tokens))):
        target = chip[1]
    if top.name == "gpu.func":
        if "kernel" in {token.text for token in top.tokens if token.kind == "word"} and top.regions:
            yield _function(top, target, launches.get(_symbol(top), []))
    elif top.name == "func.func" or (top.name == "llvm.func" and top.regions):
        if top.regions:
            yield from _launches(top, target)
    else:
        for region in top.regions:
            for inner in region.operations:
                yield from _kernels(inner, target, launches)


def _symbol(operation: Operation) -> str:
    return next((token.text for token in operation.tokens if token.kind == "symbol"), "")


# ---------------------------------------------------------------- functions


def _launches_of_functions(document: Document) -> dict[str, list[tuple[_Host, Operation]]]:
    """The `gpu.launch_func`s by the name of the kernel."""
    found: dict[str, list[tuple[_Host, Operation]]] = {}
    for operation in document.walk():
        if operation.name == "func.func" and operation.regions:
            for host, launch in _inside(operation.regions[0], _Host(_symbol(operation)), "gpu.launch_func"):
                symbols = [token.text for token in launch.tokens if token.kind == "symbol"]
                if symbols:
                    found.setdefault(symbols[-1], []).append((host, launch))
    return found


def _inside(region: Region, host: _Host, name: str) -> Iterator[tuple[_Host, Operation]]:
    """The operations called `name` in a host function, each with what comes before it."""
    before = host.before
    arguments = (*host.arguments, *region.arguments)
    for operation in region.operations:
        here = _Host(host.function, before, arguments)
        if operation.name == name:
            yield here, operation
        elif operation.name != "gpu.launch":
            for inner in operation.regions:
                yield from _inside(inner, here, name)
        before = (*before, operation)


def _function(operation: Operation, target: str, launches: list[tuple[_Host, Operation]]) -> Launched:
    own = block_extents(operation)

    def begin(program: Program) -> None:
        found = {_extents(program, host, launch, _THREADS_OF_FUNCTION) for host, launch in launches}
        blocks = found or {own}
        if len(blocks) > 1:
            raise NotFollowed(operation.line, f"{_symbol(operation)} is launched with blocks of different extents")
        block = next(iter(blocks))
        if block is None:
            reason = "neither a launch nor nvvm.reqntid nor known_block_size says how many threads a block has"
            raise NotFollowed(operation.line, reason)
        given: Environment = {}
        for argument in arguments_of(operation.tokens):
            given[argument.name] = _argument(program, argument)
        given |= _workgroup_memory(operation)
        _begin(operation, given, block, program, None)

    return Launched(_symbol(operation), target, operation, operation.regions[0], begin)


def _argument(program: Program, argument: Argument) -> Value:
    if is_integer(argument.type.partition("{")[0]):
        return program.atoms.of("argument", argument.name)
    return OPAQUE


def _workgroup_memory(operation: Operation) -> Environment:
    """The shared memory that a function or a launch asks for in its head."""
    found: Environment = {}
    for place, token in enumerate(operation.tokens):
        if token.kind == "word" and token.text == "workgroup":
            for argument in arguments_of(_bracket(operation.tokens[place + 1 :])):
                described = memref(argument.type.partition("{")[0])
                if described is None:
                    raise NotFollowed(operation.line, f"%{argument.name} is shared memory of a type that is not read")
                found[argument.name] = thread_memory.allocated(f"%{argument.name}", described, operation.line)
    return found


def _bracket(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    return tokens if tokens and tokens[0].text == "(" else ()


# ---------------------------------------------------------------- launches


def _launches(function: Operation, target: str) -> Iterator[Launched]:
    """The kernels of a host function; or the function itself, if it does what only a block's threads can."""
    name = _symbol(function)
    host = _Host(name, (), arguments_of(function.tokens))
    found = list(_inside(function.regions[0], host, "gpu.launch"))
    for number, (where, launch) in enumerate(found):
        outlined = f"{name}_kernel" if number == 0 else f"{name}_kernel_{number - 1}"
        if not launch.regions:
            lacks = "a gpu.launch without a body"
            yield Launched(outlined, target, launch, function.regions[0], lambda program: None, lacks)
            continue
        yield Launched(outlined, target, launch, launch.regions[0], _launch(where, launch))
    bodies = {id(inner) for _, launch in found for inner in walk(launch)}
    used = next(
        (each for each in walk(function) if id(each) not in bodies and each.name.startswith(_BLOCK_OPERATIONS)), None
    )
    if used is not None:
        lacks = f"{name} uses {used.name} and nothing launches it: how many threads run it is not known"
        yield Launched(name, target, function, function.regions[0], lambda program: None, lacks)


def _launch(host: _Host, launch: Operation) -> Callable[[Program], None]:
    text = joined(launch.tokens)
    blocks, own = _BLOCKS.search(text), _THREADS.search(text)

    def begin(program: Program) -> None:
        if blocks is None or own is None:
            raise NotFollowed(launch.line, "a launch that is not written as it is followed")
        given = _host_values(program, host)
        block = _extents(program, host, launch, _THREADS)
        grid = _values(given, blocks, program)
        given |= _workgroup_memory(launch)
        cluster = _CLUSTERS.search(text)
        for place, axis in enumerate(_AXES):
            extent = grid[place]
            given[blocks[place + 1]] = 0 if extent == 1 else program.atoms.place("gpu.block_id", axis)
            given[blocks[4 + 2 * place]] = extent
            given[own[4 + 2 * place]] = block[place]
            if cluster is not None:
                given[cluster[place + 1]] = program.atoms.place("gpu.cluster_id", axis)
                given[cluster[4 + 2 * place]] = program.atoms.of("argument", cluster[5 + 2 * place])

        names = own.groups()[:3]

        def bound(walk: Walk, environment: Environment) -> None:
            for place, name in enumerate(names):
                threads.bind_thread_number(walk, environment, str(name), place)

        _begin(launch, given, block, program, bound)

    return begin


def _begin(
    operation: Operation,
    given: Environment,
    block: tuple[int, int, int],
    program: Program,
    bound: Callable[[Walk, Environment], None] | None,
) -> None:
    total = block[0] * block[1] * block[2]
    if not 0 < total <= THREADS_MAX:
        raise NotFollowed(operation.line, f"a block of {total} threads: it has from 1 to {THREADS_MAX}")
    begin_threads(operation.regions[0], given, block, program, bound)


def _extents(program: Program, host: _Host, launch: Operation, pattern: re.Pattern[str]) -> tuple[int, int, int]:
    """A block's extents, from the launch."""
    found = pattern.search(joined(launch.tokens))
    if found is None:
        raise NotFollowed(launch.line, "a launch that is not written as it is followed")
    given = _host_values(program, host)
    names = found.groups() if pattern is _THREADS_OF_FUNCTION else found.groups()[4::2]
    x, y, z = (given.get(name) for name in names)
    if not (isinstance(x, int) and isinstance(y, int) and isinstance(z, int)):
        raise NotFollowed(launch.line, "how many threads a block has is not known: the launch computes it")
    return x, y, z


def _values(given: Environment, found: re.Match[str], program: Program) -> list[Number]:
    """A grid's extents: numbers, or unknowns that are the same for all threads."""
    values: list[Number] = []
    for axis, name in zip(_AXES, found.groups()[4::2], strict=True):
        value = given.get(name)
        values.append(value if isinstance(value, int) else program.atoms.of("gpu.grid_dim", axis))
    return values


def _host_values(program: Program, host: _Host) -> Environment:
    """What the values in sight of a launch are. Integers that are made of constants are known; others are the same for
    all threads."""
    given: Environment = {argument.name: _argument(program, argument) for argument in host.arguments}
    walk = Walk(program, Word("host", [], []))
    for operation in host.before:
        handler = INTEGER_HANDLERS.get(operation.name)
        if handler is not None and not operation.regions and all(use in given for use in operation.uses):
            handler(walk, operation, given)
            continue
        for name in operation.results:
            integer = is_integer(operation.types)
            given[name] = program.atoms.of("argument", name) if integer else OPAQUE
    return given
