"""Is an mbarrier refuted that ends while an engine's arrival may be on its way, and one that waited for it not?"""

from pathlib import Path

import pytest

from tilewright.base.diagnostic import Level
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions

_KERNEL = (Path(__file__).parents[3] / "docs/rules/examples/TC107/fixed.ptx").read_text("utf-8")
_INIT = "\t@%p0 mbarrier.init.shared::cta.b64 [bar], 1;\n"
_SIGNAL = "\t@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
_FREED = "\t@%p2 bra done;\n"
_COMMIT = _SIGNAL.replace("[bar]", "[bar+8]")
_BY_ANOTHER = _COMMIT.replace("%p0", "%p6")
_COPIED = """\t@%p0 cp.async.ca.shared.global [bar+40], [%rd2], 4;
\t@%p0 cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar+8];
"""
_WAIT = """\tother:
\tmbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
\t@!%p1 bra other;
"""
_TWICE = _COMMIT + _WAIT + _COMMIT


def _kernel(before: str = "", after: str = "", waited: str = "") -> str:
    """A second barrier, signalled `before` or `after` the commit that all wait for, `waited` for, and invalidated when
    all threads have met."""
    text = _KERNEL.replace(_INIT, _INIT + _INIT.replace("[bar]", "[bar+8]") + "\tsetp.eq.u32 %p6, %r0, 1;\n")
    text = text.replace(_SIGNAL, before + _SIGNAL + after + waited)
    return text.replace(_FREED, "\t@%p0 mbarrier.inval.shared::cta.b64 [bar+8];\n" + _FREED)


def _judged(text: str, options: CheckOptions | None = None) -> tuple[object, list[tuple[str, Level]]]:
    (kernel,) = check_text(text, options=options).kernels
    return kernel.verdict, [(each.code, each.level) for each in kernel.findings if each.code in ("MB103", "TC119")]


@pytest.mark.parametrize("signal", [_COMMIT, _COPIED, _TWICE, _BY_ANOTHER])
def test_arrival_under_way(signal: str) -> None:
    verdict, found = _judged(_kernel(after=signal))
    assert verdict == "refuted"
    assert ("MB103", Level.ERROR) in found


@pytest.mark.parametrize("signal", [_COMMIT, _COPIED])
def test_arrival_waited_for(signal: str) -> None:
    verdict, found = _judged(_kernel(after=signal, waited=_WAIT))
    assert verdict == "proven"
    assert not found


def test_later_commit_known() -> None:
    """One thread's commits signal in order, or not: that is contested."""
    text = _kernel(before=_COMMIT)
    verdict, found = _judged(text)
    assert verdict == "proven"
    assert found == [("MB103", Level.REVIEW)]
    verdict, found = _judged(text, CheckOptions(isa="strict"))
    assert verdict == "refuted"
    assert ("MB103", Level.ERROR) in found


@pytest.mark.parametrize("signal", [_BY_ANOTHER, _COPIED])
def test_order_of_others_is_none(signal: str) -> None:
    """Another thread's commit, or the arrival of copies, has no order with the commit that is waited for."""
    verdict, found = _judged(_kernel(before=signal))
    assert verdict == "refuted"
    assert ("MB103", Level.ERROR) in found


_ENDS = "\t@%p0 mbarrier.inval.shared::cta.b64 [bar+8];\n"


@pytest.mark.parametrize("signal", [_COMMIT, _TWICE, _BY_ANOTHER])
def test_commit_under_way_at_exit(signal: str) -> None:
    """All that it covers is done, and the arrival itself may come when the CTA has ended."""
    text = _kernel(after=signal).replace(_ENDS, "")
    verdict, found = _judged(text)
    assert verdict == "proven"
    assert ("TC119", Level.REVIEW) in found
    verdict, found = _judged(text, CheckOptions(isa="tolerant,left_at_exit=strict"))
    assert verdict == "refuted"
    assert ("TC119", Level.ERROR) in found


@pytest.mark.parametrize(("before", "after", "waited"), [(_COMMIT, "", ""), ("", _COMMIT, _WAIT)])
def test_commit_known_at_exit(before: str, after: str, waited: str) -> None:
    assert _judged(_kernel(before, after, waited).replace(_ENDS, "")) == ("proven", [])


def test_that_commits_arrive_in_order_is_contested_at_exit_as_well() -> None:
    text = _kernel(before=_COMMIT).replace(_ENDS, "")
    found = _judged(text, CheckOptions(isa="strict"))
    assert found == ("refuted", [("TC119", Level.ERROR)])
    assert _judged(text, CheckOptions(isa="strict,tensor_pipeline=tolerant")) == ("proven", [])
