"""Random edits of `ac` programs, blind to what they mean, and what became of the program: judged, run, compared.

An edit changes a copy of a module in place and returns what it did in words. Edits keep a module printable, not right:
values may be used where nothing defines them, types may lie. Whoever takes such a module must say so, never crash and
never prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import numpy as np
from tests.end_to_end import compiled_programs, kernels
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch
from tilewright.base.verdict import Proven, Verdict
from tilewright.contract.replay.replay import replay
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.sequence import uncut
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import MemoryType
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import kernel_launch, sequence_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx, the_kernel
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.run import run_launch
from tilewright.runtime.arrays import numpy_dtype
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

TARGET = compiled_programs.TARGET
STEP_LIMIT = 400_000
"""Warp instructions; the longest program takes a tenth of them."""

# Name: kernel, extents, decisions, whether one cluster does all tiles.
PROGRAMS: dict[str, tuple[Kernel, dict[str, int], Wanted, bool]] = {
    "one-group": (kernels.matmul, {"M": 60, "N": 72, "K": 192}, Wanted(tile=(64, 64), stages=2), True),
    "two-groups": (kernels.matmul, {"M": 120, "N": 72, "K": 256}, Wanted(tile=(128, 64), stages=3), True),
    "square": (kernels.matmul, {"M": 120, "N": 136, "K": 192}, Wanted(tile=(128, 128), stages=2), True),
    "bias-gelu": (kernels.matmul_bias_gelu, {"M": 120, "N": 72, "K": 128}, Wanted(tile=(64, 64), stages=4), True),
    "direct-store": (kernels.matmul, {"M": 60, "N": 67, "K": 250}, Wanted(tile=(64, 64), stages=3), True),
    "materialised": (
        kernels.operand_expression,
        {"M": 60, "N": 72, "K": 192},
        Wanted(tile=(64, 64), stages=2, computed="workspace"),
        True,
    ),
    "three-ctas": (kernels.matmul, {"M": 60, "N": 136, "K": 128}, Wanted(tile=(64, 64), stages=2), False),
    "cluster-2x1": (
        kernels.matmul,
        {"M": 72, "N": 136, "K": 192},
        Wanted(tile=(64, 128), cluster=(2, 1), stages=2),
        True,
    ),
    "cluster-1x2": (
        kernels.matmul,
        {"M": 120, "N": 200, "K": 192},
        Wanted(tile=(128, 64), cluster=(1, 2), stages=2),
        True,
    ),
    "cluster-1x2-direct": (
        kernels.matmul,
        {"M": 120, "N": 197, "K": 256},
        Wanted(tile=(128, 64), cluster=(1, 2), stages=3),
        True,
    ),
}


# ---------------------------------------------------------------- programs and runs


@dataclass(frozen=True)
class Subject:
    """A program to spoil: its pipeline; the arrays as the launches before it leave them; the right result."""

    module: ModuleOp
    buffers: dict[str, np.ndarray]
    outputs: tuple[str, ...]
    bits: bytes


@cache
def subject(name: str) -> Subject:
    """Shared: clone the module before changing it, copy the arrays before running on them."""
    kernel, dims, wanted, alone = PROGRAMS[name]
    module = trace(kernel, dims, dict.fromkeys((each.name for each in kernel.parameters), Element.BF16), None)
    decided = uncut(module, HOPPER, wanted)
    if alone:
        compiled_programs.alone(decided[-1].module)
    programs = [lower_program(the_program(part.module)) for part in decided]
    plan = sequence_plan(the_program(module), programs)
    emitted = [kernel.module for program in programs for kernel in program.kernels]
    random = np.random.default_rng(0)
    buffers: dict[str, np.ndarray] = {}
    for buffer in plan.buffers:
        data = np.full(max(1, buffer.span_bytes), 0xCC, np.uint8)
        if buffer.role == "input":
            values = random.standard_normal(data.size // buffer.element.bytes).astype(numpy_dtype(buffer.element))
            data = values.view(np.uint8)
        buffers[buffer.name] = data
    ptx = read(lower_to_ptx(emitted, TARGET), f"<{name}.ptx>")
    for launch in plan.launches[:-1]:
        run_launch(ptx, launch, buffers)
    outputs = tuple(buffer.name for buffer in plan.buffers if buffer.role == "output")
    result = {key: data.copy() for key, data in buffers.items()}
    run_launch(ptx, plan.launches[-1], result)
    return Subject(emitted[-1], buffers, outputs, _bits(result, outputs))


def _bits(buffers: dict[str, np.ndarray], outputs: tuple[str, ...]) -> bytes:
    return b"".join(buffers[name].tobytes() for name in outputs)


@dataclass(frozen=True)
class Run:
    """What the judge of events said of a text on each seed, and the bits that each run left. refused: why the text
    could not be run, else empty."""

    verdicts: tuple[Verdict, ...]
    bits: tuple[bytes, ...]
    refused: str = ""

    @property
    def is_proven(self) -> bool:
        return not self.refused and all(isinstance(verdict, Proven) for verdict in self.verdicts)


def run_text(
    item: Subject, text: str, launch: Launch, seeds: Sequence[int], claims: ProtocolClaims | None = None
) -> Run:
    """Judge a text in the place of the subject's pipeline, seed by seed; no further than the first without proof."""
    try:
        module = read(text, "<fuzz.ptx>")
    except TilewrightError as refused:
        return Run((), (), str(refused))
    verdicts: list[Verdict] = []
    bits: list[bytes] = []
    for seed in seeds:
        buffers = {name: data.copy() for name, data in item.buffers.items()}
        try:
            verdict = replay(module, launch, buffers, claims=claims, seeds=(seed,), step_limit=STEP_LIMIT)
        except TilewrightError as refused:
            return Run(tuple(verdicts), tuple(bits), str(refused))
        verdicts.append(verdict)
        bits.append(_bits(buffers, item.outputs))
        if not isinstance(verdict, Proven):
            break
    return Run(tuple(verdicts), tuple(bits))


def run_program(item: Subject, module: ModuleOp, seeds: Sequence[int], *, claimed: bool = False) -> Run:
    """Emit and judge a module. A module that the emitter does not take is `refused`."""
    try:
        text = lower_to_ptx([module], TARGET)
        launch = kernel_launch(the_kernel(module))
    except (TilewrightError, AssertionError, KeyError, ValueError, TypeError, IndexError) as refused:
        return Run((), (), f"not emitted: {type(refused).__name__} {refused}")
    claims = protocol_claims(module, HOPPER)[0] if claimed else None
    return run_text(item, text, launch, seeds, claims)


# ---------------------------------------------------------------- edits of programs

ProgramEdit = Callable[[ModuleOp, Random], str | None]
"""Returns what it did, or None if it found nothing to do."""

_WORDS = ("full", "empty", "retired", "K", "MN", "none", "32B", "64B", "128B", "bf16", "f16", "f32", "thread1",
          "warp32", "warpgroup128", "tiles", "mn", "m", "n", "written", "fenced", "ready", "ab")  # fmt: skip


def mutate(module: ModuleOp, random: Random, count: int) -> tuple[str, ...]:
    """Apply `count` random edits; returns what they did."""
    done: list[str] = []
    while len(done) < count:
        (edit,) = random.choices([edit for edit, _ in EDITS], [weight for _, weight in EDITS])
        said = edit(module, random)
        if said:
            done.append(said)
    return tuple(done)


def _operations(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if not isinstance(op, ModuleOp | ac.KernelOp)]


def _label(op: Operation) -> str:
    """The operation's name and its ordinal among those of its kind."""
    top: Operation = op
    while (above := top.parent_op()) is not None:
        top = above
    same = [other for other in top.walk() if other.name == op.name]
    return f"{op.name}#{next((n for n, other in enumerate(same) if other is op), -1)}"


def _values(module: ModuleOp) -> list[SSAValue]:
    values: list[SSAValue] = []
    for op in module.walk():
        values += op.results
        values += [argument for region in op.regions for block in region.blocks for argument in block.args]
    return values


def drop(module: ModuleOp, random: Random) -> str | None:
    """Remove an operation; who used a result uses another value of its type."""
    op = random.choice(_operations(module))
    said = f"drop {_label(op)}"
    inside = set(op.walk())
    for result in op.results:
        if not result.uses:
            continue
        others = [
            value for value in _values(module) if value.type == result.type and value.owner not in inside
            and not (isinstance(value.owner, Block) and value.owner.parent_op() in inside)
        ]  # fmt: skip
        own = [value for value in others if value in op.operands]
        if not others:
            return None
        result.replace_all_uses_with(random.choice(own if own and random.random() < 0.7 else others))
    op.detach()
    op.erase(safe_erase=False)
    return said


def duplicate(module: ModuleOp, random: Random) -> str | None:
    """The operation twice in a row; with a chance, the second takes the first one's results for its operands."""
    op = random.choice(_operations(module))
    block = op.parent_block()
    if block is None or isinstance(op, ac.YieldOp):
        return None
    said = f"duplicate {_label(op)}"
    clone = op.clone()
    block.insert_op_after(clone, op)
    if random.random() < 0.6:
        for result, again in zip(op.results, clone.results, strict=True):
            result.replace_uses_with_if(again, lambda use: use.operation is not clone)
        for number, operand in enumerate(clone.operands):
            same = [result for result in op.results if result.type == operand.type]
            if same:
                clone.operands[number] = same[0]
                said += " chained"
    return said


def swap(module: ModuleOp, random: Random) -> str | None:
    op = random.choice(_operations(module))
    following = op.next_op
    block = op.parent_block()
    if block is None or following is None or isinstance(following, ac.YieldOp):
        return None
    said = f"swap {_label(op)} and {_label(following)}"
    op.detach()
    block.insert_op_after(op, following)
    return said


def move(module: ModuleOp, random: Random) -> str | None:
    """An operation to another place, most often of its own block."""
    op = random.choice(_operations(module))
    block = op.parent_block()
    if block is None or isinstance(op, ac.YieldOp):
        return None
    inside = set(op.walk())
    if random.random() < 0.75:
        places = [other for other in block.ops if other is not op]
    else:
        places = [other for other in _operations(module) if other not in inside]
    if not places:
        return None
    place = random.choice(places)
    said = f"move {_label(op)} above {_label(place)}"
    home = place.parent_block()
    assert home is not None
    op.detach()
    home.insert_op_before(op, place)
    return said


def rewire(module: ModuleOp, random: Random) -> str | None:
    """An operand becomes another value of its type."""
    op = random.choice([op for op in _operations(module) if op.operands])
    number = random.randrange(len(op.operands))
    others = [value for value in _values(module) if value.type == op.operands[number].type]
    others = [value for value in others if value is not op.operands[number]]
    if not others:
        return None
    said = f"rewire {_label(op)} operand {number}"
    op.operands[number] = random.choice(others)
    return said


def _places(attribute: Attribute, kind: type[Attribute], path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    match attribute:
        case _ if isinstance(attribute, kind):
            yield path
        case ArrayAttr():
            for number, item in enumerate(attribute.data):
                yield from _places(item, kind, (*path, number))
        case DictionaryAttr():
            for name, item in attribute.data.items():
                yield from _places(item, kind, (*path, name))
        case ParametrizedAttribute():
            for number, item in enumerate(attribute.parameters):
                yield from _places(item, kind, (*path, number))
        case _:
            pass


def _at(attribute: Attribute, path: tuple[object, ...]) -> Attribute:
    for step in path:
        match attribute:
            case ArrayAttr() | DictionaryAttr():
                attribute = attribute.data[step]  # type: ignore[index]
            case ParametrizedAttribute():
                attribute = attribute.parameters[step]  # type: ignore[index]
            case _:
                raise AssertionError(attribute)
    return attribute


def _with(attribute: Attribute, path: tuple[object, ...], new: Attribute) -> Attribute:
    if not path:
        return new
    step, rest = path[0], path[1:]
    match attribute:
        case ArrayAttr():
            items = list(attribute.data)
            items[step] = _with(items[step], rest, new)  # type: ignore[index]
            return ArrayAttr(items)
        case DictionaryAttr():
            return DictionaryAttr({**attribute.data, step: _with(attribute.data[step], rest, new)})  # type: ignore[index]
        case ParametrizedAttribute():
            parts = list(attribute.parameters)
            parts[step] = _with(parts[step], rest, new)  # type: ignore[index]
            return type(attribute)(*parts)
        case _:
            raise AssertionError(attribute)


def _holders(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.properties]


def other_number(old: int, random: Random) -> int:
    near = [old + 1, old - 1, old * 2, old // 2, 0, 1]
    return random.choice([*near, old + 16, old - 16, old + 128, old + 1024, old - 1024])


def integer(module: ModuleOp, random: Random) -> str | None:
    """Any integer of any property."""
    op = random.choice(_holders(module))
    sites = [
        (name, path) for name, value in op.properties.items() if not name.endswith("SegmentSizes")
        for path in _places(value, IntAttr)
    ]  # fmt: skip
    if not sites:
        return None
    name, path = random.choice(sites)
    old = _at(op.properties[name], path)
    assert isinstance(old, IntAttr)
    new = other_number(old.data, random)
    if new == old.data:
        return None
    op.properties[name] = _with(op.properties[name], path, IntAttr(new))
    return f"{_label(op)} {name}{list(path) or ''} {old.data} -> {new}"


def string(module: ModuleOp, random: Random) -> str | None:
    """Any string of any property, names among them."""
    op = random.choice(_holders(module))
    sites = [(name, path) for name, value in op.properties.items() for path in _places(value, StringAttr)]
    if not sites:
        return None
    name, path = random.choice(sites)
    old = _at(op.properties[name], path)
    assert isinstance(old, StringAttr)
    others = {
        value.data for other in module.walk() for key, value in other.properties.items()
        if key == name and isinstance(value, StringAttr)
    }  # fmt: skip
    new = random.choice(sorted(others | set(_WORDS)))
    if new == old.data:
        return None
    try:
        op.properties[name] = _with(op.properties[name], path, StringAttr(new))
    except VerifyException:
        return None
    return f"{_label(op)} {name} {old.data} -> {new}"


def optional(module: ModuleOp, random: Random) -> str | None:
    """A property that may be absent is gone."""
    op = random.choice(_holders(module))
    names = [name for name in op.properties if name in ("rank_dimension", "rank_elements", "ring")]
    if not names:
        return None
    name = random.choice(names)
    if name == "ring" and not isinstance(op, ac.BufferOp):
        return None
    said = f"{_label(op)} {name} absent"
    del op.properties[name]
    return said


def declared_type(module: ModuleOp, random: Random) -> str | None:
    """A number or a word in a value's type; what a buffer or a tensor map is stands in its type."""
    values = [value for value in _values(module) if isinstance(value.type, ParametrizedAttribute)]
    memory = [value for value in values if isinstance(value.type, MemoryType | ac.DescriptorType)]
    value = random.choice(memory if memory and random.random() < 0.7 else values)
    numbers = list(_places(value.type, IntAttr))
    words = list(_places(value.type, StringAttr))
    if not numbers and not words:
        return None
    path = random.choice(numbers + words)
    old = _at(value.type, path)
    if isinstance(old, IntAttr):
        new: Attribute = IntAttr(other_number(old.data, random))
    else:
        new = StringAttr(random.choice(_WORDS))
    if new == old:
        return None
    before = value.type
    try:
        kind = _with(before, path, new)
    except VerifyException:
        return None
    object.__setattr__(value, "_type", kind)
    owner = value.owner
    where = _label(owner) if isinstance(owner, Operation) else f"argument of {_label(owner.parent_op())}"  # type: ignore[arg-type]
    return f"type of {where}: {before} -> {kind}"


EDITS: tuple[tuple[ProgramEdit, int], ...] = (
    (drop, 10),
    (duplicate, 10),
    (swap, 10),
    (move, 20),
    (rewire, 20),
    (integer, 35),
    (string, 5),
    (optional, 1),
    (declared_type, 8),
)
