"""Promises about tensors: on types, as text, in kernels, in calls."""

# ruff: noqa: F821

from dataclasses import replace
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import ready
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.trace import fingerprint, trace
from tilewright.ir.refinement import Refinement, about
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.operations import Tile
from tilewright.ir.tile.types import RuleViolation, TensorType, tensor_type
from tilewright.layout.numbers.condition import parts_of
from tilewright.layout.numbers.condition_parser import parse_where
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.call import Program
from tilewright.synth.tile.wanted import Wanted


def tensor(alignment_bytes: int = 16, where: str = "") -> TensorType:
    return TensorType.of(("M", "K"), (4096, 64), (64, 1), Element.BF16, Refinement.of(alignment_bytes, where))


def parsed(text: str) -> TensorType:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Tile)
    type_ = Parser(context, text).parse_type()
    assert isinstance(type_, TensorType)
    return type_


def test_a_promise_round_trips_as_text() -> None:
    for type_, tail in (
        (tensor(), ""),
        (tensor(128), ", align 128"),
        (tensor(where="K % 8 == 0"), ', where "K % 8 == 0"'),
        (tensor(2, "K % 8 == 0 and M >= 1"), ', align 2, where "K % 8 == 0 and M >= 1"'),
    ):
        text = f'!tile.tensor<["M", "K"], [4096, 64], [64, 1], bf16{tail}>'
        assert str(type_) == text
        assert parsed(text) == type_


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (", align 24", "not a power of two"),
        (", align 8192", "not a power of two"),
        (', where "K %"', "ends where"),
        (', where "K == 1, K == 2"', "breaks the promise"),
        (', where "1 == 2"', "no sizes satisfy"),
        (', where "N == 1"', "names N"),
        (', where "M <= 1024"', "breaks the promise M <= 1024"),
        (", alien 3", "where"),
    ],
)
def test_what_is_no_promise_is_refused(tail: str, words: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=words):
        parsed(f'!tile.tensor<["M", "K"], [4096, 64], [64, 1], bf16{tail}>')


def test_facts_of_a_promise_hold_for_every_shape_that_keeps_it() -> None:
    facts = tensor(128, "K % 8 == 0, 16 <= M <= 65536").facts
    assert facts.address == IntegerFact(0, None, 128, 0)
    assert facts.extents == {"M": IntegerFact(16, 65536), "K": IntegerFact(8, None, 8, 0)}
    assert tensor().facts.extents == {"M": IntegerFact(1), "K": IntegerFact(1)}


def test_a_conjunction_is_divided_among_tensors() -> None:
    condition = parse_where("K % 8 == 0, M <= 10, M*K <= 100")
    assert str(about(condition, ("K",))) == "K % 8 == 0"
    assert len(parts_of(about(condition, ("K", "M")))) == 3
    assert about(condition, ("N",)) is True


def declared(**promises: Any) -> tw.Kernel:
    @tw.kernel(**promises)
    def product(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = acc

    return product


DIMS = {"M": 128, "N": 256, "K": 64}
ELEMENTS = dict.fromkeys(("a", "b", "c"), Element.BF16)


def test_promises_travel_from_the_kernel_to_the_types() -> None:
    kernel = declared(align={"a": 128}, where="K % 8 == 0, N <= 4096")
    module = trace(kernel, DIMS, ELEMENTS)
    a, b, c = (tensor_type(argument) for argument in the_program(module).body.block.args)
    assert str(a).endswith('bf16, align 128, where "K % 8 == 0">')
    assert str(b).endswith('bf16, where "K % 8 == 0 and N <= 4096">')
    assert str(c).endswith('bf16, where "N <= 4096">')
    assert fingerprint(module) != fingerprint(trace(declared(), DIMS, ELEMENTS))


def test_a_shape_that_breaks_the_promise_is_an_error_at_the_kernels_line() -> None:
    kernel = declared(where="K % 8 == 0")
    with pytest.raises(TilewrightError, match="breaks the promise K % 8 == 0") as caught:
        trace(kernel, {**DIMS, "K": 60}, ELEMENTS)
    span = caught.value.span
    assert span is not None and span.file == __file__ and "tw.kernel" in span.text


@pytest.mark.parametrize(
    ("promises", "words"),
    [
        ({"align": {"d": 16}}, "align names no parameter d"),
        ({"align": {"a": 24}}, "not a power of two"),
        ({"align": {"a": 16.0}}, "no whole number"),
        ({"where": "Q == 1"}, "where names no axis Q"),
        ({"where": "K = 1"}, "column 3 of where"),
        ({"where": "M*N*K <= 10"}, "no parameter has all axes"),
        ({"where": "1 == 2"}, "no sizes satisfy"),
    ],
)
def test_a_promise_that_says_nothing_is_an_error_at_the_kernels_line(promises: dict[str, Any], words: str) -> None:
    with pytest.raises(TilewrightError, match=words) as caught:
        declared(**promises)
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_elements_are_aligned_at_least_to_themselves() -> None:
    with pytest.raises(TilewrightError, match="at least 2"):
        trace(declared(align={"a": 1}), DIMS, ELEMENTS)


def test_an_array_that_may_begin_anywhere_is_not_reached_by_its_own_tensor_map() -> None:
    loose = compile_kernel(
        declared(align={"a": 2}), dims=DIMS, wanted=Wanted(swapped=False), rerun=False, assembled=False
    )
    plain = compile_kernel(declared(), dims=DIMS, wanted=Wanted(swapped=False), rerun=False, assembled=False)
    mapped = {buffer.name for buffer in plain.plan.buffers if buffer.role == "workspace"}
    assert mapped == set() and any(buffer.role == "workspace" for buffer in loose.plan.buffers)
    assert loose.bundle().facts["alignment_bytes"] == {"a": 2, "b": 16, "c": 16}
    fixed = Wanted(swapped=False)
    assert compile_kernel(
        declared(align={"b": 256}), dims=DIMS, wanted=fixed, rerun=False, assembled=False
    ).bundle().facts["alignment_bytes"] == {"a": 16, "b": 256, "c": 16}


def view(pointer: int, shape: tuple[int, int]) -> ArrayView:
    return ArrayView(pointer, shape, (shape[1], 1), Element.BF16, "cuda", 0, True, "test", None)


def test_an_address_that_breaks_the_promise_is_refused_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = compile_kernel(declared(align={"b": 256}), dims=DIMS, rerun=False, assembled=False).bundle()
    arrays = {
        "a": view(0x7F0000000010, (128, 64)),
        "b": view(0x7F0000000100, (64, 256)),
        "c": view(0x7F0000001000, (128, 256)),
    }
    monkeypatch.setattr("tilewright.runtime.call.view_array", lambda array, name: array)
    program = Program(bundle)
    with pytest.raises(TilewrightError, match=r"b begins at 0x7f0000000080; .* multiples of 256"):
        program(arrays["a"], replace(arrays["b"], pointer=0x7F0000000080), out=arrays["c"])
    with pytest.raises(TilewrightError, match=r"a begins at 0x7f0000000008; .* multiples of 16"):
        program(replace(arrays["a"], pointer=0x7F0000000008), arrays["b"], out=arrays["c"])
    monkeypatch.setattr("tilewright.driver.compile.ready.view_array", lambda array, name: array)
    with pytest.raises(TilewrightError, match="promises a multiple of 256") as caught:
        ready.launch(declared(align={"b": 256}), (arrays["a"], replace(arrays["b"], pointer=0x7F0000000080)), {})
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_a_rule_violation_says_what_to_do() -> None:
    with pytest.raises(RuleViolation) as caught:
        tensor(where="M <= 1024")
    assert "promise less" in caught.value.remedy
