"""What is decided of a walk that only sums."""

from collections.abc import Mapping

from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


def decided(
    kernel: Kernel, dims: Mapping[str, int], on: str = "sm_90a", wanted: Wanted | None = None
) -> CascadeDecisions:
    wanted = wanted or Wanted()
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), target(on), wanted)
    found = decide(the_program(module), target(on), wanted)
    assert isinstance(found, CascadeDecisions)
    return found
