"""Programs that become several kernels: which, what they compute on the CPU machine, and what their proofs rest on."""

from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from examples.fused import attention, causal_attention, decode_attention, decode_in_pages, grouped_heads
from tests.synth.cut.cut_programs import (
    EXPECTED,
    batch_with_logsumexp,
    largest_of_product,
    layers,
    norm_of_product,
    product_of_norm,
    softmax_of_product,
    softmax_of_rows,
    sums_both_ways,
    traced,
)
from tests.synth.cut.split_programs import largest_and_logsumexp, sum_of_rows
from xdsl.dialects.builtin import ModuleOp, StringAttr

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.base.size import Range
from tilewright.base.verdict import Proven, Unknown
from tilewright.driver.compile import sequence as sequence_module
from tilewright.driver.compile.compile import Compilation, compile_kernel, elements_of
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.kernels_rows import rms_norm_weight_gradient
from tilewright.driver.compile.sequence import Part, decided, joined, sequence
from tilewright.driver.reproof.reproof import reprove
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import sequence_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.cut.handover import Cut
from tilewright.synth.cut.split import in_parts
from tilewright.synth.streaming import Streamed
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target

_TARGET = target("sm_90a")
_CUT = Wanted(cut=True)


def _parts(kernel: Kernel, wanted: Wanted | None = None, **dims: int) -> tuple[Part, ...]:
    return sequence(traced(kernel, **dims), _TARGET, wanted or Wanted())


def _made(kernel: Kernel, *, rerun: bool = False, **dims: int | Range) -> Compilation:
    return compile_kernel(kernel, dims=dims, wanted=_CUT, rerun=rerun, assembled=False)


def _assert_near(kernel: Kernel, made: Compilation, **run_time: int) -> None:
    random = np.random.default_rng(0)
    shapes = [each.shape for each in made.plan.buffers if each.role == "input"]
    if made.plan.run_time is not None:
        sizes = zip(made.plan.buffers, made.plan.run_time.shapes, strict=True)
        shapes = [
            tuple(each if isinstance(each, int) else run_time[str(each.axis)] for each in size)
            for buffer, size in sizes
            if buffer.role == "input"
        ]
    arrays = [random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    found = CompiledKernel(made.bundle())(*arrays, on="cpu")
    wanted = EXPECTED[kernel](*(each.astype(np.float64) for each in arrays))
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for one, other in pairs:
        assert one.shape == other.shape
        if one.size:
            assert np.abs(one.astype(np.float64) - other).max() <= 2.0**-6 * max(1.0, np.abs(other).max())


# ---------------------------------------------------------------- which programs


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "dims", "kernels"),
    [
        (softmax_of_product, {"M": 4096, "N": 4096, "K": 1024}, 2),
        (softmax_of_product, {"M": 16384, "N": 256, "K": 1024}, 1),
        (norm_of_product, {"M": 4096, "N": 8192, "K": 512}, 2),
        (product_of_norm, {"M": 8192, "N": 4096, "K": 4096}, 2),
        (layers, {"M": 65536, "K": 128, "L": 512, "N": 128}, 1),
        (largest_of_product, {"M": 100, "N": 300, "K": 64}, 2),
        (sums_both_ways, {"M": 100, "N": 300}, 3),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_program_is_cut_where_that_takes_less_or_nothing_else_is_compiled(
    kernel: Kernel, dims: dict[str, int], kernels: int
) -> None:
    parts = _parts(kernel, **dims)
    assert len(parts) == kernels
    if kernels > 1:
        assert all(any(f"{kernels} kernels" in each for each in part.decisions.reasons) for part in parts)


@pytest.mark.parametrize("columns", [301, 306, 1001])
def test_rows_that_are_handed_over_are_read_up_to_their_end(columns: int) -> None:
    """Between rows of the workspace lie bytes that nobody writes."""
    made = _made(largest_of_product, rerun=True, M=70, N=columns, K=64)
    _assert_near(largest_of_product, made)


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (attention, {"B": 1, "H": 2, "Q": 300, "T": 300, "E": 64, "F": 64}),
        pytest.param(
            decode_in_pages(64),
            {"B": 1, "H": 8, "E": 64, "F": 64, "T": 1024, "P": 40, "S": 64},
            marks=pytest.mark.full,
        ),
    ],
)
def test_cutting_off_kernels_in_launch_order_misses_no_sequence(
    kernel: Kernel, dims: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sequence is that of a search which also cuts the first side of a cut at values, and meets orders anew; but
    for the margin, which is of the program that is cut."""
    offered = sequence_module._offered
    monkeypatch.setattr(sequence_module, "_WORTH", 1.0)

    def search(every_order: bool) -> tuple[list[str], int]:
        cuts = list[Cut]()

        def counted(module: ModuleOp, target: Target, one: object, cuttable: str) -> Iterator[tuple[ModuleOp, Cut]]:
            anywhere = "anywhere" if every_order and cuttable == "in parts" else cuttable
            for each in offered(module, target, one, anywhere):
                cuts.append(each[1])
                yield each

        monkeypatch.setattr(sequence_module, "_offered", counted)
        return [str(part.traced) for part in _parts(kernel, _CUT, **dims)], len(cuts)

    (found, fewer), (every, more) = search(False), search(True)
    assert found == every and len(found) > 1 and fewer < more


def test_overrides_keep_one_kernel_or_ask_for_several() -> None:
    dims = {"M": 4096, "N": 4096, "K": 1024}
    assert len(_parts(softmax_of_product, Wanted(cut=False), **dims)) == 1
    assert len(_parts(softmax_of_product, Wanted(depth=64), **dims)) == 1
    assert len(_parts(softmax_of_product, _CUT, M=100, N=33, K=24)) == 2


def test_what_one_kernel_is_refused_for_is_said_where_none_is_asked_for() -> None:
    with pytest.raises(TilewrightError, match=r"argmax or tw\.argmin beside a product"):
        _parts(largest_of_product, Wanted(cut=False), M=100, N=300, K=64)


# ---------------------------------------------------------------- values


_BRIEF = {
    largest_of_product: (65, 33, 24),
    softmax_of_rows: (3, 70, 1),
    sums_both_ways: (33, 20, 1),
    batch_with_logsumexp: (3, 5, 1),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kernel", "sizes"), list(_BRIEF.items()), ids=lambda value: getattr(value, "name", ""))
def test_values_of_a_few(kernel: Kernel, sizes: tuple[int, int, int]) -> None:
    test_values_at_edges_of_tiles(kernel, sizes)


@pytest.mark.full
@pytest.mark.parametrize("kernel", list(EXPECTED), ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (65, 33, 24), (63, 255, 64), (64, 256, 65), (129, 257, 127)])
def test_values_at_edges_of_tiles(kernel: Kernel, sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    extents = {"B": 2, "M": rows, "N": columns, "K": depth, "L": 1 + depth}
    made = _made(kernel, **{axis: extents[axis] for axis in kernel.axes})
    assert len(made.parts) >= 2
    _assert_near(kernel, made)


def test_rows_that_only_a_launch_knows() -> None:
    """One kernel of this program is refused for them; the workspace is as long as the launch says."""
    made = _made(softmax_of_product, M=tw.dynamic(0, 300), N=9, K=8)
    for rows in (0, 65):
        _assert_near(softmax_of_product, made, M=rows)


# ---------------------------------------------------------------- proofs and plans


def test_both_proofs_hold_and_the_plan_has_a_workspace() -> None:
    made = _made(softmax_of_product, rerun=True, M=130, N=133, K=72)
    assert made.text_proof is not None
    assert [launch.entry for launch in made.plan.launches] == ["softmax_of_product_1", "softmax_of_product_2"]
    roles = {buffer.name: buffer.role for buffer in made.plan.buffers}
    assert roles == {"x": "input", "w": "input", "y": "output", "softmax_of_product_1_result": "workspace"}
    bundle = made.bundle()
    assert len(bundle.decisions["programs"]) == 2
    assert bundle.facts["operations"] == 2 * 130 * 133 * 72


def _proof(modules: list[ModuleOp]) -> object:
    whole = joined(modules)
    kernels = [kernel.module for module in modules for kernel in lower_program(the_program(module)).kernels]
    return reprove(whole, lower_to_ptx(kernels, "sm_90a"), "sm_90a", "whole")


def test_programs_that_hand_over_are_proven_in_their_order_alone() -> None:
    parts = [part.module for part in _parts(softmax_of_product, _CUT, M=70, N=33, K=24)]
    assert isinstance(_proof(parts), Proven)
    verdict = _proof(parts[::-1])
    assert isinstance(verdict, Unknown)
    assert "stored by a program after another has stored or loaded it" in verdict.reasons[0]


def test_a_program_that_loads_another_array_by_the_name_is_not_proven() -> None:
    first, _ = (part.module for part in _parts(softmax_of_product, _CUT, M=70, N=33, K=24))
    _, other = (part.module for part in _parts(softmax_of_product, _CUT, M=70, N=34, K=24))
    verdict = _proof([first, other])
    assert isinstance(verdict, Unknown)
    assert "one array to a program that stores it and another" in verdict.reasons[0]


def test_what_is_not_known_to_be_written_whole_is_not_handed_over() -> None:
    """A program whose loop stores along its axis, before one that loads it: does the loop reach all?"""
    first = decided(traced(softmax_of_product, M=70, N=40, K=24), _TARGET, Wanted()).module
    second = decided(traced(sums_of_rows, M=70, N=40), _TARGET, Wanted()).module
    assert isinstance(_proof([first]), Proven)
    program = the_program(second)
    program.properties["parameters"] = type(program.parameters)([StringAttr("y"), StringAttr("z")])
    verdict = _proof([first, second])
    assert isinstance(verdict, Unknown)
    assert "every element of y" in verdict.reasons[0]


@tw.kernel
def sums_of_rows(x: tw.Tensor["M", "N"], z: tw.Tensor["M"]):  # noqa: F821
    i, j = tw.axes("M N")
    z[i] = tw.sum(x[i, j], over=j)


def test_workspaces_of_the_parts_are_their_own() -> None:
    """Two parts whose clusters share sums through memory: four arrays of the same two names."""
    dims = {"M": 64, "N": 64, "K": 65536}
    whole = trace(matmul_kernel, dims, elements_of(matmul_kernel, "bf16"), {"b": (1, dims["K"])})
    (part,) = sequence(whole, _TARGET, Wanted())
    lowered = lower_program(the_program(part.module))
    again = replace(lowered, buffers=tuple(_renamed(each) for each in lowered.buffers))
    plan = sequence_plan(the_program(whole), [lowered, again])
    names = [buffer.name for buffer in plan.buffers]
    assert len(set(names)) == len(names)
    shared = {"team_sums", "team_sums_", "team_flags", "team_flags_"}
    assert shared <= set(names)
    written = {param.buffer for launch in plan.launches for param in launch.params if hasattr(param, "buffer")}
    assert shared <= written


def _renamed(buffer: Buffer) -> Buffer:
    return replace(buffer, name=f"{buffer.name}_b") if buffer.role == "output" else buffer


def test_the_parts_of_a_plan_agree_on_what_is_handed_over() -> None:
    parts = _parts(softmax_of_product, _CUT, M=70, N=33, K=24)
    lowered = [lower_program(the_program(part.module)) for part in parts]
    wider = tuple(
        replace(each, shape=(70, 34)) if each.name.endswith("_result") else each for each in lowered[1].buffers
    )
    whole = the_program(traced(softmax_of_product, M=70, N=33, K=24))
    assert sequence_plan(whole, lowered).buffers[-1].element is Element.F32
    with pytest.raises(ValueError, match="to one part and"):
        sequence_plan(whole, [lowered[0], replace(lowered[1], buffers=wider)])


# ---------------------------------------------------------------- axes in parts


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "dims", "parts"),
    [
        (attention, {"B": 1, "H": 8, "Q": 1, "T": 8192, "E": 128, "F": 128}, True),
        (attention, {"B": 16, "H": 32, "Q": 1, "T": 8192, "E": 128, "F": 128}, False),
        # A consumer alone on half of the multiprocessors takes longer than memory does.
        (decode_attention, {"B": 8, "H": 32, "T": 32768, "E": 128, "F": 128}, True),
        (decode_attention, {"B": 16, "H": 32, "T": 32768, "E": 128, "F": 128}, False),
        (sum_of_rows, {"M": 1, "N": 1 << 24}, True),
        (sum_of_rows, {"M": 4096, "N": 4096}, False),
        (softmax_of_rows, {"M": 1, "N": 1 << 24}, True),
        (rms_norm_weight_gradient, {"M": 4096, "N": 4096}, True),
        (softmax_of_rows, {"M": 128, "N": 1 << 18}, False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_an_axis_is_split_where_rows_are_too_few(kernel: Kernel, dims: dict[str, int], parts: bool) -> None:
    found = _parts(kernel, **dims)
    assert (len(found) > 1) == parts
    assert any("parts at" in reason for reason in found[-1].decisions.reasons) == parts


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (sum_of_rows, {"M": 3, "N": 600}),
        (largest_and_logsumexp, {"M": 3, "N": 600}),
        pytest.param(causal_attention, {"B": 1, "H": 2, "Q": 3, "T": 132, "E": 16, "F": 16}, marks=pytest.mark.full),
        pytest.param(grouped_heads, {"B": 1, "H": 4, "Q": 3, "T": 132, "E": 16, "F": 16}, marks=pytest.mark.full),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_values_of_axes_in_parts(kernel: Kernel, dims: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts whose last tile is not full; the same bits in each run, and both proofs."""
    axis = "T" if "T" in dims else "N"

    def in_four(program: tile.ProgramOp, *_: object) -> list[Cut]:
        return [] if f"{axis}_parts" in program.extents else [in_parts(program, axis, 4)]

    monkeypatch.setattr("tilewright.driver.compile.sequence.splits", in_four)
    monkeypatch.setattr("tilewright.driver.compile.sequence.cuts", lambda program: [])
    made = _made(kernel, rerun=True, **dims)
    assert made.text_proof is not None
    random = np.random.default_rng(1)
    given = [each for each in made.plan.buffers if each.role == "input"]
    arrays = [random.standard_normal(each.shape).astype(ml_dtypes.bfloat16) for each in given]
    found, again = (CompiledKernel(made.bundle())(*arrays, on="cpu", seed=seed) for seed in (0, 1))
    named = {each.name: array for each, array in zip(given, arrays, strict=True)}
    wanted = list(evaluate(traced(kernel, **dims), named).values())
    both = (each if isinstance(each, tuple) else (each,) for each in (found, again))
    for one, other, expected in zip(*both, wanted, strict=True):
        assert one.tobytes() == other.tobytes()
        assert np.abs(one.astype(np.float64) - expected.astype(np.float64)).max() <= 2.0**-6


@pytest.mark.sample(2)
@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("lengths", [(0, 1), (48, 49), (64, 65), (111, 112)], ids=str)
def test_values_of_parts_that_overlap(page: int, lengths: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences that end where parts begin and end: two of 64 keys, 48 apart, of which the second leaves 16 to the
    first."""
    kernel = decode_in_pages(page) if page else decode_attention

    def in_two(program: tile.ProgramOp, *_: object) -> list[Cut]:
        return [] if "T_parts" in program.extents else [in_parts(program, "T", 2, 48)]

    monkeypatch.setattr("tilewright.driver.compile.sequence.splits", in_two)
    monkeypatch.setattr("tilewright.driver.compile.sequence.cuts", lambda program: [])
    dims = {"B": 2, "H": 4, "T": 112, "E": 16, "F": 16} | ({"P": 14, "S": 16} if page else {})
    made = compile_kernel(kernel, dims=dims, wanted=_CUT, assembled=False)
    assert made.text_proof is not None and len(made.parts) == 2
    random = np.random.default_rng(1)
    arrays = [
        random.standard_normal(each.shape).astype(ml_dtypes.bfloat16)
        if each.element is Element.BF16
        else np.array(lengths if len(each.shape) == 1 else random.permutation(14).reshape(2, 7), np.int32)
        for each in made.plan.buffers
        if each.role == "input"
    ]
    found = CompiledKernel(made.bundle())(*arrays, on="cpu")
    q, k, v = (each.astype(np.float64) for each in arrays[:3])
    if page:
        k, v = (each[arrays[3]].reshape(2, 112, 1, 16) for each in (k, v))
    for sequence_, length in enumerate(lengths):
        scores = q[sequence_] @ k[sequence_, :length, 0].T * 0.125
        weights = np.exp(scores - scores.max(axis=1, initial=-np.inf, keepdims=True))
        wanted = weights @ v[sequence_, :length, 0] / weights.sum(axis=1, keepdims=True) if length else np.nan
        result = found[sequence_].astype(np.float64)
        assert np.all(np.isnan(result)) if not length else np.abs(result - wanted).max() <= 2.0**-6


@pytest.mark.parametrize("wanted", [Wanted(), _CUT])
def test_walks_that_are_taken_are_certified_and_no_others(wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivation that breaks a law is an error, whether the walk is a kernel alone or one of several."""
    asked: list[object] = []

    def broken(self: Streamed) -> None:
        asked.append(self.module)
        raise TilewrightError("the streamed form of the program breaks a law")

    monkeypatch.setattr(Streamed, "require", broken)
    dims = {"B": 1, "H": 1, "Q": 64, "T": 64, "E": 64, "F": 64}
    with pytest.raises(TilewrightError, match="breaks a law"):
        sequence(trace(attention, dims, elements_of(attention, "bf16")), _TARGET, wanted)
    assert len(asked) == 1
