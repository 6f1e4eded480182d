"""mbarriers by the states that arrivals return, and the end of their lives."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import MEET, Pair, wait

_INIT = "@%p_t0 mbarrier.init.shared::cta.b64 [bars], 64;\n@%p_t0 mbarrier.init.shared::cta.b64 [bars+8], 64;\n" + MEET
_ARRIVE = "mbarrier.arrive.shared::cta.b64 %rd_first, [bars];\n"
_AGAIN = "mbarrier.arrive.shared::cta.b64 %rd_second, [bars];\n"
_BESIDE = "mbarrier.arrive.shared::cta.b64 %rd_beside, [bars+8];\n"


def _wait(state: str, name: str = "W") -> str:
    return f"{name}: mbarrier.try_wait.shared::cta.b64 %p_{name}, [bars], %rd_{state};\n@!%p_{name} bra {name};\n"


_ONCE = _INIT + _ARRIVE + wait() + MEET + "@@"
_END = "@%p_t0 mbarrier.inval.shared::cta.b64 [bars];\n"
_NEW = "@%p_t0 mbarrier.init.shared::cta.b64 [bars], 64;\n"
PAIRS = (
    Pair("the state of another mbarrier", _INIT + _ARRIVE + _BESIDE + "@@", _wait("beside"), _wait("first")),
    Pair("the state of the phase before", _INIT + _ARRIVE + _wait("first") + _AGAIN + "@@", _wait("first", "V"),
         _wait("second", "V")),
    Pair("ended while others wait", _INIT + _ARRIVE + wait() + "@@", _END, MEET + _END),
    Pair("initialised again without an end", _ONCE + _NEW + MEET + _AGAIN + wait(name="V"), "", _END),
    Pair("another thread initialises it again", _ONCE + MEET + _AGAIN + wait(name="V"),
         _END + _NEW.replace("t0", "t32"), _END + _NEW),
    Pair("used after its end", _ONCE + MEET + "mbarrier.arrive.shared::cta.b64 _, [bars];\n", _END, ""),
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_buggy_kernel_is_refuted_and_the_fixed_one_proven(pair: Pair) -> None:
    assert pair.verdicts() == ("refuted", "proven")
