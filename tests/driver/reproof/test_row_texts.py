"""The emitted text of programs that fold rows is proven as it stands, and refuted once its protocol is broken."""

import re

import pytest
from examples.rows import layer_norm, log_softmax, quantize, rms_norm, softmax

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.reproof import replay_plan, reprove
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

LENGTHS = [1, 31, 33, 1000, 1024, 1025, 5120]


def elements_of(kernel):
    return {each.name: each.element or Element.BF16 for each in kernel.parameters}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kernel", [softmax, log_softmax, rms_norm, layer_norm, quantize], ids=lambda each: each.name)
def test_each_program_is_proven_as_text(kernel):
    for length in LENGTHS:
        made = compile_kernel(kernel, dims={"M": 37, "N": length}, dtype=elements_of(kernel), assembled=False)
        assert isinstance(made.text_proof, Proven), length


def test_rows_that_clusters_share_are_proven():
    made = compile_kernel(softmax, dims={"M": 5, "N": 200_000}, wanted=Wanted(cut=False), assembled=False)
    (row,) = made.decisions.rows
    assert row.ctas > 1 and isinstance(made.text_proof, Proven)


@pytest.mark.parametrize("rows", [6, 7])
@pytest.mark.parametrize(
    ("length", "threads", "ctas", "kept"),
    [(64, 4, 1, False), (512, 32, 1, False), (2048, 128, 1, False), (4096, 128, 2, False), (4096, 128, 2, True)],
)
def test_rows_that_units_take_at_once_are_proven(length, threads, ctas, kept, rows):
    wanted = Wanted(cut=False, row_threads=threads, row_ctas=ctas, row_kept=kept, row_together=2)
    made = compile_kernel(layer_norm, dims={"M": rows, "N": length}, wanted=wanted, assembled=False)
    assert made.decisions.rows[0].together == 2 and isinstance(made.text_proof, Proven)


def judged(length, edit, wanted=None):
    """The small instance's text, edited, as a run judges it."""
    dims = {"M": 6, "N": length}
    made = compile_kernel(softmax, dims=dims, assembled=False, rerun=False, wanted=wanted)
    instance = small_instance(made.tile)
    small = lower_program(the_program(instance))
    modules = {each.name: each.module for each in small.kernels}
    text = edit(lower_to_ptx(list(modules.values()), "sm_90a"))
    claims = {name: protocol_claims(module, target("sm_90a"), boundaries=False)[0] for name, module in modules.items()}
    return replay_plan(read(text), launch_plan(small), claims, (0,), whole=whole_results(the_program(instance)))


def dropped(pattern, place=0):
    def edit(text):
        lines = text.split("\n")
        found = [number for number, line in enumerate(lines) if re.search(pattern, line)]
        del lines[found[place]]
        return "\n".join(lines)

    return edit


def twice(edit):
    return lambda text: edit(edit(text))


@pytest.mark.parametrize("length", [40, 4096])
def test_the_text_alone_is_proven(length):
    assert isinstance(judged(length, lambda text: text), Proven)


MUTANTS = {
    "a barrier less": (4096, dropped(r"\tbar\.sync"), {"NB101"}),
    "the other barrier less": (4096, dropped(r"\tbar\.sync", 1), {"NB101"}),
    "a store less": (4096, dropped(r"st\.global"), {"UM103"}),
    "a store of a row less": (40, dropped(r"st\.global"), {"UM103"}),
    "no element alone where a row's end cuts a word": (97, dropped(r"st\.global\.b16"), {"UM103"}),
    "a word less where a row's end cuts a run": (97, dropped(r"st\.global\.b32"), {"UM103"}),
    "no end of the row": (40, lambda text: re.sub(r"@%p\d+ st\.global", "st.global", text), None),
    "one word for two warps": (4096, lambda text: re.sub(r"(shr\.u32 %r\d+, %r0), 5", r"\1, 6", text), None),
}  # fmt: skip


VECTORS = Wanted(row_run=8)
MUTANTS_OF_VECTORS = {
    "no look at the array's end": (
        97,
        lambda text: re.sub(r"setp\.le\.u64 (%p\d+), (%rd\d+), %rd\d+", r"setp.le.u64 \1, \2, \2", text),
        {"MF001"},
    ),
    **{name: each for name, each in MUTANTS.items() if each[0] == 97},
}
"""Of rows that begin within the vectors that they are taken by, where a row of 97 is taken by words."""


@pytest.mark.parametrize(
    ("name", "wanted"), [*((name, None) for name in MUTANTS), *((name, VECTORS) for name in MUTANTS_OF_VECTORS)]
)
def test_texts_that_break_their_protocol_are_refuted(name, wanted):
    length, edit, codes = (MUTANTS_OF_VECTORS if wanted else MUTANTS)[name]
    verdict = judged(length, edit, wanted)
    assert isinstance(verdict, Refuted), (name, verdict)
    if codes is not None:
        assert {each.code for each in verdict.findings} & codes, (name, verdict.findings)


CLUSTER = Wanted(row_ctas=2, row_threads=128, row_kept=False, cut=False)
KEPT = Wanted(row_ctas=1, row_threads=128, row_kept=True, cut=False)
SHARED_MUTANTS = {
    "nobody waits until the others have begun": (CLUSTER, dropped(r"cluster\.wait", 0), {"CL102", "MB202"}),
    "nobody arrives at the beginning": (CLUSTER, dropped(r"cluster\.arrive", 0), {"CL201"}),
    "no meeting before the first word": (CLUSTER, twice(dropped(r"barrier\.cluster", 0)), {"CL102"}),
    "nobody waits for the first fold's words": (
        CLUSTER, lambda text: re.sub(r"@%p\d+ bra (words_there_\d+);", r"bra \1;", text, count=1), {"MB111", "TM101"}
    ),
    "nobody waits for any words": (
        CLUSTER, lambda text: re.sub(r"@%p\d+ bra (words_there_\d+);", r"bra \1;", text), {"MB111", "TM101"}
    ),
    "waits that acquire nothing": (
        CLUSTER, lambda text: text.replace("parity.acquire", "parity.relaxed"), {"MB111"}
    ),
    "fewer bytes than come": (
        CLUSTER, lambda text: re.sub(r"(expect_tx\S+ _, \[%r\d+\+0\]), 32", r"\1, 28", text), {"TX102", "TX101"}
    ),
    "barriers that nobody else sees": (CLUSTER, dropped(r"fence\.mbarrier_init"), {"MB104"}),
    "one barrier for two folds": (
        CLUSTER, lambda text: re.sub(r"add\.u32 (%r\d+), (%r\d+), 8;", r"mov.u32 \1, \2;", text), {"TX102", "TM101"}
    ),
    "one word for two warps": (
        CLUSTER, lambda text: re.sub(r"(shr\.u32 %r\d+, %r\d+), 5", r"\1, 6", text), {"UM101"}
    ),
    "both CTAs take the first one's points": (
        CLUSTER, lambda text: re.sub(r"mad\.lo\.u32 (%r\d+), %r\d+, 128, %r0", r"mov.u32 \1, %r0", text), {"UM101"}
    ),
    "words for the last CTA alone": (CLUSTER, lambda text: text.replace("min.u32", "max.u32"), {"TM102", "TX102"}),
    "copies that nobody waits for": (KEPT, dropped(r"cp\.async\.wait_all"), {"BG105"}),
    "a copy less": (KEPT, dropped(r"cp\.async\.cg"), {"UM101"}),
    "threads that copy onto one another's": (
        KEPT, lambda text: re.sub(r"(mad\.lo\.u32 %r\d+, %r0), 16,", r"\1, 8,", text), {"MF002"}
    ),
    "strips that lie onto one another": (
        KEPT, lambda text: re.sub(r"add\.u32 (%r\d+), \1, 4096", r"add.u32 \1, \1, 2048", text), {"BG105"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("wanted", [CLUSTER, KEPT], ids=["cluster", "kept"])
def test_shared_rows_are_proven(wanted):
    assert isinstance(judged(4096, lambda text: text, wanted), Proven)
    assert isinstance(judged(4099, lambda text: text, wanted), Proven)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", SHARED_MUTANTS)
def test_shared_rows_that_break_their_protocol_are_refuted(name):
    wanted, edit, codes = SHARED_MUTANTS[name]
    verdict = judged(4096, edit, wanted)
    assert isinstance(verdict, Refuted), (name, verdict)
    assert {each.code for each in verdict.findings} & codes, (name, verdict.findings)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kernel", [softmax, layer_norm, quantize], ids=lambda each: each.name)
@pytest.mark.parametrize("length", [38139, 50257, 65536])
def test_long_rows_are_read_once_and_proven(kernel, length):
    """Of those that begin anywhere in a vector, a strip more or less changes no number but the row's length."""
    dims = {"M": 500, "N": length}
    made = compile_kernel(kernel, dims=dims, dtype=elements_of(kernel), wanted=Wanted(cut=False), assembled=False)
    (row,) = made.decisions.rows
    assert row.kept == ("x",) or not row.streamed
    assert isinstance(made.text_proof, Proven)


def test_another_text_than_the_programs_is_refuted():
    made = compile_kernel(softmax, dims={"M": 6, "N": 4096}, assembled=False)
    other = made.ptx.replace("shfl.sync.bfly.b32", "shfl.sync.down.b32", 1)
    assert other != made.ptx
    assert isinstance(reprove(made.tile, other, "sm_90a", "softmax"), Refuted)
