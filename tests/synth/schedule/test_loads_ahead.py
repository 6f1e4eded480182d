# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which vectors of an epilogue are loaded while the last product runs, and what becomes of them in the text."""

import pytest
from tests.synth.walked_products import parts_of, walk_of

import tilewright.frontends.tile.language as tw
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def epilogue(
    a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M"], t: tw.Tensor["N"], u: tw.Tensor["N"],
    r: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"], d: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    x = acc * s[i] * t[j]
    c[i, j] = x + r[i, j]
    d[i, j] = x + u[j]


def decided(tile, kernel=epilogue):
    parts = parts_of({"M": 512, "N": 512, "K": 512}, kernel, wanted=Wanted(tile=tile, swapped=False))
    return the_program(parts[-1].module), walk_of(parts)


@pytest.mark.parametrize(
    ("tile", "ahead"),
    [
        ((128, 128), ("s", "t", "u")),
        ((128, 256), ("s", "t")),
        ((256, 128), ("s", "t")),
        ((64, 64), ("s", "t", "u")),
    ],
)
def test_vectors_are_loaded_ahead_as_long_as_registers_hold_them(tile, ahead):
    assert decided(tile)[1].loads_ahead == ahead


def test_they_stand_before_the_last_wait_once_for_both_results():
    program, decisions = decided((128, 128))
    assert decisions.loads_ahead
    (kernel,) = lower_program(program).kernels
    ops = list(kernel.module.walk())
    last = max(at for at, op in enumerate(ops) if isinstance(op, ac.WgmmaWaitOp))
    loads = [(at, op) for at, op in enumerate(ops) if isinstance(op, ac.FragmentLoadOp)]
    ahead = [at for at, op in loads if op.ahead is not None]
    assert len(ahead) == 3 and max(ahead) < last
    assert [at > last for at, op in loads if op.ahead is None] == [True]


@pytest.mark.parametrize(("activation", "ahead"), [(tw.relu, ("t",)), (tw.gelu, ())])
def test_a_series_leaves_fewer_registers(activation, ahead):
    @tw.kernel
    def layer(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], t: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[j, k].T)
        c[i, j] = activation(acc + t[j])

    assert decided((256, 128), layer)[1].loads_ahead == ahead
