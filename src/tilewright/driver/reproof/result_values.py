"""Is what a kernel stores the program's expression of its sums?

Asked of walks that only sum: which accumulators and loaded numbers a stored fragment is computed of, and by which
functions, is read off the `ac` kernel, from a store back to the accumulators; the same of the program. Both are
evaluated at numbers that are drawn once for each sum and each loaded array, so that two that are exchanged differ. An
accumulator's part is the sum of the operand whose boxes stand at that place in a slot. That they do, and are multiplied
so, is asked of the copies and products (`judge_sums`); that the text does what the `ac` kernel says, of the text. An
operand that threads compute of a slot's numbers and of vectors is compared likewise.

Two expressions that agree at all drawn numbers are taken for equal: approximations and roundings are not looked at, so
numbers are compared up to what these change.

Not handled (nothing is asked then): results that depend on indices, arrays that are loaded at several displacements,
one array as two operands, walks that do more than sum. Checked by: tests/driver/reproof/test_result_values.py.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.base.diagnostic import Diagnostic
from tilewright.contract.rules.text_codes import OTHER_TEXT
from tilewright.driver.reproof.program_sums import summed_products
from tilewright.frontends.tile.reference import apply
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorPartsOp, FragmentMapOp
from tilewright.ir.ac.register_operand import OperandReadOp, VectorLoadOp
from tilewright.ir.cascade_facts import Product, carried_sum, cascade_axes
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import access_of, loads, loops, parameter_name, stores
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.repeats import in_order, is_computed_tile

Numbers = NDArray[np.float64]
_DRAWN = 32
_RELATIVE, _LEAST = 1e-3, 1e-4
"""What approximations and roundings of float32 constants may change."""


class _NotFollowedError(Exception):
    """A result depends on what is not followed."""


def misvalued_results(program: tile.ProgramOp, modules: Iterable[ModuleOp]) -> tuple[Diagnostic, ...]:
    """A finding for each result of a walk that only sums whose kernel stores another expression, or multiplies one."""
    sums = summed_products(program)
    if not sums or len(loops(program)) != 1 or any(len(each) > 1 for each in _displacements(program).values()):
        return ()
    names = [parameter_name(program, read_tensor(each.brought.tensor)) for each in sums]
    if len(set(names)) < len(names):
        return ()
    axes, (loop,) = cascade_axes(program), loops(program)
    outputs: dict[SSAValue, Numbers] = {}
    for name, each in zip(names, sums, strict=True):
        number = carried_sum(each, axes)
        if number is None:
            return ()
        outputs[loop.outputs[number]] = _drawn(f"sum of {name}")
    found = list(_misvalued_operands(program, sums[0], modules))
    of_kernel = [(name, value) for module in modules for name, value in _stored(module)]
    for op in stores(program):
        name = parameter_name(program, op.tensor)
        own = [value for stored, value in of_kernel if stored == name]
        try:
            expected = _of_program(program, op.value, dict(outputs))
            for value in own:
                if not _agree(_of_kernel(value, names), expected):
                    found.append(_finding(f"stores in {name} is another expression of its sums"))
                    break
        except _NotFollowedError:
            continue
    return tuple(found)


def _misvalued_operands(program: tile.ProgramOp, product: Product, modules: Iterable[ModuleOp]) -> Iterator[Diagnostic]:
    """A finding for each operand that threads compute as another expression of what they load."""
    reads = [op for module in modules for op in module.walk() if isinstance(op, OperandReadOp)]
    expected = _of_program(program, product.held, {}) if reads else None
    for op in reads:
        sources = [_array(each.descriptor) for each in _copies(op) if each.buffer is op.a]
        along = [_owner(each) for each in op.along]
        inputs = [_drawn(name) for name in dict.fromkeys(sources)] + [_of_kernel(each, []) for each in op.rows]
        inputs += [_drawn(_array(each.source)) for each in along if isinstance(each, VectorLoadOp)]
        if expected is None or not _agree(_of_region(op.body.block, inputs, 0), expected):
            yield _finding("multiplies is another expression of what it loads")


def _agree(left: Numbers, right: Numbers) -> bool:
    return np.allclose(left, right, _RELATIVE, _LEAST, equal_nan=True)


def _finding(what: str) -> Diagnostic:
    return Diagnostic(OTHER_TEXT.code, OTHER_TEXT.name, f"what the kernel {what} than the program's")


def _displacements(program: tile.ProgramOp) -> dict[str, set[tuple[int, ...]]]:
    """By array, at which displacements it is loaded outside the walk."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for load in loads(program):
        if isinstance(load.parent_op(), tile.ProgramOp):
            at = access_of(load)
            found.setdefault(at.tensor, set()).add(at.offsets)
    return found


def _drawn(name: str) -> Numbers:
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(-1.5, 1.5, _DRAWN)


# ---------------------------------------------------------------- the program's side


def _of_program(program: tile.ProgramOp, value: SSAValue, known: dict[SSAValue, Numbers]) -> Numbers:
    for each in in_order(value, lambda each: each not in known and is_computed_tile(each)):
        if each not in known:
            known[each] = _of_operation(program, each, known)
    return known[value]


def _of_operation(program: tile.ProgramOp, value: SSAValue, known: Mapping[SSAValue, Numbers]) -> Numbers:
    owner = value.owner
    match owner:
        case tile.LoadOp():
            return _drawn(parameter_name(program, owner.tensor))
        case tile.ConstantOp() | tile.FullOp():
            return np.full(_DRAWN, owner.value.value.data)
        case tile.CastOp() | tile.TransposeOp() | tile.BroadcastOp():
            return known[owner.operand]
        case tile.UnaryOp() | tile.BinaryOp():
            return _applied(owner.function.data, [known[each] for each in owner.operands])
        case tile.SelectOp():
            return _applied(Function.WHERE, [known[each] for each in owner.operands])
        case _:
            raise _NotFollowedError


def _applied(function: Function, operands: list[Numbers]) -> Numbers:
    with np.errstate(all="ignore"):
        return apply(function, *operands)


# ---------------------------------------------------------------- the kernel's side


def _stored(module: ModuleOp) -> Iterator[tuple[str, SSAValue]]:
    """Each array that a kernel's threads store, and the fragment."""
    for op in module.walk():
        match op:
            case ac.GlobalStoreOp() | ac.RowsStoreOp():
                yield _array(op.destination), op.fragment
            case ac.CopyStoreOp():
                staged: SSAValue = op.staged
                while not isinstance(staged.owner, ac.StageWriteOp):
                    (staged,) = (
                        each for each in _owner(staged).operands if isinstance(each.type, ac.StagedType)
                    )  # of a fence or a barrier
                yield _array(op.descriptor), staged.owner.fragment
            case _:
                pass


def _owner(value: SSAValue) -> Operation:
    owner = value.owner
    if isinstance(owner, Block):
        raise _NotFollowedError
    return owner


def _array(value: SSAValue) -> str:
    """The name of the array that a pointer or a map is of."""
    owner = _owner(value)
    match owner:
        case ac.GlobalOp() | ac.TensorMapOp():
            return owner.buffer.data
        case ac.GlobalPartOp():
            return _array(owner.source)
        case _:
            raise _NotFollowedError


def _of_kernel(value: SSAValue, names: list[str]) -> Numbers:
    """names: of the arrays that the sums multiply the common operand with."""
    owner = _owner(value)
    match owner:
        case FragmentMapOp() if not owner.places:
            inputs = [_of_kernel(each, names) for each in owner.inputs]
            return _of_region(owner.body.block, inputs, _number(owner.outputs, value))
        case ac.FragmentLoadOp():
            return _drawn(_array(owner.source))
        case AccumulatorPartsOp():
            in_slots = _in_slots(owner, names)
            if len(in_slots) != len(owner.parts):
                raise _NotFollowedError
            return _drawn(f"sum of {in_slots[_number(owner.parts, value)]}")
        case _ if isinstance(value.type, ac.AccumulatorType) and len(names) == 1:
            return _drawn(f"sum of {names[0]}")
        case _:
            raise _NotFollowedError


def _number(results: Sequence[SSAValue], value: SSAValue) -> int:
    """Which of an operation's results a value is."""
    return next(number for number, each in enumerate(results) if each is value)


def _of_region(block: Block, inputs: list[Numbers], result: int) -> Numbers:
    known: dict[SSAValue, Numbers] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        match op:
            case ac.ScalarOp():
                known[op.result] = _applied(Function(op.function.data), [known[each] for each in op.inputs])
            case ac.RoundOp():
                known[op.result] = known[op.input]
            case ac.ConstantOp():
                (number,) = struct.unpack("<f", struct.pack("<I", op.bits.data))
                known[op.result] = np.full(_DRAWN, number)
            case ac.YieldOp():
                return known[op.operands[result]]
            case _:
                raise _NotFollowedError
    raise _NotFollowedError


def _in_slots(op: Operation, names: list[str]) -> list[str]:
    """The arrays that stand side by side in a slot, in the order of their first boxes there."""
    first: dict[str, int] = {}
    for copy in _copies(op):
        if (name := _array(copy.descriptor)) in names:
            first[name] = min(first.get(name, copy.offset_bytes.data), copy.offset_bytes.data)
    key: Callable[[str], int] = first.__getitem__
    return sorted(first, key=key)


def _copies(op: Operation) -> list[ac.CopyIssueOp]:
    """The copies into slots of the kernel that an operation is one of."""
    kernel = op
    while not isinstance(kernel, ac.KernelOp):
        parent = kernel.parent_op()
        assert parent is not None, "every operation is a kernel's"
        kernel = parent
    return [each for each in kernel.walk() if isinstance(each, ac.CopyIssueOp)]
