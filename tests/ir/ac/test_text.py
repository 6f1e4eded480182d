"""The ac and tier dialects as text: what is printed parses to the same program, and misuse does not verify."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.ir import context
from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import ExecutionAttr, MemoryType, int_array

RING = """
"builtin.module"() ({
  "ac.kernel"() <{sym_name = "k", symbols = {K = #builtin.int<4>}, minima = {K = #builtin.int<1>},
    grid = [#builtin.int<1>, #builtin.int<1>, #builtin.int<1>],
    cluster = [#builtin.int<1>, #builtin.int<1>, #builtin.int<1>],
    block = [#builtin.int<128>, #builtin.int<1>, #builtin.int<1>],
    dynamic_smem_bytes = #builtin.int<32>, launch_registers = #builtin.int<0>}> ({
    %0 = "ac.ring"() <{sym_name = "r", stages = #builtin.int<2>, full_arrivals = #builtin.int<1>,
      empty_arrivals = #builtin.int<1>, address = #builtin.int<0>}> : () -> !ac.ring_type<"r", #builtin.int<2>>
    "ac.role"() <{sym_name = "reader", registers = #builtin.int<0>,
      execution = #tier.exec<"warpgroup128", #builtin.int<1>, #builtin.int<0>>}> ({
    ^bb0(%unit : !ac.index):
      %1 = "ac.cursor.start"(%0) <{side = "full"}> : (!ac.ring_type<"r", #builtin.int<2>>) -> !ac.cursor<"r">
      %2 = "ac.mbarrier.wait"(%0, %1) <{side = "full", invert_parity = #builtin.int<0>}> :
        (!ac.ring_type<"r", #builtin.int<2>>, !ac.cursor<"r">) -> !ac.phase<"r", "full">
      "ac.mbarrier.arrive"(%2) <{peers = #builtin.int<1>}> : (!ac.phase<"r", "full">) -> ()
    }) : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def parse(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


def test_text_round_trips() -> None:
    module = parse(RING)
    module.verify()
    assert str(parse(str(module))) == str(module)
    assert parse(str(module)).is_structurally_equivalent(module)


def test_values_are_read_as_written() -> None:
    module = parse(RING)
    ring = next(op for op in module.walk() if isinstance(op, ac.RingOp))
    role = next(op for op in module.walk() if isinstance(op, ac.RoleOp))
    assert (ring.stages.data, ring.sym_name.data) == (2, "r")
    assert role.execution == ExecutionAttr(StringAttr("warpgroup128"), IntAttr(1), IntAttr(0))
    assert role.execution.threads == 128


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('!ac.phase<"r", "full">', '!ac.phase<"r", "half">'),
        ('#tier.exec<"warpgroup128"', '#tier.exec<"warp"'),
    ],
)
def test_impossible_types_do_not_parse(old: str, new: str) -> None:
    with pytest.raises((ParseError, VerifyException)):
        parse(RING.replace(old, new))


def test_a_missing_property_does_not_verify() -> None:
    module = parse(RING.replace(", address = #builtin.int<0>", ""))
    with pytest.raises(VerifyException, match="address"):
        module.verify()


@pytest.mark.parametrize(("tier", "slots", "size"), [("L1", 1, 1), ("SMEM", 0, 1), ("SMEM", 1, 0)])
def test_impossible_memories_do_not_verify(tier: str, slots: int, size: int) -> None:
    with pytest.raises(VerifyException):
        MemoryType(StringAttr(tier), StringAttr("bf16"), IntAttr(slots), IntAttr(size), StringAttr("128B"))


def test_staged_bytes_have_three_states() -> None:
    for state in ("written", "fenced", "ready"):
        assert ac.StagedType(StringAttr("s"), StringAttr(state)).state.data == state
    with pytest.raises(VerifyException, match="written, fenced or ready"):
        ac.StagedType(StringAttr("s"), StringAttr("stored"))


def issue(left: int) -> ac.CopyIssueOp:
    """A copy of 64 bytes to 2 CTAs, paid from 256 announced bytes."""
    descriptor = ac.DescriptorType(IntAttr(1), StringAttr("none"), StringAttr("none"), IntAttr(128))
    memory = MemoryType(StringAttr("SMEM"), StringAttr("f32"), IntAttr(1), IntAttr(256), StringAttr("none"))
    source = ac.TensorMapOp.create(
        properties={
            "sym_name": StringAttr("m"),
            "buffer": StringAttr("A"),
            "element": StringAttr("f32"),
            "dims": int_array([64]),
            "strides_bytes": int_array([]),
            "box": int_array([16]),
            "l2_promotion": StringAttr("none"),
        },
        result_types=[descriptor],
    )
    properties = {"sym_name": StringAttr("b"), "address": IntAttr(0), "instances": IntAttr(1)}
    buffer = ac.BufferOp.create(properties=properties, result_types=[memory])
    ring = ac.RingOp.create(result_types=[ac.RingType(StringAttr("r"), IntAttr(1))])
    cursor = ac.CursorStartOp.create(operands=[ring.result], result_types=[ac.CursorType(StringAttr("r"))])
    phase = ac.BarrierWaitOp.create(
        operands=[ring.result, cursor.result], result_types=[ac.PhaseType(StringAttr("r"), StringAttr("empty"))]
    )
    announce = ac.ArriveExpectOp.create(
        operands=[phase.result], result_types=[ac.TransactionType(StringAttr("r"), IntAttr(256))]
    )
    index = ac.AffineOp.create(result_types=[ac.IndexType()])
    return ac.CopyIssueOp.create(
        operands=[source.result, buffer.result, announce.result, index.result],
        properties={
            "offset_bytes": IntAttr(0),
            "rank_offset_bytes": IntAttr(64),
            "box_bytes": IntAttr(64),
            "multicast": IntAttr(2),
        },
        result_types=[ac.TransactionType(StringAttr("r"), IntAttr(left))],
    )


def test_a_copy_pays_for_every_receiver() -> None:
    issue(128).verify()
    with pytest.raises(VerifyException, match="moves 128 bytes"):
        issue(192).verify()
