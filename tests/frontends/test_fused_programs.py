"""Programs of products, folds and products of them: `examples/fused.py` traced and evaluated, against plain NumPy."""

import inspect

import numpy as np
import pytest
from examples import fused

import tilewright as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace

DIMS = {"B": 2, "H": 8, "Q": 9, "T": 11, "E": 16, "F": 6, "M": 10, "N": 7, "K": 13, "L": 5, "P": 12, "S": 64, "R": 12}
PROGRAMS = {name: value for name, value in vars(fused).items() if isinstance(value, Kernel)}


def elements(kernel):
    return {each.name: each.element or Element.F16 for each in kernel.parameters}


def traced(kernel, dims=DIMS):
    return trace(kernel, {axis: dims[axis] for axis in kernel.axes}, elements(kernel))


def inputs(kernel, outputs, dims=DIMS):
    generator = np.random.default_rng(1)
    sizes = {**dims, "H/4": -(-dims["H"] // 4), "T/64": -(-dims["T"] // 64)}
    arrays = {}
    for parameter in kernel.parameters:
        shape = [sizes[axis] for axis in parameter.axes]
        if parameter.name in outputs:
            continue
        if parameter.element is Element.S32:
            arrays[parameter.name] = generator.integers(1, dims["T"] + 1, shape, dtype=np.int32)
        else:
            arrays[parameter.name] = generator.standard_normal(shape).astype(DTYPES[Element.F16])
    return arrays


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attended(Q, K, V, seen=True, groups=1):
    K, V = K.repeat(groups, axis=1), V.repeat(groups, axis=1)
    scores = np.where(seen, np.einsum("bhqe,bhte->bhqt", Q, K) * 0.125, -np.inf)
    return np.einsum("bhqt,bhtf->bhqf", softmax(scores), V), scores


def places():
    return np.arange(DIMS["Q"])[:, None], np.arange(DIMS["T"])


def causal(Q, K, V):
    q, t = places()
    result, scores = attended(Q, K, V, t <= q)
    return {"O": result, "L": np.log(np.exp(scores).sum(axis=-1))}


def sliding(Q, K, V):
    q, t = places()
    return {"O": attended(Q, K, V, (t <= q) & (t > q - fused.WINDOW))[0]}


def lengths_masked(Q, K, V, lengths):
    return {"O": attended(Q, K, V, (places()[1] < lengths[:, None])[:, None, None, :])[0]}


def decoded(Q, K, V, lengths):
    """Of one query a head; keys over (batch, place, head)."""
    K, V = (each.transpose(0, 2, 1, 3) for each in (K, V))
    seen = (np.arange(DIMS["T"]) < lengths[:, None])[:, None, None, :]
    return {"O": attended(Q[:, :, None], K, V, seen, groups=4)[0][:, :, 0]}


def decoded_in_pages(Q, K, V, table, lengths):
    rows = np.arange(DIMS["T"])
    return decoded(Q, *(each[table.astype(int)[:, rows // 64], rows % 64] for each in (K, V)), lengths)


def rms_norm_matmul(x, g, w):
    return {"y": (x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * g) @ w.T}


def matmul_rms_norm(x, w, g):
    s = x @ w.T
    return {"y": s / np.sqrt((s * s).mean(axis=1, keepdims=True) + 1e-6) * g}


def mlp(x, up, down):
    hidden = x @ up.T
    return {"y": (hidden / (1 + np.exp(-hidden))) @ down.T}


FORMULAS = {
    "linear_relu": lambda x, w: {"y": np.maximum(x @ w.T, 0)},
    "attention": lambda Q, K, V: {"O": attended(Q, K, V)[0]},
    "causal_attention": causal,
    "sliding": sliding,
    "grouped_heads": lambda Q, K, V: {"O": attended(Q, K, V, groups=4)[0]},
    "variable_lengths": lengths_masked,
    "decode_attention": decoded,
    "paged_attention": decoded_in_pages,
    "gathered_matmul": lambda x, rows, w: {"y": x[rows.astype(int)] @ w.T},
    "embedding": lambda table, tokens: {"y": table[tokens.astype(int)]},
    "matmul_softmax": lambda x, w: {"y": softmax(x @ w.T)},
    "matmul_rms_norm": matmul_rms_norm,
    "matmul_argmax": lambda x, w: {"y": (x @ w.T).argmax(axis=1)},
    "rms_norm_matmul": rms_norm_matmul,
    "mlp": mlp,
}


def test_every_program_has_a_formula():
    assert set(PROGRAMS) == set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_programs_are_their_formulas(name, monkeypatch):
    monkeypatch.setattr(fused, "WINDOW", 3)
    kernel, formula = PROGRAMS[name], FORMULAS[name]
    arrays = inputs(kernel, {"O", "L", "y"})
    wide = {name: array.astype(float) for name, array in arrays.items()}
    expected = formula(**wide)
    got = evaluate(traced(kernel), arrays, rounded=False)
    assert set(got) == set(expected)
    for output, values in expected.items():
        np.testing.assert_allclose(got[output], values, rtol=1e-10, atol=1e-13)
    rounded = evaluate(traced(kernel), arrays)
    assert all(rounded[output].dtype == (np.int32 if name == "matmul_argmax" else np.float16) for output in expected)


def test_they_are_short():
    """Of what is computed, a program has at most five lines; none names a tile, a loop or a state."""
    for kernel in PROGRAMS.values():
        body = inspect.getsource(kernel.function).split("):\n", 1)[1].rstrip()
        assert len(body.splitlines()) <= 5
        assert "tw.loop" not in body and "tw.zeros" not in body


def test_numbers_of_integers_are_rounded_to_float32():
    @tw.kernel
    def widened(n: tw.Tensor["M", tw.i32], y: tw.Tensor["M"]):  # noqa: F821
        i = tw.axes("M")
        y[i] = n[i] + 0.5

    numbers = np.array([2**24 - 1, 2**24 + 1, -5], np.int32)
    module = trace(widened, {"M": 3}, {"n": Element.S32, "y": Element.F32})
    assert evaluate(module, {"n": numbers}, rounded=False)["y"].tolist() == [2.0**24 - 0.5, 2.0**24 + 0.5, -4.5]
