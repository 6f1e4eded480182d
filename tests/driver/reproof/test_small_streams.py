"""The small instance of a program whose tiles are streamed: every kind of share is in it, and no more."""

import re
from dataclasses import dataclass

import pytest
from tests.driver.reproof.decided_parts import decided_alone
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_streams import SmallStream, happenings, small_stream
from tilewright.frontends.ptx.reader import read
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile_stream import TileStream
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")

WANTED = Wanted(tile=(128, 128), stages=4, turns=True, stream_k=True)


def stream_of(module: ModuleOp) -> tuple[int, TileStream]:
    """CTAs, and which tiles are cut."""
    decisions = decisions_of(the_program(module).attributes["decisions"])
    assert isinstance(decisions, CascadeDecisions) and decisions.stream is not None
    assert decisions.slots[0].slots == WANTED.stages
    return decisions.ctas, decisions.stream


def test_the_instance_has_two_helpers_one_of_two_tiles_and_whole_tiles() -> None:
    module = decided_alone(matmul_kernel, {"M": 4096, "N": 4096, "K": 4096 + 72}, WANTED)
    instance, stages = small_instance(module), WANTED.stages or 0
    (ctas, large), (few, small), extents = stream_of(module), stream_of(instance), the_program(instance).extents
    assert (ctas, large.tiles, large.helpers) == (132, 1024 % 132, 132 - 1024 % 132)
    assert (few, small.tiles, small.helpers) == (5, 3, 2)
    slices = -(-extents["K"] // 64)
    # A head is no whole rounds, a tail more than one.
    assert small.head_slices % stages and stages < slices - small.head_slices
    assert extents["K"] % 64 == 72 % 64
    # Each CTA has two whole tiles, and the first has three, as all have several in the program.
    assert (extents["M"] // 128) * (extents["N"] // 128) == small.tiles + 2 * few + 1
    # Both kinds of CTA fill every slot of the ring again.
    assert min(2 * small.head_slices + slices, stages + slices) >= 2 * stages


@dataclass(frozen=True)
class Streaming:
    """What `small_stream` asks of decisions."""

    stages: int
    turns: bool
    streamed: int
    head_slices: int
    ctas: int = 132


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(
    ("stages", "head", "streamed", "tiles", "slices"),
    [
        (6, 4, 100, 1024, 64),
        (4, 2, 116, 512, 66),
        (5, 12, 116, 41 * 64, 128),
        (6, 11, 116, 512, 128),
        (4, 7, 68, 200, 32),
    ],
)
def test_cursors_of_the_instance_do_what_the_programs_do(
    stages: int, head: int, streamed: int, tiles: int, slices: int, turns: bool
) -> None:
    d = Streaming(stages, turns, streamed, head)
    large = SmallStream(d.ctas, streamed, tiles, slices, head)
    found = small_stream(d, tiles, slices)
    units = 2 if turns else 1
    hidden = happenings(large, stages, units) - happenings(found, stages, units)
    # An odd number of rounds may cost too much.
    assert all(each[-1] == "an odd number of rounds" for each in hidden)


def test_what_a_part_hands_on() -> None:
    # Five slots: a CTA's heads begin at slots 0 and 4, its whole tiles of 9 slices at 3 and 2, in phases 1 and 3.
    found = happenings(SmallStream(5, 3, 9, 9, 4), stages=5, units=1)
    assert ("head", "passes the ring's end with its first slice") in found
    assert ("head", "passes the ring's end with a later slice") not in found
    assert ("whole", "consumer", "hands on another slot") in found
    assert ("whole", "consumer", "hands on another phase") not in found


@pytest.mark.sample(2)
@pytest.mark.parametrize("edit", ["", "slot", "phase", "step"])
def test_a_cursor_that_is_lost_between_whole_tiles_is_refuted(edit: str) -> None:
    instance = small_instance(decided_alone(matmul_kernel, {"M": 4096, "N": 4096, "K": 4096}, WANTED))
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    claims = {entry: protocol_claims(kernel, HOPPER, boundaries=False)[0] for entry, kernel in modules.items()}
    text = lower_to_ptx(list(modules.values()), "sm_90a")
    begin = [found.start() for found in re.finditer(r"^tiles_\d+:", text, re.MULTILINE)][-1]
    lines = text[begin:].split("\n")
    # A consumer's: its own tile's end, then the step over the other's.
    loop_end = max(number for number, line in enumerate(lines) if line.startswith("loop_end"))
    moves = [n for n, line in enumerate(lines) if n > loop_end and re.match(r"\tmov\.b32 %r\d+, %r", line)]
    wraps = [n for n, line in enumerate(lines) if n > loop_end and re.match(r"\tselp\.b32 %r\d+, 1, 0", line)]
    match edit:
        case "slot":
            del lines[moves[-2]]
        case "phase":
            del lines[moves[-1]]
        case "":
            pass
        case _:
            lines[wraps[-1]] = lines[wraps[-1]].replace("1, 0", "0, 0")
    spoiled = text[:begin] + "\n".join(lines)
    verdict = replay_plan(read(spoiled), launch_plan(lowered), claims, (0,))
    assert isinstance(verdict, Refuted if edit else Proven)


@pytest.mark.parametrize(("tiles", "slices", "ctas"), [(1, 12, 3), (2, 12, 3), (7, 4, 6)])
def test_what_a_program_has_less_of_is_taken_as_it_is(tiles: int, slices: int, ctas: int) -> None:
    found = small_stream(Streaming(4, True, min(tiles, ctas - 1), 2, ctas), tiles, slices)
    assert found.head_slices == 2 < found.slices <= slices
    assert found.streamed < found.ctas <= min(5, ctas) and found.streamed <= found.tiles <= tiles
