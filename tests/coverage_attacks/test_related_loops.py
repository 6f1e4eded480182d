"""Loops whose numbers of iterations must go together, and do not at numbers too large for any run."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging

_PASS = (
    "{wait}: mbarrier.try_wait.parity.shared::cta.b64 %p_w, [%r_bar{at}], {parity}; @!%p_w bra {wait}; "
    "mbarrier.arrive.shared::cta.b64 _, [%r_bar{to}]; "
)
_BEGIN = "and.b32 %r_n, %r_n, 65535; and.b32 %r_m, %r_m, 32767; mov.pred %p_bug, 0; mov.u32 %r_g, 0; "


def _filled(label: str, count: str) -> str:
    """A loop that fills a slot, after it is empty."""
    body = _PASS.format(wait=f"WF{label}", at="+8", parity="%r_x", to="")
    return (
        f"mov.u32 %r_i, 0; F{label}: setp.ge.u32 %p_e, %r_i, {count}; @%p_e bra G{label}; and.b32 %r_x, %r_g, 1; "
        f"xor.b32 %r_x, %r_x, 1; {body} add.u32 %r_g, %r_g, 1; add.u32 %r_i, %r_i, 1; bra F{label}; G{label}: "
    )


def _taken(label: str, count: str, times: int = 1) -> str:
    """A loop that empties the slot, so many times an iteration."""
    body = "".join(
        "and.b32 %r_x, %r_g, 1; "
        + _PASS.format(wait=f"WT{label}{'ABCD'[each]}", at="", parity="%r_x", to="+8")
        + "add.u32 %r_g, %r_g, 1; "
        for each in range(times)
    )
    return (
        f"mov.u32 %r_i, 0; T{label}: setp.ge.u32 %p_e, %r_i, {count}; @%p_e bra U{label}; {body} "
        f"add.u32 %r_i, %r_i, 1; bra T{label}; U{label}: "
    )


def _nested() -> str:
    """A loop inside another that empties the slot, `%r_c` times `%r_d` times."""
    body = _PASS.format(wait="WN", at="", parity="%r_x", to="+8")
    return (
        "mov.u32 %r_i, 0; N: setp.ge.u32 %p_e, %r_i, %r_c; @%p_e bra O; mov.u32 %r_j, 0; "
        f"P: setp.ge.u32 %p_e, %r_j, %r_d; @%p_e bra Q; and.b32 %r_x, %r_g, 1; {body} add.u32 %r_g, %r_g, 1; "
        "add.u32 %r_j, %r_j, 1; bra P; Q: add.u32 %r_i, %r_i, 1; bra N; O: "
    )


def _kernel(bug: str, counts: str, fills: str, takes: str) -> str:
    one = "setp.eq.u32 %p_a, %r_tid, 32; @%p_a bra TAKE; @%p_other bra R; "
    body = f"{_BEGIN}{bug}{counts}{one}{fills} bra R; TAKE: {takes} R: mov.u32 %r_y, 0;"
    return hanging(body, ("n", "m"))


_LARGE = "setp.eq.u32 %p_a, %r_n, 60000; selp.u32 %r_k, 1, 0, %p_a; "
_NEVER = "mov.u32 %r_k, 0; "
_KERNELS = {
    "two an iteration": (
        "shl.b32 %r_a, %r_n, 1; add.u32 %r_c, %r_n, %r_k; ", _filled("A", "%r_a"), _taken("A", "%r_c", 2)
    ),
    "two loops after one another": (
        "add.u32 %r_a, %r_n, %r_m; add.u32 %r_a, %r_a, %r_k; ", _filled("A", "%r_a"),
        _taken("A", "%r_n") + _taken("B", "%r_m")
    ),
    "an unrolled loop and the rest": (
        "shr.u32 %r_c, %r_n, 2; and.b32 %r_d, %r_n, 3; add.u32 %r_d, %r_d, %r_k; ", _filled("A", "%r_n"),
        _taken("A", "%r_c", 4) + _taken("B", "%r_d")
    ),
    "a loop inside a loop": (
        "mul.lo.u32 %r_a, %r_n, %r_m; mov.u32 %r_c, %r_n; mov.u32 %r_d, %r_m; add.u32 %r_a, %r_a, %r_k; ",
        _filled("A", "%r_a"), _nested()
    ),
}  # fmt: skip
_QUICK = "two an iteration"


def _cases() -> list[object]:
    return [
        pytest.param(*parts, id=name, marks=() if name == _QUICK else pytest.mark.full)
        for name, parts in _KERNELS.items()
    ]


@pytest.mark.parametrize(("counts", "fills", "takes"), _cases())
def test_numbers_that_differ_beyond_all_runs_are_never_proven(counts: str, fills: str, takes: str) -> None:
    assert checked(_kernel(_LARGE, counts, fills, takes)).verdict != "proven"


@pytest.mark.parametrize(("counts", "fills", "takes"), _cases())
def test_numbers_that_always_go_together_are_proven(counts: str, fills: str, takes: str) -> None:
    report = checked(_kernel(_NEVER, counts, fills, takes))
    assert report.verdict == "proven", report.reasons
