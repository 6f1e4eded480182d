"""Which bytes does a view name, as a text that is the same for views that name the same?

Theory: Presburger sets, which isl simplifies. `StridedView.canonical` is the cheap normal form and the one to ask
first; the text merges what that misses: views that overlap themselves, and dimensions that interlock without continuing
each other. Equal texts are equal sets; equal sets nearly always have equal texts, but isl promises no normal form: a
text may key a memo, no more. isl's work is counted and limited; past the limit the answer is Undetermined.

Not handled: sizes that are not known, swizzles (`layout_relation` has both). Checked by
tests/solve/test_integer_set.py against enumeration.
"""

from __future__ import annotations

from typing import Any

from tilewright.base.extra import MissingExtra
from tilewright.layout.view.strided_view import StridedView
from tilewright.solve.bounded import DEFAULT_EFFORT, Effort, Undetermined
from tilewright.solve.installed import solver

_LIMIT_MET = "maximal number of operations"


def byte_set_text(view: StridedView, effort: Effort = DEFAULT_EFFORT) -> str | Undetermined:
    """The set of a view's bytes as text, the same for most equal sets and different for all different ones."""
    try:
        library = solver("islpy")
    except MissingExtra as missing:
        return Undetermined(missing.message, missing.remedy)
    context: Any = library.Context()
    context.set_max_operations(effort.set_operations)
    try:
        found: Any = library.Map.read_from_str(context, _relation(view.canonical())).range()
        return str(found.coalesce().detect_equalities().remove_redundancies().coalesce())
    except library.Error as error:
        if _LIMIT_MET in str(error):
            return Undetermined(f"isl met its limit of {effort.set_operations} operations", "a larger `set_operations`")
        return Undetermined(f"isl gave no answer: {error}", "another form of the view")


def _relation(view: StridedView) -> str:
    """From (index, byte of the element) to the byte's address, as isl reads it."""
    indices = [f"i{at}" for at in range(view.rank)]
    terms = [str(view.offset_bytes), "b"]
    terms += [f"{stride}*{index}" for stride, index in zip(view.strides_bytes, indices, strict=True)]
    conditions = [f"a = {' + '.join(terms)}", f"0 <= b < {view.element_bytes}"]
    conditions += [f"0 <= {index} < {extent}" for index, extent in zip(indices, view.extents, strict=True)]
    return f"{{ [{', '.join([*indices, 'b'])}] -> [a] : {' and '.join(conditions)} }}"
