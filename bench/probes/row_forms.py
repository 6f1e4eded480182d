"""How long does a row-wise program take in each form that `synth.store` chooses among?

A form is how many CTAs of how many threads share a row, how many rows they take at once, and where rows wait between
walks: in registers, in shared memory, or nowhere. Forms of one program and shape are timed in one run, beside a plain
copy. What the model of rows holds for true of a GPU, `rows.*` of its target, is fitted to these times
(`bench.row_fit`).

    python -m bench.probes.row_forms --prepare --kernels out/forms     # compile ahead; needs no GPU
    python -m bench.probes.row_forms --kernels out/forms
    python -m bench.probes.row_forms --fit                             # rows for the target's table; needs no GPU
    python -m bench.probes.row_forms --cut                             # rows that begin anywhere in a vector
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from bench.interleaved import Contender, race, sets_for
from bench.prepared import Refused, load_prepared, prepare
from bench.record import write
from bench.row_fit import fit
from tilewright.base.element import Element
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.store.row_choice import candidates, chosen
from tilewright.synth.store.row_time import row_cycles, times_of
from tilewright.synth.store.rows import ways_of_rows
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_ELEMENTS = 1 << 25
_NEAR = 1.2
"""Over the time that the model holds for the least: forms that take longer by it are not timed."""
_LENGTHS = {
    "softmax": (1152, 1408, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144),
    "rms_norm": (4096, 8192, 16384, 65536),
    "layer_norm": (1536, 2560, 3584, 4096, 8192, 10752, 12800, 14336, 16384, 65536),
    "quantize": (8192, 32768),
    "argmax": (8192, 32768),
}
_LANES = (8, 16, 32)
_FEW = (
    ("quantize", 9, 29120), ("rms_norm", 3, 248512), ("softmax", 64, 50257), ("layer_norm", 303, 4224),
    ("softmax", 3000, 8195), ("rms_norm", 2207, 1887),
)  # fmt: skip
_CUT_ELEMENTS = 1 << 24
_CUT_LENGTHS = (763, 1002, 1503, 2046, 3001, 4098, 8195, 10002, 16387, 50257, 50258)
"""Of rows that begin anywhere in a vector."""
_CUT_FEW = (
    ("softmax", 64, 50257), ("softmax", 61, 59301), ("log_softmax", 35, 42394), ("rms_norm", 2207, 1887),
    ("layer_norm", 8, 53274), ("quantize_int8", 1577, 9434), ("argmax", 5015, 2578),
)  # fmt: skip
_OF_TORCH = {"bf16": "bfloat16", "f32": "float32", "i32": "int32", "f8e4m3": "float8_e4m3fn", "i8": "int8"}


@dataclass(frozen=True, slots=True)
class RowForm:
    """A program of `examples/rows.py` on rows of that length, in a form; 0 where the compiler chooses."""

    program: str
    rows: int
    length: int
    threads: int = 0
    ctas: int = 0
    kept: bool | None = None
    together: int = 0
    run: int = 0

    @property
    def name(self) -> str:
        where = {None: "chosen", True: "shared", False: "registers"}[self.kept]
        run = f" by {self.run}" if self.run else ""
        return f"{self.threads} threads x {self.ctas} CTAs{run}, {where}, {self.together} at once"

    @property
    def wanted(self) -> Wanted:
        """The compiler's choices that make the form."""
        threads, ctas = self.threads or None, self.ctas or None
        return Wanted(
            row_threads=threads, row_ctas=ctas, row_kept=self.kept, row_together=self.together or None,
            row_run=self.run or None,
            cut=None if (threads, ctas, self.kept) == (None, None, None) else False,
        )  # fmt: skip


def cases() -> list[tuple[str, int, int]]:
    """Program, rows and length of each."""
    return [(name, _ELEMENTS // each, each) for name, lengths in _LENGTHS.items() for each in lengths] + [*_FEW]


def cut_cases() -> list[tuple[str, int, int]]:
    """The same of rows that begin anywhere in a vector: words of them, or vectors, may be runs."""
    programs = ("softmax", "rms_norm", "layer_norm")
    return [(name, _CUT_ELEMENTS // each, each) for name in programs for each in _CUT_LENGTHS] + [*_CUT_FEW]


def case_of(words: str) -> tuple[str, int, int]:
    """PROGRAM:ROWSxLENGTH."""
    name, _, shape = words.partition(":")
    rows, _, length = shape.partition("x")
    return name, int(rows), int(length)


def forms(asked: Sequence[tuple[str, int, int]], near: float) -> list[RowForm]:
    """Every form that is timed: what the compiler chooses; what takes at most `near` times the least predicted of the
    same runs, where runs may lie in several ways; and, of rows that a warp or a part of one takes, these parts."""
    hopper, wanted = target("sm_90a"), Wanted()
    times = times_of(hopper)
    found: list[RowForm] = []
    for name, rows, length in asked:
        kernel = getattr(importlib.import_module("examples.rows"), name)
        elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
        program = the_program(trace(kernel, {"M": rows, "N": length}, elements))
        case, ways = RowForm(name, rows, length), ways_of_rows(program, wanted)
        found.append(case)
        parts = chosen(program, ways, hopper, wanted).threads <= max(_LANES)
        for way in ways:
            of_way = replace(case, ctas=1, kept=False, together=1, run=way.run if len(ways) > 1 else 0)
            found += [replace(of_way, threads=lanes) for lanes in _LANES] if parts else []
            work, known = candidates(program, way, hopper, wanted)
            cycles = [row_cycles(times, work, form, hopper) for _, form in known]
            for (row, _), each in zip(known, cycles, strict=True):
                if each <= near * min(cycles):
                    shape = {"threads": row.cta_threads, "ctas": row.ctas, "together": row.together}
                    found.append(replace(of_way, kept=bool(row.kept), **shape))
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, default=Path("out/forms"))
    parser.add_argument("--prepare", action="store_true", help="only compile")
    parser.add_argument("--fit", action="store_true", help="fit the target's rows to the times that are recorded")
    parser.add_argument("--from", dest="records", type=Path, action="append", help="a record to fit to")
    parser.add_argument("--free", action="append", default=[], metavar="NAME", help="with --fit: change only these")
    parser.add_argument(
        "--case", type=case_of, action="append", metavar="PROGRAM:ROWSxLENGTH", help="instead of the list"
    )
    parser.add_argument("--cut", action="store_true", help="rows that begin anywhere in a vector, instead of the list")
    parser.add_argument("--near", type=float, default=_NEAR, help="up to how many times the least time, by the model")
    parser.add_argument("--jobs", type=int, default=2, help="compiling processes")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("bench/results"))
    given = parser.parse_args(arguments)
    if given.fit:
        files = given.records or [given.results / "row-forms.json"]
        return fit([row for file in files for row in json.loads(file.read_text("utf-8"))["rows"]], given.free)
    timed = forms(given.case or (cut_cases() if given.cut else cases()), given.near)
    if given.prepare:
        print(f"{prepare(timed, given.kernels, given.jobs)} compiled")
        return 0
    import torch

    found: list[dict[str, Any]] = []
    for (program, rows, length), same in itertools.groupby(timed, lambda each: (each.program, each.rows, each.length)):
        found.append(_measured(torch, program, rows, length, list(same), given))
    record = "row-forms-cut" if given.cut else "row-forms"
    print(f"written to {write(record, found, given.results, module='bench.probes.row_forms')}")
    return 0


def _measured(
    torch: Any, program: str, rows: int, length: int, same: list[RowForm], given: argparse.Namespace
) -> dict[str, Any]:
    sets = sets_for(2 * rows * length, warm=False)
    inputs = [torch.randn((rows, length), device="cuda").bfloat16() for _ in range(sets)]
    vectors = [torch.randn(length, device="cuda").bfloat16() for _ in range(2)]
    contenders: list[Contender] = []
    decided: dict[str, dict[str, Any]] = {}
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
        (row,) = cast("list[dict[str, Any]]", compiled.bundle.decisions["rows"])
        decided[form.name] = {name: row[name] for name in ("threads", "ctas", "streamed", "kept", "together", "run")}
        decided[form.name]["registers"] = compiled.bundle.facts["registers"]
    copied = torch.empty_like(inputs[0])
    contenders.append(Contender("copy", lambda index: copied.copy_(inputs[index % sets]), copied))
    result = race(torch, contenders, sets=sets, turns=given.turns)
    first = contenders[0].output.float()
    times = {each.name: result.median(each.name) for each in contenders}
    print(f"{program} {rows} x {length}: copy {times['copy']:.2f} us")
    for each in contenders[:-1]:
        differs = (each.output.float() - first).abs().max().item()
        print(f"    {each.name:44} {times[each.name]:9.2f} us {times['copy'] / times[each.name]:6.3f} {differs:.3g}")
    taken = [{"form": name, "microseconds": times[name]} | row for name, row in decided.items()]
    return {"program": program, "shape": [rows, length], "copy": times["copy"], "forms": taken}


if __name__ == "__main__":
    from bench.probes.row_forms import main as of_module  # forms must be of the class that compilers know

    sys.exit(of_module(sys.argv[1:]))
