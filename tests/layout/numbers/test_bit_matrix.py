"""F2 matrices against enumeration of all vectors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.layout.numbers import bit_matrix

ROWS = 5
matrices = st.lists(st.integers(0, (1 << ROWS) - 1), max_size=6).map(tuple)


def _image(matrix: tuple[int, ...]) -> set[int]:
    return {bit_matrix.apply(matrix, each) for each in range(1 << len(matrix))}


@given(matrices)
def test_rank_and_kernel_count_the_vectors(matrix: tuple[int, ...]) -> None:
    image = _image(matrix)
    assert len(image) == 1 << bit_matrix.rank(matrix)
    basis = bit_matrix.image(matrix)
    assert _image(basis) == image and list(basis) == sorted(basis)
    kernel = {each for each in range(1 << len(matrix)) if bit_matrix.apply(matrix, each) == 0}
    assert _image(bit_matrix.kernel(matrix)) == kernel
    assert len(bit_matrix.kernel(matrix)) + len(basis) == len(matrix)


@given(matrices, st.integers(0, (1 << ROWS) - 1))
def test_solve_finds_what_there_is_with_free_columns_zero(matrix: tuple[int, ...], vector: int) -> None:
    solution = bit_matrix.solve(matrix, vector)
    assert (solution is not None) == (vector in _image(matrix))
    if solution is not None:
        assert bit_matrix.apply(matrix, solution) == vector
        free = [each.bit_length() - 1 for each in bit_matrix.kernel(matrix)]
        assert not any(solution >> each & 1 for each in free)


@given(matrices)
def test_inverses(matrix: tuple[int, ...]) -> None:
    one = bit_matrix.identity(ROWS)
    onto, one_to_one = bit_matrix.rank(matrix) == ROWS, bit_matrix.rank(matrix) == len(matrix)
    pseudo = bit_matrix.pseudo_inverse(matrix, ROWS)
    right = bit_matrix.right_inverse(matrix, ROWS)
    both = bit_matrix.inverse(matrix, ROWS)
    assert (right is not None, both is not None) == (onto, onto and one_to_one)
    if right is not None:
        assert bit_matrix.multiply(matrix, right) == one and pseudo == right
    if one_to_one:
        assert bit_matrix.multiply(pseudo, matrix) == bit_matrix.identity(len(matrix))
    if both is not None:
        assert both == pseudo
    assert bit_matrix.multiply(bit_matrix.multiply(matrix, pseudo), matrix) == matrix
    assert bit_matrix.multiply(bit_matrix.multiply(pseudo, matrix), pseudo) == pseudo


@given(matrices)
def test_transpose_keeps_rank_and_turns_back(matrix: tuple[int, ...]) -> None:
    turned = bit_matrix.transpose(matrix, ROWS)
    assert bit_matrix.transpose(turned, len(matrix)) == matrix
    assert bit_matrix.rank(turned) == bit_matrix.rank(matrix)


@given(matrices, matrices)
def test_multiplication_composes(outer: tuple[int, ...], inner: tuple[int, ...]) -> None:
    wide = (*outer, *bit_matrix.identity(ROWS))
    product = bit_matrix.multiply(wide, inner)
    for each in range(1 << len(inner)):
        assert bit_matrix.apply(product, each) == bit_matrix.apply(wide, bit_matrix.apply(inner, each))


@given(matrices, matrices)
def test_intersection_and_complement(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    assert _image(bit_matrix.intersection(first, second)) == _image(first) & _image(second)
    added = bit_matrix.complement_basis(first, ROWS)
    assert bit_matrix.rank(first) + len(added) == ROWS == bit_matrix.rank((*first, *added))
