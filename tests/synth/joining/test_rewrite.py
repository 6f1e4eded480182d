"""Programs over joined axes mean what the program means, of the arrays as they are."""

from dataclasses import replace

import numpy as np
import pytest
from tests.synth.joining.grouped_programs import MASKS, attention, batched_product, viewed

from tilewright.base.element import Element
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import buffers, the_program
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.synth.joining import joined_forms
from tilewright.synth.joining.pairs import Pair
from tilewright.synth.joining.rewrite import require_same_places

CASES = [
    (3, "causal", "B H Q", (2, 6, 5)), (4, "late_window", "B H Q", (1, 8, 3)), (8, "no_mask", "B H Q", (1, 8, 2)),
    (None, "lengths", "B H Q", (2, 3, 5)), (None, "causal", "B Q H", (2, 3, 5)), (4, "causal", "B Q H", (2, 8, 1)),
    (4, "slopes", "B H Q", (1, 8, 3)), (4, "slopes", "H B Q", (2, 8, 1)), (None, "numbered", "B H Q", (1, 4, 3)),
]  # fmt: skip


def drawn(buffer):
    random = np.random.default_rng(0)
    whole = buffer.element is Element.S32
    numbers = random.integers(1, 20, buffer.shape) if whole else random.normal(size=buffer.shape)
    return numbers.astype(DTYPES[buffer.element])


def assert_same_meaning(kernel, dims) -> int:
    """Of the program and each joined form, of which there are so many."""
    kinds = {each.name: each.element or Element.F16 for each in kernel.parameters}
    module = trace(kernel, dims, kinds)
    arrays = {each.name: drawn(each) for each in buffers(the_program(module)) if each.role == "input"}
    wanted, forms = evaluate(module, arrays, rounded=False), list(joined_forms(the_program(module)))
    for form in forms:
        program = the_program(form)
        tensors = {
            name.data: tensor_type(argument)
            for name, argument in zip(program.parameters, program.body.block.args, strict=True)
        }
        given = {name: viewed(array, tensors[name]) for name, array in arrays.items()}
        for name, found in evaluate(form, given, rounded=False).items():
            assert np.allclose(found, viewed(wanted[name], tensors[name]), rtol=1e-12, atol=1e-12), name
    return len(forms)


@pytest.mark.parametrize(("group", "mask", "axes", "extents"), CASES)
def test_joined_programs_mean_the_same(group, mask, axes, extents):
    dims = dict(zip("BHQ", extents, strict=True)) | {"T": 30, "E": 8, "F": 8}
    assert assert_same_meaning(attention(group, MASKS[mask], axes), dims) >= 1


def test_matrices_of_a_batch_become_rows():
    assert assert_same_meaning(batched_product, {"B": 3, "M": 5, "N": 16, "K": 16}) == 1


PAIR = Pair("H", "Q", 4, 2, 5)
DENSE = TensorType.of(("H", "Q", "E"), (8, 5, 16), (80, 16, 1), Element.F16)
VIEW = TensorType.of(("H_blocks", "H_Q", "E"), (2, 20, 16), (320, 16, 1), Element.F16)


@pytest.mark.parametrize("strides", [(80, 16, 1), (320, 80, 1), (320, 17, 1), (320, 16, 2), (319, 16, 1)])
def test_views_with_elements_elsewhere_are_found(strides):
    require_same_places(DENSE, VIEW, PAIR)
    with pytest.raises(AssertionError, match="elsewhere"):
        require_same_places(DENSE, TensorType.of(VIEW.axis_names, VIEW.extents, strides, Element.F16), PAIR)


def test_views_of_heads_alone_have_a_head_s_stride():
    pair = replace(PAIR, size=8, count=1)
    heads = TensorType.of(("H",), (8,), (3,), Element.F16)
    require_same_places(heads, TensorType.of(("H_Q/5",), (8,), (3,), Element.F16), pair)
    with pytest.raises(AssertionError, match="elsewhere"):
        require_same_places(heads, TensorType.of(("H_Q/5",), (8,), (1,), Element.F16), pair)
