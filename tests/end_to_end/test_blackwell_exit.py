"""Does a CTA of each kind of kernel for sm_100a wait for all that it started? Nothing is for review at its end.

The second proof takes a commit or a copy that is left for an error (`left_at_exit`), so that each kernel is handed out
without one; here the tolerant check of the text, as users ask for it, must have nothing to say either.
"""

from collections.abc import Mapping

import pytest
from tests.end_to_end.blackwell_programs import TARGET, of_matrices, with_epilogue
from tests.lower import cascade_programs, row_programs

from tilewright.driver.check.check import check_text
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted

_ISSUED, _OWN, _PAIR = Wanted(issuer=True), Wanted(issuer=False), Wanted(tile=(128, 128))
KINDS: dict[str, tuple[Kernel, Mapping[str, int], Wanted, str]] = {
    "sums in slots": (of_matrices, {"B": 2, "M": 66, "N": 40, "K": 72}, Wanted(), "role issuer"),
    "a pair": (with_epilogue, {"M": 130, "N": 136, "K": 136}, _PAIR, "cta_group::2"),
    "computed on the way": (
        cascade_programs.rms_norm_matmul, {"M": 70, "K": 136, "N": 40}, Wanted(), "tcgen05.mma",
    ),
    "attention, issued ahead": (
        cascade_programs.attention, {"B": 1, "H": 2, "Q": 70, "T": 136, "E": 64, "F": 64}, _ISSUED, "role issuer",
    ),
    "attention, issued by consumers": (
        cascade_programs.attention, {"B": 1, "H": 2, "Q": 70, "T": 136, "E": 64, "F": 64}, _OWN, "tcgen05.st",
    ),
    "two layers, issued ahead": (cascade_programs.mlp, cascade_programs.dims_of("mlp", 70, 136), _ISSUED, "issuer"),
    "gradients, issued ahead": (
        cascade_programs.two_gradients, {"M": 100, "E": 64, "T": 136, "F": 32}, _ISSUED, "role issuer",
    ),
    "rows of several products": (
        cascade_programs.matmul_softmax, {"M": 100, "K": 72, "N": 40}, Wanted(), "tcgen05.mma",
    ),
    "rows that wait in shared memory": (row_programs.softmax, {"M": 5, "N": 40000}, Wanted(row_kept=True), "cp.async"),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_at_exit(kind: str) -> None:
    kernel, dims, wanted, shown = KINDS[kind]
    made = compile_kernel(kernel, target=TARGET, dims=dims, wanted=wanted, assembled=False)
    assert made.text_proof is not None and shown in made.ptx
    for each in check_text(made.ptx).kernels:
        assert not {"TC119", "BG104"} & {finding.code for finding in each.findings}, each.findings
        assert each.verdict == "proven", each
