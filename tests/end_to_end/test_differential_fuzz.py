"""Random edits, judged three ways: by the proof of the program, by the judge of events on its text, by the bits.

What the typestate proof calls proven must be proven again as text, on every seed, with the same bits on every seed.
What the judge of events calls proven must leave the same bits on every seed. No edit may make a checker crash.

A program that only computes something else keeps its protocol, so bits are compared between seeds, and with the
unedited program's only where no edit touches what is computed (`COMPUTES`). Two differences are no wrong proof: tensor
maps and arrays larger than their buffers (`MF001`; the typestate proof assumes that they fit, the run shows it), and a
run that was cut off (`LV202`: trip counts of thousands).
"""

from __future__ import annotations

from random import Random

import pytest
from tests.end_to_end.program_fuzz import PROGRAMS, Run, mutate, run_program, run_text, subject
from tests.end_to_end.text_fuzz import mutate_text

from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.lower.plan import kernel_launch
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx, the_kernel
from tilewright.targets import target

HOPPER = target("sm_90a")

COMPUTES = (
    "ac.affine", "ac.tensor_map", "ac.global", "ac.scalar", "ac.round", "ac.constant", "ac.fragment.map",
    "ac.fragment.load", "ac.tma.issue", "ac.tma.store", "ac.wgmma.issue", "ac.stage.write", "ac.tiles", "ac.loop",
    "ac.kernel", "ac.yield",
)  # fmt: skip
"""Operations whose edits may change coordinates, matrices, columns, functions or the set of tiles, and so the result,
without touching the protocol."""


def is_excused(run: Run) -> bool:
    """Whether a run without proof contradicts no typestate proof (see above)."""
    match run.verdicts[-1] if run.verdicts else None:
        case Refuted(findings):
            return findings[0].code == "MF001"
        case Unknown(reasons):
            return all(reason.startswith("LV202") for reason in reasons)
        case _:
            return False


def check_program(name: str, seed: int, edits: int) -> str:
    """One mutant; returns the verdict's name. Fails where a proof is contradicted."""
    item, module = subject(name), subject(name).module.clone()
    random = Random(seed)
    done = mutate(module, random, edits)
    what = f"{name}, seed {seed}, {edits} edits: {done}"
    verdict = verify(module, HOPPER)
    if not isinstance(verdict, Proven):
        return type(verdict).__name__
    run = run_program(item, module, (0, 1))
    if run.refused:
        return "Refused"
    if is_excused(run):
        return "Excused"
    assert run.is_proven, f"{what}: proven, but its text: {run.verdicts[-1]}"
    assert len(set(run.bits)) == 1, f"{what}: proven, but its bits differ between seeds"
    if not any(operation in edit for edit in done for operation in COMPUTES):
        assert run.bits[0] == item.bits, f"{what}: proven, but its bits differ from the right ones"
    return "Proven"


def check_text(name: str, seed: int, edits: int) -> str:
    """One mutant of the text; returns the verdict's name. Fails where its bits depend on the interleaving."""
    item = subject(name)
    launch = kernel_launch(the_kernel(item.module))
    text, done = mutate_text(lower_to_ptx([item.module], "sm_90a"), Random(seed), edits)
    run = run_text(item, text, launch, (0, 1, 2, 3, 4))
    if run.refused:
        return "Refused"
    if not run.is_proven:
        what = f"{name}, seed {seed}, {edits} edits: {done}"
        assert len(run.verdicts) == 1 or not isinstance(run.verdicts[-1], Refuted), (
            f"{what}: proven on seed 0, but refuted on seed {len(run.verdicts) - 1}: {run.verdicts[-1]}"
        )
        return type(run.verdicts[-1]).__name__
    assert len(set(run.bits)) == 1, f"{name}, seed {seed}, {edits} edits: {done}: proven, but its bits differ"
    return "Proven"


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["one-group", "direct-store", "cluster-2x1"])
def test_no_edited_program_is_wrongly_proven(name: str) -> None:
    verdicts = [check_program(name, seed, 1) for seed in range(32)]
    verdicts += [check_program(name, seed, 2) for seed in range(100, 108)]
    assert verdicts.count("Refuted") >= 6 and verdicts.count("Proven") >= 2, verdicts


def test_no_edited_text_is_wrongly_proven() -> None:
    verdicts = [check_text("one-group", seed, 1) for seed in range(10)]
    assert verdicts.count("Refuted") >= 3 and verdicts.count("Proven") >= 2, verdicts


@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_edited_programs(name: str) -> None:
    for edits, count in ((1, 400), (2, 300), (3, 200)):
        for seed in range(1_000_000 * edits, 1_000_000 * edits + count):
            check_program(name, seed, edits)


@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_edited_texts(name: str) -> None:
    for edits, count in ((1, 200), (2, 100)):
        for seed in range(1_000_000 * edits, 1_000_000 * edits + count):
            check_text(name, seed, edits)
