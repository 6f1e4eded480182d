"""When consumers issue in order, and that a wish for it is granted or refused."""

import pytest

from tilewright.base.error import TilewrightError
from tilewright.synth.schedule.issue_order import choose_issue_order
from tilewright.synth.tile.wanted import Wanted


def test_promoted_products_of_several_consumers_are_ordered_by_a_wish() -> None:
    reasons: list[str] = []
    assert choose_issue_order(2, Wanted(ordered=True), reasons, promoted=True)
    assert "in order" in reasons[0]
    assert not choose_issue_order(2, Wanted(), reasons, promoted=True)


@pytest.mark.parametrize(("consumers", "promoted"), [(1, True), (2, False)])
def test_others_are_not(consumers: int, promoted: bool) -> None:
    reasons: list[str] = []
    assert not choose_issue_order(consumers, Wanted(), reasons, promoted=promoted)
    assert not reasons
    with pytest.raises(TilewrightError, match="order"):
        choose_issue_order(consumers, Wanted(ordered=True), reasons, promoted=promoted)


def test_a_wish_against_it_is_granted() -> None:
    assert not choose_issue_order(3, Wanted(ordered=False), [], promoted=True)
