"""Expressions that differ in the numbers of requests for other clusters' work alone."""

from tilewright.driver.explore.alike_requests import _is_in_order  # pyright: ignore[reportPrivateUsage]


def test_numbers_of_requests_keep_their_order():
    """Two requests that are one, or that change places, are not two that follow each other."""
    requests: dict[int, int] = {}
    assert _is_in_order(1, 3, requests) and _is_in_order(2, 4, requests) and _is_in_order(1, 3, requests)
    assert not _is_in_order(1, 4, requests) and not _is_in_order(3, 4, dict(requests))
    assert not _is_in_order(3, 1, dict(requests)) and not _is_in_order(0, 5, dict(requests))
