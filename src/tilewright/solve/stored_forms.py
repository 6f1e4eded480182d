"""How must a tensor be stored, at the fewest bytes of padding, so that a descriptor can state its tiles?

Theory: storages are terms (`layout.view.term`): the buffer as it is, with the pitch of some dimensions rounded up, with
its outermost dimension made longer, or copied. They are tried in the order of their bytes, and each is asked of
`saturate.legal_forms`; the first with a form has the fewest bytes of all that are tried. Where that form takes several
copies or narrow rows, the next storages are asked too, and a form that does better for more bytes is an answer as well:
fewer bytes or fewer copies is the asker's choice. Rounding a pitch to anything
but the stride's multiple cannot help: a pitch matters where a run of bytes begins (`layout.view.row_starts`), and there
nothing less will do. So for each dimension around the innermost there are two choices, and few dimensions.

Not handled: storages in another order of dimensions, a first byte moved (a copy is aligned), views that overlap
themselves (copied only). Checked by tests/solve/test_stored_forms.py against all pitches of small tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tilewright.layout.view.descriptor_limits import COPY_DOUBLING_COST, DescriptorLimits
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.term import Buffer, Copied, Meaning, PadExtent, PadPitch, Term, denote, nesting
from tilewright.solve.forms import Form, Order
from tilewright.solve.saturate import Engine, legal_forms

_STORAGES_MOST = 512
_ASKED_MOST = 24
"""Storages that are asked of the e-graph; those that cannot be legal are dismissed before and do not count."""


@dataclass(frozen=True, slots=True)
class StoredForm:
    """One answer. storage: what is done to the buffer, `Buffer` itself if nothing; form: the tiles' legal form there;
    padded_bytes, copied_bytes: what the storage costs.
    """

    storage: Term
    form: Form
    padded_bytes: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class StoredForms:
    """forms: the first with the fewest bytes copied, then padded; each further one costs more bytes and less else;
    complete: whether no storage of fewer bytes was left untried or given up; note: why, if not.
    """

    forms: tuple[StoredForm, ...]
    complete: bool
    note: str = ""


def stored_forms(
    view: StridedView,
    tile: tuple[int, ...],
    limits: DescriptorLimits,
    *,
    steps: tuple[int, ...] | None = None,
    order: Order = "any",
    copied: bool = True,
    max_nodes: int = 4000,
    engine: Engine = "egraph",
) -> StoredForms:
    """The legal forms of `view` in the storages that cost least; arguments as for `saturate.legal_forms`.

    copied: whether a copy may be made where no padding helps. Raises TilewrightError as `legal_forms` does.
    """
    storages, all_tried = _storages(view, limits, copied)
    asked = 0
    notes: list[str] = [] if all_tried else [f"only {_STORAGES_MOST} storages tried"]
    forms: list[StoredForm] = []
    for storage, meaning in storages:
        if forms and (meaning.copied_bytes or forms[-1].form.cost <= COPY_DOUBLING_COST):
            break
        found = legal_forms(meaning.view, tile, limits, steps=steps, order=order, max_nodes=max_nodes, engine=engine)
        if found.forms and (not forms or found.forms[0].cost < forms[-1].form.cost):
            forms.append(StoredForm(storage, found.forms[0], meaning.padded_bytes, meaning.copied_bytes))
        asked += found.nodes > 0
        if not found.forms and not found.complete:
            notes.append(f"with {meaning.padded_bytes} bytes padded: {found.note}")
        if asked == _ASKED_MOST:
            notes.append(f"given up after {asked} storages")
            break
    return StoredForms(tuple(forms), not notes, "; ".join(notes))


def _storages(view: StridedView, limits: DescriptorLimits, copied: bool) -> tuple[list[tuple[Term, Meaning]], bool]:
    """Storages with what they mean, the cheapest first, each view once; and whether none was left out."""
    terms: list[Term] = [Buffer(view)]
    order = nesting(view) or ()
    unit = limits.stride_multiple_bytes
    complete = True
    for rounded in product((False, True), repeat=max(0, len(order) - 1)):
        term: Term = Buffer(view)
        for axis, pads in zip(order[1:], rounded, strict=True):
            term = PadPitch(term, axis, unit) if pads else term
        if len(terms) >= _STORAGES_MOST:
            complete = False
            break
        terms.append(term)
        if order:
            outermost = order[-1]
            extents = {-(-view.extents[outermost] // multiple) * multiple for multiple in _multiples(limits)}
            terms += [PadExtent(term, outermost, extent) for extent in extents - {view.extents[outermost]}]
    if copied:
        terms.append(Copied(Buffer(view), unit))
    found: dict[StridedView, tuple[Term, Meaning]] = {}
    for term in terms:
        meaning = denote(term)
        if meaning is not None and meaning.view not in found:
            found[meaning.view] = (term, meaning)
    by_cost = sorted(found.values(), key=lambda one: (one[1].copied_bytes, one[1].padded_bytes, one[1].view.extents))
    return by_cost, complete


def _multiples(limits: DescriptorLimits) -> tuple[int, ...]:
    """Powers of two up to the longest box: what an outermost extent may be rounded up to."""
    return tuple(1 << bits for bits in range(1, limits.box_max.bit_length()))
