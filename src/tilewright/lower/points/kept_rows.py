"""How elements of a row wait in shared memory between walks.

Each thread copies its own runs there by cp.async, all of the row at once, so that as many bytes are on their way as the
row has, and no register waits for them. It waits for its own copies and reads nobody else's, so no barrier is needed.
Strip after strip lies as the threads take them: of each array that waits, a thread's run beside its neighbour's, so
that a warp's accesses go through all banks. Of a run past its array's end, elements come one by one.
Source: PTX ISA, cp.async (16 bytes at most), cp.async.wait_all. Checked by: tests/lower/points/test_kept_rows.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ir.decisions import RUN_BYTES
from tilewright.lower.points.wide_loads import WORD_BYTES, load_singly
from tilewright.lower.ptx.copies.global_access import constant_address
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.places import GlobalPlace


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A thread's run in shared memory: a register with an address, bytes from there, and how many it has."""

    base: str
    offset_bytes: int
    length_bytes: int

    @property
    def words(self) -> int:
        return self.length_bytes // WORD_BYTES

    def at(self, word: int) -> str:
        """The operand for one of its words."""
        return f"[{self.base}+{self.offset_bytes + word * WORD_BYTES}]"


def copy_run(text: Text, to: KeptRun, base: str, offset_bytes: int, guard: str) -> None:
    """Issue the copy of a run that lies together in a global array, aligned to its bytes."""
    opcode = f"cp.async.{'cg' if to.length_bytes == RUN_BYTES else 'ca'}.shared.global"
    text.emit(opcode, to.at(0), constant_address(text, base, offset_bytes), to.length_bytes, guard=guard)


def copy_singly(
    text: Text, source: GlobalPlace, to: KeptRun, base: str, offset_bytes: int, guards: Sequence[str]
) -> None:
    """A run's elements one by one, each where its guard holds and 0 elsewhere."""
    words = [text.register("b32") for _ in range(to.words)]
    load_singly(text, source, base, offset_bytes, words, list(guards))
    for number, word in enumerate(words):
        text.emit("st.shared.b32", to.at(number), word)


def read_run(text: Text, run: KeptRun, guard: str) -> list[str]:
    """The words of a run, zeros where there is a guard that does not hold."""
    words = [text.into("b32", "mov.b32", 0) if guard else text.register("b32") for _ in range(run.words)]
    suffix, operand = ("", words[0]) if run.words == 1 else (f".v{run.words}", f"{{{', '.join(words)}}}")
    text.emit(f"ld.shared{suffix}.b32", operand, run.at(0), guard=guard)
    return words
