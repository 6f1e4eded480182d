"""Tiles that the hardware hands out (cluster launch control): proved twice, assembled, and NumPy's numbers.

The CPU machine gives CTAs the work of others that have not begun: half of the grid to the first, the rest at random.
No GPU of that architecture was at hand. Edits of the text must be refuted by the second proof's machine and judge.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from tests.end_to_end.blackwell_programs import GO_ON, TARGET, WAIT, check_edit, check_numbers, line, rejudged
from tests.lower import cascade_programs

from tilewright.base.verdict import Proven
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.views.portability import portability
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.cascade import CascadeDecisions
from tilewright.machine.core.event import BarrierInit
from tilewright.machine.core.run import run_launch
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

ASKED = "each CTA asks the hardware for its next tile"


@pytest.mark.sample(1)
@pytest.mark.parametrize("issuer", [True, False])
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (cascade_programs.causal, {"B": 3, "Q": 300, "T": 300, "E": 8, "F": 8}),
        (cascade_programs.causal, {"B": 2, "Q": 513, "T": 513, "E": 72, "F": 64}),
        (cascade_programs.window, {"Q": 600, "T": 600, "E": 64, "F": 40}),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value.values())),
)
def test_both_proofs_and_numbers(kernel: Kernel, dims: Mapping[str, int], issuer: bool) -> None:
    made = compile_kernel(kernel, target=TARGET, dims=dims, wanted=Wanted(issuer=issuer, handed=True))
    assert any(ASKED in reason for part in made.parts for reason in part.decisions.reasons)
    assert made.text_proof is not None and made.assembly is not None and made.assembly.spill_bytes == 0
    assert made.ptx.count("clusterlaunchcontrol.try_cancel") == 1
    check_numbers(made)


def test_it_is_chosen_where_the_longest_share_is_shorter_so() -> None:
    """Of 16 long sequences more than a 32nd of the longest share, of many less, since an order is as good, and of few
    short ones nothing. Hopper cannot."""
    chosen: dict[tuple[str, int], bool] = {}
    for name, batch, rows in ((TARGET, 16, 8192), (TARGET, 64, 8192), (TARGET, 2, 512), ("sm_90a", 16, 8192)):
        dims = {"B": batch, "Q": rows, "T": rows, "E": 128, "F": 128}
        (row,) = portability(cascade_programs.causal, [target(name)], dims, "bf16").rows
        chosen[name, batch] = any(ASKED in reason for part in row.decisions for reason in part)
    assert chosen == {(TARGET, 16): True, (TARGET, 64): False, (TARGET, 2): False, ("sm_90a", 16): False}


def test_it_is_not_asked_for_where_tiles_are_alike() -> None:
    dims = {"B": 1, "H": 2, "Q": 300, "T": 200, "E": 64, "F": 64}
    made = compile_kernel(
        cascade_programs.attention, target=TARGET, dims=dims, wanted=Wanted(handed=True), rerun=False, assembled=False
    )
    assert "try_cancel" not in made.ptx


@cache
def small_attention() -> Compilation:
    """Of 9 tiles, of which the first CTA gets 5: its slots of answers come round."""
    wanted = Wanted(issuer=True, handed=True)
    dims = {"B": 3, "Q": 300, "T": 300, "E": 24, "F": 24}
    return compile_kernel(cascade_programs.causal, target=TARGET, dims=dims, wanted=wanted)


def test_several_ctas_are_given_several_tiles() -> None:
    made = small_attention()
    (launch,) = made.plan.launches
    buffers = {each.name: np.zeros(max(1, each.span_bytes), np.uint8) for each in made.plan.buffers}
    ctas: set[int] = set()
    run_launch(
        read(made.ptx, "own.ptx"), launch, buffers,
        observe=lambda event: ctas.add(event.cta) if isinstance(event, BarrierInit) else None,
    )  # fmt: skip
    decisions = made.parts[0].decisions
    assert isinstance(decisions, CascadeDecisions) and launch.grid == (9, 1, 1)
    assert 2 <= len(ctas) < 9


ASK, TAKE = line("clusterlaunchcontrol.try_cancel"), line("ld.shared.v2.b64")
ADDRESS = line("add.u32") + line("mad.lo.u32")
AWAITED = rf"{WAIT}([^\n]*\n[^\n]*\n[^\n]*\n{ADDRESS}{TAKE})"
FENCE = rf"({TAKE}){line('fence.proxy.async')}"
GRANTED = line("clusterlaunchcontrol.query_cancel.get_first_ctaid::x", True)
FREED = line("mbarrier.arrive.release.cta.shared::cta", True)
PLACE = line("mad.lo.u32") + line("add.u32")
MEETING = line("add.u32") + line("bar.sync %r")
MUTANTS: dict[str, tuple[str, str, int]] = {
    "the producer does not wait for an answer": (AWAITED, GO_ON + r"\2", 0),
    "the issuer does not wait for an answer": (AWAITED, GO_ON + r"\2", 1),
    "the consumers do not wait for an answer": (AWAITED, GO_ON + r"\2", 2),
    "the producer does not fence what it has read": (FENCE, r"\1", 0),
    "the issuer does not fence what it has read": (FENCE, r"\1", 1),
    "the consumers do not fence what they have read": (FENCE, r"\1", 2),
    "consumers do not meet before an answer's slot is free": (rf"({GRANTED}){MEETING}", r"\1", 0),
    "the producer never frees an answer's slot": (rf"({GRANTED}{PLACE}){FREED}", r"\1", 0),
    "the consumers never free an answer's slot": (rf"({GRANTED}{MEETING}{PLACE}){FREED}", r"\1", 0),
    "the issuer frees an answer's slot twice": (rf"({GRANTED}{PLACE})({FREED})", r"\1\2\2", 1),
    "too few bytes are announced": (rf"(arrive\.expect_tx[^\n]*, )16(;\n(?:[^\n]*\n){{4}}{ASK})", r"\g<1>8\2", 0),
    "too many bytes are announced": (rf"(arrive\.expect_tx[^\n]*, )16(;\n(?:[^\n]*\n){{4}}{ASK})", r"\g<1>32\2", 0),
    "work is asked for twice": (rf"({ASK})", r"\1\1", 0),
    "work is never asked for": (ASK, "", 0),
    "a free slot is not waited for": (rf"{WAIT}((?:[^\n]*\n){{10}}{ASK})", GO_ON + r"\2", 0),
    "the producer goes on with another tile": ("get_first_ctaid::x", "get_first_ctaid::y", 0),
    "the issuer goes on with another tile": ("get_first_ctaid::x", "get_first_ctaid::z", 1),
    "the consumers go on with another tile": ("get_first_ctaid::x", "get_first_ctaid::y", 2),
    "the consumers end after one tile": (line("bra tiles_\\d+;", True), "", -1),
    "all begin with the first tile": (r"(mov\.u32 %r\d+, )%ctaid\.x", r"\g<1>0", 0),
    "consumers begin with the first tile": (r"(mov\.u32 %r\d+, )%ctaid\.x", r"\g<1>0", -1),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_edit_of_the_text_is_refuted(name: str) -> None:
    check_edit(small_attention(), MUTANTS[name])


def test_the_text_itself_is_proven() -> None:
    compilation = small_attention()
    found = rejudged(compilation, compilation.ptx)
    assert isinstance(found, Proven), found
