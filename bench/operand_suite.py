"""Real operands and the share of them that the copy engine can fetch: as they are, by other maps, by a padded copy."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.operand_shapes import Operand, operands
from bench.record import write
from tilewright.legal.plan.engines import ALL_ENGINES, Engines
from tilewright.legal.plan.operand_plan import OperandPlan, plan_operand
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap

TARGET = "sm_90a"
_UNREMEMBERED = replace(ALL_ENGINES, memo=False)


@dataclass(frozen=True)
class Answer:
    """One operand's plans. legal: the map of the view as it stands; plans: the cheapest first; seconds: of the
    processor for them, since machines that others use too stretch any other clock."""

    operand: Operand
    legal: bool
    plans: list[OperandPlan]
    seconds: float

    @property
    def in_place(self) -> OperandPlan | None:
        """The cheapest plan by tensor maps of the array as it stands."""
        return next((plan for plan in self.plans if plan.map is not None and plan.kind != "copy"), None)

    @property
    def mapped(self) -> OperandPlan | None:
        """The cheapest plan by tensor maps, of a copy if it must be."""
        return next((plan for plan in self.plans if plan.map is not None), None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=3, help="timed turns; the median counts (default 3)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    answers = answered(operands(), turns=arguments.turns)
    rows = [_row(group, members) for group, members in _groups(answers)]
    rows.append(_row("all", answers))
    print(f"{'class':>24} {'count':>6} {'legal':>6} {'in place':>9} {'by map':>7} {'padding':>12}    median     worst")
    for row in rows:
        print(
            f"{row['group']:>24} {row['count']:>6} {row['legal']:>6} {row['in_place']:>9} {row['by_map']:>7} "
            f"{row['padded_bytes']:>12} {row['median_ms']:>6} ms {row['worst_ms']:>6} ms"
        )
    print(f"written to {write('operands', rows, arguments.results)}")
    return 0


def answered(suite: Iterable[Operand], *, turns: int = 1, engines: Engines = _UNREMEMBERED) -> list[Answer]:
    """The plans of every operand, each timed `turns` times."""
    found: list[Answer] = []
    for operand in suite:
        seconds: list[float] = []
        plans: list[OperandPlan] = []
        for _ in range(turns):
            begin = time.process_time()
            plans = plan_operand(
                operand.view, operand.tile, operand.element, operand.consumer, target=TARGET, engines=engines
            )
            seconds.append(time.process_time() - begin)
        found.append(Answer(operand, is_legal_as_it_stands(operand), plans, statistics.median(seconds)))
    return found


def is_legal_as_it_stands(operand: Operand) -> bool:
    """Whether a map of the view, its tile as the box, is legal and may begin where tiles begin."""
    view = operand.view
    if view.strides_bytes[0] != view.element_bytes:
        return False
    row_bytes = operand.tile[0] * view.element_bytes
    swizzle = next((name for name, span in (("32B", 32), ("64B", 64), ("128B", 128)) if row_bytes == span), "none")
    map = TensorMap(
        operand.element.value,
        view.extents,
        view.strides_bytes[1:],
        operand.tile,
        swizzle=swizzle,
        address=view.offset_bytes,
    )
    aligned = row_bytes % 16 == 0 or operand.tile[0] >= view.extents[0]
    return aligned and check(map, TARGET).legal


def _groups(answers: list[Answer]) -> list[tuple[str, list[Answer]]]:
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.operand.group, []).append(answer)
    return list(groups.items())


def _row(group: str, answers: list[Answer]) -> dict[str, object]:
    times = [answer.seconds * 1e3 for answer in answers]
    return {
        "group": group,
        "count": len(answers),
        "legal": sum(answer.legal for answer in answers),
        "in_place": sum(answer.in_place is not None for answer in answers),
        "by_map": sum(answer.mapped is not None for answer in answers),
        "padded_bytes": sum(answer.mapped.cost.padded_bytes for answer in answers if answer.mapped is not None),
        "copied_bytes": sum(answer.mapped.cost.copied_bytes for answer in answers if answer.mapped is not None),
        "median_ms": round(statistics.median(times), 3),
        "worst_ms": round(max(times), 3),
    }
