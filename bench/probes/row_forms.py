"""How long does a row-wise program take in each form that `synth.store` chooses among?

A form is how many CTAs of how many threads share a row, and where it waits between walks: in registers, in shared
memory, or nowhere. Forms of one program and shape are timed in one run, beside a plain copy. What the model of rows
holds for true of a GPU (`rows.*` of its target) is fitted to these times.

    python -m bench.probes.row_forms --prepare --kernels out/forms     # compile ahead; needs no GPU
    python -m bench.probes.row_forms --kernels out/forms
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.interleaved import Contender, race, sets_for
from bench.prepared import Refused, load_prepared, prepare
from bench.record import write
from tilewright.synth.tile.wanted import Wanted

_ELEMENTS = 1 << 25
_IN = {"r": False, "s": True}
_LONG = {
    ("softmax", 8192): "r1 s1x256 r2x128",
    ("softmax", 16384): "r1 r2x256 s1x256 s1x512",
    ("softmax", 32768): "r1 s1x512 s1x1024 s2x512 r4x256",
    ("softmax", 65536): "s1x1024 s2x512 s4x256 r4x512 r8x256",
    ("softmax", 262144): "s8x512 s16x512 s8x1024 r16x512",
    ("layer_norm", 4096): "r1 s1x256 s1x128",
    ("layer_norm", 16384): "r1 s1x512 r2x256",
    ("layer_norm", 65536): "s2x512 s2x1024 s4x512 r8x256",
}
"""Of a program and a length: r in registers, s in shared memory, CTAs, threads of each."""
_FEW = {
    ("quantize", 9, 29120): "r1 r8x256 r8x512 r16x256",
    ("rms_norm", 3, 248512): "r16x256 r16x512 s8x512",
    ("softmax", 64, 50257): "s1x512 r8x256 r4x512 s4x512",
}
_SHORT = ((97, 32768), (185, 17068), (185, 180000), (515, 64000), (1023, 32000), (2047, 16000), (4095, 8000))
_OF_TORCH = {"bf16": "bfloat16", "f32": "float32", "i32": "int32", "f8e4m3": "float8_e4m3fn", "i8": "int8"}


@dataclass(frozen=True, slots=True)
class RowForm:
    """A program of `examples/rows.py` on rows of that length, in a form; 0 where the compiler chooses. single: whether
    elements are reached one by one."""

    program: str
    rows: int
    length: int
    threads: int = 0
    ctas: int = 0
    kept: bool | None = None
    single: bool = False

    @property
    def name(self) -> str:
        where = {None: "chosen", True: "shared", False: "registers"}[self.kept]
        return f"{self.threads} threads x {self.ctas} CTAs, {where}{', one by one' if self.single else ''}"

    @property
    def wanted(self) -> Wanted:
        """The compiler's choices that make the form."""
        threads, ctas = self.threads or None, self.ctas or None
        return Wanted(
            row_threads=threads, row_ctas=ctas, row_kept=self.kept, misaligned=("x", "y") if self.single else (),
            cut=None if (threads, ctas, self.kept) == (None, None, None) else False,
        )  # fmt: skip


def forms() -> list[RowForm]:
    """Every form that is timed."""
    found: list[RowForm] = []
    cases = {(name, _ELEMENTS // length, length): words for (name, length), words in _LONG.items()} | _FEW
    for (name, rows, length), words in cases.items():
        case = RowForm(name, rows, length)
        found.append(case)
        for word in words.split():
            ctas, _, threads = word[1:].partition("x")
            found.append(replace(case, threads=int(threads or 0), ctas=int(ctas), kept=_IN[word[0]]))
    for name, (length, rows) in itertools.product(("quantize", "softmax"), _SHORT):
        case = RowForm(name, rows, length)
        found += [case, replace(case, single=True)]
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, default=Path("out/forms"))
    parser.add_argument("--prepare", action="store_true", help="only compile")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("bench/results"))
    given = parser.parse_args(arguments)
    if given.prepare:
        print(f"{prepare(forms(), given.kernels, 2)} compiled")
        return 0
    import torch

    found: list[dict[str, Any]] = []
    for (program, rows, length), same in itertools.groupby(
        forms(), lambda each: (each.program, each.rows, each.length)
    ):
        found.append(_measured(torch, program, rows, length, list(same), given))
    print(f"written to {write('row-forms', found, given.results)}")
    return 0


def _measured(
    torch: Any, program: str, rows: int, length: int, same: list[RowForm], given: argparse.Namespace
) -> dict[str, Any]:
    sets = sets_for(2 * rows * length, warm=False)
    inputs = [torch.randn((rows, length), device="cuda").bfloat16() for _ in range(sets)]
    vectors = [torch.randn(length, device="cuda").bfloat16() for _ in range(2)]
    contenders: list[Contender] = []
    for form in same:
        compiled = load_prepared(form, given.kernels)
        if isinstance(compiled, Refused):
            print(f"{program} {rows} x {length}: {form.name} refused: {compiled.message[:150]}")
            continue
        buffers = compiled.bundle.plan.buffers
        made = {each.name: getattr(torch, _OF_TORCH[each.element.value]) for each in buffers if each.role == "output"}
        results = tuple(
            torch.empty(each.shape, dtype=made[each.name], device="cuda") for each in buffers if each.name in made
        )
        more = vectors[: len(buffers) - len(results) - 1]

        def call(index: int, compiled: Any = compiled, more: Any = more, results: Any = results) -> None:
            compiled(inputs[index % sets], *more, out=results if len(results) > 1 else results[0])

        contenders.append(Contender(form.name, call, results[0]))
    copied = torch.empty_like(inputs[0])
    contenders.append(Contender("copy", lambda index: copied.copy_(inputs[index % sets]), copied))
    result = race(torch, contenders, sets=sets, turns=given.turns)
    first = contenders[0].output.float()
    times = {each.name: result.median(each.name) for each in contenders}
    print(f"{program} {rows} x {length}: copy {times['copy']:.2f} us")
    for each in contenders[:-1]:
        differs = (each.output.float() - first).abs().max().item()
        print(f"    {each.name:44} {times[each.name]:9.2f} us {times['copy'] / times[each.name]:6.3f} {differs:.3g}")
    return {"program": program, "shape": [rows, length], "microseconds": times}


if __name__ == "__main__":
    from bench.probes.row_forms import main as of_module  # forms must be of the class that compilers know

    sys.exit(of_module(sys.argv[1:]))
