"""Linear algebra over F2, the field of two elements: what is the rank, kernel, image or inverse of a matrix of bits?

Theory: a matrix is the tuple of its columns, each an integer whose bit i is the entry in row i. It maps a vector x, an
integer whose bit j weighs column j, to the XOR of the columns that x selects. Elimination is Gauss's, with each column
carried beside the combination of columns that made it, both in one integer, so that one XOR moves both. Columns are
taken from the first: those that depend on earlier ones are free, and every solution gives free columns weight 0. Among
all solutions that is the one that uses the earliest columns; it is not in general the one of fewest bits.

The number of rows is never stored: rows past the highest bit are zero, and where it matters the caller gives it.

Not handled: fields other than F2; matrices so large that Python's integers of their width would be slow (hundreds of
rows). Checked by tests/layout/numbers/test_bit_matrix.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence

Columns = tuple[int, ...]
"""A matrix of bits: entry (i, j) is bit i of the j-th integer. None is negative."""


def identity(size: int) -> Columns:
    """The identity of `size` rows and columns."""
    return tuple([1 << each for each in range(size)])


def apply(matrix: Sequence[int], vector: int) -> int:
    """The image of a vector. Raises IndexError where the vector has a bit past the last column."""
    image = 0
    while vector:
        lowest = vector & -vector
        image ^= matrix[lowest.bit_length() - 1]
        vector ^= lowest
    return image


def multiply(outer: Sequence[int], inner: Sequence[int]) -> Columns:
    """The matrix of `outer` after `inner`. Raises IndexError where inner has more rows than outer has columns."""
    images: list[int] = []
    for vector in inner:
        image = 0
        while vector:
            lowest = vector & -vector
            image ^= outer[lowest.bit_length() - 1]
            vector ^= lowest
        images.append(image)
    return tuple(images)


def transpose(matrix: Sequence[int], rows: int) -> Columns:
    """The transpose of a matrix of `rows` rows: a tuple of as many integers."""
    turned = [0] * rows
    for place, column in enumerate(matrix):
        bit = 1 << place
        while column:
            lowest = column & -column
            turned[lowest.bit_length() - 1] |= bit
            column ^= lowest
    return tuple(turned)


def rank(matrix: Sequence[int]) -> int:
    """The dimension of the image."""
    return len(image(matrix))


def image(matrix: Sequence[int]) -> Columns:
    """A basis of the image, reduced: the highest bit of each vector is set in no other, and they ascend."""
    leading: dict[int, int] = {}
    for column in matrix:
        while column:
            known = leading.get(column.bit_length())
            if known is None:
                leading[column.bit_length()] = column
                break
            column ^= known
    return _reduced(leading)


def kernel(matrix: Sequence[int]) -> Columns:
    """A basis of the vectors mapped to 0, one for each free column: that column's bit and earlier ones."""
    return _eliminate(matrix)[1]


def solve(matrix: Sequence[int], vector: int) -> int | None:
    """The x with matrix x = vector that gives free columns weight 0, or None if the vector is not in the image."""
    leading, _ = _eliminate(matrix)
    return _solution(leading, vector, len(matrix))


def solve_all(matrix: Sequence[int], vectors: Sequence[int]) -> Columns | None:
    """`solve` for each vector, at the price of one elimination; None if one is not in the image."""
    leading, _ = _eliminate(matrix)
    solutions: list[int] = []
    for vector in vectors:
        solution = _solution(leading, vector, len(matrix))
        if solution is None:
            return None
        solutions.append(solution)
    return tuple(solutions)


def inverse(matrix: Sequence[int], rows: int) -> Columns | None:
    """The inverse of a matrix of `rows` rows, or None if it is not square or not of full rank."""
    if len(matrix) != rows:
        return None
    return right_inverse(matrix, rows)


def right_inverse(matrix: Sequence[int], rows: int) -> Columns | None:
    """A matrix R with matrix R = identity, zero in the rows of free columns; None if the image is not all vectors."""
    if len(matrix) < rows:
        return None
    return solve_all(matrix, identity(rows))


def pseudo_inverse(matrix: Sequence[int], rows: int) -> Columns:
    """A matrix P with matrix P matrix = matrix and P matrix P = P, of any matrix of `rows` rows.

    On the image it is `solve`; unit vectors of the target that complete the image to a basis, the lowest first, go to
    0. It is the inverse, `right_inverse` or `left_inverse` where those are.
    """
    columns = len(matrix)
    leading, _ = _eliminate((*matrix, *identity(rows)))
    keep = (1 << columns) - 1
    return tuple([_in_span(leading, 1 << row, columns + rows) & keep for row in range(rows)])


def intersection(first: Sequence[int], second: Sequence[int]) -> Columns:
    """A reduced basis of the vectors in the images of both."""
    _, dependent = _eliminate((*image(first), *image(second)))
    basis = image(first)
    keep = (1 << len(basis)) - 1
    return image([apply(basis, each & keep) for each in dependent])


def complement_basis(vectors: Sequence[int], rows: int) -> Columns:
    """Unit vectors, the lowest first, that complete the image of `vectors` to all vectors of `rows` bits."""
    leading: dict[int, int] = {each.bit_length(): each for each in image(vectors)}
    added: list[int] = []
    for row in range(rows):
        vector = 1 << row
        while vector:
            known = leading.get(vector.bit_length())
            if known is None:
                leading[vector.bit_length()] = vector
                added.append(1 << row)
                break
            vector ^= known
    return tuple(added)


def _eliminate(matrix: Sequence[int]) -> tuple[dict[int, int], Columns]:
    """The echelon form by highest bit: for each, a vector with the columns that combine to it in its low bits; and
    the combinations that vanish."""
    width = len(matrix)
    limit = 1 << width
    leading: dict[int, int] = {}
    vanishing: list[int] = []
    tag = 1
    for column in matrix:
        row = column << width | tag
        tag <<= 1
        while row >= limit:
            length = row.bit_length()
            known = leading.get(length)
            if known is None:
                leading[length] = row
                break
            row ^= known
        else:
            vanishing.append(row)
    return leading, tuple(vanishing)


def _solution(leading: dict[int, int], vector: int, width: int) -> int | None:
    row = vector << width
    limit = 1 << width
    while row >= limit:
        known = leading.get(row.bit_length())
        if known is None:
            return None
        row ^= known
    return row


def _in_span(leading: dict[int, int], vector: int, width: int) -> int:
    solution = _solution(leading, vector, width)
    assert solution is not None, "the columns span every vector"
    return solution


def _reduced(leading: dict[int, int]) -> Columns:
    """The vectors, ascending, with each highest bit cleared from the others."""
    basis: list[int] = []
    for length in sorted(leading):
        vector = leading[length]
        for each in basis:
            if vector >> (each.bit_length() - 1) & 1:
                vector ^= each
        basis.append(vector)
    return tuple(basis)
