"""Do the heuristic and the optimum give schedules that the independent checker proves, and how do they compare?"""

from __future__ import annotations

import random
import re
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.synth.graphs import attention_body, gated_body, gemm_body, random_graph

from tilewright.base.error import TilewrightError, Undecided
from tilewright.base.extra import MissingExtra
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.ir.loop_body import LoopBody
from tilewright.ir.schedule import (
    Method,
    channels,
    price_cycles,
    registers_of_roles,
    schedule_from_json,
    schedule_text,
    schedule_to_json,
)
from tilewright.ir.task_graph import Dependence, graph_from_json, graph_text, graph_to_json
from tilewright.synth.schedule.loop_tasks import TENSOR_CORES, task_graph
from tilewright.synth.schedule.schedules import lower_bounds, schedule_graph
from tilewright.targets import target

TARGET = target("sm_90a")
METHODS: tuple[Method, ...] = ("heuristic", "optimal")


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [seed for seed in range(24) if seed != 15])
def test_random_graphs(seed: int) -> None:
    """Every schedule is proven; the heuristic is never better than the optimum, and not far behind it."""
    graph = random_graph(seed)
    try:
        best = schedule_graph(graph, "optimal")
    except TilewrightError:
        with pytest.raises(TilewrightError, match="no schedule"):
            schedule_graph(graph)
        return
    quick = best
    with suppress(TilewrightError):  # the heuristic may find none
        quick = schedule_graph(graph)
    assert isinstance(check_schedule(graph, quick), Proven), check_schedule(graph, quick)
    assert isinstance(check_schedule(graph, best), Proven), check_schedule(graph, best)
    assert best.certificate is not None and best.certificate.bound_cycles == best.interval_cycles
    assert best.lower_bound_cycles <= best.interval_cycles <= quick.interval_cycles <= 2 * best.interval_cycles


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "body",
    [gemm_body(), gemm_body(128, 128), gemm_body(64, 64, 64, 1), gated_body()],
    ids=["wide", "square", "small", "gated"],
)
def test_products_keep_the_tensor_cores_or_the_copy_engine_busy(body: LoopBody) -> None:
    graph = task_graph(body, TARGET)
    quick, best = schedule_graph(graph), schedule_graph(graph, "optimal")
    for schedule in (quick, best):
        assert isinstance(check_schedule(graph, schedule), Proven)
        assert schedule.certificate is not None and schedule.certificate.kind == "unit"
        assert schedule.interval_cycles == lower_bounds(graph)[0].bound_cycles


def test_a_slot_is_released_one_product_late() -> None:
    """The product of the next turn is issued before this one's slot is released, else the tensor cores would idle."""
    graph = task_graph(gemm_body(), TARGET, "cooperative")
    for method in METHODS:
        schedule = schedule_graph(graph, method)
        product, release = (schedule.placement(f"{name}@consumers").start_cycles for name in ("product", "release ab"))
        assert (release - product) // schedule.interval_cycles == 1


def test_attention_alternates_between_its_warpgroups() -> None:
    """The optimum keeps the tensor cores busy all the time, with a certificate: one warpgroup's softmax runs under the
    other's products."""
    graph = task_graph(attention_body(), TARGET)
    best = schedule_graph(graph, "optimal")
    assert isinstance(check_schedule(graph, best), Proven)
    assert best.certificate is not None and best.certificate.names == (TENSOR_CORES,)
    assert best.interval_cycles == 4 * 512
    starts = {best.placement(f"scores@consumer {number}").start_cycles % best.interval_cycles for number in (0, 1)}
    assert len(starts) == 2
    quick = schedule_graph(graph)
    assert isinstance(check_schedule(graph, quick), Proven)
    assert best.interval_cycles <= quick.interval_cycles <= 1.2 * best.interval_cycles
    assert channels(graph, best) == ()


def test_together_the_warpgroups_leave_the_tensor_cores_idle() -> None:
    """Cooperative, softmax runs under no product but those of the same warpgroups' next turn."""
    alone = schedule_graph(task_graph(attention_body(), TARGET, "cooperative"))
    assert isinstance(check_schedule(task_graph(attention_body(), TARGET, "cooperative"), alone), Proven)
    assert alone.interval_cycles > 4 * 512


def test_registers_of_attention_are_counted() -> None:
    graph = task_graph(attention_body(), TARGET)
    held = registers_of_roles(graph, schedule_graph(graph))
    assert 64 + 64 + 32 <= held["consumer 0"] <= 216 and held["producer"] == 0


def test_a_helper_is_not_used_where_its_channel_costs_more() -> None:
    graph = task_graph(attention_body(), TARGET, helpers=1)
    quick = schedule_graph(graph)
    assert isinstance(check_schedule(graph, quick), Proven)
    assert price_cycles(graph, quick) == quick.price_cycles


def test_what_waits_for_itself_is_said_with_its_cycle() -> None:
    graph = task_graph(gemm_body(), TARGET)
    looped = replace(graph, dependences=(*graph.dependences, Dependence("release ab@consumer 0", "a")))
    assert schedule_graph(graph)
    with pytest.raises(TilewrightError, match=r"stop forever.*release ab@consumer 0") as raised:
        schedule_graph(looped)
    assert re.search(r"\ba\b", str(raised.value).partition("stop forever")[2])


def test_too_little_memory_or_registers_is_one_clear_error() -> None:
    graph = task_graph(gemm_body(), TARGET)
    with pytest.raises(TilewrightError, match="bytes at the least"):
        schedule_graph(replace(graph, shared_bytes=1000))
    with pytest.raises(TilewrightError, match="no schedule"):
        schedule_graph(task_graph(replace(gemm_body(), consumer_registers=100), TARGET))


def test_without_the_solver_the_heuristic_works_and_the_optimum_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    monkeypatch.delitem(sys.modules, "tilewright.solve.scheduling.modulo", raising=False)
    graph = task_graph(gemm_body(), TARGET)
    assert schedule_graph(graph).interval_cycles == 1024
    with pytest.raises(MissingExtra, match="not installed") as caught:
        schedule_graph(graph, "optimal")
    assert "pip install 'tilewright[optimal]'" in caught.value.remedy


def test_an_optimum_not_found_in_time_is_undecided() -> None:
    graph = task_graph(attention_body(consumers=1, rows=64), TARGET)
    with pytest.raises(Undecided, match="cycles"):
        schedule_graph(graph, "optimal", seconds=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_text_and_json_hold_the_whole_value(method: Method) -> None:
    graph = random_graph(3)
    schedule = schedule_graph(graph, method)
    assert graph_from_json(graph_to_json(graph)) == graph
    assert schedule_from_json(schedule_to_json(schedule)) == schedule
    shown, drawn = schedule_text(graph, schedule), graph_text(graph)
    for task in graph.tasks:
        assert task.name in shown and task.name in drawn
    for broken in ({}, [], {"tasks": 3}, {**graph_to_json(graph), "trips": 0}):
        with pytest.raises(TilewrightError):
            graph_from_json(broken)
    with pytest.raises(TilewrightError):
        schedule_from_json({"certificate": 3})


def damaged(value: Any, dice: random.Random) -> Any:
    """The same JSON with one leaf, key or entry changed, dropped or added."""
    match value:
        case dict() if value:
            entries = dict(cast("dict[str, Any]", value))
            key = dice.choice(sorted(entries))
            match dice.randrange(4):
                case 0:
                    del entries[key]
                case 1:
                    entries[f"{key}s"] = entries[key]
                case _:
                    entries[key] = damaged(entries[key], dice)
            return entries
        case list() if value:
            items = list(cast("list[Any]", value))
            place = dice.randrange(len(items))
            if dice.randrange(4):
                items[place] = damaged(items[place], dice)
            else:
                del items[place]
            return items
        case _:
            return dice.choice([None, "x", -1, 0, 3.5, [], {}, [1], {"a": 1}, 1 << 70, True])


@pytest.mark.parametrize("seed", range(200))
def test_damaged_json_is_refused_or_judged(seed: int) -> None:
    """Never an error of the compiler's own: either it is no graph or no schedule, or the checker has its verdict."""
    dice = random.Random(seed)
    graph = task_graph(gemm_body(128, 128), TARGET, "cooperative")
    texts = [graph_to_json(graph), schedule_to_json(schedule_graph(graph))]
    place = seed % 2
    texts[place] = damaged(texts[place], dice)
    with suppress(TilewrightError):
        read_graph, read_schedule = graph_from_json(texts[0]), schedule_from_json(texts[1])
        assert isinstance(check_schedule(read_graph, read_schedule), Proven | Refuted | Unknown)
