"""What do several wgmmas multiply that a warp issues one right after the other, a slot of a ring for instance?

Where boxes stand that hold all their operands, what each reads is a function of the boxes' coordinates, which is worked
out once for each such row and places. A row is put down with the boxes that stood there when it was issued, and looked
at later: as products of single wgmmas (`products`), or, of those that add to one accumulator and whose operands go on
along the depth, one with the depth of all (`joined`).

Not handled (such wgmmas are put down one by one): operands that are not known, or are no matrix; operands whose boxes
leave room between them, where another box may stand.
Checked by: tests/contract/sums/test_product_trace.py, which compares joined products with those of single wgmmas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.base.plan import TensorMap
from tilewright.base.span import Span
from tilewright.base.value import value
from tilewright.contract.sums.operand_elements import LoadedBoxes, MatrixPart, NoMatrix, Placed, parts_of
from tilewright.machine.core.event import BoxPlace, SharedMatrix, WgmmaForm

_VARIANTS_MOST = 64

Operand = tuple[MatrixPart, ...] | NoMatrix


@value
class Product:
    """One wgmma. left: A, right: B; empty where nothing is known of its elements. accumulator: the first register."""

    left: Operand
    right: Operand
    accumulator: str
    accumulates: bool
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class _Operand:
    """Where an operand's elements are in its boxes, which have the numbers `at` among the row's."""

    placed: tuple[Placed, ...]
    apart: tuple[tuple[int, ...], ...]
    at: tuple[int, ...]
    depth: int

    def goes_on_at(self, depth: int, other: _Operand) -> bool:
        """Is the other one what follows behind so much of this one's depth?"""
        return (
            self.at == other.at
            and self.apart == other.apart
            and all(
                (one.box, one.begin, one.end, one.outer, one.inner)
                == (two.box, two.begin, two.end, two.outer, two.inner)
                and (*one.first[: one.inner], one.first[one.inner] + depth, *one.first[one.inner + 1 :]) == two.first
                for one, two in zip(self.placed, other.placed, strict=True)
            )
        )


@dataclass(slots=True, eq=False)
class _Sum:
    """wgmmas of a row that are one product of so much depth; first: the number of the first of them."""

    first: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class RowOperands:
    """The operands of a row, while boxes of these maps stand at these addresses. pairs: of each wgmma; sums: the wgmmas
    that may be taken for one."""

    forms: tuple[WgmmaForm, ...]
    addresses: tuple[int, ...]
    maps: tuple[TensorMap, ...]
    pairs: tuple[tuple[_Operand, _Operand], ...]
    sums: tuple[_Sum, ...]

    def met_in(self, loaded: LoadedBoxes) -> tuple[BoxPlace, ...] | None:
        """The boxes, if they stand there. No others are met then, since boxes do not overlap."""
        boxes = loaded.boxes
        met: list[BoxPlace] = []
        for address, tensor_map in zip(self.addresses, self.maps, strict=True):
            found = boxes.get(address)
            if found is None or found[1].tensor_map is not tensor_map:
                return None
            met.append(found[1])
        return tuple(met)


@dataclass(frozen=True, slots=True, eq=False)
class ProductRow:
    """A row that was issued. met: the boxes that it has read."""

    operands: RowOperands
    met: tuple[BoxPlace, ...]

    @property
    def count(self) -> int:
        """How many wgmmas it is."""
        return len(self.operands.forms)

    def products(self) -> list[Product]:
        """Each wgmma's."""
        return list(self._products(_Sum(number, left.depth) for number, (left, _) in enumerate(self.operands.pairs)))

    def joined(self) -> list[tuple[int, Product]]:
        """Those that are one, as one, with the number of the first."""
        sums = self.operands.sums
        return list(zip([each.first for each in sums], self._products(sums), strict=True))

    def _products(self, sums: Sequence[_Sum] | Iterator[_Sum]) -> Iterator[Product]:
        known: dict[tuple[int, int], tuple[MatrixPart, ...]] = {}

        def parts(operand: _Operand, depth: int) -> tuple[MatrixPart, ...]:
            found = known.get((id(operand), depth))
            if found is None:
                met = [self.met[at] for at in operand.at]
                found = known[id(operand), depth] = parts_of(operand.placed, met, operand.apart, depth)
            return found

        for each in sums:
            form, (left, right) = self.operands.forms[each.first], self.operands.pairs[each.first]
            yield Product(
                parts(left, each.depth), parts(right, each.depth), form.accumulator[0], form.accumulates, form.span
            )


@dataclass(slots=True)
class KnownRows:
    """Rows that were met. variants: of each row, by what is told of its wgmmas; forms: the same by the identity of what
    is told of one, which is held."""

    variants: dict[tuple[object, ...], list[RowOperands]] = field(
        default_factory=dict[tuple[object, ...], list[RowOperands]]
    )
    forms: dict[int, tuple[tuple[WgmmaForm, ...], list[RowOperands]]] = field(
        default_factory=dict[int, tuple[tuple[WgmmaForm, ...], list[RowOperands]]]
    )

    def issued(self, forms: tuple[WgmmaForm, ...], loaded: LoadedBoxes) -> ProductRow | None:
        """A row that a warp issues now; None where its wgmmas are to be put down one by one."""
        known = self.forms.get(id(forms))
        if known is None:
            # Warps at other places of their warpgroups tell of the same wgmmas by other objects.
            key = tuple((id(each.matrices), each.accumulator, each.accumulates, each.span) for each in forms)
            known = self.forms[id(forms)] = forms, self.variants.setdefault(key, [])
        for operands in known[1]:
            met = operands.met_in(loaded)
            if met is not None:
                return ProductRow(operands, met)
        operands = _operands_of(forms, loaded) if len(known[1]) < _VARIANTS_MOST else None
        met = operands.met_in(loaded) if operands is not None else None
        if operands is None or met is None:
            return None
        known[1].append(operands)
        return ProductRow(operands, met)


def _operands_of(forms: tuple[WgmmaForm, ...], loaded: LoadedBoxes) -> RowOperands | None:
    """None unless boxes that stand side by side hold each operand."""
    numbers: dict[int, int] = {}
    known: dict[int, _Operand] = {}
    pairs: list[tuple[_Operand, _Operand]] = []
    for form in forms:
        pair: list[_Operand] = []
        for matrix in form.matrices or ():
            operand = known.get(id(matrix))
            if operand is None and matrix is not None:
                operand = _operand_of(matrix, loaded, numbers)
            if operand is None:
                return None
            known[id(matrix)] = operand
            pair.append(operand)
        if len(pair) != 2:
            return None
        pairs.append((pair[0], pair[1]))
    maps = tuple(loaded.boxes[address][1].tensor_map for address in numbers)
    return RowOperands(forms, tuple(numbers), maps, tuple(pairs), _sums(forms, pairs))


def _operand_of(matrix: SharedMatrix, loaded: LoadedBoxes, numbers: dict[int, int]) -> _Operand | None:
    """numbers: of the boxes that the row meets, by their address."""
    reach = loaded.reach(matrix)
    if reach.apart is None or isinstance(reach.placed, NoMatrix):
        return None
    ends = [loaded.boxes[address][0] for address in reach.addresses]
    if any(address != end for address, end in zip(reach.addresses[1:], ends[:-1], strict=True)):
        return None
    at = tuple([numbers.setdefault(address, len(numbers)) for address in reach.addresses])
    return _Operand(reach.placed, reach.apart, at, matrix.depth)


def _sums(forms: Sequence[WgmmaForm], pairs: Sequence[tuple[_Operand, _Operand]]) -> tuple[_Sum, ...]:
    found: list[_Sum] = []
    newest: dict[str, _Sum] = {}
    for number, (form, (left, right)) in enumerate(zip(forms, pairs, strict=True)):
        last = newest.get(form.accumulator[0])
        if last is not None and form.accumulates and left.depth == right.depth:
            first_left, first_right = pairs[last.first]
            same = forms[last.first].accumulator == form.accumulator
            if same and first_left.goes_on_at(last.depth, left) and first_right.goes_on_at(last.depth, right):
                last.depth += left.depth
                continue
        last = newest[form.accumulator[0]] = _Sum(number, left.depth)
        found.append(last)
    return tuple(found)
