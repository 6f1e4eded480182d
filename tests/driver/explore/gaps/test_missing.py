"""Are the gaps of a coverage said by place, and few of them, however many there are?"""

import pytest

from tilewright.base.span import Span
from tilewright.driver.check.check import check_text
from tilewright.driver.explore.gaps.missing import Missing, said_by_place
from tilewright.driver.explore.search.reachable import Undecided


def _gaps(places: int, ways: int) -> list[Missing]:
    def gap(place: int, way: int) -> Missing:
        return Missing(place, lambda: f"no launch tried goes way {way}", ("way", place, way), Undecided)

    return [gap(place, way) for place in range(places) for way in range(ways)]


def _span(position: int) -> Span:
    return Span("k.ptx", 10 + position, 2)


def test_one_line_for_each_place() -> None:
    assert said_by_place(_gaps(2, 3), _span) == [
        "k.ptx:10:2: no launch tried goes way 0 (and 2 more ways at this place)",
        "k.ptx:11:2: no launch tried goes way 0 (and 2 more ways at this place)",
    ]
    assert said_by_place(_gaps(1, 1), _span) == ["k.ptx:10:2: no launch tried goes way 0"]


def test_many_places_are_counted() -> None:
    lines = said_by_place(_gaps(40, 100), _span)
    assert len(lines) == 13
    assert lines[-1] == "28 more places where no launch tried took all ways"


def test_without_a_place_each_stands_alone() -> None:
    some = [Missing(-1, f"loop {number}", ("loop", number), Undecided) for number in range(3)]
    assert said_by_place(some, _span) == ["loop 0", "loop 1", "loop 2"]


_FLAG = """\tand.b32 %r3, %r1, {bit};
\tsetp.eq.u32 %p2, %r3, 0;
\t@%p2 bra skip{bit};
\t@%p1 mbarrier.arrive.shared::cta.b64 _, [bars+{address}];
again{bit}:
\tmbarrier.try_wait.parity.shared::cta.b64 %p3, [bars+{address}], 0;
\t@!%p3 bra again{bit};
skip{bit}:
"""


@pytest.mark.parametrize("flags", [12])
def test_many_flags_are_few_lines(flags: int) -> None:
    """Twelve flags in one number are decided in 4096 ways, and a report of that names a few."""
    inits = "".join(f"\t@%p1 mbarrier.init.shared::cta.b64 [bars+{8 * each}], 1;\n" for each in range(flags))
    steps = "".join(_FLAG.format(bit=1 << each, address=8 * each) for each in range(flags))
    text = (
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        ".visible .entry kernel(.param .u32 flags)\n.reqntid 32\n{\n"
        "\t.reg .pred %p<4>;\n\t.reg .b32 %r<4>;\n\t.shared .align 8 .b8 bars[128];\n"
        "\tmov.u32 %r0, %tid.x;\n\tsetp.eq.u32 %p1, %r0, 0;\n\tld.param.u32 %r1, [flags];\n"
        f"{inits}\tbar.sync 0;\n{steps}\tret;\n}}\n"
    )
    (kernel,) = check_text(text).kernels
    assert kernel.verdict == "unknown"
    assert len(kernel.reasons) <= 15
