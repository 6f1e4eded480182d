"""Expressions that differ in the numbers of requests for other clusters' work alone."""

from tilewright.driver.explore.gaps.alike_requests import is_in_order


def test_numbers_of_requests_keep_their_order():
    """Two requests that are one, or that change places, are not two that follow each other."""
    requests: dict[int, int] = {}
    assert is_in_order(1, 3, requests) and is_in_order(2, 4, requests) and is_in_order(1, 3, requests)
    assert not is_in_order(1, 4, requests) and not is_in_order(3, 4, dict(requests))
    assert not is_in_order(3, 1, dict(requests)) and not is_in_order(0, 5, dict(requests))
