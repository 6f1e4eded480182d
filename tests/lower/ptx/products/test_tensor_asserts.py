"""A debug build asserts what it does to tensor memory: proven with its asserts, right numbers; edits reach a trap."""

from collections.abc import Mapping
from functools import cache

import pytest
from tests.end_to_end.blackwell_programs import TARGET, check_numbers, of_matrices, replaced, with_epilogue
from tests.lower import cascade_programs

from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted

ATTENTION = {"B": 1, "H": 1, "Q": 130, "T": 136, "E": 64, "F": 64}


@cache
def debug_build(kernel: Kernel, sizes: tuple[tuple[str, int], ...], cluster: tuple[int, int] | None) -> Compilation:
    wanted = Wanted(asserts=True, cluster=cluster, tile=(128, 128) if cluster else None)
    return compile_kernel(kernel, target=TARGET, dims=dict(sizes), wanted=wanted)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims", "cluster"),
    [
        (with_epilogue, {"M": 130, "N": 72, "K": 136}, None),
        (with_epilogue, {"M": 300, "N": 136, "K": 136}, (2, 1)),
        (of_matrices, {"B": 3, "M": 66, "N": 24, "K": 72}, None),
        (cascade_programs.attention, ATTENTION, None),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value or ())),
)
def test_asserts_are_proved_redundant_and_change_no_number(
    kernel: Kernel, dims: Mapping[str, int], cluster: tuple[int, int] | None
) -> None:
    """The second proof runs the text with its asserts, and a trap would be a fault."""
    made = debug_build(kernel, tuple(dims.items()), cluster)
    plain = compile_kernel(kernel, target=TARGET, dims=dims, wanted=Wanted(cluster=cluster), rerun=False)
    assert made.ptx.count("trap;") >= 5 and "trap;" not in plain.ptx
    assert made.text_proof is not None and made.assembly is not None and made.assembly.spill_bytes == 0
    check_numbers(made)


EDITS = {
    "an address that differs between lanes": (r"(shfl\.sync\.idx\.b32 %r\d+, )(%r\d+)(, 0, 31, -1;\n\tsetp\.ne)",
                                              r"mov.u32 \2, %laneid;\n\t\1\2\3", 0),
    "another warp's lanes": (r"(shl\.b32 %r\d+, %r\d+, )21;", r"\g<1>22;", 0),
    "columns of nobody": (r"(add\.u32 %r\d+, %r\d+, )\d+(;\n\tbfe\.u32 %r\d+, %r\d+, 0, 16;)", r"\g<1>128\2", 0),
}  # fmt: skip


def _verdict(made: Compilation, text: str) -> object:
    return replay_plan(read(text, "edited.ptx"), made.plan, dict(made.claims), (0,))


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_that_breaks_what_is_asserted_reaches_the_trap(name: str) -> None:
    made = debug_build(cascade_programs.attention, tuple(ATTENTION.items()), None)
    text = replaced(made.ptx, *EDITS[name])
    assert text != made.ptx
    found = _verdict(made, text)
    assert isinstance(found, Refuted) and found.findings[0].code == "MF008", found


def test_a_debug_build_decides_as_any_other() -> None:
    """A tile of few rows and all keys is cut into several kernels, with asserts or without."""
    dims = {"B": 1, "H": 1, "Q": 64, "T": 4096, "E": 64, "F": 64}
    found = [
        compile_kernel(
            cascade_programs.attention,
            target=TARGET,
            dims=dims,
            wanted=Wanted(asserts=each),
            rerun=False,
            assembled=False,
        )
        for each in (False, True)
    ]
    kernels = [tuple(compilation.modules) for compilation in found]
    assert kernels[0] == kernels[1] and len(kernels[0]) > 1


def test_the_build_itself_reaches_none() -> None:
    made = debug_build(cascade_programs.attention, tuple(ATTENTION.items()), None)
    assert isinstance(_verdict(made, made.ptx), Proven)
