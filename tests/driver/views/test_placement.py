# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What a report says of slices in a cluster: of multicast, pairs, sums that meet, rows; and nothing of single CTAs."""

import re
from typing import Any

import pytest
from examples.fused import mlp
from examples.rows import softmax

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.driver.views.placement import gain_words, placement_rows
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def linear(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    c[i, j] = tw.dot(a[i, k], b[j, k], over=k)


def rows_of(name: str, **wanted: Any) -> dict[str, str]:
    elements = dict.fromkeys("abc", Element.BF16)
    wish = Wanted(**wanted)
    program = the_program(walked(trace(linear, {"M": 256, "N": 256, "K": 1024}, elements, None), target(name), wish))
    return dict(placement_rows(program, decide(program, target(name), wish)))


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [
        ("sm_90a", {"tile": (64, 64)}, {}),
        (
            "sm_90a",
            {"tile": (64, 64), "cluster": (1, 2)},
            {
                "a": "shared::cta: cta 2 x same; each CTA brings 32 of 64 rows along M to all, multicast mask 0b11",
                "b": "shared::cta: cta 2 x (N +64)",
                "c": "register: cta 2 x (N +64)",
            },
        ),
        (
            "sm_90a",
            {"tile": (64, 64), "split": 2, "teams": 2},
            {
                "a": "shared::cta: cta 2 x (K +64), cluster 2 x (K +128)",
                "b": "shared::cta: cta 2 x (K +64), cluster 2 x (K +128)",
                "contributions of 2 CTAs": "met through shared::cluster, then register: cta 2 x (N +32), "
                "cluster 2 x a contribution to add",
                "contributions of 2 clusters": "met through global, then register: cta 2 x (N +32), "
                "cluster 2 x one of them",
                "c": "register: cta 2 x (N +32), cluster 2 x one of them",
            },
        ),
        (
            "sm_90a",
            {"tile": (64, 24), "split": 4},
            {
                "a": "shared::cta: cta 4 x (K +128)",
                "b": "shared::cta: cta 4 x (K +128)",
                "contributions of 4 CTAs": "met through shared::cluster, then register: cta 4 x (N +8) in the first 3",
                "c": "register: cta 4 x (N +8) in the first 3",
            },
        ),
        (
            "sm_100a",
            {"tile": (128, 64), "cluster": (2, 1)},
            {
                "b": "shared::cluster: cta 2 x (N +32), which the tensor cores of all read",
                "a": "shared::cta: cta 2 x (M +128)",
                "c": "register: cta 2 x (M +128)",
            },
        ),
    ],
    ids=["alone", "multicast", "shared sum", "fewer parts than CTAs", "pair"],
)
def test_products(name: str, wanted: dict[str, Any], expected: dict[str, str]) -> None:
    assert rows_of(name, **wanted) == expected


def test_what_tensor_memory_gains() -> None:
    dims = {"M": 8192, "N": 256, "K": 64, "L": 4096}
    program = the_program(walked(trace(mlp, dims, elements_of(mlp, "bf16"), None), target("sm_100a")))
    words = gain_words(program, decide(program, target("sm_100a")), target("sm_100a"))
    found = re.fullmatch(
        r"sums stay in tensor memory: about (.*) us, of (.*) us where threads read every product", words
    )
    assert found is not None and float(found[1]) < float(found[2])
    assert not gain_words(program, decide(program, target("sm_90a")), target("sm_90a"))


def test_rows_of_several_ctas() -> None:
    program = the_program(trace(softmax, {"M": 8, "N": 8192}, dict.fromkeys("xy", Element.F32), None))
    decisions = decide(program, target("sm_90a"), Wanted(row_threads=256, row_ctas=2, row_kept=False))
    found = dict(placement_rows(program, decisions))
    assert found["contributions of 2 CTAs"] == "met through shared::cluster, then register: cta 2 x same"
    assert found["x"].startswith("register: cta 2 x (N +") and found["y"] == found["x"]
