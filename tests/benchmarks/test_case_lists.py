"""Lists that the goals of attention name: every length, head size and mask; every batch and context."""

from itertools import product

from bench import attention, paged
from bench.probes import walk_forms


def test_forward_attention_has_every_length_size_and_mask() -> None:
    listed = [(each.program, dict(each.dims)) for each in attention.cases()]
    found = {(program, dims["E"], dims["Q"]) for program, dims in listed}
    assert found == set(product(("attention", "causal_attention"), (64, 128, 256), attention.LENGTHS))
    assert min(attention.LENGTHS) == 512 and max(attention.LENGTHS) == 16384
    assert all(dims["Q"] == dims["T"] and dims["B"] * dims["T"] == 16384 for _, dims in listed)
    assert all(dims["H"] * dims["E"] == 2048 for _, dims in listed)


def test_decode_has_one_sequence_to_64_and_1k_keys_to_128k() -> None:
    cases = paged.cases()
    assert {each.batch for each in cases} >= {1, 8, 64} and {each.width for each in cases} == {64, 128}
    assert min(each.length for each in cases) == 1024 and max(each.length for each in cases) == 131072
    assert all(each.length % page == 0 for each in cases for page in paged.PAGES)


def test_walks_are_timed_in_order_and_out_of_it_with_every_number_of_consumers() -> None:
    for case in walk_forms.cases():
        chosen, *others = walk_forms.forms_of(case)
        found = {(each.consumers, each.ordered) for each in others if each.consumers}
        apart = {(each.skips_ones, each.late_sums) for each in others if not each.consumers}
        assert apart == set(product((True, False), repeat=2))
        assert chosen == case and found == {(1, None), *product((2, 3), (True, False))}
        assert len({each.form for each in (chosen, *others)}) == 1 + len(others)
