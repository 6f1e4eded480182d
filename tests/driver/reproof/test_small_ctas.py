"""A text in which every CTA takes what is the first one's is refuted: small instances have several CTAs or clusters."""

import re

import pytest
from tests.driver.reproof.decided_parts import decided_parts
from tests.driver.reproof.product_kinds import KINDS
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.small_groups import at_these_sizes, limits_of
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.targets import target

HOPPER = target("sm_90a")

PLACE = re.compile(r"%(ctaid|clusterid)\.x\b")


def judged(part: ModuleOp, *, spoiled: bool) -> Verdict:
    """The text of a program's small instance. spoiled: the place of the CTA or cluster is replaced by 0."""
    instance = small_instance(part)
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    text = lower_to_ptx(list(modules.values()), "sm_90a")
    if spoiled:
        before, text = text, PLACE.sub("0", text)
        assert text != before, "the kernel does not ask for its place"
    claims = {entry: protocol_claims(each, HOPPER, boundaries=False)[0] for entry, each in modules.items()}
    claims, limits = at_these_sizes(instance, claims), limits_of(instance)
    # Of what a program hands over every element is written.
    whole = whole_results(the_program(instance))
    return replay_plan(read(text, "small.ptx"), launch_plan(lowered), claims, (0,), limits, whole)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", KINDS)
def test_every_cta_must_take_its_own_share(name: str) -> None:
    kind = KINDS[name]
    parts = decided_parts(kind.kernel, dict(kind.dims), kind.wanted, kind.elements, kind.strides)
    assert (len(parts) > 1) == (name in ("copied first", "computed"))
    for part in parts:
        verdict = judged(part.module, spoiled=False)
        assert isinstance(verdict, Proven), verdict
        assert isinstance(judged(part.module, spoiled=True), Refuted)
