"""The fit of the model of rows: what it takes of a record, and that it finds the values that times were made with."""

import math
from dataclasses import replace

from bench.probes.row_forms import cases, forms
from bench.row_fit import first_choices, loss, predicted, timed

from tilewright.synth.store.row_time import times_of
from tilewright.targets import target

TRUTH = times_of(target("sm_90a"))


def record(length=32768, rows=1024):
    """Forms of a shape as the probe records them, without times."""
    shapes = [("registers", 512, 2, []), ("registers", 1024, 4, []), ("shared", 512, 1, ["x"]), ("warp", 32, 1, [])]
    taken = [
        {"form": name, "threads": threads, "ctas": ctas, "streamed": int(bool(kept)), "kept": kept, "microseconds": 1.0}
        for name, threads, ctas, kept in shapes
    ]
    return {"program": "softmax", "shape": [rows, length], "copy": 1.0, "forms": taken}


def test_forms_of_a_warp_take_no_part():
    (shape,) = timed([record()])
    assert [(each.form.threads, each.form.ctas, each.form.strips > 0) for each in shape] == [
        (256, 2, False), (256, 4, False), (512, 1, True),
    ]  # fmt: skip


def made(shape):
    """The same forms with the times that the target's values predict."""
    times = [predicted(TRUTH, each) for each in shape]
    return [
        replace(each, microseconds=time, lost=math.log(time / min(times)))
        for each, time in zip(shape, times, strict=True)
    ]


def test_the_values_that_made_the_times_lose_nothing_else():
    shapes = [made(shape) for shape in timed([record(), record(8192, 4096), record(65536, 16)])]
    assert first_choices(TRUTH, shapes) == [1.0] * 3
    for worse in (replace(TRUTH, cluster_cycles=90000.0), replace(TRUTH, point_permille=300000.0)):
        assert loss(worse, shapes) > loss(TRUTH, shapes)


def test_each_shape_is_timed_as_chosen_and_in_some_forms():
    shapes: dict[tuple[str, int, int], list[bool]] = {}
    for each in forms(cases(), 1.2):
        shapes.setdefault((each.program, each.rows, each.length), []).append(each.kept is None)
    assert all(chosen[0] and not any(chosen[1:]) and len(chosen) > 1 for chosen in shapes.values())
