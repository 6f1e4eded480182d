"""Does machine code leave alone what the tensor core still reads? Of products that take A from registers.

    python -m bench.probes.operand_registers

PTX says that A's registers are not to be written before the wait for the product; ptxas gives them to other values
nevertheless, unless the text keeps it from that (`lower.fragment.register_operand`). No proof of the text sees whether
it does, so here programs that compute operands (`bench.fused`, `bench.backward`, `bench.computed`) are compiled, and
their machine code read: from each HGMMA with a register operand on, round loops, until its group has been waited for,
nothing may write these registers. Needs nvdisasm (CUDA toolkit, or nvidia-cuda-nvdisasm from PyPI) on PATH, and no GPU.

Not handled: registers that instructions without a destination at their front write, of which ptxas emits none there.
Checked by: tests/benchmarks/test_operand_registers.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*(.*?)\s*;")
_PRODUCT = re.compile(r"HGMMA\S* R\d+, R(\d+), gdesc")
_BRANCH = re.compile(r"BRA\b.*`\((\.L_x_\d+)\)")
_WRITTEN = re.compile(r"(?P<op>[A-Z][\w.]*) (?:P\w+, )?R(?P<first>\d+)(?=[,.])")
_NO_DESTINATION = ("ST", "RED", "BRA", "R2UR", "BAR", "SYNCS.ARRIVE", "HGMMA", "U")
_ENDS_GROUP = "gsb0"
_WAIT = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
Groups = tuple[frozenset[int], ...]
"""Registers that products read, by group, the last one that is not ended yet."""
_LENGTH = 4096
"""Of the gradients' rows: other lengths differ in a few numbers."""
_REGISTERS = 4
"""Of A, for one HGMMA."""


def written_early(sass: str) -> list[str]:
    """Instructions that write registers of A while a product may read them, as nvdisasm shows a kernel."""
    text, labels = list[str](), dict[str, int]()
    for line in sass.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(text)
        elif found := _INSTRUCTION.search(line):
            text.append(found[1])
    early: dict[str, None] = {}
    read: Groups = ()
    for at, instruction in enumerate(text):
        read = _after(instruction, read, early)
        branch = _BRANCH.search(instruction)
        first = labels.get(branch[1], at + 1) if branch else at + 1
        for again in text[first : at + 1] if read else ():
            read = _after(again, read, early)
    return list(early)


def _after(instruction: str, read: Groups, early: dict[str, None]) -> Groups:
    """What is read behind an instruction; early: gains it if it writes what is."""
    if "HGMMA" in instruction:
        product = _PRODUCT.search(instruction)
        taken = frozenset(range(int(product[1]), int(product[1]) + _REGISTERS) if product else ())
        *closed, open_ = read or (frozenset(),)
        return (*closed, open_ | taken, *([frozenset[int]()] if _ENDS_GROUP in instruction else []))
    if waited := _WAIT.match(instruction):
        closed = read[:-1]
        return (*closed[max(0, len(closed) - int(waited[1], 16)) :], *read[-1:])
    if any(not group.isdisjoint(_written(instruction)) for group in read):
        early[instruction] = None
    return read


def _written(instruction: str) -> range:
    found = _WRITTEN.match(instruction)
    if found is None or instruction.startswith(_NO_DESTINATION):
        return range(0)
    op, first = found["op"], int(found["first"])
    wide = ".128" in op or (op.startswith("LDSM") and op.endswith(".4"))
    return range(first, first + (4 if wide else 2 if ".64" in op or "WIDE" in op or op.startswith("CS2R") else 1))


def _programs() -> Iterator[tuple[str, bytes]]:
    """Names and machine code."""
    from bench import backward, fused, our_products, tile_programs
    from tilewright.driver.compile.compile import compile_kernel
    from tilewright.synth.tile.wanted import Wanted

    gradients = [
        part
        for case in backward.cases()
        if case.length == _LENGTH
        for part in backward.parts_of(case)
        if part.part != "delta"
    ]
    for case in (*fused.cases(), *gradients):
        bundle = our_products.compile_case(case)
        assert bundle.cubin is not None
        yield f"{case.name} {getattr(case, 'part', '')}".strip(), bundle.cubin
    for name in ("rows_scaled_first", "both_scaled_first"):
        dims, wanted = {"M": 4096, "N": 4096, "K": 4096}, Wanted(computed="registers")
        assembly = compile_kernel(getattr(tile_programs, name), dims=dims, wanted=wanted, rerun=False).assembly
        assert assembly is not None
        yield name, assembly.cubin


def main() -> int:
    if shutil.which("nvdisasm") is None:
        print("nvdisasm is not on PATH; it comes with the CUDA toolkit", file=sys.stderr)
        return 2
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        for name, cubin in _programs():
            path.write_bytes(cubin)
            sass = subprocess.run(["nvdisasm", "-c", path], check=True, capture_output=True, text=True).stdout
            found = written_early(sass)
            wrong += bool(found)
            products = len(_PRODUCT.findall(sass))
            print(f"{name}: {products} products with A in registers, {len(found)} early writes", *found[:3], flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
