"""Drawn attention and rows: the seed alone decides, the whole range is drawn, and no case is too large to run.
TritonBench's lists are whole."""

import math

from bench import random_attention, random_rows, tritonbench_attention, tritonbench_rows


def test_the_seed_alone_decides() -> None:
    for module in (random_attention, random_rows):
        assert module.drawn(7) == module.drawn(7) and len(module.drawn(7)) == module.COUNT
        assert module.drawn(7, 20) == module.drawn(7)[:20], "a shorter list is the beginning of a longer one"
        assert module.drawn(7) != module.drawn(8)
        assert len({each.name for each in module.drawn(3)}) == module.COUNT


def test_attention_of_every_kind_is_drawn() -> None:
    cases = [each for seed in range(10) for each in random_attention.drawn(seed)]
    assert {each.program for each in cases} == {"attention", "causal_attention", "grouped_heads"}
    dims = [dict(each.dims) for each in cases]
    assert {each["E"] for each in dims} == {64, 96, 128, 256}
    assert any(each["Q"] == 1 for each in dims) and any(each["Q"] == each["T"] > 8192 for each in dims)
    odd = sum(each["T"] % 8 != 0 for each in dims) / len(dims)
    assert 0.35 < odd < 0.55, "about half of the numbers of keys are any"
    for case, extents in zip(cases, dims, strict=True):
        assert extents["H"] % 4 == 0 and extents["H"] >= 4, case.name
        assert math.prod((extents["B"], extents["H"], extents["T"], extents["E"])) <= 1 << 30, case.name
        assert case.program != "causal_attention" or extents["Q"] == extents["T"]


def test_rows_of_every_length_are_drawn() -> None:
    cases = [each for seed in range(10) for each in random_rows.drawn(seed)]
    assert {each.program for each in cases} >= {"softmax", "rms_norm", "layer_norm", "argmax", "quantize"}
    octaves = [int(math.log2(each.length)) for each in cases]
    assert all(0.5 / 12 < octaves.count(at) / len(cases) < 1.6 / 12 for at in range(6, 18))
    assert all(each.rows >= 1 and each.rows * each.length <= 1 << 27 for each in cases)
    assert any(each.length % 2 for each in cases)


def test_the_lists_of_tritonbench_are_whole() -> None:
    rows = tritonbench_rows.cases()
    found = {
        name: [(each.rows, each.length) for each in rows if each.program == name]
        for name in ("softmax", "layer_norm", "rms_norm")
    }
    assert sum(map(len, found.values())) == len(rows) == 98 + 30 + 6
    assert found["softmax"][0] == (4096, 256) and found["softmax"][-1] == (4096, 12672)
    assert found["layer_norm"][0] == (4096, 1024) and found["layer_norm"][-1] == (4096, 15872)
    assert found["rms_norm"][0] == (2048, 1024) and found["rms_norm"][-1] == (2048, 32768)
    attention = [dict(each.dims) for each in tritonbench_attention.cases()]
    assert [each["T"] for each in attention] == 2 * [1 << bits for bits in range(7, 15)]
    assert all((each["B"], each["H"], each["E"]) == (4, 48, 64) for each in attention)
