"""How registers wait in shared memory, or are computed again, where too many live at once.

An assembler that runs out of registers spills to local memory, in the middle of whatever it likes. Here a register
that idles over a long stretch of the text (`lower.ptx.idle_registers`) is stored before it and loaded behind it, in a
slot of shared memory that belongs to the very thread: `slot * threads * 4 + thread * 4` bytes from the slots' first, so
that a warp's 32 threads take 32 banks in one wavefront. No barrier is needed, since a thread reads what it wrote
itself. What special registers and constants tell is computed again instead.

How many slots there are is decided (`synth.store.spill_slots`) by what the assembler reports (`driver.compile.spills`);
what waits in them is chosen in the text itself. Not handled: threads outside warpgroups with a budget of their own.
Checked by: tests/lower/ptx/test_spill_slots.py; `contract` proves the text, and `machine` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute

from tilewright.base.element import Element
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import MemoryType
from tilewright.lower.build import Build
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.idle_registers import REGISTER, Idle, choose_idle
from tilewright.machine.protocol.live_ranges import control_flow, register_widths

SLOT_BYTES = 4
"""Of one register of one thread."""
_WARP_THREADS = 32
_WARPGROUP_THREADS = 128


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of 4 bytes for each of `threads` threads from `first_thread` on, at `address` in dynamic shared memory.
    registers: the budget of these threads, by which their instructions are known."""

    count: int
    address: int
    first_thread: int
    threads: int
    registers: int

    def offset(self, slot: int) -> int:
        """Byte of a slot in dynamic shared memory, less the place of its first thread in it."""
        return self.address + SLOT_BYTES * (self.threads * slot - self.first_thread)


def declare_spill_slots(build: Build, slots: int, consumers: int, address: int) -> None:
    """The shared memory of so many slots of the consumers' threads, if there are any. address: in bytes."""
    if not slots:
        return
    size = SLOT_BYTES * _WARPGROUP_THREADS * consumers
    words = (StringAttr("SMEM"), StringAttr(Element.U8.value), IntAttr(slots), IntAttr(size))
    properties: dict[str, Attribute] = {
        "sym_name": StringAttr("spill_slots"),
        "address": IntAttr(address),
        "instances": IntAttr(1),
        "first_thread": IntAttr(_WARPGROUP_THREADS),
    }
    build.add(ac.BufferOp.create(properties=properties, result_types=[MemoryType(*words, StringAttr("none"))]))


def spill_slots_of(kernel: ac.KernelOp) -> Slots | None:
    """The slots that a kernel declares, of the role whose first thread they begin with."""
    for op in kernel.body.block.ops:
        if isinstance(op, ac.BufferOp) and op.first_thread is not None:
            memory, first = op.result.type, op.first_thread.data
            assert isinstance(memory, MemoryType)
            (role,) = (
                each for each in kernel.body.block.ops
                if isinstance(each, ac.RoleOp) and each.execution.first_thread.data == first
            )  # fmt: skip
            threads = memory.slot_bytes.data // SLOT_BYTES
            return Slots(memory.slots.data, op.address.data, first, threads, role.registers.data)
    return None


def with_spill_slots(text: Text, whole: str, slots: Slots, shared_base: str) -> tuple[Idle, ...]:
    """Fill the slots: `text` gets stores and loads; which registers wait, or are computed again.

    whole: the module that the text makes with its head, to be read. shared_base: register with the address of dynamic
    shared memory.
    """
    head = _find(whole.split("\n"), text.lines)
    (kernel,) = read(whole).kernels
    instructions, successors = control_flow(kernel)
    if successors is None:
        return ()
    chosen = choose_idle(instructions, successors, register_widths(kernel), slots.registers, slots.count)
    before: dict[int, list[str]] = {}

    def add(place: int, lines: Sequence[str], *, first: bool) -> None:
        line = instructions[place].span.line - 1 - head
        known = before.get(line, [])
        before[line] = [*lines, *known] if first else [*known, *lines]

    slot = 0
    for idle in chosen:
        if idle.recomputed:
            add(idle.end, _recomputed(text, idle, instructions), first=True)
            continue
        add(idle.begin, _stored(text, idle, slots, slot, shared_base), first=False)
        # What comes back is there before anything else leaves.
        add(idle.end, _loaded(text, idle, slots, slot, shared_base), first=True)
        slot += idle.width
    text.lines[:] = [new for number, line in enumerate(text.lines) for new in (*before.get(number, ()), line)]
    return chosen


def _find(lines: Sequence[str], wanted: Sequence[str]) -> int:
    """Where the text's lines begin in the module's."""
    for begin in range(len(lines) - len(wanted) + 1):
        if lines[begin] == wanted[0] and list(lines[begin : begin + len(wanted)]) == list(wanted):
            return begin
    raise AssertionError("a module has the lines of its kernel")


def _stored(text: Text, idle: Idle, slots: Slots, slot: int, shared_base: str) -> list[str]:
    lines = Text(taken=text.taken)
    address = lines.into("b32", "mad.lo.u32", lines.into("b32", "mov.u32", "%tid.x"), SLOT_BYTES, shared_base)
    words = [idle.register]
    if idle.width > 1:
        words = [lines.register("b32") for _ in range(idle.width)]
        lines.emit("mov.b64", f"{{{', '.join(words)}}}", idle.register)
    for number, word in enumerate(words):
        lines.emit("st.shared.b32", f"[{address}+{slots.offset(slot + number)}]", word)
    return lines.lines


def _loaded(text: Text, idle: Idle, slots: Slots, slot: int, shared_base: str) -> list[str]:
    """The thread is found in another way than for the store: an assembler that sees the same address twice keeps it in
    a register in between, which is what the slot was to free."""
    lines = Text(taken=text.taken)
    warp = lines.into("b32", "and.b32", lines.into("b32", "mov.u32", "%tid.x"), -_WARP_THREADS)
    thread = lines.into("b32", "or.b32", warp, lines.into("b32", "mov.u32", "%laneid"))
    address = lines.into("b32", "mad.lo.u32", thread, SLOT_BYTES, shared_base)
    words = [idle.register] if idle.width == 1 else [lines.register("b32") for _ in range(idle.width)]
    for number, word in enumerate(words):
        lines.emit("ld.shared.b32", word, f"[{address}+{slots.offset(slot + number)}]")
    if idle.width > 1:
        lines.emit("mov.b64", idle.register, f"{{{', '.join(words)}}}")
    return lines.lines


def _recomputed(text: Text, idle: Idle, instructions: Sequence[Instruction]) -> list[str]:
    """The instructions that compute the register, with fresh registers for what they compute on the way."""
    fresh: dict[str, str] = {idle.register: idle.register}
    found: list[str] = []
    for index in idle.recomputed:
        words = instructions[index].span.text.strip()
        (name, *_) = REGISTER.findall(words)
        if name not in fresh:
            fresh[name] = text.register(text.kind_of(name))
        found.append("\t" + REGISTER.sub(lambda match: fresh.get(match[0], match[0]), words))
    return found
