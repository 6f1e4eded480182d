"""Is a solver installed, and where is its module?

Every import of a solver goes through `solver`, so that a missing package is one message that names the extra. Whoever
can do without a solver catches `MissingExtra` and returns an undetermined answer that repeats it: what only a solver
could show is never taken as shown. Checked by: tests/solve/test_installed.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from tilewright.base.error import TilewrightError
from tilewright.base.extra import EXTRA_OF, MissingExtra, install

Solver = Literal["z3", "egglog.bindings", "islpy", "ortools.sat.python.cp_model"]
_SOLVERS: dict[Solver, tuple[str, str, str]] = {
    "z3": ("z3-solver", "a question about integers", ""),
    "egglog.bindings": ("egglog", "a search by equality saturation", ""),
    "islpy": ("islpy", "a question about layouts of unknown sizes", ""),
    "ortools.sat.python.cp_model": ("ortools", "the optimum", "use the heuristic"),
}
"""Of each module: its distribution, what needs it, and what else there is to do."""


def solver(module: Solver) -> Any:
    """The module of a solver. Raises MissingExtra where it is not installed, TilewrightError where it does not load."""
    distribution, purpose, otherwise = _SOLVERS[module]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or module).partition(".")[0] == module.partition(".")[0]:
            raise MissingExtra(distribution, purpose, otherwise) from error
        raise _unloadable(distribution, error) from error
    except ImportError as error:
        raise _unloadable(distribution, error) from error


def _unloadable(distribution: str, error: ImportError) -> TilewrightError:
    return TilewrightError(
        f"{distribution} is installed and cannot be loaded: {error}",
        remedy=f"install it again: {install(EXTRA_OF[distribution])} --force-reinstall",
    )
