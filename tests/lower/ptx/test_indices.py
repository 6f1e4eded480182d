"""Pages that tables name: an iteration loads what the next one asks for."""

import re

from tests.lower.gathered_programs import paged
from tests.lower.lowered_programs import lower

from tilewright.synth.decide import Wanted

_LOAD = re.compile(r"ld\.global\.b32 (%r\d+),")
_BOX = re.compile(r"cp\.async\.bulk\.tensor\.\S+ \[%r\d+\], \[%rd\d+, \{([^}]*)\}\]")


def test_a_table_is_asked_before_the_loop_and_in_it_for_the_next_iteration() -> None:
    dims = {"B": 2, "H": 1, "Q": 1, "T": 64, "E": 16, "F": 24, "P": 5, "S": 16}
    text = lower(paged(16), dims, wanted=Wanted(depth=32, consumers=1)).ptx
    producer = text[: text.index("setmaxnreg.inc")]
    before, loop = producer.split("\nloop_", 1)
    loop = loop[: loop.index("\nloop_end_")]
    of_first, of_next = _LOAD.findall(before), _LOAD.findall(loop)
    assert len(of_first) == len(of_next) == 2  # of the pages in a tile
    asked = {each.strip() for found in _BOX.findall(loop) for each in found.split(",")}
    assert asked.issuperset(of_first) and not asked.intersection(of_next)
    for register, following in zip(of_first, of_next, strict=True):
        assert re.search(rf"mov\.b32 {register}, {following};", loop)
    assert loop.index("ld.global") < loop.index("mbarrier.try_wait") < loop.index("cp.async.bulk.tensor")
