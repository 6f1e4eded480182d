"""What each engine of legality buys: the same questions with one engine off at a time, and to the solver alone."""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, prod
from pathlib import Path
from typing import Any

from bench.operand_shapes import Operand, dense, operands
from bench.operand_suite import is_legal_as_it_stands
from bench.record import write
from tilewright.base.element import Element
from tilewright.layout.view.strided_view import StridedView
from tilewright.legal.plan import form_memo, operand_plan, repairs
from tilewright.legal.plan.engines import ALL_ENGINES, Engines
from tilewright.legal.plan.field_constraints import field_values, rule_constraints, small, with_values
from tilewright.legal.plan.form_search import may_have_exact_form
from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
from tilewright.legal.plan.reading import Reading
from tilewright.legal.symbolic.symbolic import prove
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.legal.tensor_map.map_limits import map_limits
from tilewright.legal.tensor_map.rule import each, product
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.solve.constraints.fields import Chosen, Constraint, Cost, Engine, choose
from tilewright.targets import target

HOPPER = target("sm_90a")
SETTINGS: tuple[tuple[str, Engines], ...] = (
    ("all engines", ALL_ENGINES),
    ("without the memo", replace(ALL_ENGINES, memo=False)),
    ("without the domain", replace(ALL_ENGINES, domain=False)),
    ("without the e-graph", replace(ALL_ENGINES, egraph=False)),
    ("without the solver", replace(ALL_ENGINES, solver=False)),
    ("without integer sets", replace(ALL_ENGINES, sets=False)),
)
_MARKS = ("<!-- engines: begin -->", "<!-- engines: end -->")
_RANDOM, _INTERLEAVED, _HARD = 60, 40, 40
_HARD_FILE = Path(__file__).parent / "hard_views.json"


@dataclass(frozen=True)
class Outcome:
    """Of one question: whether a map was found that reads the tensor in place, or any; and what the best one costs."""

    seconds: float
    in_place: bool
    by_map: bool
    extra_copies: int = 0
    padded_bytes: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")
    parser.add_argument("--page", type=Path, default=Path("docs/engines.md"), help="page whose table is written anew")
    parser.add_argument("--find-hard-views", action="store_true", help="look for the hard views anew first")
    parser.add_argument("--turns", type=int, default=3, help="times that every question is asked (default 3)")
    parser.add_argument("--solver-questions", type=int, default=60, help="asked of the solver alone (default 60)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.find_hard_views:
        find_hard_views(_HARD)
    suites: dict[str, Callable[[Engines], list[Outcome]]] = {
        "real operands": lambda engines: [_operand(each, engines) for each in operands()],
        "random views": lambda engines: [_operand(each, engines) for each in random_views(_RANDOM)],
        "hard views": lambda engines: [_operand(each, engines) for each in hard_views()],
        "interleaved and padded maps": lambda engines: [_map(each, engines) for each in other_maps(_INTERLEAVED)],
    }
    rows: list[dict[str, object]] = []
    for suite, ask in suites.items():
        ask(ALL_ENGINES)  # what is imported or built once is no question's time
        rows += _timed(suite, ask, arguments.turns)
    rows += _against_the_solver(arguments.solver_questions)
    rows += _symbolic()
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if arguments.page.exists():
        write_table(arguments.page, rows)
    print(f"written to {write('engines', rows, arguments.results)}")
    return 0


def _timed(suite: str, ask: Callable[[Engines], list[Outcome]], turns: int) -> list[dict[str, object]]:
    """A row for each setting; the times of a question are the medians of `turns`, taken in turn."""
    answers: dict[str, list[list[Outcome]]] = {}
    for _ in range(turns):
        for name, engines in SETTINGS:
            with _empty_memo():
                answers.setdefault(name, []).append(ask(engines))
                if name == "all engines":
                    answers.setdefault("asked again", []).append(ask(engines))
                    for module in (operand_plan, repairs, form_memo):
                        module.forget()
                    answers.setdefault("asked again, by another process", []).append(ask(engines))
    return [_row(suite, name, _median(turns_of)) for name, turns_of in answers.items()]


def _median(turns: list[list[Outcome]]) -> list[Outcome]:
    return [
        replace(same[0], seconds=statistics.median(outcome.seconds for outcome in same))
        for same in zip(*turns, strict=True)
    ]


@contextmanager
def _empty_memo() -> Generator[None]:
    """Nothing remembered, neither in this process nor on disk."""
    before = os.environ.get("TILEWRIGHT_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = folder
        gc.collect()
        gc.disable()
        for module in (operand_plan, repairs, form_memo):
            module.forget()
        try:
            yield
        finally:
            gc.enable()
            for module in (operand_plan, repairs, form_memo):
                module.forget()
            if before is None:
                del os.environ["TILEWRIGHT_CACHE"]
            else:
                os.environ["TILEWRIGHT_CACHE"] = before


def random_view(generator: random.Random, low: int, high: int) -> tuple[StridedView, tuple[int, ...]]:
    """A dense array of `low` to `high` dimensions seen in some order, and a tile that takes some of them whole."""
    rank = generator.randint(low, high)
    array = dense(tuple(generator.choice((2, 2, 3, 4, 5, 8, 16)) for _ in range(rank)), Element.BF16)
    view = array.permute(tuple(generator.sample(range(rank), rank)))
    tile = tuple(generator.choice((extent, extent, 1, max(1, extent // 2))) for extent in view.extents)
    return view, tile


def random_views(count: int) -> list[Operand]:
    """Views of six to nine dimensions. Seeded."""
    generator = random.Random(4)
    found: list[Operand] = []
    while len(found) < count:
        view, tile = random_view(generator, 6, 9)
        if 32 <= prod(tile) <= 16384:
            found.append(Operand(f"random {len(found)}", "random", "", "", Element.BF16, view, tile, None))
    return found


def hard_views(file: Path = _HARD_FILE) -> list[Operand]:
    """Views for which no short chain of moves brings a tile exactly and at once, and a map may: `find_hard_views`."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return [
        Operand(f"hard {at}", "hard", "", "", Element.BF16, StridedView(tuple(extents), tuple(strides), 0, 2),
                tuple(tile), None)
        for at, (extents, strides, tile) in enumerate(content)
    ]  # fmt: skip


def find_hard_views(count: int, file: Path = _HARD_FILE) -> None:
    """Look for such views among random ones, which takes minutes, and write them down."""
    generator = random.Random(6)
    limits = map_limits(HOPPER)
    engines = replace(ALL_ENGINES, memo=False, egraph=False)
    found: list[object] = []
    while len(found) < count:
        view, tile = random_view(generator, 5, 9)
        steps = tuple(0 if size >= extent else size for size, extent in zip(tile, view.extents, strict=True))
        ones = (1,) * view.rank
        reading = Reading(2, view.extents, view.strides_bytes, tile, ones, steps, view.offset_bytes)
        if not 32 <= prod(tile) <= 16384 or not may_have_exact_form(reading, limits):
            continue
        plans = plan_operand(view, tile, Element.BF16, engines=engines, target="sm_90a")
        costs = [plan.cost for plan in plans if plan.map is not None and plan.kind != "copy"]
        if not any(cost.extra_copies == cost.overfetched_bytes == 0 for cost in costs):
            found.append([view.extents, view.strides_bytes, tile])
    file.write_text("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]\n", encoding="utf-8")


def other_maps(count: int) -> list[tuple[TensorMap, str]]:
    """Interleaved maps and padded packed ones, most of them illegal. Seeded."""
    generator = random.Random(5)
    found: list[tuple[TensorMap, str]] = []
    for at in range(count):
        rows = generator.randint(1, 300)
        stride = generator.choice((32, 48, 100, 104, 200, 224))
        if at % 2:
            map = TensorMap(
                "bf16", (8, 64, 64), (stride, stride * 64), (8, rows, 2), interleave=generator.choice(("16B", "32B"))
            )
            found.append((map, "sm_90a"))
        else:
            packed = generator.choice(("u4x16_align16", "u6x16_align16"))
            swizzle = generator.choice(("none", "32B", "128B"))
            map = TensorMap(packed, (generator.choice((128, 200, 256)), 64), (stride,), (128, rows), swizzle=swizzle)
            found.append((map, "sm_100a"))
    return found


def _operand(operand: Operand, engines: Engines) -> Outcome:
    begin = time.process_time()
    plans = plan_operand(
        operand.view, operand.tile, operand.element, operand.consumer, engines=engines, target="sm_90a"
    )
    seconds = time.process_time() - begin
    return _outcome(seconds, plans)


def _outcome(seconds: float, plans: Sequence[OperandPlan]) -> Outcome:
    mapped = next((plan for plan in plans if plan.map is not None), None)
    if mapped is None:
        return Outcome(seconds, False, False)
    in_place = any(plan.map is not None and plan.kind != "copy" for plan in plans)
    return Outcome(seconds, in_place, True, mapped.cost.extra_copies, mapped.cost.padded_bytes)


def _map(question: tuple[TensorMap, str], engines: Engines) -> Outcome:
    begin = time.process_time()
    found = repairs.repair(question[0], target=question[1], engines=engines)
    seconds = time.process_time() - begin
    mapped = next((repair for repair in found if repair.map is not None), None)
    if mapped is None:
        return Outcome(seconds, False, False)
    return Outcome(seconds, mapped.kind != "copy", True, mapped.cost.extra_copies, mapped.cost.padded_bytes)


def _row(suite: str, name: str, outcomes: list[Outcome]) -> dict[str, object]:
    times = [outcome.seconds * 1e3 for outcome in outcomes]
    return {
        "suite": suite,
        "engines": name,
        "questions": len(outcomes),
        "in_place": sum(outcome.in_place for outcome in outcomes),
        "by_map": sum(outcome.by_map for outcome in outcomes),
        "extra_copies": sum(outcome.extra_copies for outcome in outcomes),
        "padded_bytes": sum(outcome.padded_bytes for outcome in outcomes),
        "median_ms": round(statistics.median(times), 4),
        "worst_ms": round(max(times), 3),
        "total_ms": round(sum(times), 1),
    }


def stated_to_the_solver(count: int) -> list[tuple[Operand, TensorMap]]:
    """Operands whose map is illegal and whose question the solver can state: a map of the same dimensions, its strides
    and its beginning padded least, its box the largest within the tile."""
    found: list[tuple[Operand, TensorMap]] = []
    for operand in operands():
        view = operand.view
        if view.strides_bytes[0] != view.element_bytes or view.rank > 5 or is_legal_as_it_stands(operand):
            continue
        dense_order = all(
            outer >= inner * extent
            for inner, outer, extent in zip(view.strides_bytes, view.strides_bytes[1:], view.extents, strict=False)
        )
        if dense_order and operand.tile[0] * view.element_bytes % 16 == 0:
            map = TensorMap(operand.element.value, view.extents, view.strides_bytes[1:], operand.tile,
                            swizzle="none", address=view.offset_bytes)  # fmt: skip
            found.append((operand, map))
    step = max(1, len(found) // count)
    return found[::step][:count]


def _against_the_solver(count: int) -> list[dict[str, object]]:
    """The same nearest-map question: answered by `repair`, by z3 alone, and by the pruned search over fields alone."""
    asked = stated_to_the_solver(count)
    rows: list[dict[str, object]] = []
    ours = [_nearest_by_repair(map) for _, map in asked]
    rows.append(_row("nearest map", "all engines", ours))
    engines: tuple[tuple[str, Engine], ...] = (("z3 alone", "z3"), ("search over fields alone", "search"))
    for name, engine in engines:
        outcomes = [_nearest_by_solver(map, engine) for _, map in asked]
        row = _row("nearest map", name, outcomes)
        pairs = list(zip(ours, outcomes, strict=True))
        as_good = [(our, theirs) for our, theirs in pairs if theirs.by_map and _quality(theirs) == _quality(our)]
        row["better_than_ours"] = sum(theirs.by_map and _quality(theirs) < _quality(our) for our, theirs in pairs)
        row["as_good_as_ours"] = len(as_good)
        row["times_ours"] = round(statistics.median(theirs.seconds / our.seconds for our, theirs in as_good), 1)
        rows.append(row)
    return rows


def _quality(outcome: Outcome) -> tuple[int, int]:
    return outcome.padded_bytes, outcome.extra_copies


def _nearest_by_repair(map: TensorMap) -> Outcome:
    engines = replace(ALL_ENGINES, memo=False)
    repairs.repair(map, engines=engines, target="sm_90a")
    begin = time.process_time()
    found = repairs.repair(map, engines=engines, target="sm_90a")
    seconds = time.process_time() - begin
    padded = [each for each in found if each.kind in ("pad", "legal", "box", "swizzle", "split")]
    best = min(padded, key=lambda each: (each.cost.padded_bytes, each.cost.extra_copies), default=None)
    if best is None:
        return Outcome(seconds, False, False)
    return Outcome(seconds, True, True, best.cost.extra_copies, best.cost.padded_bytes)


def _nearest_by_solver(map: TensorMap, engine: Engine) -> Outcome:
    values = field_values(map)
    free: dict[str, Sequence[int]] = {"address": range(map.address, map.address + 16)}
    wants: list[Constraint] = []
    for at, stride in enumerate(map.strides):
        free[f"strides[{at}]"] = range(stride, stride + stride // 4 + 64)
        if at:
            extent = map.dims[at]
            names = (f"strides[{at - 1}]", f"strides[{at}]")
            wants.append(Constraint(f"apart[{at}]", names, _apart(extent)))
    for at, extent in enumerate(map.box):
        free[f"box[{at}]"] = range(1, extent + 1)
    costs = [small(name) for name in free if name.startswith("strides")] + [_largest_box(map)]
    begin = time.process_time()
    baked = tuple((name, values[name]) for name in ("interleave", "swizzle", "l2_promotion", "oob_fill"))
    rules = rule_constraints(HOPPER, None, map.rank, values["dtype"], baked)
    fields = {name: free.get(name, (value,)) for name, value in values.items()}
    answer = choose(fields, (*rules, *wants), costs, engine=engine)
    seconds = time.process_time() - begin
    if not isinstance(answer, Chosen):
        return Outcome(seconds, False, False)
    new = with_values(map, {name: answer.values[name] for name in free})
    copies = prod(ceil(whole / part) for whole, part in zip(map.box, new.box, strict=True))
    span = sum((extent - 1) * stride for extent, stride in zip(new.dims[1:], new.strides, strict=True))
    before = sum((extent - 1) * stride for extent, stride in zip(map.dims[1:], map.strides, strict=True))
    return Outcome(seconds, True, True, copies - 1, span - before)


def _largest_box(map: TensorMap) -> Cost:
    """The cost that prefers the most bytes in a box."""
    element = map.data_type
    assert element is not None, "a map that is asked about has elements"

    def value(*box: Any) -> Any:
        return -(product(box) * element.shared_bits // 8)

    fields = tuple(f"box[{at}]" for at in range(map.rank))
    return Cost("box bytes", fields, value, -HOPPER.limit("tensor_map.box_footprint_bytes_max"))


def _apart(extent: int) -> Callable[[Any, Any], Any]:
    def holds(inner: Any, outer: Any) -> Any:
        return outer >= inner * extent

    return holds


def _dense_rows(extent: Any, stride: Any) -> Any:
    return stride == 2 * extent


def symbolic_maps() -> list[tuple[SymbolicMap, Dim, Dim, tuple[int, int]]]:
    """Maps of matrices, columns, rows and box, whose sizes are known by bounds and divisors: legal for all of them, for
    none, and in between."""
    found: list[tuple[SymbolicMap, Dim, Dim, tuple[int, int]]] = []
    for multiple in (1, 2, 4, 8, 16, 64):
        for high in (4096, 1 << 31, 1 << 40):
            for box in ((64, 128), (64, 300), (12, 64)):
                columns, rows = Dim("K", 1, high, multiple), Dim("M", 1, 1 << 20)
                map = SymbolicMap("bf16", (columns, rows), (2 * columns,), box, swizzle="128B")
                found.append((map, columns, rows, box))
    return found


def _symbolic() -> list[dict[str, object]]:
    """Is the map legal for all sizes? By the domain, and by the solver looking for sizes that break a rule."""
    rows: list[dict[str, object]] = []
    by_domain: list[tuple[str, float]] = []
    prove(symbolic_maps()[0][0], "sm_90a")
    for map, *_ in symbolic_maps():
        begin = time.process_time()
        answer = prove(map, "sm_90a").answer
        by_domain.append((answer, time.process_time() - begin))
    by_solver = [_breakable(columns, rows, box) for _, columns, rows, box in symbolic_maps()]
    agreed = sum(
        (ours == "legal") == (theirs is False) for (ours, _), (theirs, _) in zip(by_domain, by_solver, strict=True)
    )
    for name, times in (
        ("domain", [seconds for _, seconds in by_domain]),
        ("z3 alone", [seconds for _, seconds in by_solver]),
    ):
        rows.append(
            {
                "suite": "symbolic sizes",
                "engines": name,
                "questions": len(times),
                "legal_for_all": sum(answer == "legal" for answer, _ in by_domain)
                if name == "domain"
                else sum(answer is False for answer, _ in by_solver),
                "agreed": agreed,
                "median_ms": round(statistics.median(times) * 1e3, 4),
                "worst_ms": round(max(times) * 1e3, 3),
                "total_ms": round(sum(times) * 1e3, 1),
            }
        )
    return rows


def _breakable(columns: Dim, rows: Dim, box: tuple[int, int]) -> tuple[bool | None, float]:
    """Whether some sizes break a rule; None where the solver's limit came first."""
    concrete = TensorMap("bf16", (1, 1), (2,), box, swizzle="128B")
    values = field_values(concrete)
    baked = tuple((name, value) for name, value in values.items() if name in ("interleave", "swizzle", "oob_fill"))
    rules = rule_constraints(HOPPER, None, 2, values["dtype"], baked)
    fields: dict[str, Sequence[int]] = {name: (value,) for name, value in values.items()}
    fields["dims[0]"] = range(columns.multiple_of, (columns.high or 0) + 1, columns.multiple_of)
    fields["dims[1]"] = range(1, (rows.high or 0) + 1)
    fields["strides[0]"] = range(2 * columns.multiple_of, 2 * (columns.high or 0) + 1, 2 * columns.multiple_of)
    names = tuple(sorted({name for rule in rules for name in rule.fields}))

    def broken(*given: Any) -> Any:
        known = dict(zip(names, given, strict=True))
        kept = each(rule.holds(*(known[name] for name in rule.fields)) for rule in rules)
        return not kept if isinstance(kept, bool) else ~kept

    wants = (
        Constraint("row stride", ("dims[0]", "strides[0]"), _dense_rows),
        Constraint("some rule is broken", names, broken),
    )
    begin = time.process_time()
    answer = choose(fields, wants, (), engine="z3")
    seconds = time.process_time() - begin
    return {"Chosen": True, "Infeasible": False}.get(type(answer).__name__), seconds


def write_table(page: Path, rows: list[dict[str, object]]) -> None:
    """Put the table between the page's marks; a page without them is left as it is."""
    text = page.read_text(encoding="utf-8")
    if all(mark in text for mark in _MARKS):
        before, rest = text.split(_MARKS[0], 1)
        after = rest.split(_MARKS[1], 1)[1]
        page.write_text(f"{before}{_MARKS[0]}\n{table(rows)}\n{_MARKS[1]}{after}", encoding="utf-8")


def table(rows: list[dict[str, object]]) -> str:
    """The rows as Markdown."""
    columns = ("suite", "engines", "questions", "in_place", "by_map", "extra_copies", "padded_bytes", "median_ms",
               "worst_ms", "total_ms")  # fmt: skip
    titles = ("questions about", "engines", "asked", "in place", "by a map", "more copies", "bytes padded",
              "median, ms", "worst, ms", "all, ms")  # fmt: skip
    lines = [" | ".join(("", *titles, "")).strip(), "|".join(("", *("---" for _ in titles), ""))]
    lines += [" | ".join(("", *(str(row.get(column, "")) for column in columns), "")).strip() for row in rows]
    return "\n".join(lines)
