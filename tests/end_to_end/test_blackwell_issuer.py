"""Walks with several products, some of which a role of its own issues: proved twice, assembled, NumPy's numbers.

No GPU of that architecture was at hand. Edits of the text must be refuted by the second proof's machine and judge.
"""

import re
from collections.abc import Mapping
from functools import cache
from unittest.mock import patch

import pytest
from tests.end_to_end.blackwell_programs import (
    ANY,
    COMMIT,
    FREE,
    GO_ON,
    MEET,
    READ,
    RELEASE,
    TARGET,
    WAIT,
    OfOneMultiprocessor,
    check_edit,
    check_numbers,
    line,
    rejudged,
)
from tests.lower import cascade_programs
from tests.lower.narrow_programs import attention as narrow_attention
from tests.lower.narrow_programs import sizes

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.views.portability import portability
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target

ISSUED = "a role issues"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (cascade_programs.attention, {"B": 1, "H": 2, "Q": 200, "T": 520, "E": 128, "F": 128}),
        (cascade_programs.attention, {"B": 2, "H": 1, "Q": 65, "T": 1, "E": 8, "F": 8}),
        (cascade_programs.causal, {"B": 2, "Q": 513, "T": 513, "E": 72, "F": 64}),
        (cascade_programs.window, {"Q": 300, "T": 300, "E": 64, "F": 40}),
        (cascade_programs.grouped_heads, cascade_programs.dims_of("grouped_heads", 300, 200)),
        (cascade_programs.lengths, cascade_programs.dims_of("lengths", 300, 200)),
        (cascade_programs.mlp, cascade_programs.dims_of("mlp", 300, 200)),
        (cascade_programs.two_gradients, {"M": 300, "E": 64, "T": 200, "F": 32}),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value.values())),
)
def test_products_that_are_issued_ahead(kernel: Kernel, dims: Mapping[str, int]) -> None:
    made = compile_kernel(kernel, target=TARGET, dims=dims, wanted=Wanted(issuer=True))
    assert any(ISSUED in reason for part in made.parts for reason in part.decisions.reasons)
    assert "// role issuer" in made.ptx and made.text_proof is not None
    assert made.assembly is not None and made.assembly.spill_bytes == 0
    check_numbers(made)


def test_keys_that_consumers_widen_are_theirs_to_multiply() -> None:
    """Found by a run of all such programs: the role took them for 8-bit operands as they lie."""
    kernel = narrow_attention(tw.bf16, widened=tw.bf16)
    made = compile_kernel(
        kernel, target=TARGET, dims=sizes(70, 200, 128), dtype="bf16", wanted=Wanted(issuer=True), assembled=False
    )
    assert made.text_proof is not None and "// role issuer" not in made.ptx


def test_a_debug_build_of_it() -> None:
    dims = {"B": 1, "H": 1, "Q": 130, "T": 200, "E": 64, "F": 64}
    wanted = Wanted(issuer=True, asserts=True)
    made = compile_kernel(cascade_programs.attention, target=TARGET, dims=dims, wanted=wanted)
    assert made.ptx.count("trap;") > 8 and made.text_proof is not None
    check_numbers(made)


def test_it_is_chosen_where_it_is_predicted_to_take_less() -> None:
    """Tiles of many rows multiply faster so; where there are few tiles, those of one consumer take less."""
    chosen: dict[int, bool] = {}
    for batch, heads, rows in ((4, 32, 2048), (1, 8, 512)):
        dims = {"B": batch, "H": heads, "Q": rows, "T": rows, "E": 64, "F": 64}
        (row,) = portability(cascade_programs.attention, [target(TARGET)], dims, "bf16").rows
        chosen[batch] = any(ISSUED in reason for part in row.decisions for reason in part)
    assert chosen == {4: True, 1: False}


@cache
def small_attention() -> Compilation:
    """Of which a CTA walks more tiles than there are slots for sums, several times."""
    facts = target(TARGET)
    one = Target(facts.name, facts.title, OfOneMultiprocessor(facts.facts.rows, facts.facts.estimates))
    dims = {"B": 1, "H": 3, "Q": 70, "T": 80, "E": 24, "F": 24}
    wanted = Wanted(issuer=True, depth=16)
    with patch("tilewright.driver.compile.compile.target_named", return_value=one):
        return compile_kernel(cascade_programs.attention, target=TARGET, dims=dims, wanted=wanted)


MUTANTS: dict[str, tuple[str, str, int]] = {
    "keys are not released": (COMMIT, "", 0),
    "sums are not handed over": (COMMIT, "", 1),
    "sums of later iterations are not handed over": (COMMIT, "", 3),
    "queries are not released": (COMMIT, "", 4),
    "sums are handed over twice": (rf"({COMMIT})", r"\1\1", 3),
    "products do not wait for queries": (WAIT, GO_ON, -7),
    "products do not wait for a free slot": (WAIT, GO_ON, -4),
    "products do not wait for keys": (WAIT, GO_ON, -3),
    "no wait for what a role issued": (WAIT, GO_ON, -2),
    "no wait for values": (WAIT, GO_ON, -1),
    "no wait for what is loaded": (line("tcgen05.wait::ld"), "", 0),
    "a slot of sums is released before all have read it": (MEET, "", 0),
    "a slot of sums is released before it is read": (rf"({READ})((?:{ANY}){{1,9}}?{RELEASE})", r"\2\1", 0),
    "a slot of sums is never released": (RELEASE, "", -1),
    "another warp's lanes": (r"(mad\.lo\.u32 %r\d+, %r\d+, )2097152,", r"\g<1>4194304,", 0),
    "another unit's lanes": (r"(mad\.lo\.u32 %r\d+, %r\d+, )1048576,", r"\g<1>2097152,", 0),
    "every thread of the warpgroup issues": (line("bra role_end", True).replace("!?", "!"), "", 1),
    "never freed": (FREE, "", 0),
    "no commit of what a unit issued": (COMMIT, "", -1),
    "a unit's products do not wait for what its threads wrote": (line("tcgen05.wait::st"), "", 0),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_edit_of_the_text_is_refuted(name: str) -> None:
    check_edit(small_attention(), MUTANTS[name])


def test_a_producer_that_does_not_wait_for_the_last_releases_is_refuted() -> None:
    """The tensor core arrives at any time: without the waits at the producer's end, when the CTA may have ended."""
    compilation = small_attention()
    producer, rest = compilation.ptx.split("// role issuer")
    filling, end = producer.rsplit("cp.async.bulk", 1)
    edited = f"{filling}cp.async.bulk{re.sub(WAIT, GO_ON, end)}// role issuer{rest}"
    found = rejudged(compilation, edited)
    assert isinstance(found, Refuted) and {each.code for each in found.findings} == {"TC119"}, found


def test_the_text_itself_is_proven() -> None:
    compilation = small_attention()
    found = rejudged(compilation, compilation.ptx)
    assert isinstance(found, Proven), found
