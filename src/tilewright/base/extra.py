"""Which optional package does a piece of work need, and which extra of the distribution installs it?

The core of Tilewright installs no solver, no assembler and nothing of CUDA. Whoever needs one of those and does not
find it raises `MissingExtra`: one message that names the package and the command that installs it. pyproject.toml holds
the extras; tests/test_extras.py compares the two.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError

EXTRA_OF = {
    "z3-solver": "solver",
    "egglog": "optimal",
    "nvidia-cuda-nvcc-cu12": "compile",
    "islpy": "optimal",
    "ortools": "optimal",
    "cuda-bindings": "gpu",
    "triton": "triton",
    "pygls": "editor",
    "shtab": "editor",
}
"""The smallest extra that has each optional package, by the name of its distribution."""


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'tilewright[{extra}]'"


class MissingExtra(TilewrightError):
    """A package that is not installed is needed. distribution: its name, a key of `EXTRA_OF`; purpose: what needs it,
    as the beginning of a sentence; otherwise: what else there is to do, in words."""

    def __init__(self, distribution: str, purpose: str, otherwise: str = "") -> None:
        self.distribution = distribution
        remedy = install(EXTRA_OF[distribution])
        super().__init__(
            f"{purpose} needs {distribution}, which is not installed",
            remedy=f"{remedy}, or {otherwise}" if otherwise else remedy,
        )
