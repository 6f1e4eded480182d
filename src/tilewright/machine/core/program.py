"""What is a kernel once decoded? Steps by index, as parallel lists that the run loop reads without looking at text.

`decode` turns every instruction into a step through the handler of its row. Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Instruction, Kernel, Label
from tilewright.machine.core.decoder import Decoder, Modifiers, unsupported
from tilewright.machine.core.lanes import poison
from tilewright.machine.core.step import Control, FullFunction, MaskedFunction, Plain, Signal, Step, guarded
from tilewright.machine.events_only.dropped_values import MovedValues
from tilewright.machine.instruction import handler_of
from tilewright.machine.protocol.loops.polls import is_strong_load
from tilewright.machine.protocol.slicing.slice_operands import Kind, kind_of
from tilewright.machine.tensor_core.fenced_accesses import with_accesses_seen


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A decoded kernel. `plain_end[i]`: where the run of plain steps that starts at i ends (i for a control step).

    touched: registers a step reads or writes; names: register names by slot.
    """

    decoder: Decoder
    steps: tuple[Step, ...]
    full: tuple[FullFunction, ...]
    masked: tuple[MaskedFunction, ...]
    plain_end: tuple[int, ...]
    touched: tuple[frozenset[int], ...]

    @property
    def names(self) -> list[str]:
        return self.decoder.names


def decode(decoder: Decoder) -> Program:
    """The steps of the decoder's kernel. Raises TilewrightError at the first form that the machine cannot run."""
    # A run of the protocol alone decodes step by step, and needs none of these.
    from tilewright.machine.events_only.joined_accesses import join_stretches
    from tilewright.machine.events_only.taken_sums import with_sums_taken
    from tilewright.machine.events_only.value_slice import drop_values

    kernel = decoder.kernel
    instructions: list[Instruction] = []
    for item in kernel.body:
        if isinstance(item, Label):
            if item.name in decoder.labels:
                raise TilewrightError(f"label {item.name} appears twice", span=item.span)
            decoder.labels[item.name] = len(instructions)
        else:
            instructions.append(item)
    steps: list[Step] = []
    moves: list[MovedValues | None] = []
    for item in instructions:
        steps.append(decode_one(decoder, item))
        moves.append(decoder.moved)
    if decoder.dropped is not None:
        kinds: list[Kind] = [kind_of(each) for each in instructions]
        accumulators = frozenset(decoder.accumulators)
        without = drop_values(steps, instructions, kinds, moves, decoder.labels, accumulators, decoder.zeros)
        decoder.mathematics = without is None
        steps = steps if without is None else without
        if decoder.dropped.joins and without is not None:
            computes = [kind == "compute" and isinstance(step.body, Plain)
                        for kind, step in zip(kinds, steps, strict=True)]  # fmt: skip
            steps = join_stretches(steps, computes, [each if each and each.access else None for each in moves])
    steps = with_sums_taken(decoder, with_accesses_seen(decoder, steps, range(len(steps))))
    steps.append(end_of(kernel))
    return assemble(decoder, steps)


def end_of(kernel: Kernel) -> Step:
    """The step after the last instruction: the lanes that come there are done."""
    return Step(Control(lambda _warp, _mask: Signal.EXIT), kernel.span, "exit", -1, False)


def decode_one(decoder: Decoder, instruction: Instruction) -> Step:
    """One instruction as a step. Raises TilewrightError for a form that the machine cannot run."""
    decoder.begin()
    alike = decoder.alike.step(instruction)
    if alike is not None:
        return alike
    handler = handler_of(instruction.row)
    if handler is None:
        raise unsupported(instruction, "the machine does not know this instruction")
    guard = instruction.guard
    slot = -1 if guard is None else decoder.predicate(instruction, guard.register)[0]
    negated = guard is not None and guard.negated
    modifiers = Modifiers(instruction)
    body = handler(decoder, instruction, modifiers)
    modifiers.end()
    reads, writes = decoder.touched()
    if slot < 0 and decoder.polls is not None and is_strong_load(instruction) and isinstance(body, Plain):
        from tilewright.machine.core.poll_step import polling

        body = polling(decoder, instruction, body, decoder.polls.get(instruction.span), sorted(writes))
    if slot >= 0 and isinstance(body, Plain):
        targets = tuple((target, poison(decoder.type_of(target).raw)) for target in sorted(writes))
        body = guarded(body, slot, negated, targets)
    return Step(body, instruction.span, instruction.opcode, slot, negated, reads, writes)


def assemble(decoder: Decoder, steps: list[Step]) -> Program:
    """A program of decoded steps; the decoder's labels are indices into them."""

    def no_full(_registers: object) -> None:
        raise AssertionError("a control step has no plain form")

    def no_masked(_registers: object, _mask: int) -> None:
        raise AssertionError("a control step has no plain form")

    full: list[FullFunction] = []
    masked: list[MaskedFunction] = []
    plain_end: list[int] = []
    for index, step in enumerate(steps):
        body = step.body
        if isinstance(body, Control):
            full.append(no_full)
            masked.append(no_masked)
            # Of the plain steps before it, and its own.
            plain_end += [index] * (index + 1 - len(plain_end))
        else:
            full.append(body.full)
            masked.append(body.masked)
    return Program(
        decoder=decoder,
        steps=tuple(steps),
        full=tuple(full),
        masked=tuple(masked),
        plain_end=tuple(plain_end),
        touched=tuple([step.reads | step.writes for step in steps]),
    )
