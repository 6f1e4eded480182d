"""What does a warp do that waits for a word of global memory? It looks, and looks again when others have moved.

A load that is a poll (`polls`) is made once in each round; a warp that comes to it again in the same round, having seen
a word that does not let it go, blocks until the next. Rounds are counted by `grid_schedule`, which begins one when
nobody else can move. Delaying a warp is always allowed, so this picks among interleavings and adds none.

Strong loads that are no polls may be part of a loop that waits, too: a warp that has made such a load many times in a
row with the same result waits for the next round as well. What it waits for is then not known, so that a run which gets
no further this way is given up, not called a hang. Checked by: tests/machine/protocol/loops/test_polls.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.fault import Awaited
from tilewright.machine.core.lanes import FULL, UNINITIALISED, indices
from tilewright.machine.core.state import Block, Strand, Warp
from tilewright.machine.core.step import Control, Plain, Signal
from tilewright.machine.protocol.loops.polls import Poll

_SAME_RESULTS = 32
"""Equal results in a row after which a strong load is taken for a wait."""


def polling(
    decoder: Decoder, instruction: Instruction, body: Plain, poll: Poll | None, targets: Sequence[int]
) -> Control:
    """The step of a strong load without a guard. poll: what it waits for; None: it may wait or not; targets: the slots
    that it writes."""
    slot, offset = decoder.address(instruction, instruction.operands[1])
    key = id(instruction)

    def act(warp: Warp, mask: int) -> Signal | None:
        cluster = warp.cta.cluster
        if warp.failed_in_round.get(key) == cluster.poll_round:
            cluster.polling.append((warp, _block(warp, mask)))
            cluster.guessed_polls += poll is None
            return Signal.BLOCK
        cluster.polls_made += 1
        if mask == FULL:
            body.full(warp.r)
        else:
            body.masked(warp.r, mask)
        if _fails(warp, mask):
            warp.failed_in_round[key] = cluster.poll_round
        else:
            warp.failed_in_round.pop(key, None)
        return None

    def _fails(warp: Warp, mask: int) -> bool:
        if poll is not None:
            return not all(poll.accepts(int(word)) for word in warp.r[targets[0]][indices(mask)])
        result = b"".join(np.ascontiguousarray(warp.r[target][indices(mask)]).tobytes() for target in targets)
        before, times = warp.same_results.get(key, (b"", 0))
        times = times + 1 if result == before else 0
        warp.same_results[key] = (result, times)
        return times >= _SAME_RESULTS

    def _block(warp: Warp, mask: int) -> Strand:
        strand = warp.current
        base: Any = warp.r[slot]
        address = -1 if base is UNINITIALISED else int(base[indices(mask)[0]]) + offset
        wanted = "" if poll is None else f", which is to be {poll.wanted}"
        strand.block = Block(
            lambda: f"waits for the word of global memory at {address:#x}{wanted}", instruction.span,
            Awaited("global word", address=address),
        )  # fmt: skip
        return strand

    return Control(act)
