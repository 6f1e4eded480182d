"""Is a table of places a linear layout, and which?

Theory: a linear map over F2 is fixed by the images of the powers of two; a table is one exactly if every other entry is
the XOR of those. All entries are compared, so the answer is exact, and a refusal names a place where XOR fails.

Not handled: tables too large to list. Checked by tests/layout/linear/test_table.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, coordinates, linear_layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def linear_from_table(
    inputs: Sequence[str], tables: Mapping[str, NDArray[np.int64]], output_sizes: Mapping[str, int] | None = None
) -> LinearLayout | NotExpressible:
    """The linear layout with these images. inputs: names of the tables' axes; tables: by output an array, all of one
    shape; output_sizes: powers of two, by default the least that hold the images.

    Raises TilewrightError where shapes or names do not agree, or a size does not hold an image.
    """
    import numpy as np

    shapes = {table.shape for table in tables.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != len(inputs):
        raise TilewrightError(f"tables of shapes {sorted(shapes)} for inputs {list(inputs)}")
    for name, size in zip(inputs, shape, strict=True):
        if size & size - 1:
            return NotExpressible(f"{name} has {size} places, no power of two")
    for name, table in tables.items():
        if table.min() < 0:
            return NotExpressible(f"{name} has negative places")
    bases = {
        name: [
            tuple(int(table[(0,) * axis + (1 << bit,) + (0,) * (len(shape) - axis - 1)]) for table in tables.values())
            for bit in range(size.bit_length() - 1)
        ]
        for axis, (name, size) in enumerate(zip(inputs, shape, strict=True))
    }
    sizes = dict(output_sizes) if output_sizes is not None else {
        name: 1 << int(table.max()).bit_length() for name, table in tables.items()
    }  # fmt: skip
    layout = linear_layout(bases, {name: sizes[name] for name in tables})
    for name, expected in coordinates(layout).items():
        wrong = np.argwhere(expected != tables[name])
        if len(wrong):
            at = tuple(int(each) for each in wrong[0])
            place = ", ".join(f"{axis} = {index}" for axis, index in zip(inputs, at, strict=True))
            return NotExpressible(
                f"at {place} {name} is {tables[name][at]}, and {expected[at]} if the powers of two were XORed"
            )
    return layout
