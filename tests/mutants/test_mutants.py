"""Broken kernels are refuted with a right code at a right place; kernels that are only edited stay proven.

Every mutation at up to two places of every kernel of the repository's corpus: about 950 mutants of 62 classes. Those
that are not refuted must be exactly those that `survivors` explains.
"""

from functools import cache
from pathlib import Path

import pytest

from tests.mutants.judging import Outcome, findings_of, judged
from tests.mutants.mutations import BROKEN, HARMLESS, Mutation, mutants
from tests.mutants.survivors import SURVIVORS
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.frontends.ptx.reader import read

_CORPUS = Path(__file__).parent.parent / "data" / "ptx" / "corpus"
_KERNELS = sorted(path.relative_to(_CORPUS).with_suffix("").as_posix() for path in _CORPUS.rglob("*.ptx"))
_PLACES = 2
# Small kernels that have most of the classes between them; the others are for the long run.
_QUICK = ("gluon/sm_90a/ws_copy_s3", "tilewright/sm_90a/matmul_cluster_2x1")
_QUICK_TENSOR_MEMORY = "gluon/sm_100a/tcgen05_two_products"


@cache
def _subject(kernel: str) -> tuple[str, LaunchFile]:
    path = _CORPUS / f"{kernel}.ptx"
    return path.read_text("utf-8"), read_launch_file(str(path.with_suffix(".launch.json")))


def _outcomes(kernel: str, chosen: tuple[Mutation, ...], places: int) -> list[Outcome]:
    text, launch = _subject(kernel)
    known = findings_of(text, kernel, launch)
    made = mutants(text, kernel, chosen, places)
    return [judged(each, kernel, launch, known if each.isa == "strict" else frozenset()) for each in made]


def _assert_refuted(kernel: str, chosen: tuple[Mutation, ...], places: int) -> None:
    outcomes = _outcomes(kernel, chosen, places)
    assert outcomes
    survivors = {(kernel, each.mutation, each.line) for each in outcomes if each.verdict != "refuted"}
    expected = {key for key in SURVIVORS if key[0] == kernel}
    made = {(kernel, each.mutation, each.line) for each in outcomes}
    assert survivors == expected & made
    refuted = [each for each in outcomes if each.verdict == "refuted"]
    assert not [each for each in refuted if not each.code]
    assert not [each for each in refuted if each.place == "far"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", _QUICK)
def test_mutants_are_refuted(kernel: str) -> None:
    _assert_refuted(kernel, BROKEN, 1)


def test_mutants_of_tensor_memory_are_refuted() -> None:
    chosen = tuple(each for each in BROKEN if "TC" in each.families and "PX" not in each.families)
    assert len(chosen) >= 8
    _assert_refuted(_QUICK_TENSOR_MEMORY, chosen, 1)


@pytest.mark.full
@pytest.mark.parametrize("kernel", _KERNELS)
def test_every_mutant_is_refuted_or_explained(kernel: str) -> None:
    _assert_refuted(kernel, BROKEN, _PLACES)


def test_survivors_are_mutants() -> None:
    """Each line of the table is an edit that is made, so that none of them outlives its kernel."""
    made = {
        (kernel, each.mutation, each.line)
        for kernel in _KERNELS
        for each in mutants(_subject(kernel)[0], kernel, BROKEN, _PLACES)
    }
    assert set(SURVIVORS) <= made
    assert len(made) >= 900 and len(SURVIVORS) <= 0.07 * len(made)
    assert len({mutation for _, mutation, _ in made}) >= 55


@pytest.mark.full
def test_harmless_edits_stay_proven() -> None:
    outcomes = _outcomes(_QUICK[0], HARMLESS, 1)
    assert len(outcomes) >= 15
    assert not [each for each in outcomes if each.verdict != "proven"]


@pytest.mark.full
@pytest.mark.parametrize("kernel", _KERNELS)
def test_every_harmless_edit_stays_proven(kernel: str) -> None:
    assert not [each for each in _outcomes(kernel, HARMLESS, _PLACES) if each.verdict != "proven"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("kernel", _KERNELS)
def test_mutants_are_kernels(kernel: str) -> None:
    """Every mutant is read without an error: it is the protocol that is broken, not the text."""
    for mutant in mutants(_subject(kernel)[0], kernel, BROKEN + HARMLESS, 1):
        module = read(mutant.text, kernel, tolerant=True)
        assert not module.unread, mutant.mutation
        assert mutant.text.count("\n") == _subject(kernel)[0].count("\n"), mutant.mutation
