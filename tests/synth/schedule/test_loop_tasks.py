"""Are a body's tasks those of its target: how many, by whom, at what cost? And is a senseless body refused?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.synth.graphs import attention_body, gated_body, gemm_body

from tilewright.base.error import TilewrightError
from tilewright.ir.loop_body import Carried, Compute, LoadTile, LoopBody, Multiply
from tilewright.synth.schedule.loop_tasks import COPY_ENGINE, SPECIAL_UNITS, TENSOR_CORES, task_graph
from tilewright.targets import target

TARGET = target("sm_90a")


def work(graph_body: LoopBody, resource: str, assignment: str = "ping-pong") -> int:
    graph = task_graph(graph_body, TARGET, assignment)  # type: ignore[arg-type]
    return sum(use.cycles for task in graph.tasks for use in task.uses if use.resource == resource)


def test_work_is_the_same_however_it_is_divided() -> None:
    for body in (gemm_body(), gated_body(), attention_body(), attention_body(192, 128, 64, 3)):
        for resource in (TENSOR_CORES, COPY_ENGINE, SPECIAL_UNITS):
            assert work(body, resource) == work(body, resource, "cooperative")


def test_costs_are_the_target_s() -> None:
    """128 x 256 x 64 multiply-adds at 4096 operations a cycle; 48 KiB at 64 bytes; 128 x 128 exponentials at 16."""
    assert work(gemm_body(), TENSOR_CORES) == 2 * 128 * 256 * 64 // TARGET.limit(
        "product.bf16_flop_per_cycle_per_multiprocessor"
    )
    assert work(gemm_body(), COPY_ENGINE) == (128 + 256) * 64 * 2 // TARGET.limit(
        "device.l2_bytes_per_cycle_per_multiprocessor"
    )
    assert work(attention_body(), SPECIAL_UNITS) == 128 * 128 // 16


def test_eight_bit_products_take_half_the_time() -> None:
    body = gemm_body()
    narrow = replace(
        body,
        operations=tuple(replace(one, element_bytes=1) for one in body.operations if not isinstance(one, Compute)),
    )
    assert 2 * work(narrow, TENSOR_CORES) == work(body, TENSOR_CORES)


def test_registers_are_a_thread_s() -> None:
    graph = task_graph(attention_body(), TARGET)
    assert graph.task("scores@consumer 0").result_registers == 64 * 128 // 128
    assert graph.task("weights@consumer 0").result_registers == 64 * 128 // 128 // 2
    assert graph.task("output@consumer 1").resident_registers == 64 * 128 // 128
    together = task_graph(attention_body(), TARGET, "cooperative")
    assert together.task("scores@consumers").result_registers == 64


def test_work_on_elements_alone_may_go_to_a_helper() -> None:
    graph = task_graph(attention_body(), TARGET, helpers=1)
    movable = {task.name.partition("@")[0] for task in graph.tasks if "helper 0" in task.roles}
    assert movable == {"maxima", "weights", "sums", "rescale"}
    (edge,) = [
        one for one in graph.dependences if (one.source, one.target) == ("scores@consumer 0", "maxima@consumer 0")
    ]
    assert edge.value_bytes == 64 * 128 * 4


LOAD, PRODUCT = LoadTile("a", "ring", 64, 64, 2), Multiply("p", "a", "a", 64, 64, 64, 2)
GOOD = LoopBody("good", (LOAD, PRODUCT), (), 1, 200, 100000, 10)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (replace(GOOD, operations=()), "no operations"),
        (replace(GOOD, operations=(PRODUCT, LOAD)), "reads a, which no earlier"),
        (replace(GOOD, operations=(LOAD, LOAD)), "there twice"),
        (replace(GOOD, operations=(LOAD, replace(PRODUCT, name="a@b"))), "without @"),
        (replace(GOOD, operations=(replace(LOAD, rows=0), PRODUCT)), "below 1"),
        (replace(GOOD, operations=(LOAD, replace(PRODUCT, rows=63)), consumers=2), "cannot share"),
        (replace(GOOD, operations=(LOAD, PRODUCT, Compute("c", ("p",), 64, 64, -1))), "negative cost"),
        (replace(GOOD, carried=(Carried("p", "a"),)), "carried"),
        (replace(GOOD, carried=(Carried("p", "q"),)), "carried"),
        (replace(GOOD, trips=0), "no consumer, iteration"),
        (replace(GOOD, slots_min=3, slots_max=2), "slots"),
        (replace(GOOD, operations=(LOAD, replace(PRODUCT, element_bytes=3))), "3 bytes"),
    ],
    ids=range(12),
)
def test_a_senseless_body_is_one_clear_error(body: LoopBody, words: str) -> None:
    with pytest.raises(TilewrightError, match=words) as caught:
        task_graph(body, TARGET)
    assert caught.value.remedy


def test_a_target_without_costs_is_refused() -> None:
    with pytest.raises(TilewrightError):
        task_graph(GOOD, target("gfx942"))
