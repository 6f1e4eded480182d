"""Programs of families that nobody wrote, on either target: each number within its bound, or a refusal at a line."""

from pathlib import Path

import pytest
from tests.end_to_end.drawn_attention import drawn_attention
from tests.end_to_end.drawn_products import drawn_products
from tests.end_to_end.drawn_rows import drawn_rows
from tests.end_to_end.drawn_same import drawn_same
from tests.end_to_end.held_to_bounds import judged, kernel_of

_FAMILIES = {
    "attention": drawn_attention,
    "rows": drawn_rows,
    "products": drawn_products,
    "same": drawn_same,
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("family", _FAMILIES)
def test_a_drawn_program_is_within_its_bounds(family: str, seed: int, target: str, tmp_path: Path) -> None:
    program = _FAMILIES[family](seed)
    kernel = kernel_of(program, tmp_path, f"{family}_{seed}")
    found = judged(program, kernel, target, seed, assembled=False)
    assert not found.wrong, found.wrong
    if found.refusal is not None:
        refusal = found.refusal
        assert refusal.span is not None and refusal.span.file == kernel.file and refusal.remedy, refusal
        assert "fault of the compiler" not in refusal.remedy, refusal


def test_most_results_are_held_to_a_bound(tmp_path: Path) -> None:
    """A bound that is infinite everywhere checks nothing."""
    shares = []
    for seed in range(4):
        program = drawn_same(seed)
        shares.append(
            judged(program, kernel_of(program, tmp_path, f"open_{seed}"), "sm_90a", seed, assembled=False).open
        )
    assert max(shares) < 0.1, shares
