"""`tw.attention` of keys and values of 8 bits on the CPU machine: against float64, heads' factors, what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.driver.compile.attention_runs import BF16, exact_attention, random, relative

import tilewright as tw

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
ROUNDED = {E4M3: 2.0**-4, E5M2: 2.0**-3, BF16: 2.0**-8, np.float16: 2.0**-11}
"""Of a weight of that element, what rounding changes at most, relative."""
SCALE = 0.25


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("query_type", "cached", "causal"),
    [(BF16, E4M3, True), (E4M3, E4M3, False), (np.float16, E5M2, False), (E5M2, E5M2, True)],
)
def test_against_float64(query_type: Any, cached: Any, causal: bool) -> None:
    query = random(0, 1, 4, 17, 32, dtype=query_type)
    key, value = random(1, 1, 2, 40, 32, dtype=cached), random(2, 1, 2, 40, 16, dtype=cached)
    of_keys = np.float32([0.5, 1.5])
    found, lse = tw.attention(
        query, key, value, is_causal=causal, scale=SCALE, enable_gqa=True, key_scale=of_keys, value_scale=3,
        return_lse=True,
    )  # fmt: skip
    scaled = key.astype(np.float64) * of_keys[:, None, None]
    exact, exact_lse, _ = exact_attention(query, scaled, 3 * value.astype(np.float64), causal=causal, scale=SCALE)
    assert found.dtype == (BF16 if query_type in (E4M3, E5M2) else query_type)
    assert relative(found, exact) <= ROUNDED[query_type] / np.sqrt(3)
    np.testing.assert_allclose(lse, exact_lse, rtol=1e-5, atol=1e-5)


def narrow(*shape: int) -> Any:
    return np.zeros(shape, E4M3)


@pytest.mark.parametrize(
    ("arrays", "options", "words"),
    [
        ((narrow(1, 1, 4, 16), np.zeros((1, 1, 4, 16), BF16), np.zeros((1, 1, 4, 16), BF16)), {}, "convert two"),
        ((np.zeros((1, 1, 4, 16), E5M2), narrow(1, 1, 4, 16), narrow(1, 1, 4, 16)), {}, "convert two"),
        ((narrow(1, 1, 4, 24), narrow(1, 1, 4, 24), narrow(1, 1, 4, 16)), {}, "no multiple of 16"),
        ((narrow(1, 1, 4, 16),) * 3, {"key_scale": np.ones(2, np.float32)}, "one for each of 1 heads"),
        ((narrow(1, 1, 4, 16),) * 3, {"key_scale": np.ones(1)}, "f32"),
        ((np.zeros((1, 1, 4, 16), BF16),) * 3, {"value_scale": 2.0}, "16 bits"),
    ],
)
def test_what_is_refused(arrays: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(tw.TilewrightError) as refused:
        tw.attention(*arrays, **options)
    assert words in f"{refused.value.message} {refused.value.remedy}", refused.value


def test_arrays_of_8_bits_have_no_gradients() -> None:
    query, cached = np.zeros((1, 1, 4, 16), BF16), narrow(1, 1, 4, 16)
    with pytest.raises(tw.TilewrightError, match="gradients of keys and values of f8e4m3"):
        tw.attention_backward(query, query, cached, cached, query, np.zeros((1, 1, 4), np.float32))
