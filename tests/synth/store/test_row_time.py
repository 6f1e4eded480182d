"""The model of rows: what fits a multiprocessor, and which form it holds for quicker."""

import math
from dataclasses import replace

from tilewright.synth.store.row_time import RowForm, RowWork, resident_ctas, row_cycles, times_of
from tilewright.targets import target

HOPPER = target("sm_90a")
TIMES = times_of(HOPPER)
SOFTMAX = RowWork(rows=4096, length=32768, read_bytes=2, stored_bytes=2, walks=3, meetings=2)


def form(threads=512, ctas=1, registers=40, shared_bytes=1024, readings=1, units=1) -> RowForm:
    return RowForm(threads, units, ctas, registers, shared_bytes, readings)


def test_ctas_of_a_multiprocessor():
    """CUDA's occupancy calculator gives the same: 64 Ki registers in units of 256 for a warp, 2048 threads, 32 CTAs,
    228 KiB of shared memory, of which each CTA takes 1 KiB more."""
    assert resident_ctas(form(threads=512, registers=32), HOPPER) == 4
    assert resident_ctas(form(threads=512, registers=33), HOPPER) == 3
    assert resident_ctas(form(threads=128, registers=16), HOPPER) == 16
    assert resident_ctas(form(threads=32, registers=16), HOPPER) == 32
    assert resident_ctas(form(shared_bytes=64 * 1024), HOPPER) == 3
    assert resident_ctas(form(shared_bytes=227 * 1024), HOPPER) == 1
    assert resident_ctas(form(shared_bytes=228 * 1024), HOPPER) == 0
    assert resident_ctas(form(threads=1024, registers=65), HOPPER) == 0


def test_what_does_not_fit_is_never_chosen():
    assert math.isinf(row_cycles(TIMES, SOFTMAX, form(shared_bytes=228 * 1024), HOPPER))


def test_no_form_is_quicker_than_memory():
    rate = HOPPER.limit("device.dram_bytes_per_second") / HOPPER.limit("device.clock_hertz")
    least = 4 * 4096 * 32768 / rate
    for each in (form(), form(ctas=4), form(shared_bytes=64 * 1024), form(registers=128)):
        assert row_cycles(TIMES, SOFTMAX, each, HOPPER) >= 0.999 * least


def test_three_ctas_that_wait_in_shared_memory_beat_one_in_registers():
    kept = row_cycles(TIMES, SOFTMAX, form(shared_bytes=64 * 1024), HOPPER)
    assert kept < row_cycles(TIMES, SOFTMAX, form(registers=84, threads=512), HOPPER)
    assert kept < row_cycles(TIMES, SOFTMAX, form(threads=1024, readings=3), HOPPER)


def test_few_rows_are_quicker_in_clusters():
    few = RowWork(rows=9, length=29120, read_bytes=2, stored_bytes=1, walks=2, meetings=1)
    assert row_cycles(TIMES, few, form(ctas=8, threads=256), HOPPER) < row_cycles(
        TIMES, few, form(threads=1024), HOPPER
    )


def test_what_all_rows_share_costs_less_where_the_l1_cache_has_room_for_it():
    """Three CTAs of 33 KiB leave half of the cache; six leave less than the 64 KiB of two vectors."""
    norm = RowWork(
        rows=2048, length=16384, read_bytes=2, stored_bytes=2, walks=3, meetings=2, vectors=2, vector_bytes=4
    )

    def kept(threads: int, ctas_of_it: float, work: RowWork) -> float:
        each = RowForm(threads, 1, 1, 32, 33 * 1024, 1, strips=2, padded=work.length, kept=True)
        assert resident_ctas(each, HOPPER) == ctas_of_it
        return row_cycles(TIMES, work, each, HOPPER)

    alone = replace(norm, vectors=0, vector_bytes=0)
    assert kept(640, 3, norm) == kept(640, 3, alone)
    assert kept(256, 6, norm) > kept(256, 6, alone)


def test_many_short_parts_of_clusters_take_as_long_as_they_begin():
    work = replace(SOFTMAX, length=4096)
    parts = 4096 * 16 / HOPPER.limit("device.multiprocessors")
    assert row_cycles(TIMES, work, form(threads=64, ctas=16), HOPPER) == parts * TIMES.begin_cycles
