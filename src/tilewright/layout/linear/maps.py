"""Linear layouts: where does each place of a register file, a memory or a tile stand, when every bit acts by XOR?

Theory: a layout here is a linear map over F2 between labelled indices. Each input, such as "lane", and each output,
such as "row", is a range 0 .. 2^b - 1 read as a vector of b bits; the layout is the matrix of the whole, one column
(the images of all outputs, packed) for each input bit. Outputs and inputs are packed in their order, the first in the
lowest bits, so that flattening changes names and no bit. Since f(x XOR y) = f(x) XOR f(y), the images of the powers of
two, the bases, say everything. Composition, inverse, product and division are exact and take time polynomial in the
number of bits, whatever the size. Linear layouts: Zhou and others, "Linear Layouts", arXiv 2505.23819.

Here are the value, its evaluation and composition; `layout.linear.inverse` has inverses, `layout.linear.parts` products
and parts. There what is not expressible answers `NotExpressible`; arguments that no layout could take, such as names
that do not meet, raise TilewrightError.

Not handled: sizes that are no power of two, and offsets (a flip, or a slice that starts elsewhere):
`layout.linear.hierarchy` and `layout.pieces.piecewise`. Checked by tests/layout/linear/test_maps.py against
enumeration, and against Triton's layouts by bench/peers_linear.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers import bit_matrix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Names = tuple[tuple[str, int], ...]
"""Labelled indices and how many bits each has, the one in the lowest bits first."""

MOST_BITS = 62
"""Bits that all inputs, or all outputs, may have together: what a NumPy index of 64 bits holds."""

MOST_LISTED_BITS = 26
"""Bits of the inputs of a layout whose places `coordinates` lists."""


@dataclass(frozen=True, slots=True)
class LinearLayout:
    """A linear map over F2 between labelled indices.

    input_bits, output_bits: names and bits of each, the one in the lowest bits first; columns: for each input bit the
    packed outputs of that power of two. Most users call `linear_layout`. Raises TilewrightError where the columns do
    not fit the bits, or a name comes twice.
    """

    input_bits: Names
    output_bits: Names
    columns: bit_matrix.Columns

    def __post_init__(self) -> None:
        inputs = _total(self.input_bits, "input")
        limit = 1 << _total(self.output_bits, "output")
        if len(self.columns) != inputs:
            raise TilewrightError(f"linear layout: {len(self.columns)} columns for inputs of {inputs} bits")
        for column in self.columns:
            if not 0 <= column < limit:
                raise TilewrightError(f"linear layout: a base maps to {column}, past outputs of {limit} places")

    @property
    def input_sizes(self) -> dict[str, int]:
        """Places of each input, a power of two."""
        return {name: 1 << bits for name, bits in self.input_bits}

    @property
    def output_sizes(self) -> dict[str, int]:
        """Places of each output, a power of two."""
        return {name: 1 << bits for name, bits in self.output_bits}

    @property
    def size(self) -> int:
        """Places of all inputs together."""
        return 1 << len(self.columns)

    @property
    def cosize(self) -> int:
        """Places of all outputs together, reached or not."""
        return 1 << sum([bits for _, bits in self.output_bits])

    @property
    def bases(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """By input, for each power of two: its image in each output."""
        found: dict[str, tuple[tuple[int, ...], ...]] = {}
        start = 0
        for name, bits in self.input_bits:
            found[name] = tuple(unpack(column, self.output_bits) for column in self.columns[start : start + bits])
            start += bits
        return found

    def __call__(self, **places: int) -> dict[str, int]:
        """The image of one place: each input by name; the outputs by name. Raises TilewrightError."""
        return apply(self, places)

    def __str__(self) -> str:
        lines: list[str] = []
        for name, images in self.bases.items():
            lines.append(f"{name}: " + (" ".join(str(each) for each in images) if images else "(one place)"))
        outputs = ", ".join(f"{name} ({size})" for name, size in self.output_sizes.items())
        return "\n".join([*lines, f"to {outputs}"])


def linear_layout(
    bases: Mapping[str, Sequence[int | Sequence[int]]], outputs: Mapping[str, int] | Sequence[str]
) -> LinearLayout:
    """The layout with the given bases.

    bases: by input, the lowest-packed first: for 1, 2, 4, ... the image, one integer for each output (or the integer
    alone where there is one output). outputs: the size of each, a power of two, by name; names alone take the least
    size that holds the bases. Raises TilewrightError for sizes that are none and bases that do not fit.
    """
    names = tuple(outputs)
    rows = [(name, [_image(each, names) for each in images]) for name, images in bases.items()]
    if isinstance(outputs, Mapping):
        bits = tuple(_bits(size, f"output {name!r}") for name, size in outputs.items())
    else:
        every = [image for _, images in rows for image in images]
        bits = tuple(max((image[place].bit_length() for image in every), default=0) for place in range(len(names)))
    output_bits = tuple(zip(names, bits, strict=True))
    columns = tuple([pack(image, output_bits) for _, images in rows for image in images])
    return LinearLayout(tuple((name, len(images)) for name, images in rows), output_bits, columns)


def identity(size: int, input_name: str, output_name: str) -> LinearLayout:
    """Each place to itself; the size is a power of two."""
    bits = _bits(size, f"input {input_name!r}")
    return LinearLayout(((input_name, bits),), ((output_name, bits),), bit_matrix.identity(bits))


def zeros(size: int, input_name: str, output_name: str, output_size: int = 1) -> LinearLayout:
    """Every place to 0: a broadcast; sizes are powers of two."""
    bits = _bits(size, f"input {input_name!r}")
    return LinearLayout(((input_name, bits),), ((output_name, _bits(output_size, "output")),), (0,) * bits)


def strided(size: int, stride: int, input_name: str, output_name: str) -> LinearLayout:
    """Place i to i * stride, of outputs up to size * stride; both powers of two."""
    bits, shift = _bits(size, f"input {input_name!r}"), _bits(stride, "a stride")
    columns = tuple([1 << shift + bit for bit in range(bits)])
    return LinearLayout(((input_name, bits),), ((output_name, shift + bits),), columns)


def apply(layout: LinearLayout, places: Mapping[str, int]) -> dict[str, int]:
    """The outputs, by name, of one place, every input by name. Raises TilewrightError for names and places that are not
    the layout's."""
    if len(places) != len(layout.input_bits):
        _no_such(layout, places)
    packed = shift = 0
    for name, bits in layout.input_bits:
        place = places.get(name)
        if place is None:
            _no_such(layout, places)
        elif not 0 <= place < 1 << bits:
            raise TilewrightError(f"linear layout: {name} is 0 to {(1 << bits) - 1}, not {place}")
        else:
            packed |= place << shift
        shift += bits
    image = bit_matrix.apply(layout.columns, packed)
    return dict(zip([name for name, _ in layout.output_bits], unpack(image, layout.output_bits), strict=True))


def images(layout: LinearLayout, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The packed outputs of packed inputs, of any shape, at once."""
    import numpy as np

    found = np.zeros_like(places)
    for bit, column in enumerate(layout.columns):
        if column:
            found ^= (places >> bit & 1) * column
    return found


def coordinates(layout: LinearLayout) -> dict[str, NDArray[np.int64]]:
    """Each output over all inputs: by output an array with one axis for each input, in their order. Raises
    TilewrightError where the inputs have more than `MOST_LISTED_BITS` bits."""
    import numpy as np

    if len(layout.columns) > MOST_LISTED_BITS:
        raise TilewrightError(f"linear layout: {layout.size} places are too many to list; at most 2^{MOST_LISTED_BITS}")
    axes = tuple(1 << bits for _, bits in layout.input_bits)
    packed = images(layout, np.arange(layout.size, dtype=np.int64)).reshape(axes[::-1]).transpose()
    found: dict[str, NDArray[np.int64]] = {}
    for name, bits in layout.output_bits:
        found[name] = packed & (1 << bits) - 1
        packed = packed >> bits
    return found


def compose(outer: LinearLayout, inner: LinearLayout) -> LinearLayout:
    """`outer` after `inner`: x to outer(inner(x)).

    The outputs of inner are the inputs of outer by name, in any order, and none is larger. Raises TilewrightError.
    """
    aligned = inner.output_bits == outer.input_bits
    columns = outer.columns if aligned else _columns_for(outer, inner.output_bits)
    return LinearLayout(inner.input_bits, outer.output_bits, bit_matrix.multiply(columns, inner.columns))


def is_injective(layout: LinearLayout) -> bool:
    """Do different places have different images?"""
    return bit_matrix.rank(layout.columns) == len(layout.columns)


def is_surjective(layout: LinearLayout) -> bool:
    """Is every output reached?"""
    return 1 << bit_matrix.rank(layout.columns) == layout.cosize


def is_bijective(layout: LinearLayout) -> bool:
    """Is it one to one and onto?"""
    return layout.size == layout.cosize and is_injective(layout)


def equal(first: LinearLayout, second: LinearLayout) -> bool:
    """Are they one map, whatever the order of inputs and of outputs? Inputs of one place, and outputs of one, count
    for nothing."""
    if _spoken(first.input_bits) != _spoken(second.input_bits):
        return False
    if _spoken(first.output_bits) != _spoken(second.output_bits):
        return False
    return _spoken_bases(first) == _spoken_bases(second)


def _spoken(names: Names) -> dict[str, int]:
    return {name: bits for name, bits in names if bits}


def _spoken_bases(layout: LinearLayout) -> dict[str, tuple[dict[str, int], ...]]:
    outputs = [name for name, bits in layout.output_bits if bits]
    places = [at for at, (_, bits) in enumerate(layout.output_bits) if bits]
    return {
        name: tuple({output: each[at] for output, at in zip(outputs, places, strict=True)} for each in images)
        for name, images in layout.bases.items()
        if images
    }


def _columns_for(outer: LinearLayout, wanted: Names) -> bit_matrix.Columns:
    """The columns of `outer` for inputs in another order, the lowest bits of each."""
    own = dict(outer.input_bits)
    if len(wanted) != len(own) or any(name not in own for name, _ in wanted):
        raise TilewrightError(
            f"linear layout: outputs {[name for name, _ in wanted]} are no inputs of the layout after, {list(own)}",
            remedy="rename, flatten or split them",
        )
    starts = starts_of(outer.input_bits)
    columns: list[int] = []
    for name, bits in wanted:
        if bits > own[name]:
            raise TilewrightError(
                f"linear layout: {name} has {1 << bits} places, and the layout after takes {1 << own[name]}"
            )
        columns += outer.columns[starts[name] : starts[name] + bits]
    return tuple(columns)


def starts_of(names: Names) -> dict[str, int]:
    starts: dict[str, int] = {}
    at = 0
    for name, bits in names:
        starts[name] = at
        at += bits
    return starts


def by_bit(names: Names) -> list[tuple[str, int]]:
    return [(name, bit) for name, bits in names for bit in range(bits)]


def pack(values: Sequence[int], names: Names) -> int:
    packed = shift = 0
    for value, (name, bits) in zip(values, names, strict=True):
        if not 0 <= value < 1 << bits:
            raise TilewrightError(f"linear layout: a base maps to {name} = {value}, of 0 to {(1 << bits) - 1}")
        packed |= value << shift
        shift += bits
    return packed


def unpack(packed: int, names: Names) -> tuple[int, ...]:
    values: list[int] = []
    for _, bits in names:
        values.append(packed & (1 << bits) - 1)
        packed >>= bits
    return tuple(values)


def _image(given: int | Sequence[int], outputs: Sequence[str]) -> tuple[int, ...]:
    image = (given,) if isinstance(given, int) else tuple(given)
    if len(image) != len(outputs) or any(each < 0 for each in image):
        raise TilewrightError(f"linear layout: base {given} does not say one place of each output {list(outputs)}")
    return image


def _bits(size: int, what: str) -> int:
    if size < 1 or size & size - 1:
        raise TilewrightError(
            f"linear layout: {what} has {size} places, no power of two",
            remedy="a shape:stride layout or a hierarchy takes any size",
        )
    return size.bit_length() - 1


def _total(names: Names, what: str) -> int:
    total = 0
    seen: set[str] = set()
    for name, bits in names:
        if name in seen:
            raise TilewrightError(f"linear layout: {what} {name!r} comes twice")
        if bits < 0:
            raise TilewrightError(f"linear layout: {what} {name!r} has {bits} bits")
        seen.add(name)
        total += bits
    if total > MOST_BITS:
        raise TilewrightError(f"linear layout: {what}s of {total} bits together; at most {MOST_BITS} are handled")
    return total


def same_names(own: Mapping[str, int], order: Sequence[str], what: str) -> None:
    if sorted(own) != sorted(order):
        raise TilewrightError(f"linear layout: {what} are {list(own)}, not {list(order)}")


def _no_such(layout: LinearLayout, places: Mapping[str, int]) -> None:
    raise TilewrightError(f"linear layout: inputs are {[name for name, _ in layout.input_bits]}, not {list(places)}")
