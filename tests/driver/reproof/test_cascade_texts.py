"""Kernels of programs over a streamed axis: proven as `ac` and as text, and no more once something is left out."""

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import judge, protocol_claims
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.reproof.whole_results import whole_results
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorStartOp, FragmentIssueOp, FragmentMapOp
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import Wanted
from tilewright.targets import target

sys.path.insert(0, str(Path(__file__).parents[2] / "lower"))
from tests.lower.cascade_programs import PROGRAMS, attention, causal, dims_of, matmul_softmax, window


def compiled(name: str, dims: dict[str, int], **wanted):
    elements = {each.name: each.element or Element.BF16 for each in PROGRAMS[name].parameters}
    choices = Wanted(**{"consumers": 2, **wanted})
    return compile_kernel(PROGRAMS[name], dims=dims, dtype=elements, assembled=False, wanted=choices)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_is_proven_twice(name):
    for rows, streamed in ((1, 8), (1000, 1000), (130, 4096)):
        made = compiled(name, dims_of(name, rows, streamed))
        assert isinstance(made.proof, Proven) and isinstance(made.text_proof, Proven), (rows, streamed)


def test_products_by_slices_are_proven_twice():
    made = compiled("matmul_softmax", {"M": 300, "N": 520, "K": 4096})
    assert made.decisions.sliced and isinstance(made.text_proof, Proven)


def test_batches_of_several_axes_are_reduced_to_few_places_each():
    """As many as each of two CTAs takes tiles, so that a slot which stays for one is filled again."""
    made = compiled("grouped_heads", dims_of("grouped_heads", 100, 100) | {"H": 64})
    small = the_program(small_instance(made.tile)).extents
    assert (small["H"], small["H/2"]) == (6, 3)


# ---------------------------------------------------------------- the text


def small_of(kernel, dims, **wanted):
    """The small instance of a program: its text, plan, claims and results."""
    choices = Wanted(**{"consumers": 2, **wanted})
    made = compile_kernel(kernel, dims=dims, assembled=False, rerun=False, wanted=choices)
    instance = small_instance(made.tile)
    small = lower_program(the_program(instance))
    modules = {each.name: each.module for each in small.kernels}
    claims = {name: protocol_claims(module, target("sm_90a"), boundaries=False)[0] for name, module in modules.items()}
    text = lower_to_ptx(list(modules.values()), "sm_90a")
    return text, launch_plan(small), claims, whole_results(the_program(instance))


@pytest.fixture(scope="module")
def small_attention():
    # Tiles enough for a CTA to fill each slot again.
    return small_of(attention, {"B": 1, "H": 2, "Q": 512, "T": 640, "E": 64, "F": 64}, depth=64)


@pytest.fixture(scope="module")
def attention_of_few_keys():
    return small_of(attention, {"B": 1, "H": 2, "Q": 512, "T": 128, "E": 64, "F": 64}, depth=64)


@pytest.fixture(scope="module")
def attention_in_order():
    return small_of(attention, {"B": 1, "H": 2, "Q": 512, "T": 640, "E": 64, "F": 64}, depth=64, ordered=True)


def judged(small, text):
    _, plan, claims, whole = small
    return replay_plan(read(text), plan, claims, (0,), whole=whole)


def test_the_text_alone_is_proven(small_attention):
    assert isinstance(judged(small_attention, small_attention[0]), Proven)


def test_no_turn_of_an_order_may_be_left_out(attention_in_order):
    text = attention_in_order[0]
    assert isinstance(judged(attention_in_order, text), Proven)
    turns = [each.start() for each in re.finditer(r"(@%p\d+ )?bar\.(sync|arrive) %r\d+, 256;", text)]
    assert len(turns) == 6
    for start in turns:
        assert not isinstance(judged(attention_in_order, text[:start] + "//" + text[start:]), Proven)


PROTOCOL = {
    "a wait for a slot": r"mbarrier\.try_wait",
    "an announcement": r"mbarrier\.arrive\.expect_tx",
    "a copy": r"cp\.async\.bulk\.tensor",
    "a release": r"mbarrier\.arrive\.release",
    "a wait for products": r"wgmma\.wait_group",
    "a commit": r"wgmma\.commit_group",
    "a fence of products": r"wgmma\.fence",
    "an initialisation": r"mbarrier\.init",
    "a store": r"st\.global\.(v4\.)?b32",
}


def redundant(small, what, among=None):
    """Which of a text's places, by their numbers, it is proven without. among: of these, where not of all."""
    lines = small[0].split("\n")
    places = [number for number, line in enumerate(lines) if re.search(PROTOCOL[what], line)]
    assert places
    found = set()
    for at in range(len(places)) if among is None else among:
        place, edited = places[at], list(lines)
        if what == "a wait for a slot":
            # The wait's loop with it: what is branched on is found at once.
            register = re.search(r"%p\d+", edited[place])[0]
            edited[place] = f"\tsetp.eq.u32 {register}, 0, 0;"
        else:
            del edited[place]
        if isinstance(judged(small, "\n".join(edited)), Proven):
            found.add(at)
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("what", [each for each in PROTOCOL if each != "a wait for a slot"])
def test_without_a_part_of_its_protocol_the_text_is_not_proven(small_attention, what):
    assert not redundant(small_attention, what)


def test_every_wait_for_a_slot_is_needed(small_attention, attention_of_few_keys):
    """That for the next queries' slot, where keys are so few that no slot of theirs is filled again before; where they
    are more, the waits for those slots say as much."""
    of_many = redundant(small_attention, "a wait for a slot")
    assert len(of_many) <= 1 and not redundant(attention_of_few_keys, "a wait for a slot", of_many)


@pytest.mark.full
def test_lengths_decide_which_arithmetic_is_passed_over_and_nothing_else():
    """A release that the branch passes over, where a tile ends before its sequence, is missed."""
    small = small_of(PROGRAMS["lengths"], dims_of("lengths", 130, 640) | {"B": 2}, depth=64)
    text = small[0]
    assert isinstance(judged(small, text), Proven)
    branch = re.search(r"\t@%p\d+ bra everywhere_\d+;\n", text)
    release = next(re.finditer(r"\t@%p\d+ mbarrier\.arrive\.release\S+ _, \[%r\d+\];\n", text))
    assert branch is not None and release.end() < branch.start(), "the first tile's, of keys"
    moved = text[: release.start()] + text[release.end() : branch.end()] + release.group() + text[branch.end() :]
    assert not isinstance(judged(small, moved), Proven)


def test_another_number_of_iterations_in_a_role_is_not_proven():
    """Ends and lengths of what a tile walks, in each role; but not where its begin is put, which moves all."""
    small = small_of(window, {"Q": 500, "T": 900, "E": 64, "F": 64}, depth=64)
    lines = small[0].split("\n")
    begins = [number for number, line in enumerate(lines) if re.search(r"max\.u32", line)]
    assert len(begins) == 2 and isinstance(judged(small, small[0]), Proven)
    for at in begins:
        edits = ((at, "max.u32", "min.u32"), (at + 2, "min.u32", "max.u32"), (at + 3, "sub", "add"))
        for place, before, after in edits:
            assert before in lines[place], lines[place]
            edited = [*lines[:place], lines[place].replace(before, after), *lines[place + 1 :]]
            assert not isinstance(judged(small, "\n".join(edited)), Proven), lines[place]


def test_another_order_of_tiles_that_are_taken_together_is_not_proven():
    """The text counts by what a CTA takes: another direction of a round gives it other walks, or a tile twice."""
    small = small_of(causal, {"B": 64, "Q": 2048, "T": 2048, "E": 64, "F": 64}, depth=64)
    assert isinstance(judged(small, small[0]), Proven)
    lines = small[0].split("\n")
    steps = [number for number, line in enumerate(lines) if re.search(r"mov\.s32 %r\d+, -2;", line)]
    assert len(steps) == 2
    for at in steps:
        assert isinstance(
            judged(small, "\n".join([*lines[:at], lines[at].replace("-2", "-3"), *lines[at + 1 :]])), Refuted
        )


# ---------------------------------------------------------------- ac


def operations(module, kind):
    return [op for op in module.walk() if isinstance(op, kind)]


def without(op: Operation, *results_and_operands):
    for result, operand in results_and_operands:
        result.replace_all_uses_with(operand)
    op.detach()
    op.erase()


@cache
def made_once(name):
    (module,) = compiled(name, dims_of(name, 200, 200)).modules.values()
    return module


def kernel_of(name="attention"):
    return made_once(name).clone()


def verdict(module):
    return judge(module, target("sm_90a"))[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["attention", "matmul_softmax", "rms_norm_matmul", "mlp"])
def test_ac_without_a_release_or_a_commit_is_not_proven(name):
    count = {kind: len(operations(kernel_of(name), kind)) for kind in (ac.ArriveOp, ac.WgmmaCommitOp)}
    for kind, many in count.items():
        for place in range(many):
            module = kernel_of(name)
            without(operations(module, kind)[place])
            assert not isinstance(verdict(module), Proven), (kind.name, place)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["attention", "matmul_softmax", "mlp"])
def test_ac_without_the_first_fence_is_not_proven(name):
    module = kernel_of(name)
    without(operations(module, ac.WgmmaFenceOp)[0])
    assert not isinstance(verdict(module), Proven)


def test_a_sum_that_goes_on_from_a_value_is_begun_behind_a_wait():
    module = kernel_of()
    for op in operations(module, AccumulatorStartOp):
        assert isinstance(op.parent_op(), ac.LoopOp | ac.TilesOp)
    waits = [op for op in operations(module, ac.WgmmaWaitOp) if op.settled is not None]
    for op in waits:
        op.properties["pending"] = type(op.pending)(1)
    assert not isinstance(verdict(module), Proven)


def waits_by_product(module) -> list[list[ac.WgmmaWaitOp]]:
    """Of each product, the waits for what it reads and gives; a later one has no more to wait for than the first."""
    found: dict[Operation | SSAValue, list[ac.WgmmaWaitOp]] = {}
    for op in operations(module, ac.WgmmaWaitOp):
        of_product = op.reading.owner if isinstance(op.reading.owner, Operation) else op.reading
        found.setdefault(of_product, []).append(op)
    return list(found.values())


def test_each_wait_waits_for_its_product():
    """Of a walk with a postponed product, too, which is issued behind the product that is waited for first."""
    waits = waits_by_product(kernel_of())
    assert {op.pending.data for of_product in waits for op in of_product} == {0, 1}
    for place in range(len(waits)):
        module = kernel_of()
        for op in waits_by_product(module)[place]:
            op.properties["pending"] = type(op.pending)(op.pending.data + 1)
        assert not isinstance(verdict(module), Proven), place


def postponed_issue(module) -> FragmentIssueOp:
    """The product of the iteration before, in the loop."""
    (issue,) = [
        op
        for op in operations(module, FragmentIssueOp)
        if isinstance(op.parent_op(), ac.LoopOp) and isinstance(op.phase, BlockArgument)
    ]
    return issue


def test_a_postponed_product_reads_the_slot_that_its_iteration_waited_for():
    module = kernel_of()
    issue = postponed_issue(module)
    wait = next(
        op
        for op in issue.parent_block().ops
        if isinstance(op, ac.BarrierWaitOp) and op.results[0].type.ring == issue.phase.type.ring
    )
    wait.detach()
    issue.parent_block().insert_op_before(wait, issue)
    assert isinstance(verdict(module), Proven)
    issue.operands[1] = wait.results[0]
    assert not isinstance(verdict(module), Proven)


def test_a_postponed_product_is_done_before_its_operand_is_computed_anew():
    module = kernel_of()
    issue = postponed_issue(module)
    block = issue.parent_block()
    (wait,) = [use.operation for use in issue.inflight.uses]
    pack = next(op for op in block.ops if isinstance(op, FragmentMapOp) and op.outputs[0].type == issue.a.type)
    assert wait.is_before_in_block(pack)
    pack.detach()
    block.insert_op_before(pack, wait)
    assert not isinstance(verdict(module), Proven)


def test_a_slot_that_stays_is_released_once():
    module = kernel_of()
    queries = next(op for op in operations(module, ac.RingOp) if op.sym_name.data == "q_ring")
    (release,) = [op for op in operations(module, ac.ArriveOp) if op.phase.type.ring == queries.sym_name]
    release.parent_block().insert_op_after(release.clone(), release)
    assert not isinstance(verdict(module), Proven)


def test_matmul_softmax_walks_twice_and_brings_each_array_through_one_ring():
    wanted = Wanted(cut=False)
    made = compile_kernel(
        matmul_softmax, dims={"M": 200, "N": 520, "K": 64}, wanted=wanted, assembled=False, rerun=False
    )
    assert len(operations(made.tile, Operation)) and [slot.buffer for slot in made.decisions.slots] == ["x", "w"]
