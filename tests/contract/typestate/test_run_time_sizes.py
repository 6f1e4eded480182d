# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Kernels of run-time extents are proven for all of them; sizes that are wrong at some extent alone are not."""

from collections.abc import Callable
from functools import cache

import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.size import Extent, Range, Size, parse_size
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.typestate.run_time_sizes import is_multiple
from tilewright.contract.typestate.typestate import judge
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir import context
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import RangeAttr, SizeAttr, size_array, size_attr, sizes_of
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

FACTS = target("sm_90a")
ROWS = Wanted(tile=(64, 64), swapped=False)
PAIRS = Wanted(tile=(64, 128), cluster=(2, 1), swapped=False)


@cache
def lowered(stores: str = "bulk", wanted: Wanted = ROWS) -> ModuleOp:
    columns = 256 if stores == "bulk" else 253
    dims = {"M": tw.dynamic(0, 5000, multiple_of=4), "N": columns, "K": 192}
    strides = {} if stores == "bulk" else {"b": (256, 1)}
    module = trace(matmul_kernel, dims, dict.fromkeys("abc", Element.BF16), strides)
    (part,) = uncut(module, FACTS, wanted)
    (kernel,) = lower_program(the_program(part.module)).kernels
    return kernel.module


def kernel_of(module: ModuleOp) -> ac.KernelOp:
    (kernel,) = [op for op in module.ops if isinstance(op, ac.KernelOp)]
    return kernel


@pytest.mark.parametrize("stores", ["bulk", "plain"])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_lowered_is_proven(stores: str, swapped: bool) -> None:
    module = lowered(stores, Wanted(tile=(64, 64), swapped=swapped))
    verdict, _ = judge(module, FACTS)
    assert isinstance(verdict, Proven) and verdict.scope == "all trip counts"
    assert "#ac.size" in str(module)
    assert str(Parser(context(), str(module)).parse_module()) == str(module)


def size(text: str) -> SizeAttr:
    return SizeAttr(StringAttr(text))


def tiles(change: Callable[[ac.TilesOp], None], roles: slice = slice(None)) -> Callable[[ac.KernelOp], None]:
    def edit(kernel: ac.KernelOp) -> None:
        for op in [op for op in kernel.walk() if isinstance(op, ac.TilesOp)][roles]:
            change(op)

    return edit


def of_tiles_m(attribute: Attribute, roles: slice = slice(None)) -> Callable[[ac.KernelOp], None]:
    return tiles(lambda op: op.properties.update(tiles_m=attribute), roles)


def grid(first: Size) -> Callable[[ac.KernelOp], None]:
    return lambda kernel: kernel.properties.update(grid=size_array((first, 1, 1)))


def map_dims(dims: Callable[[tuple[Size, ...]], tuple[Size, ...]]) -> Callable[[ac.KernelOp], None]:
    def edit(kernel: ac.KernelOp) -> None:
        op = next(op for op in kernel.walk() if isinstance(op, ac.TensorMapOp))
        op.properties["dims"] = size_array(dims(sizes_of(op.dims)))

    return edit


def ranges(**each: Attribute) -> Callable[[ac.KernelOp], None]:
    return lambda kernel: kernel.properties.update(ranges=DictionaryAttr(each))


def without_ranges(kernel: ac.KernelOp) -> None:
    del kernel.properties["ranges"]


EDITS: dict[str, tuple[Callable[[ac.KernelOp], None], str]] = {
    "an axis without a range": (of_tiles_m(size("ceil_div(Q, 64)")), "not understood"),
    "no ranges at all": (without_ranges, "not understood"),
    "a range that is none": (ranges(M=StringAttr("1 to 9")), "the extents of M are"),
    "a division by what may be 0": (of_tiles_m(size("M // (M // 64)")), "not understood"),
    "a size that may be negative": (of_tiles_m(size("M - 64")), "past 32 bits"),
    "a size past 32 bits": (of_tiles_m(size("M * 1073741824")), "past 32 bits"),
    "no tiles at some extents": (of_tiles_m(size("M // 64")), "an order of"),
    "more tiles than are counted": (of_tiles_m(size("M * 400000")), "more than are counted"),
    "roles that count other tiles": (of_tiles_m(size("ceil_div(M, 65)"), slice(1)), "another order than another role"),
    "one role with the largest number": (of_tiles_m(IntAttr(79), slice(1)), "another order than another role"),
    "a grid that may be empty": (grid(parse_size("M // 64")), "positive integers"),
    "a map of an extent that is computed": (map_dims(lambda dims: (dims[0], parse_size("M + 1"))), "is computed of"),
    "a map past what the encoder takes": (
        lambda kernel: (
            ranges(M=RangeAttr.of(Range(4, (1 << 32) - 4, 4)))(kernel),
            map_dims(lambda dims: (Extent("M"), dims[1]))(kernel),
        )[0],
        "",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_other_sizes_are_not_proven(name: str) -> None:
    edit, words = EDITS[name]
    module = lowered().clone()
    edit(kernel_of(module))
    verdict, _ = judge(module, FACTS)
    assert isinstance(verdict, Unknown | Refuted), name
    if isinstance(verdict, Unknown):
        assert any(words in reason for reason in verdict.reasons), verdict


def test_a_grid_that_is_no_multiple_of_its_clusters() -> None:
    module = lowered(wanted=PAIRS).clone()
    assert isinstance(judge(module, FACTS)[0], Proven)
    grid(parse_size("min(ceil_div(M, 64), 132)"))(kernel_of(module))
    verdict, _ = judge(module, FACTS)
    assert isinstance(verdict, Unknown) and any("no multiple of the cluster" in each for each in verdict.reasons)


def test_stores_that_meet_at_large_extents_alone() -> None:
    """Rows so near each other that they share places once there are enough of them."""
    module = lowered("plain").clone()
    stored = {op.destination for op in module.walk() if isinstance(op, ac.GlobalStoreOp)}
    (array,) = [op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.result in stored]
    array.properties["strides"] = ArrayAttr([IntAttr(1), IntAttr(4096)])
    small = module.clone()
    ranges(M=RangeAttr.of(Range(4, 4096, 4)))(kernel_of(small))
    reasons = judge(module, FACTS)[0]
    assert isinstance(reasons, Unknown) and any("may lie at one place" in each for each in reasons.reasons)
    within = judge(small, FACTS)[0]
    assert not isinstance(within, Unknown) or not any("may lie at one place" in each for each in within.reasons)


@tw.kernel
def attention(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    o[i, f] = tw.dot(tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t), v[t, f], over=t)


@cache
def of_a_walk() -> ModuleOp:
    dims = {"M": 200, "T": tw.dynamic(1, 5000), "E": 64, "F": 64}
    (part,) = uncut(trace(attention, dims, dict.fromkeys("qkvo", Element.BF16)), FACTS, Wanted())
    (kernel,) = lower_program(the_program(part.module)).kernels
    return kernel.module


def counts(**each: Attribute) -> Callable[[ac.KernelOp], None]:
    return lambda kernel: kernel.properties.update(counts=DictionaryAttr(each))


def symbols(**each: int) -> Callable[[ac.KernelOp], None]:
    def edit(kernel: ac.KernelOp) -> None:
        kernel.properties["symbols"] = DictionaryAttr(
            {**kernel.symbols.data, **{name: IntAttr(number) for name, number in each.items()}}
        )

    return edit


def end(attribute: SizeAttr) -> Callable[[ac.KernelOp], None]:
    def edit(kernel: ac.KernelOp) -> None:
        for op in [op for op in kernel.walk() if isinstance(op, ac.ExtentOp)]:
            op.properties["size"] = attribute

    return edit


COUNTS: dict[str, tuple[Callable[[ac.KernelOp], None], str]] = {
    "no iteration at some lengths": (counts(K=size("T // 128")), "less than its minimum"),
    "the number of another length": (symbols(K=41), "K is 41, and from 1 to 40 at a launch"),
    "a symbol that is none": (counts(Q=size("ceil_div(T, 128)")), "the count Q is"),
    "a count that is a number": (counts(K=IntAttr(40)), "the count K is"),
    "what counts the tiles": (counts(tiles=size("ceil_div(T, 1250)")), "needs tiles as a number"),
    "a count of an axis without a range": (counts(K=size("ceil_div(Q, 128)")), "not understood"),
    "an end of an axis without a range": (end(size("Q")), "not understood"),
}


def test_a_walk_is_proven_for_every_length() -> None:
    module = of_a_walk()
    assert isinstance(judge(module, FACTS)[0], Proven)
    assert "counts = {K = #ac.size" in str(module) and "ac.extent" in str(module)
    assert str(Parser(context(), str(module)).parse_module()) == str(module)


@tw.kernel
def of_many(
    q: tw.Tensor["B", "M", "E"], k: tw.Tensor["B", "T", "E"], v: tw.Tensor["B", "T", "F"], o: tw.Tensor["B", "M", "F"]
):
    b, i, t, e, f = tw.axes("B M T E F")
    o[b, i, f] = tw.dot(tw.softmax(tw.dot(q[b, i, e], k[b, t, e], over=e), over=t), v[b, t, f], over=t)


@pytest.mark.parametrize(
    ("stride", "words"),
    [
        ("(T * 64) * 2", ""),
        ("(T * 64) * 524288", ""),
        ("(T * 64) + T", "is not a multiple of 16"),
        ("(T * 64) * 268435456", "past 40 bits"),
        ("Q * 128", "not understood"),
    ],
)
def test_strides_of_a_map_are_legal_at_every_length(stride: str, words: str) -> None:
    dims = {"B": 3, "M": 200, "T": tw.dynamic(1, 5000), "E": 64, "F": 64}
    (part,) = uncut(trace(of_many, dims, dict.fromkeys("qkvo", Element.BF16)), FACTS, Wanted())
    (kernel,) = lower_program(the_program(part.module)).kernels
    maps = [op for op in kernel.module.walk() if isinstance(op, ac.TensorMapOp) and "T" in str(op.dims)]
    assert len(maps) == 2 and all(sizes_of(op.strides_bytes)[1] == parse_size("(T * 64) * 2") for op in maps)
    maps[0].properties["strides_bytes"] = size_array((128, parse_size(stride)))
    match judge(kernel.module, FACTS)[0]:
        case Unknown(reasons):
            assert words and words in reasons[0]
        case Refuted(findings):
            assert words and words in findings[0].message
        case _:
            assert not words


@pytest.mark.parametrize("name", COUNTS)
def test_other_counts_are_not_proven(name: str) -> None:
    edit, words = COUNTS[name]
    module = of_a_walk().clone()
    edit(kernel_of(module))
    verdict = judge(module, FACTS)[0]
    assert isinstance(verdict, Unknown) and any(words in reason for reason in verdict.reasons), verdict


@tw.kernel
def softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def doubled(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * 2


@cache
def of_points(kernel: Kernel, columns: int, most: int = 5000) -> ModuleOp:
    module = trace(kernel, {"M": tw.dynamic(0, most), "N": columns}, dict.fromkeys("xy", Element.F32))
    decide(the_program(module), FACTS)
    return lower_program(the_program(module)).kernels[0].module


def extents(*sizes: Size) -> Callable[[ac.KernelOp], None]:
    def edit(kernel: ac.KernelOp) -> None:
        (op,) = [op for op in kernel.walk() if isinstance(op, ac.ElementwiseOp)]
        op.properties["extents"] = size_array(sizes)

    return edit


POINTS: dict[str, tuple[Kernel, int, Callable[[ac.KernelOp], None], str]] = {
    "a row more than there is": (doubled, 64, extents(parse_size("M + 1"), 64), "may lie outside"),
    "as many rows as there may be": (doubled, 64, extents(5000, 64), "may lie outside"),
    "more points than are counted": (doubled, 64, ranges(M=RangeAttr.of(Range(1, 1 << 28))), "counted in 32 bits"),
    "rows for half of the units": (softmax, 64, grid(parse_size("ceil_div(M, 64)")), "units in each of"),
    "as many CTAs as the most rows ask for": (softmax, 1000, grid(5000), "rows for"),
    "a CTA for each second row": (softmax, 1000, grid(parse_size("ceil_div(M, 2)")), "rows for"),
}


@pytest.mark.parametrize(("kernel", "columns"), [(doubled, 64), (softmax, 64), (softmax, 1000)])
def test_points_and_rows_are_proven(kernel: Kernel, columns: int) -> None:
    assert isinstance(judge(of_points(kernel, columns), FACTS)[0], Proven)


@pytest.mark.parametrize("name", POINTS)
def test_other_points_and_rows_are_not(name: str) -> None:
    kernel, columns, edit, words = POINTS[name]
    module = of_points(kernel, columns).clone()
    edit(kernel_of(module))
    verdict = judge(module, FACTS)[0]
    assert isinstance(verdict, Unknown) and any(words in reason for reason in verdict.reasons), verdict


@pytest.mark.parametrize(
    ("text", "of", "answer"),
    [("4", 2, True), ("3", 2, False), ("M", 1, True), ("M", 2, False), ("M * 2", 2, True), ("min(M, 132) * 4", 2, True),
     ("2 * ceil_div(M, 3) * 2", 4, True), ("M + 2", 2, False), ("N", 8, True), ("N * M", 16, False),
     ("N + 4", 4, True), ("N + 2", 4, False), ("ceil_div(N, 2)", 2, False)],
)  # fmt: skip
def test_multiples_by_their_form(text: str, of: int, answer: bool) -> None:
    assert is_multiple(parse_size(text), of, {"M": Range(1, 300), "N": Range(8, 304, 8)}) is answer
    assert size_attr(parse_size(text)) is not None
