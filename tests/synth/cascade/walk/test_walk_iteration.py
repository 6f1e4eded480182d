"""What an iteration of attention takes: its products by the head's size, its arithmetic by the keys alone."""

from typing import Any

from tests.lower import cascade_programs

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import cascade_axes
from tilewright.ir.tile.facts import loops, the_program
from tilewright.synth.cascade.walk.walk_iteration import iteration_cycles
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def cycles(kernel: Kernel, size: int, keys: int) -> tuple[float, float, float]:
    every = {"B": 1, "H": 2, "Q": 1024, "T": 1024, "E": size, "F": size}
    dims = {axis: every[axis] for axis in {axis for each in kernel.parameters for axis in each.axes}}
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), HOPPER)
    program = the_program(module)
    found = decide(program, HOPPER, Wanted(consumers=2, depth=keys))
    assert isinstance(found, CascadeDecisions)
    (loop,) = loops(program)
    return iteration_cycles(program, cascade_axes(program), loop, found, HOPPER)


def test_products_take_twice_as_long_of_twice_the_size() -> None:
    narrow, wide = (cycles(cascade_programs.attention, size, 64) for size in (64, 128))
    assert (wide[0], wide[1]) == (2 * narrow[0], 2 * narrow[1]) and wide[2] == narrow[2]


def test_all_of_it_takes_twice_as_long_of_twice_the_keys() -> None:
    few, many = (cycles(cascade_programs.attention, 64, keys) for keys in (64, 128))
    assert many == tuple(2 * each for each in few)


def decided(size: int, keys: int, **wanted: Any) -> CascadeDecisions:
    kernel = cascade_programs.attention
    dims = {"B": 1, "H": 2, "Q": 1024, "T": keys, "E": size, "F": size}
    found = decide(
        the_program(walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), HOPPER)), HOPPER, Wanted(**wanted)
    )
    assert isinstance(found, CascadeDecisions)
    return found


def test_many_multiplications_of_long_walks_are_passed_over() -> None:
    assert [decided(256, keys).skips_ones for keys in (256, 512, 1024, 8192)] == [0, 0, 1, 1]
    assert [decided(128, keys).skips_ones for keys in (1024, 8192)] == [0, 1] and not decided(64, 8192).skips_ones
    assert decided(64, 1024, skips_ones=True).skips_ones and not decided(256, 8192, skips_ones=False).skips_ones


def test_parts_of_sums_are_added_late_in_narrow_tiles() -> None:
    assert [decided(128, 1024, depth=keys).late_sums for keys in (32, 64, 128)] == [1, 1, 0]
    assert decided(128, 1024, depth=128, late_sums=True).late_sums
    assert not decided(128, 1024, depth=64, late_sums=False).late_sums


def test_a_mask_is_computed_too() -> None:
    plain, masked = (cycles(kernel, 64, 64) for kernel in (cascade_programs.attention, cascade_programs.causal))
    assert masked[:2] == plain[:2] and masked[2] > plain[2]
