"""How long do walks of attention take in each form that `synth.cascade` chooses among?

A form is how many consumers share a tile, how many CTAs a multiprocessor, how many keys an iteration takes, and whether
consumers issue one after the other; of the chosen one, whether factors of 1 are passed over, and whether the threads of
a row add up their parts of its sum behind the walk. Forms of one program and shape are timed in one run, beside cuDNN;
the largest difference from its results is kept. `pipeline.order_least_percent`, `order_most_percent`,
`skipped_products_least` and `late_sums_columns_most` of the target rest on these times.

    python -m bench.probes.walk_forms --prepare --kernels out/forms     # compile ahead; needs no GPU
    python -m bench.probes.walk_forms --kernels out/forms

Not handled: gradients; forms on tensor memory. Checked by: tests/benchmarks/test_case_lists.py.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from bench import case_suite
from bench.device_state import Sampler
from bench.fused import attention_peers
from bench.interleaved import Contender, race, sets_for
from bench.prepared import Refused, load_prepared
from tilewright.synth.tile.wanted import Wanted

_MODULE = "bench.probes.walk_forms"
_ROWS, _ELEMENTS = 16384, 2048
_LENGTHS = (512, 1024, 4096)
_WIDTHS = {64: (128, 96), 128: (128, 96, 80), 256: (80, 64)}


@dataclass(frozen=True, slots=True)
class WalkForm:
    """A program of `examples/fused.py` on sequences of that length, in a form; 0 where the compiler chooses."""

    program: str
    length: int
    size: int
    consumers: int = 0
    resident: int = 0
    width: int = 0
    ordered: bool | None = None
    skips_ones: bool | None = None
    late_sums: bool | None = None

    @property
    def name(self) -> str:
        return f"{self.program} {self.length}, heads of {self.size}"

    @property
    def form(self) -> str:
        if not self.consumers:
            asked = {"factors of 1 passed over": self.skips_ones, "sums late": self.late_sums}
            return ", ".join(
                ["chosen", *(f"{'' if on else 'no '}{what}" for what, on in asked.items() if on is not None)]
            )
        order = {None: "", True: ", ordered", False: ", unordered"}[self.ordered]
        return f"{self.consumers} consumers x {self.resident} CTAs, {self.width} keys{order}"

    @property
    def dims(self) -> dict[str, int]:
        return {
            "B": _ROWS // self.length, "H": _ELEMENTS // self.size, "Q": self.length, "T": self.length,
            "E": self.size, "F": self.size,
        }  # fmt: skip

    @property
    def wanted(self) -> Wanted:
        """The compiler's choices that make the form."""
        if not self.consumers:
            return Wanted(skips_ones=self.skips_ones, late_sums=self.late_sums)
        return Wanted(consumers=self.consumers, resident=self.resident, depth=self.width, ordered=self.ordered)


def cases() -> list[WalkForm]:
    """Every program and shape."""
    return [
        WalkForm(program, length, size)
        for size in _WIDTHS
        for program in ("attention", "causal_attention")
        for length in _LENGTHS
    ]


def forms_of(case: WalkForm) -> Iterator[WalkForm]:
    """What the compiler chooses, and every form of a case."""
    yield case
    for skips, late in itertools.product((False, True), repeat=2):
        yield replace(case, skips_ones=skips, late_sums=late)
    for consumers, width in itertools.product((1, 2, 3), _WIDTHS[case.size]):
        orders = (True, False) if consumers > 1 else (None,)
        residents = (1, 2) if consumers == 1 else (1,)
        for resident, ordered in itertools.product(residents, orders):
            yield WalkForm(case.program, case.length, case.size, consumers, resident, width, ordered)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    case_suite.add_arguments(parser)
    given = parser.parse_args(arguments)
    return case_suite.run_cases(
        given, "walk-forms", cases(), _measured, _line, programs=forms_of, summary=lambda rows: (), module=_MODULE
    )


def _measured(torch: Any, case: WalkForm, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    torch.cuda.empty_cache()
    shape = tuple(case.dims[axis] for axis in "BHQE")
    sets = sets_for(3 * 2 * _ROWS * _ELEMENTS, warm=arguments.warm)
    arrays = [[torch.randn(shape, device="cuda").bfloat16() for _ in range(3)] for _ in range(sets)]
    contenders: list[Contender] = []
    forms: dict[str, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for form in forms_of(case):
        program = load_prepared(form, arguments.kernels)
        if isinstance(program, Refused):
            refused[form.form] = program.message.partition(": ")[2]  # behind the author's line
            continue
        outputs = [each for each in program.bundle.plan.buffers if each.role == "output"]
        kinds = {"bf16": torch.bfloat16, "f32": torch.float32}
        results = tuple(torch.empty(each.shape, dtype=kinds[each.element.value], device="cuda") for each in outputs)

        def ours(index: int, program: Any = program, results: Any = results) -> None:
            program(*arrays[index % sets], out=results if len(results) > 1 else results[0])

        contenders.append(Contender(form.form, ours, results[0]))
        decisions = cast("dict[str, Any]", program.bundle.decisions)
        forms[form.form] = {
            "decided": decisions["reasons"][0], "ordered": decisions["ordered"],
            "registers": program.bundle.facts.get("registers"),
        }  # fmt: skip
    peer = attention_peers(torch, causal=case.program == "causal_attention", grouped=False)["cuDNN"]
    held: dict[str, Any] = {}

    def call_peer(index: int) -> None:
        held["result"] = peer(*arrays[index % sets])

    call_peer(0)
    contenders.append(Contender("cuDNN", call_peer, held["result"], fetch=lambda: held["result"]))
    timed = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    for name, facts in forms.items():
        facts["microseconds"] = timed.median(name)
        ours_last = next(each.output for each in contenders if each.name == name)
        facts["differs"] = (ours_last.float() - held["result"].float()).abs().max().item()
    return {
        "case": case.name, "program": case.program, "dims": case.dims, "forms": forms, "refused": refused,
        "cuDNN": timed.median("cuDNN"),
    }  # fmt: skip


def _line(row: dict[str, Any]) -> str:
    found = sorted(row["forms"].items(), key=lambda each: each[1]["microseconds"])
    return "\n".join(
        [f"{row['case']}: cuDNN {row['cuDNN']:.1f} us, {len(row['refused'])} forms refused"]
        + [f"    {name:48} {facts['microseconds']:9.1f} us {facts['registers']}" for name, facts in found]
    )


if __name__ == "__main__":
    from bench.probes.walk_forms import main as of_module  # forms must be of the class that compilers know

    sys.exit(of_module(sys.argv[1:]))
