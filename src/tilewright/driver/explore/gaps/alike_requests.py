"""Are expressions the same but for which request for other clusters' work they are about?

Each iteration of a loop over taken work asks anew: its conditions are about another cluster's index, and about whether
another request was granted. All indices have the same range, and requests are granted in their order, so that what is
impossible of one such expression, whichever it is, is impossible of all. Checked by:
tests/driver/explore/test_taken_work.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.driver.explore.gaps.behind_loops import is_same_operation
from tilewright.machine.symbolic.expression import TAKEN, Applied, Leaf, Node, Source


def alike_but_for_requests(nodes: Iterable[Node]) -> bool:
    """Whether expressions differ in the numbers of requests alone, whose order is the same."""
    first, *others = nodes
    return all(_is_alike(first, each, {}) for each in others)


def _is_alike(one: Source, other: Source, requests: dict[int, int]) -> bool:
    """Whether an expression is another one about other requests. requests: which number is which, as far as known."""
    if not isinstance(one, Node) and not isinstance(other, Node):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if not isinstance(one, Node) or not isinstance(other, Node):
        return False
    if one is other and not requests:
        return True
    request, another = _request(one), _request(other)
    if request is not None and another is not None:
        return request[1] == another[1] and is_in_order(request[0], another[0], requests)
    if isinstance(one.operation, Leaf):
        return one is other
    pairs = zip(one.sources, other.sources, strict=False)
    return is_same_operation(one, other) and all(_is_alike(*each, requests) for each in pairs)


def is_in_order(request: int, another: int, requests: dict[int, int]) -> bool:
    """Note which number one is, if the numbers keep their order with it. Two that are one, or change places, say more:
    that indices are equal, or that a later request is granted and an earlier one is not."""
    known = requests.setdefault(request, another) == another
    kept = ((one < request, one > request) == (other < another, other > another) for one, other in requests.items())
    return known and all(kept)


def _request(node: Node) -> tuple[int, int] | None:
    """The number of a request, and along which axis an index that it gave is; -1 for whether it was granted."""
    operation = node.operation
    if isinstance(operation, Leaf) and operation.input.kind == "work":
        return divmod(operation.input.place, 4)
    if not isinstance(operation, Applied) or len(node.sources) != 2:
        return None
    number, most = node.sources
    if isinstance(number, Node) or not isinstance(most, Node) or not isinstance(most.operation, Leaf):
        return None
    return (int(number[0]), -1) if most.operation.input == TAKEN else None
