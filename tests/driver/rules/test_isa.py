"""Readings of contested points by name, and the pages of the points."""

from __future__ import annotations

import pytest

from tilewright.base.error import TilewrightError
from tilewright.contract.rules.interpretations import POINTS, strict, tolerant
from tilewright.driver.rules.catalog import all_rules, rule_pages
from tilewright.driver.rules.isa import interpretations_of, point_file, point_page


def test_the_two_sides_and_single_points() -> None:
    assert interpretations_of("strict") == strict() and interpretations_of("tolerant") == tolerant()
    for point in POINTS:
        for base, other, side in (("tolerant", "strict", strict()), ("strict", "tolerant", tolerant())):
            found = interpretations_of(f"{base}, {point.name.replace('_', '-')}={other}")
            assert found.level_of(point.name) == side.level_of(point.name), point.name
            untouched = [each.name for each in POINTS if each is not point]
            before = interpretations_of(base)
            assert all(found.level_of(name) == before.level_of(name) for name in untouched)


@pytest.mark.parametrize(
    ("isa", "message"),
    [
        ("lenient", "'lenient' in the interpretation 'lenient' is no side"),
        ("", "is no side"),
        ("tolerant,fenced_init", "cannot read 'fenced_init'"),
        ("tolerant,fenced_init=off", "'off' in the interpretation"),
        ("tolerant,fence_init=strict", "no contested point 'fence_init'"),
    ],
)
def test_readings_that_do_not_exist(isa: str, message: str) -> None:
    with pytest.raises(TilewrightError, match=message) as caught:
        interpretations_of(isa)
    assert caught.value.remedy


def test_every_point_has_a_page_that_names_rules_that_exist() -> None:
    known = {rule.code for rule in all_rules()}
    pages = rule_pages()
    for point in POINTS:
        assert set(point.codes) <= known, point.name
        assert pages[point_file(point)] == point_page(point)
        assert all(point_file(point) in pages[f"{code}.md"] for code in point.codes)
