"""Engines that write shared memory from registers or shared memory, where nothing says that there is a cluster.

In a launch without one an H200 answers `st.async`, and copies within shared memory, with an illegal instruction.
Source: measured, `python -m bench.probes.cluster_forms`. Checked by: tests/benchmarks/test_cluster_forms.py.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.protocols import CLUSTER_BARRIER, Pair, report_of, wait

_TO_ITSELF = (
    "@!%p_t0 bra I; mbarrier.init.shared::cta.b64 [%r_bar], 1; fence.mbarrier_init.release.cluster; I: bar.sync 0; "
    f"{CLUSTER_BARRIER}mapa.shared::cluster.u32 %r_told, %r_bar, %r_rank; mapa.shared::cluster.u32 %r_far, %r_buf, "
    "%r_rank; @!%p_t0 bra S; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r_bar], 16; "
    "SENDS; S: "
    f"{wait('%r_bar', '0', form='acquire.cluster.shared::cta')}ld.shared.b32 %r_v, [%r_buf]; {CLUSTER_BARRIER}"
)
_SENDS = {
    "st.async": "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r_far], "
    "{%r_n, %r_n, %r_n, %r_n}, [%r_told]",
    "cp.async.bulk": "st.shared.v4.b32 [%r_buf+64], {%r_n, %r_n, %r_n, %r_n}; fence.proxy.async.shared::cta; "
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r_far], [%r_buf+64], 16, [%r_told]",
}


@pytest.mark.parametrize("sends", _SENDS.values(), ids=_SENDS)
def test_a_launch_without_a_cluster_is_left_out(sends: str) -> None:
    text = Pair(_TO_ITSELF.replace("SENDS", sends), "", "", ()).right
    report = report_of(text)
    assert report.verdict == "proven", report.reasons or report.errors
    assert any("CL203" in each for each in report.assumptions), report.assumptions
    fixed = report_of(text.replace(".reqntid", ".reqnctapercluster 1\n.reqntid", 1))
    assert fixed.verdict == "proven" and not any("CL203" in each for each in fixed.assumptions)


def test_where_nothing_suggests_a_cluster_it_is_refuted() -> None:
    body = _TO_ITSELF.replace("SENDS", _SENDS["st.async"]).replace(CLUSTER_BARRIER, "")
    for register, own in (("%r_told", "%r_bar"), ("%r_far", "%r_buf")):
        body = body.replace(f"mapa.shared::cluster.u32 {register}, {own}, %r_rank; ", f"mov.u32 {register}, {own}; ")
    text = Pair(body, "", "", ()).right
    without_rank = "\n".join(line for line in text.splitlines() if "%cluster_ctarank" not in line)
    report = report_of(without_rank)
    assert report.verdict == "refuted" and {each.code for each in report.errors} == {"CL203"}, report
