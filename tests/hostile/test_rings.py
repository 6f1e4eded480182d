"""Rings of three slots, which a thread fills by bulk copies and another takes: stages, parities and releases that are
wrong in some iteration alone, for any number of tiles of any number of steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.hostile.kernel import MEET, Pair, wait

_STAGES = 3
_INIT = (
    "".join(
        f"@%p_t0 mbarrier.init.shared::cta.b64 [bars+{at}], 1;\n"
        for stage in range(_STAGES)
        for at in (8 * stage, 64 + 8 * stage)
    )
    + MEET
)
_RELEASE = "mbarrier.arrive.shared::cta.b64 _, [%r_bTAKE+64];"


def _next(role: str, *, back: int = _STAGES, flips: int = _STAGES) -> str:
    """The next stage: the first one after `back`, with the other parity after `flips`."""
    return (
        f"add.u32 %r_s{role}, %r_s{role}, 1; setp.eq.u32 %p_f{role}, %r_s{role}, {flips}; "
        f"@%p_f{role} xor.b32 %r_p{role}, %r_p{role}, 1; setp.eq.u32 %p_b{role}, %r_s{role}, {back}; "
        f"@%p_b{role} mov.u32 %r_s{role}, 0;"
    )


def _role(role: str, parity: str, body: str) -> str:
    return f"""
{role}: mov.u32 %r_t{role}, 0; mov.u32 %r_s{role}, 0; mov.u32 %r_p{role}, {parity};
{role}T: setp.ge.u32 %p_e{role}, %r_t{role}, %r_tiles; @%p_e{role} bra END;
mov.u32 %r_i{role}, 0;
{role}L: setp.ge.u32 %p_g{role}, %r_i{role}, %r_steps; @%p_g{role} bra {role}E;
shl.b32 %r_b{role}, %r_s{role}, 3; add.u32 %r_b{role}, %r_b{role}, %r_bars;
shl.b32 %r_a{role}, %r_s{role}, 10; add.u32 %r_a{role}, %r_a{role}, %r_slots;
{body}
add.u32 %r_i{role}, %r_i{role}, 1; bra {role}L;
{role}E: add.u32 %r_t{role}, %r_t{role}, 1; bra {role}T;
"""


def _ring(
    *, first: str = "1", before: str = "", fills: str = _next("FILL"), takes: str = _next("TAKE"),
    taken: str = f"ld.shared.b32 %r_value, [%r_aTAKE];\n{_RELEASE}", bytes_expected: str = "1024",
) -> str:  # fmt: skip
    fill = f"""
{before}{wait("%r_bFILL+64", "%r_pFILL", name="EMPTY")}
GO: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bFILL], {bytes_expected};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r_aFILL], [%rd_SOURCE], 1024, [%r_bFILL];
{fills}"""
    take = f"""{wait("%r_bTAKE", "%r_pTAKE", name="FULL")}{taken}\n{takes}"""
    begin = "mov.u32 %r_bars, bars;\nmov.u32 %r_slots, slots;\n@%p_t0 bra FILL;\n@%p_t32 bra TAKE;\nbra END;\n"
    return _INIT + begin + _role("FILL", first, fill) + _role("TAKE", "0", take) + "END:\n"


_NAMES = ("SOURCE", "RESULT", "steps", "tiles")
_SKIPS = "rem.u32 %r_q, %r_iFILL, 7; setp.eq.u32 %p_skip, %r_q, 6;\n@%p_skip bra GO;\n"
_LAST = "add.u32 %r_l, %r_iFILL, 1; setp.eq.u32 %p_l, %r_l, %r_steps; selp.b32 %r_n, 512, 1024, %p_l;\n"
_NEXT_SLOT = (
    "ld.shared.b32 %r_value, [%r_aTAKE]; add.u32 %r_w, %r_sTAKE, 1; setp.eq.u32 %p_w, %r_w, 3; "
    "@%p_w mov.u32 %r_w, 0; shl.b32 %r_w, %r_w, 3; add.u32 %r_w, %r_w, %r_bars; "
    "mbarrier.arrive.shared::cta.b64 _, [%r_w+64];"
)
BUGGY = {
    "the consumer flips one stage early": _ring(takes=_next("TAKE", flips=2)),
    "the consumer has a stage more": _ring(takes=_next("TAKE", back=4, flips=4)),
    "the consumer flips at every stage": _ring(takes=_next("TAKE") + " xor.b32 %r_pTAKE, %r_pTAKE, 1;"),
    "the consumer begins each tile at the first stage": _ring().replace(
        "mov.u32 %r_iTAKE, 0;", "mov.u32 %r_iTAKE, 0; mov.u32 %r_sTAKE, 0; mov.u32 %r_pTAKE, 0;"
    ),
    "the producer begins with the parity of a full slot": _ring(first="0"),
    "the producer waits for the phase before": _ring(
        before="setp.ge.u32 %p_q, %r_iFILL, 3; @%p_q xor.b32 %r_pFILL, %r_pFILL, 1;\n"
    ),
    "the producer skips a wait in seven": _ring(before=_SKIPS),
    "the producer makes an even number of steps": _ring().replace(
        "setp.ge.u32 %p_gFILL, %r_iFILL, %r_steps;", "and.b32 %r_h, %r_steps, -2; setp.ge.u32 %p_gFILL, %r_iFILL, %r_h;"
    ),
    "the last step expects half the bytes": _ring(before=_LAST, bytes_expected="%r_n"),
    "released before it is read": _ring(taken=f"{_RELEASE}\nld.shared.b32 %r_value, [%r_aTAKE];"),
    "the next slot is released": _ring(taken=_NEXT_SLOT),
    "the consumer takes one more": _ring().replace("setp.ge.u32 %p_gTAKE", "setp.gt.u32 %p_gTAKE"),
}


def _pair(body: str) -> Pair:
    return Pair("", body, "", "", parameters=_NAMES)


@pytest.mark.parametrize("body", BUGGY.values(), ids=BUGGY)
def test_a_buggy_ring_is_refuted(body: str) -> None:
    assert _pair(body).report("").verdict == "refuted"


def _rotated(body: str) -> str:
    """Loops that compare at their end, behind a guard, as compilers write them."""
    for role in ("FILL", "TAKE"):
        for loop, at, count, end in (("T", "t", "tiles", "END"), ("L", "i", "steps", f"{role}E")):
            compared = f"setp.ge.u32 %p_{{}}{role}, %r_{at}{role}, %r_{count}; @%p_{{}}{role} bra {end};"
            head = compared.format(*("e" if loop == "T" else "g") * 2)
            assert head in body
            guard = f"setp.eq.u32 %p_n{loop}{role}, %r_{count}, 0; @%p_n{loop}{role} bra {end};\n{role}{loop}:"
            body = body.replace(f"{role}{loop}: {head}", guard)
            again = f"setp.lt.u32 %p_m{loop}{role}, %r_{at}{role}, %r_{count}; @%p_m{loop}{role} bra {role}{loop};"
            body = body.replace(f"bra {role}{loop};", f"{again}\nbra {end};", 1)
    return body


@pytest.mark.parametrize("form", [str, _rotated])
def test_a_ring_that_goes_on_from_tile_to_tile_is_proven(form: Callable[[str], str]) -> None:
    """Its tiles repeat themselves after as many as the stages and parities of the ring inside come back in."""
    report = _pair(form(_ring())).report("")
    assert (report.verdict, report.scope) == ("proven", "all trip counts"), report.reasons
