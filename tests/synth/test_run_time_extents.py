# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Axes whose extents only a launch knows: what is not compiled is refused at the author's line."""

import pytest
from tests.synth.walked_products import parts_of, walk_of

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Extent, Range
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import grouped_kernel, masked_kernel, matmul_kernel
from tilewright.driver.compile.kernels_scaled import scaled_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.run_time_extents import SUPPORTED, refuse_run_time

SOME = tw.dynamic(1, 300)


@tw.kernel
def rows_by_columns(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["N", "M"]):  # here
    i, j = tw.grid("N", "M")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(w[i, k], x[j, k].T)
    y[i, j] = acc


@tw.kernel
def both_outermost(x: tw.Tensor["K", "M"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[k, i].T, w[k, j])
    y[i, j] = acc


@tw.kernel
def attention(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    s = tw.dot(q[i, e], k[t, e], over=e)
    o[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)  # here


@tw.kernel
def of_many(
    q: tw.Tensor["B", "M", "E"], k: tw.Tensor["B", "T", "E"], v: tw.Tensor["B", "T", "F"], o: tw.Tensor["B", "M", "F"]
):
    b, i, t, e, f = tw.axes("B M T E F")
    s = tw.dot(q[b, i, e], k[b, t, e], over=e)
    o[b, i, f] = tw.dot(tw.softmax(s, over=t), v[b, t, f], over=t)


@tw.kernel
def of_turned_keys(q: tw.Tensor["M", "E"], k: tw.Tensor["E", "T"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    s = tw.dot(q[i, e], k[e, t], over=e)
    o[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)


@tw.kernel
def shifted(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["T", "E"],
    s: tw.Tensor["M", "T", tw.f32],
    v: tw.Tensor["T", "F"],
    o: tw.Tensor["M", "F"],
):
    i, t, e, f = tw.axes("M T E F")
    scores = tw.dot(q[i, e], k[t, e], over=e) + s[i, t]  # here
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def biased(
    q: tw.Tensor["B", "M", "H", "E"],
    k: tw.Tensor["B", "T", "H", "E"],
    a: tw.Tensor["T", "B", "H", tw.f32],
    v: tw.Tensor["B", "T", "H", "F"],
    o: tw.Tensor["B", "M", "H", "F"],
):
    b, i, h, t, e, f = tw.axes("B M H T E F")
    s = tw.dot(q[b, i, h, e], k[b, t, h, e], over=e) + a[t, b, h]  # here
    o[b, i, h, f] = tw.dot(tw.softmax(s, over=t), v[b, t, h, f], over=t)


@tw.kernel
def in_pages(
    q: tw.Tensor["B", "E"],
    k: tw.Tensor["P", "S", "E"],
    v: tw.Tensor["P", "S", "F"],
    table: tw.Tensor["B", "T/16", tw.i32],
    o: tw.Tensor["B", "F"],
):
    b, t, e, f = tw.axes("B T E F")
    s = tw.dot(q[b, e], k[table[b, t // 16], t % 16, e], over=e)
    o[b, f] = tw.dot(tw.softmax(s, over=t), v[table[b, t // 16], t % 16, f], over=t)


@tw.kernel
def in_blocks(x: tw.Tensor["M", "N"], s: tw.Tensor["M/2", "N"], y: tw.Tensor["M", "N"]):  # here
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * s[i // 2, j]


@tw.kernel
def turned(x: tw.Tensor["M", "A", "B"], y: tw.Tensor["M", "B", "A"]):
    i, b, a = tw.grid("M", "B", "A")
    y[i, b, a] = x[i, a, b].T


REFUSED = [
    (matmul_kernel, {"M": 64, "N": SOME, "K": 64}, "parts of b are N * 2 bytes apart, at some extents no multiple"),
    (of_many, {"B": 2, "M": 64, "T": SOME, "E": 4, "F": 64}, "parts of k are (T * 4) * 2 bytes apart, at some"),
    (of_turned_keys, {"M": 64, "T": SOME, "E": 64, "F": 64}, "parts of k are T * 2 bytes apart, at some extents"),
    (
        matmul_kernel,
        {"M": 64, "N": 64, "K": SOME},
        "parts of a are K * 2 bytes apart, at some extents no multiple of 16",
    ),
    (in_blocks, {"M": SOME, "N": 64}, "has blocks of M"),
    (grouped_kernel("none", False), {"T": 300, "G": 4, "N": SOME, "K": 64}, "N must be known, but for T"),
    (masked_kernel("none"), {"M": SOME, "G": 4, "N": 64, "K": 64}, "the extent of M must be known"),
    (in_pages, {"B": 2, "P": 9, "S": 16, "T": tw.dynamic(8, 64, multiple_of=8), "E": 64, "F": 64}, "no array says the"),
]


@pytest.mark.parametrize(("kernel", "dims", "words"), REFUSED)
def test_what_is_refused(kernel, dims, words) -> None:
    elements = {item.name: item.element or Element.BF16 for item in kernel.parameters}
    module = trace(kernel, dims, elements)
    with pytest.raises(TilewrightError) as caught:
        refuse_run_time(the_program(module))
    assert words in caught.value.message and caught.value.remedy == SUPPORTED
    assert caught.value.span is not None
    marked = [at for at, line in enumerate(kernel.source.splitlines()) if line.endswith("# here")]
    if marked:
        assert caught.value.span.line in (kernel.line + marked[0], kernel.line)


@pytest.mark.parametrize(("axis", "dims"), [("E", {"E": SOME}), ("F", {"F": SOME}), ("F", {"M": SOME, "F": SOME})])
def test_an_axis_that_a_walk_takes_whole(axis: str, dims: dict[str, Range]) -> None:
    found = {"M": 64, "T": SOME, "E": 64, "F": 64, **dims}
    strides = {"q": (320, 1), "k": (320, 1), "v": (320, 1)}
    with pytest.raises(TilewrightError, match=f"{axis}, whose extent only the launch knows, is not that of") as caught:
        compile_kernel(attention, dims=found, strides=strides, rerun=False, assembled=False)
    assert caught.value.span is not None and caught.value.remedy == SUPPORTED


def test_threads_read_arrays_by_strides_that_the_launch_passes() -> None:
    """Along the batch, along keys that a walk goes along, and where the caller gives strides."""
    dims = {"B": SOME, "H": 4, "M": 64, "T": 64, "E": 64, "F": 64}
    dtype = {**dict.fromkeys("qkvo", "bf16"), "a": "f32"}
    room = {"a": (2000, 4, 1)}
    for strides in ({}, room):
        made = compile_kernel(biased, dims=dims, dtype=dtype, strides=strides, rerun=False, assembled=False)
        assert len(made.plan.launches) == 1 and made.plan.run_time is not None
        assert ("size_stride_B_4" in made.ptx) == (not strides)
    dims = {"M": 64, "T": tw.dynamic(8, 304, multiple_of=8), "E": 64, "F": 64}
    dtype = {**dict.fromkeys("qkvo", "bf16"), "s": "f32"}
    for strides in ({}, {"s": (400, 1)}):
        made = compile_kernel(shifted, dims=dims, dtype=dtype, strides=strides, rerun=False, assembled=False)
        assert len(made.plan.launches) == 1 and ("size_stride_T" in made.ptx) == (not strides)


def test_a_sum_of_any_length_is_of_one_tile_form() -> None:
    """No CTAs share it, none help, and consumers do not take turns, whatever its largest length would ask for."""
    for dims in ({"M": 16, "N": 4096}, {"M": 128, "N": 128}, {"M": 4096, "N": 4096}, {"M": 2048, "N": 1536}):
        exact = walk_of(parts_of({**dims, "K": 16384}))
        ranged = walk_of(parts_of({**dims, "K": tw.dynamic(8, 16384, multiple_of=8)}))
        assert (ranged.split, ranged.teams, ranged.stream, ranged.turns) == (1, 1, None, 0), (dims, exact)
        assert ranged.release_distance <= 1


def test_sums_in_two_levels_have_a_length_that_is_known() -> None:
    scaled = scaled_kernel("none", False, False, (False, False))
    dims = {"M": 64, "N": 64, "K": tw.dynamic(16, 4096, multiple_of=16)}
    dtype = {**dict.fromkeys("ab", "f8e4m3"), **dict.fromkeys(("scale_a", "scale_b"), "f32"), "c": "bf16"}
    with pytest.raises(TilewrightError, match="a sum of 8-bit products over K, whose extent only") as caught:
        compile_kernel(scaled, dims=dims, dtype=dtype, strides={"b": (1, 4096)}, rerun=False, assembled=False)
    assert caught.value.span is not None and "accumulation='fast'" in caught.value.remedy


def test_a_walk_has_run_time_rows_and_length_or_batch() -> None:
    dims = {"T": 64, "E": 64, "F": 64}
    for ranges in ({"M": SOME}, {"T": SOME}, {"M": SOME, "T": SOME}):
        made = compile_kernel(attention, dims={**dims, "M": 64, **ranges}, rerun=False, assembled=False)
        assert len(made.plan.launches) == 1 and made.plan.run_time is not None
        assert dict(made.plan.run_time.ranges) == ranges
    made = compile_kernel(of_many, dims={"B": SOME, "M": 64, **dims}, rerun=False, assembled=False)
    assert made.plan.run_time is not None and dict(made.plan.run_time.ranges) == {"B": SOME}


def test_other_axes_than_the_batch_are_joined() -> None:
    """Heads that share keys are rows of one tile, as where all extents are known."""

    @tw.kernel
    def decode(
        q: tw.Tensor["B", "H", "E"],
        k: tw.Tensor["B", "H/4", "T", "E"],
        v: tw.Tensor["B", "H/4", "T", "E"],
        o: tw.Tensor["B", "H", "E"],
    ):
        b, h, t, e = tw.axes("B H T E")
        s = tw.dot(q[b, h, e], k[b, h // 4, t, e], over=e)
        o[b, h, e] = tw.dot(tw.softmax(s, over=t), v[b, h // 4, t, e], over=t)

    for ranges in ({"B": SOME}, {"T": SOME}, {"B": SOME, "T": SOME}):
        dims = {"B": 2, "T": 192, "H": 8, "E": 64, **ranges}
        made = compile_kernel(decode, dims=dims, rerun=False, assembled=False)
        assert made.plan.run_time is not None and dict(made.plan.run_time.ranges) == ranges
        assert made.decisions.batch == ("B", "H_blocks") and len(made.plan.launches) == 1


def test_a_promise_that_some_extent_breaks() -> None:
    @tw.kernel(where="M % 8 == 0, M <= 256")
    def promised(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = acc

    elements = dict.fromkeys("abc", Element.BF16)
    for values in (tw.dynamic(8, 256), tw.dynamic(8, 264, multiple_of=8)):
        with pytest.raises(TilewrightError, match="breaks the promise"):
            trace(promised, {"M": values, "N": 64, "K": 64}, elements)
    trace(promised, {"M": tw.dynamic(0, 256, multiple_of=8), "N": 64, "K": 64}, elements)


def test_an_operand_is_copied_before() -> None:
    """The copy has as many rows."""
    made = compile_kernel(matmul_kernel, dims={"M": SOME, "N": 64, "K": 65}, rerun=False, assembled=False)
    assert made.plan.run_time is not None and made.plan.run_time.shapes[-1] == (Extent("M"), 65)
    (workspace,) = (buffer for buffer in made.plan.buffers if buffer.role == "workspace")
    assert workspace.shape == (300, 65) and workspace.strides[0] * 2 % 16 == 0


def test_tiles_that_warps_would_transpose() -> None:
    compile_kernel(turned, dims={"M": 9, "A": 64, "B": 64}, rerun=False, assembled=False)
    with pytest.raises(TilewrightError, match="lie along different axes") as caught:
        compile_kernel(turned, dims={"M": SOME, "A": 64, "B": 64}, rerun=False, assembled=False)
    assert caught.value.span is not None and caught.value.span.line == turned.line


def test_tiles_are_shared_through_memory_only_where_their_number_is_known() -> None:
    def decided(values):
        return walk_of(parts_of({"M": values, "N": 64, "K": 32768}))

    assert decided(tw.dynamic(1, 64)).teams > 1
    several = decided(tw.dynamic(1, 4096))
    assert (several.teams, several.stream) == (1, None)
