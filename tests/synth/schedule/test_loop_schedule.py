"""Does a decided walk carry the schedule of its loop, and do stages follow from it?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.synth.walked_products import parts_of, ring_slots, walk_of

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.schedule.schedule_check import check_schedule
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile.facts import the_program
from tilewright.synth.schedule.loop_schedule import (
    RING,
    SPARE_SLOTS,
    LoopShape,
    loop_body,
    schedule_loop,
    schedule_of,
    slots_wanted,
)
from tilewright.synth.schedule.loop_tasks import task_graph
from tilewright.synth.schedule.schedules import schedule_graph
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

TARGET = target("sm_90a")


def decided(extents: dict[str, int], wanted: Wanted | None = None) -> CascadeDecisions:
    parts = parts_of(extents, wanted=wanted)
    found = walk_of(parts)
    assert decisions_of(the_program(parts[-1].module).attributes["decisions"]) == found
    return found


@pytest.mark.parametrize("method", ["heuristic", "optimal"])
@pytest.mark.parametrize("extents", [(4096, 4096, 4096), (1024, 1024, 512), (16, 4096, 2048)], ids=str)
def test_decisions_carry_a_schedule_that_holds(method: str, extents: tuple[int, int, int]) -> None:
    decisions = decided(dict(zip("MNK", extents, strict=True)), Wanted(schedule=method))  # type: ignore[arg-type]
    found = schedule_of(decisions)
    assert found is not None
    graph, schedule = found
    assert isinstance(check_schedule(graph, schedule), Proven)
    assert schedule.method == method and schedule.slots_of(RING) <= ring_slots(decisions)
    assert graph.trips == -(-extents[2] // (decisions.tile_streamed * decisions.split))
    (line,) = [reason for reason in decisions.reasons if reason.startswith(f"schedule ({method})")]
    assert f"every {schedule.interval_cycles} cycles" in line
    release = schedule.placement(f"release {RING}@consumers").start_cycles
    product = schedule.placement("product@consumers").start_cycles
    assert release >= product + graph.task("product@consumers").stream_cycles
    # The slot is that of the turn before, whose product is done, and the next turn's is not issued before.
    done = product + graph.task("product@consumers").latency_cycles - schedule.interval_cycles
    assert decisions.release_distance == 1 and done <= release <= product + schedule.interval_cycles


def test_a_tile_that_leaves_no_room_for_a_pipeline_is_one_clear_error() -> None:
    with pytest.raises(TilewrightError, match="room for 1 stages") as caught:
        decided({"M": 512, "N": 1000, "K": 512}, Wanted(tile=(128, 256), depth=256))
    assert "smaller tile" in caught.value.remedy


def test_an_unknown_way_to_schedule_is_one_clear_error() -> None:
    with pytest.raises(TilewrightError, match="no way to schedule 'quick'"):
        decided({"M": 512, "N": 512, "K": 512}, Wanted(schedule="quick"))  # type: ignore[arg-type]


def shape(rows: int, columns: int, **fields: object) -> LoopShape:
    plain = LoopShape((rows, columns, 64), (rows, columns), 2, 1, False, 2, 232, 64)
    return replace(plain, **fields)  # type: ignore[arg-type]


def test_more_slots_are_wanted_the_shorter_a_turn_is() -> None:
    wanted = [slots_wanted(shape(128, columns), TARGET) for columns in (256, 128, 64)]
    assert wanted == sorted(wanted) and wanted[0] < wanted[-1]


def test_products_with_an_operand_in_common_and_scaled_ones_are_scheduled() -> None:
    assert slots_wanted(shape(128, 128, products=2), TARGET) <= slots_wanted(shape(128, 128), TARGET)
    assert slots_wanted(shape(128, 128, scaled=True, element_bytes=1, extents=(128, 128, 128)), TARGET) >= 2


def test_few_stages_lengthen_the_interval_and_it_is_said() -> None:
    """With two slots the copies of a turn wait for the products of the one before the last."""
    short = schedule_of(
        decided({"M": 4096, "N": 4096, "K": 4096}, Wanted((128, 256), 2, schedule="optimal", release_distance=1))
    )
    long = schedule_of(decided({"M": 4096, "N": 4096, "K": 4096}, Wanted(tile=(128, 256), stages=4)))
    assert short is not None and long is not None
    assert short[1].interval_cycles > long[1].interval_cycles
    assert short[1].lower_bound_cycles > long[1].interval_cycles and short[1].certificate is not None


def test_decisions_without_a_readable_schedule_are_told() -> None:
    decisions = decided({"M": 512, "N": 512, "K": 512})
    assert schedule_of(replace(decisions, schedule="")) is None
    for text in ("{", "[]", "{}", '{"graph": 1, "schedule": 2}'):
        with pytest.raises(TilewrightError):
            schedule_of(replace(decisions, schedule=text))


def test_a_single_slot_would_stop_for_ever() -> None:
    """Its release follows the products of the next turn, whose copies wait for it: the graph says so by itself."""
    for distance in (1, 2):
        with pytest.raises(TilewrightError, match=r"stop forever.*release ring@consumers"):
            body = loop_body("too few", shape(128, 128), distance, distance)
            schedule_graph(task_graph(body, TARGET, "cooperative"))
        enough = loop_body("enough", shape(128, 128), distance + 1, distance)
        assert schedule_graph(task_graph(enough, TARGET, "cooperative")).slots_of(RING) == distance + 1


def test_a_wait_for_each_product_leaves_one_consumer_s_tensor_cores_idle_and_not_two_s() -> None:
    """The latency of a product is in the turn of a stream by itself, and under the other one's products."""

    def interval(consumers: int, distance: int) -> int:
        found = schedule_loop("x", shape(128, 128, consumers=consumers), 32, (distance,), TARGET)
        assert isinstance(check_schedule(found.graph, found.schedule), Proven)
        return found.schedule.interval_cycles

    assert interval(1, 0) > interval(1, 1) == interval(1, 2)
    assert interval(2, 0) == interval(2, 1)


def test_a_ring_has_the_slots_of_its_schedule_and_some_to_spare_and_no_more() -> None:
    """Where memory holds fewer, what fits; where a wish is for more, what is wished for."""
    thin = decided({"M": 16, "N": 4096, "K": 4096})
    fitting = TARGET.limit("cta.shared_bytes_max") // (thin.smem_bytes // ring_slots(thin))
    loop = LoopShape((64, 16, 128), (64, 16), 2, 1, False, 1, thin.consumer_registers, 32)
    assert (thin.tile_rows, thin.tile_columns, thin.tile_streamed, thin.consumers) == (64, 16, 128, 1)
    assert ring_slots(thin) == slots_wanted(loop, TARGET) + SPARE_SLOTS
    assert ring_slots(thin) < fitting and any("no use for more" in reason for reason in thin.reasons)
    more = decided({"M": 16, "N": 4096, "K": 4096}, Wanted(stages=fitting))
    assert ring_slots(more) == fitting and not any("no use for more" in reason for reason in more.reasons)
    large = decided({"M": 8192, "N": 8192, "K": 8192})
    assert ring_slots(large) < slots_wanted(shape(large.tile_rows, large.tile_columns), TARGET) + SPARE_SLOTS


def test_slots_cover_the_latency_of_memory() -> None:
    """As many as measured: where turns stop growing shorter on an H200 (`python -m bench slots`)."""
    measured = {(128, 256, 2): 4, (128, 192, 2): 4, (128, 128, 2): 5, (128, 64, 2): 6}
    for (rows, columns, consumers), slots in measured.items():
        assert slots_wanted(shape(rows, columns, consumers=consumers), TARGET) == slots


def test_the_cheapest_distance_is_taken_and_one_product_late_where_none_gains() -> None:
    assert schedule_loop("x", shape(128, 256), 4, (0, 1, 2), TARGET).release_distance == 1
    # With two slots, a slot that comes back a product late is late for its copies.
    assert schedule_loop("x", shape(128, 256), 2, (0, 1), TARGET).release_distance == 0
    assert decided({"M": 4096, "N": 4096, "K": 4096}, Wanted(release_distance=2)).release_distance == 2
