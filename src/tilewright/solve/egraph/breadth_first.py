"""Which legal forms does plain search find?

Breadth first over the rewrite rules of `layout.view.rewrite`: every view one step away, then two, until `max_nodes`
views have been seen. Slower than the e-graph by the factor by which views are more than their parts, and easier to
believe: `solve.egraph.saturate` is measured against it and tested against it.

Checked by tests/solve/egraph/test_saturate.py against exhaustive enumeration of small cases.
"""

from __future__ import annotations

from collections import deque

from tilewright.layout.view.descriptor_limits import DescriptorLimits
from tilewright.layout.view.rewrite import RULES, Choices, Rewrite, Step, successors
from tilewright.layout.view.tiled_view import TiledView
from tilewright.solve.egraph.forms import Form, Forms, Order, form_of, sorted_forms


def search_forms(
    source: TiledView, limits: DescriptorLimits, choices: Choices, *, order: Order, max_nodes: int, most: int
) -> Forms:
    """Up to `most` legal forms of `source` within `order`, from the first `max_nodes` views that the rules reach."""
    rules = rules_within(order)
    seen: dict[TiledView, tuple[Step, ...]] = {source: ()}
    queue: deque[TiledView] = deque([source])
    found: dict[TiledView, Form] = {}
    complete = True
    while queue:
        view = queue.popleft()
        steps = seen[view]
        form = form_of(source, steps, limits)
        if form is not None and (form.view not in found or form.cost < found[form.view].cost):
            found[form.view] = form
        for step, after in successors(view, choices, rules):
            if after in seen:
                continue
            if len(seen) >= max_nodes:
                complete = False
                break
            seen[after] = (*steps, step)
            queue.append(after)
    note = "" if complete else f"stopped at {max_nodes} views"
    return Forms(sorted_forms(found.values())[:most], complete, len(seen), note)


def rules_within(order: Order) -> tuple[Rewrite, ...]:
    """The searched rules that keep the landing order as far as `order` asks."""
    match order:
        case "kept":
            return tuple(rule for rule in RULES if rule.searched and rule.order == "kept")
        case "blocked":
            return tuple(rule for rule in RULES if rule.searched and rule.name != "swap")
        case "any":
            return tuple(rule for rule in RULES if rule.searched)
