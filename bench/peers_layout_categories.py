"""The layout-categories' own tests, with `cutlass.cute` answered by Tilewright."""

from __future__ import annotations

import random
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.peers_layout_answers import PEER_ERRORS, Refused, answer, first_on_path, kind_of, loaded
from tilewright.base.error import TilewrightError
from tilewright.layout import coalesce, complement, compose, logical_divide, logical_product, nested
from tilewright.layout.layout import Layout


class CuteLayout:
    """What CuTe's Python calls a layout, holding one of ours."""

    def __init__(self, layout: Layout) -> None:
        self.ours = layout
        self.shape, self.stride = layout.shape, layout.stride

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CuteLayout) and self.ours == other.ours

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.ours)


_ASKED = frozenset({"coalesce", "complement", "composition", "logical_divide", "logical_product"})


def _counted(operation: Callable[..., object], asked: list[int]) -> Callable[..., object]:
    def answered(*arguments: object, **named: object) -> object:
        asked[0] += 1
        return operation(*arguments, **named)

    return answered


def _cute(asked: list[int]) -> tuple[types.ModuleType, types.ModuleType]:
    """Modules `cutlass` and `cutlass.cute` that offer what the tests use, convert, and count operations in `asked`."""
    cutlass, cute = types.ModuleType("cutlass"), types.ModuleType("cutlass.cute")
    names: dict[str, Callable[..., object]] = {
        "Layout": CuteLayout,
        "jit": lambda function: function,
        "make_layout": lambda shape, stride=None: CuteLayout(Layout(shape, stride)),
        "rank": lambda layout: layout.ours.rank,
        "size": lambda layout: layout.ours.size,
        "flatten_to_tuple": lambda value: nested.flatten(value),
        "coalesce": lambda layout, target_profile=None: CuteLayout(coalesce(layout.ours, target_profile)),
        "complement": lambda layout, size: CuteLayout(answer(complement(layout.ours, size))),
        "composition": lambda left, right: CuteLayout(answer(compose(left.ours, right.ours))),
        "logical_divide": lambda left, right: CuteLayout(answer(logical_divide(left.ours, right.ours))),
        "logical_product": lambda left, right: CuteLayout(answer(logical_product(left.ours, right.ours))),
    }
    for name, value in names.items():
        setattr(cute, name, _counted(value, asked) if name in _ASKED else value)
    for name, value in {"Constexpr": list, "const_expr": bool, "range_constexpr": range, "cute": cute}.items():
        setattr(cutlass, name, value)
    return cutlass, cute


def categories(checkout: Path) -> list[str]:
    """The table of the tests in `tract/tests/morphism_tests.py`, one row each."""
    import pytest

    asked = [0]
    sys.modules["cutlass"], sys.modules["cutlass.cute"] = _cute(asked)
    rows = ["| test | cases | pass | skipped by it | not, because |", "| --- | --- | --- | --- | --- |"]
    total = good = alone = 0
    with first_on_path(checkout / "tract" / "src"):
        module = loaded(checkout / "tract" / "tests" / "morphism_tests.py")
        for group in [value for key, value in vars(module).items() if key.startswith("Test")]:
            for name in [key for key in vars(group) if key.startswith("test_")]:
                test = getattr(group(), name)
                cases = [(place,) for place in module.iterations] if hasattr(test, "pytestmark") else [()]
                before, passed, skipped = asked[0], 0, 0
                reasons: Counter[str] = Counter()
                for case in cases:
                    random.seed(sum(case))
                    try:
                        test(*case)
                        passed += 1
                    except pytest.skip.Exception:
                        skipped += 1
                    except Refused as refusal:
                        reasons[kind_of(str(refusal))] += 1
                    except (*PEER_ERRORS, TilewrightError) as error:
                        reasons[type(error).__name__ + ": " + " ".join(str(error).split())[:120]] += 1
                if asked[0] == before:
                    alone += len(cases)
                    continue
                total, good = total + len(cases) - skipped, good + passed
                why = "; ".join(f"{count}: {reason}" for reason, count in reasons.items()) or "0"
                rows.append(f"| `{name}` | {len(cases)} | {passed} | {skipped} | {why} |")
    return [
        "",
        f"layout-categories' tests: {good} of {total} cases pass with `cutlass.cute` answered by Tilewright; "
        f"{alone} more cases ask no layout operation, and are not counted.",
        "",
        *rows,
    ]
