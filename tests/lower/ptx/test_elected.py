"""Roles of one thread that is elected: who is, what the text proves, and that more threads than one are refuted."""

import re

import pytest
from examples.fused import attention
from tests.lower.gathered_programs import paged
from tests.lower.lowered_programs import Lowered, lower

from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.reproof.reproof import reprove
from tilewright.synth.decide import Wanted

_DIMS = {"B": 2, "H": 1, "Q": 1, "T": 96, "E": 16, "F": 24}
_ELECTED = r"elect\.sync _\|(%p\d+), 0xffffffff;\n\tsetp\.lt\.u32 (%p\d+), (%r\d+), 32;\n\tand\.pred (%p\d+), \1, \2;"


def _paged() -> Lowered:
    return lower(paged(16), {**_DIMS, "P": 5, "S": 16}, wanted=Wanted(depth=32, consumers=1))


def test_who_goes_by_tables_is_elected() -> None:
    lowered = _paged()
    assert re.search(_ELECTED, lowered.ptx)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "paged"), Proven)
    assert "elect.sync" not in lower(attention, _DIMS, wanted=Wanted(depth=32, consumers=1)).ptx


@pytest.mark.parametrize(
    "edited",
    [
        r"elect.sync _|\1, 0xffffffff;\n\tsetp.lt.u32 \2, \3, 128;\n\tand.pred \4, \1, \2;",
        r"setp.lt.u32 \2, \3, 32;\n\tand.pred \4, \2, \2;",
    ],
    ids=["a thread of every warp", "every thread of the first warp"],
)
def test_more_threads_are_refuted(edited: str) -> None:
    lowered = _paged()
    text, count = re.subn(_ELECTED, edited, lowered.ptx)
    assert count == 1
    assert isinstance(reprove(lowered.module, text, "sm_90a", "paged"), Refuted)
