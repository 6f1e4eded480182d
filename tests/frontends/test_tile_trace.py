# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What tracing records: the printed IR, its round trip, and what makes two programs the same."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.parser import Parser

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.recorder import span_of
from tilewright.frontends.tile.trace import fingerprint, trace
from tilewright.ir import context
from tilewright.ir.tile.facts import Grouping, access_of, grid_axes, grouping, loads, the_program
from tilewright.ir.tile.operations import DotOp, LoadOp, ShiftOp, StoreOp, TransposeOp


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.gelu(acc * 0.5 + bias[j])


MATMUL = """
CHECK: tile.program @matmul ["a", "b", "bias", "c"] axes {M = 256 : i64, K = 64 : i64, N = 128 : i64}
CHECK-SAME: test_tile_trace.py:{{[0-9]+}}"
CHECK-NEXT: ^bb0(%a: !tile.tensor<["M", "K"], [256, 64], [64, 1], bf16>,
CHECK-SAME: %bias: !tile.tensor<["N"], [128], [1], bf16>,
CHECK-SAME: %c: !tile.tensor<["M", "N"], [256, 128], [128, 1], f32>):
CHECK-NEXT: %M, %N = tile.grid ["M", "N"] {{.*}} : !tile.index<"M">, !tile.index<"N">
CHECK-NEXT: [[ZERO:%[0-9]+]] = tile.full 0.000000e+00 {{.*}} : !tile.value<["M", "N"], f32>
CHECK-NEXT: %acc = tile.loop "K"([[ZERO]])
CHECK-NEXT: ^bb0(%K: !tile.index<"K">, %acc_1: !tile.value<["M", "N"], f32>):
CHECK-NEXT: [[A:%[0-9]+]] = tile.load %a[%M, %K]
CHECK-NEXT: [[B:%[0-9]+]] = tile.load %b[%K, %N]
CHECK-NEXT: [[DOT:%[0-9]+]] = tile.dot [[A]], [[B]], %acc_1
CHECK-SAME: : !tile.value<["M", "K"], bf16>, !tile.value<["K", "N"], bf16>, !tile.value<["M", "N"], f32>
CHECK-NEXT: tile.yield [[DOT]] : !tile.value<["M", "N"], f32>
CHECK-NEXT: }
CHECK-NEXT: [[HALF:%[0-9]+]] = tile.constant 5.000000e-01 {{.*}} : !tile.value<[], f32>
CHECK-NEXT: [[HALVES:%[0-9]+]] = tile.broadcast [[HALF]] {{.*}} -> !tile.value<["M", "N"], f32>
CHECK-NEXT: [[SCALED:%[0-9]+]] = tile.binary mul %acc, [[HALVES]]
CHECK-NEXT: [[ROW:%[0-9]+]] = tile.load %bias[%N]
CHECK-NEXT: [[WIDE:%[0-9]+]] = tile.cast [[ROW]] {{.*}} -> !tile.value<["N"], f32>
CHECK-NEXT: [[ROWS:%[0-9]+]] = tile.broadcast [[WIDE]] {{.*}} -> !tile.value<["M", "N"], f32>
CHECK-NEXT: [[SUM:%[0-9]+]] = tile.binary add [[SCALED]], [[ROWS]]
CHECK-NEXT: [[GELU:%[0-9]+]] = tile.unary gelu [[SUM]]
CHECK-NEXT: tile.store [[GELU]], %c[%M, %N]
CHECK-NEXT: tile.return
"""


def filecheck(checks: str, text: str, folder: Path) -> str:
    """Empty if the text satisfies the checks, else what filecheck says."""
    (folder / "checks").write_text(checks)
    command = [sys.executable, "-m", "filecheck", str(folder / "checks")]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def traced_matmul():
    return trace(matmul, {"M": 256, "N": 128, "K": 64}, {"a": tw.bf16, "b": tw.bf16, "bias": tw.bf16, "c": tw.f32})


def elements(kernel, element=tw.bf16):
    return {parameter.name: element for parameter in kernel.parameters}


def ops_of(module, kind):
    return [op for op in module.walk() if isinstance(op, kind)]


def test_matmul_prints_as_expected(tmp_path):
    assert filecheck(MATMUL, str(traced_matmul()), tmp_path) == ""


def test_filecheck_can_fail(tmp_path):
    assert "silu" in filecheck(MATMUL.replace("gelu", "silu"), str(traced_matmul()), tmp_path)


def test_text_round_trips():
    text = str(traced_matmul())
    parsed = Parser(context(), text).parse_module()
    parsed.verify()
    assert str(parsed) == text
    assert fingerprint(parsed) == fingerprint(traced_matmul())


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float32_constant_round_trips(number):
    @tw.kernel
    def scale(x: tw.Tensor["N"], y: tw.Tensor["N"]):
        i = tw.grid("N")
        y[i] = x[i] * number

    module = trace(scale, {"N": 8}, elements(scale))
    assert fingerprint(Parser(context(), str(module)).parse_module()) == fingerprint(module)


def test_each_op_carries_the_authors_line():
    (dot,) = ops_of(traced_matmul(), DotOp)
    span = span_of(dot)
    assert span is not None
    assert span.file == __file__
    assert span.text == "acc += tw.dot(a[i, k], b[k, j])"


def activation(tile):
    return tw.relu(tile)


@tw.kernel
def through_a_function(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = activation(x[i])


def test_a_function_that_a_kernel_calls_is_traced_at_its_own_line():
    module = trace(through_a_function, {"N": 8}, elements(through_a_function))
    unary = next(op for op in module.walk() if op.name == "tile.unary")
    span = span_of(unary)
    assert span is not None and span.text == "return tw.relu(tile)"


def test_fingerprints_ignore_places_and_nothing_else():
    def declare(number, blank_lines):
        text = "\n" * blank_lines + (
            "@tw.kernel\n"
            "def scale(x: tw.Tensor['N'], y: tw.Tensor['N']):\n"
            "    i = tw.grid('N')\n"
            "    y[i] = x[i] * number\n"
        )
        scope = {"tw": tw, "number": number}
        exec(compile(text, "<text>", "exec"), scope)
        return scope["scale"]

    def print_of(kernel, extent=8, element=tw.bf16, strides=None):
        return fingerprint(trace(kernel, {"N": extent}, elements(kernel, element), strides))

    base = print_of(declare(2.0, 0))
    assert print_of(declare(2.0, 7)) == base
    others = [
        print_of(declare(3.0, 0)),
        print_of(declare(2.0, 0), extent=9),
        print_of(declare(2.0, 0), element=tw.f16),
        print_of(declare(2.0, 0), strides={"x": (2,)}),
    ]
    assert len({base, *others}) == 5


@tw.kernel
def repeated(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i + 1, j] * tw.sigmoid(x[i + 2 - 1, j]) + x[i, j] * x[i + 1 - 1, j]


def test_equal_loads_are_recorded_once():
    module = trace(repeated, {"M": 8, "N": 8}, elements(repeated))
    assert len(ops_of(module, LoadOp)) == 2
    assert [shift.offset.value.data for shift in ops_of(module, ShiftOp)] == [1]


@tw.kernel
def wasteful(x: tw.Tensor["M"], y: tw.Tensor["M"]):
    i = tw.grid("M")
    tw.exp(x[i] + 1)
    y[i] = x[i]


def test_what_reaches_no_store_is_dropped():
    module = trace(wasteful, {"M": 8}, elements(wasteful))
    assert not [op for op in module.walk() if op.name in ("tile.unary", "tile.binary", "tile.constant")]


@tw.kernel
def transposed(a: tw.Tensor["K", "M"], b: tw.Tensor["N", "K"], c: tw.Tensor["N", "M"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[k, i].T, b[j, k].T)
    c[j, i] = acc.T.T.T


def test_operands_and_outputs_may_be_transposed():
    module = trace(transposed, {"M": 64, "N": 32, "K": 16}, elements(transposed))
    assert len(ops_of(module, TransposeOp)) == 3
    (store,) = ops_of(module, StoreOp)
    assert [index.type.axis.data for index in store.indices] == ["N", "M"]


@tw.kernel
def gated(a: tw.Tensor["M", "K"], u: tw.Tensor["K", "N"], v: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    up, gate = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        up += tw.dot(a[i, k], u[k, j])
        gate += tw.dot(a[i, k], v[k, j])
    c[i, j] = up * tw.silu(gate)


def test_two_accumulators_are_carried_apart():
    module = trace(gated, {"M": 64, "N": 32, "K": 16}, elements(gated))
    loop = next(op for op in module.walk() if op.name == "tile.loop")
    assert len(loop.operands) == 2
    assert len(loop.results) == 2
    assert len(ops_of(module, LoadOp)) == 3


@tw.kernel
def two_loops(
    a: tw.Tensor["M", "K"],
    b: tw.Tensor["K", "N"],
    d: tw.Tensor["M", "L"],
    e: tw.Tensor["L", "N"],
    c: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    for k in tw.loop("L"):
        acc += tw.dot(d[i, k], e[k, j])
    c[i, j] = acc


def test_loops_follow_each_other_through_one_accumulator():
    module = trace(two_loops, {"M": 64, "N": 32, "K": 16, "L": 48}, elements(two_loops))
    first, second = [op for op in module.walk() if op.name == "tile.loop"]
    assert second.operands[0] is first.results[0]


def test_default_strides_are_dense_and_given_ones_are_kept():
    dims = {"M": 256, "N": 128, "K": 64}
    module = trace(matmul, dims, elements(matmul), {"a": (72, 1), "b": (1, 64)})
    text = str(module)
    assert '%a: !tile.tensor<["M", "K"], [256, 64], [72, 1], bf16>' in text
    assert '%b: !tile.tensor<["K", "N"], [64, 128], [1, 64], bf16>' in text
    assert '%c: !tile.tensor<["M", "N"], [256, 128], [128, 1], bf16>' in text


def test_a_failed_trace_leaves_nothing_behind():
    @tw.kernel
    def raises(x: tw.Tensor["M"], y: tw.Tensor["M"]):
        raise KeyError("the author's own")

    with pytest.raises(TilewrightError, match="KeyError") as caught:
        trace(raises, {"M": 8}, elements(raises))
    assert isinstance(caught.value.__cause__, KeyError)
    traced_matmul().verify()


@tw.kernel
def every_new_op(
    x: tw.Tensor["T", "K"],
    w: tw.Tensor["G", "K", "N"],
    s: tw.Tensor["T", "K/4"],
    t: tw.Tensor["N/8", "K/4"],
    ends: tw.Tensor["G", tw.i32],
    y: tw.Tensor["T", "N"],
):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, k, j]) * s[i, k // 4] * t[j // 8, k // 4]
    y[i, j] = acc


@tw.kernel
def masked_batch(
    x: tw.Tensor["G", "M", "K"],
    w: tw.Tensor["K", "N"],
    counts: tw.Tensor["G", tw.i32],
    y: tw.Tensor["G", "N", "M"],
):
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[k, j])
    y[g, j, i] = acc.T


GROUPED = """
CHECK: axes {T = 16 : i64, K = 9 : i64, G = 2 : i64, N = 8 : i64, "K/4" = 3 : i64, "N/8" = 1 : i64}
CHECK: %G, %T, %N = tile.grid ["G", "T", "N"] grouped "consecutive" "T" by %ends : !tile.tensor<["G"], [2], [1], i32>
CHECK-SAME: : !tile.group<"G">, !tile.index<"T">, !tile.index<"N">
CHECK: [[W:%[0-9]+]] = tile.load %w[%G, %K, %N]
CHECK-SAME: !tile.group<"G">, !tile.index<"K">, !tile.index<"N"> -> !tile.value<["K", "N"], bf16>
CHECK: tile.block %K by 4 : i64 at {{.*}} : !tile.index<"K"> -> !tile.index<"K/4">
CHECK: tile.dot {{.*}}, [[W]], %acc_1 scaled by [[S:%[0-9]+]], [[T:%[0-9]+]] : !tile.value<["T", "K/4"], f32>
"""


@pytest.mark.parametrize("kernel", [every_new_op, masked_batch])
def test_text_of_batches_blocks_and_groups_round_trips(kernel, tmp_path):
    kinds = {parameter.name: parameter.element or tw.bf16 for parameter in kernel.parameters}
    extents = {"G": 2, "T": 16, "M": 16, "N": 8, "K": 9}
    module = trace(kernel, {axis: extents[axis] for axis in kernel.axes}, kinds)
    text = str(module)
    parsed = Parser(context(), text).parse_module()
    parsed.verify()
    assert str(parsed) == text
    assert fingerprint(parsed) == fingerprint(module)
    if kernel is every_new_op:
        assert filecheck(GROUPED, text, tmp_path) == ""


def test_groups_as_facts():
    consecutive = trace(
        every_new_op,
        {"G": 2, "T": 16, "N": 8, "K": 9},
        {parameter.name: parameter.element or tw.bf16 for parameter in every_new_op.parameters},
    )
    program = the_program(consecutive)
    assert grid_axes(program) == ("T", "N")
    assert grouping(program) == Grouping("consecutive", "G", "T", "ends")
    assert [access_of(load).picked for load in loads(program)] == ["", "G", "", ""]
