# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What loops over products do not compile: refused at the author's line, before anything is decided."""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.supported import refuse_unsupported
from tilewright.targets import target

A, B, C = tw.Tensor["M", "K"], tw.Tensor["K", "N"], tw.Tensor["M", "N"]
ENDS = tw.Tensor["G", tw.i32]
CASES: dict[str, str] = {}


def refused(message):
    """Register a kernel with the message that it is refused with at the line that ends in `# here`."""

    def register(function):
        CASES[function.__name__] = message
        return function

    return register


@refused("a program over groups without dot")
def groups_alone(x: C, ends: ENDS, y: C):
    _, i, j = tw.grid(tw.group("G", "M", ends), "N")  # here
    y[i, j] = x[i, j]


@refused("a tensor of integers as numbers is not compiled yet beside a product")
def integers_beside_a_product(a: A, b: B, n: tw.Tensor["M", tw.i32], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    y[i, j] = acc + n[i]  # here


@refused("these products do not go into one kernel")
def nothing_common(a: A, b: B, x: A, w: B, y: C):
    i, j = tw.grid("M", "N")
    one, two = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[i, k], b[k, j])
        two += tw.dot(x[i, k], w[k, j])  # here
    y[i, j] = one * two


@refused("a scaled product is not compiled yet in a loop that does more than sum products")
def scaled_of_computed_ones(a: A, b: B, s: tw.Tensor["M", "K/128"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[i, k]).to(tw.bf16), tw.relu(b[k, j]).to(tw.bf16)) * s[i, k // 128]  # here
    y[i, j] = acc


@refused(r"no operand of a product has the axis \(B\) of the grid")
def batch_of_results(a: A, b: B, x: tw.Tensor["B"], y: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])  # here
    y[p, i, j] = acc + x[p]


@refused("a tile of a neighbouring matrix")
def neighbour(a: tw.Tensor["B", "M", "K"], b: B, x: tw.Tensor["B"], y: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[k, j])
    y[p, i, j] = acc + x[p - 1]  # here


@refused("blocks of matrices or of groups")
def blocks_of_matrices(a: tw.Tensor["B", "M", "K"], b: B, x: tw.Tensor["B/2"], y: tw.Tensor["B", "M", "N"]):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], b[k, j])
    y[p, i, j] = acc + x[p // 2]  # here


@refused("a displaced tile over blocks")
def displaced_blocks(a: A, b: B, x: tw.Tensor["M/2"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    y[i, j] = acc + x[i // 2 + 1]  # here


@refused("an operand of a product is computed from blocks of 3 elements")
def odd_blocks(a: A, b: B, x: tw.Tensor["K/3"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        scale = x[k // 3]  # here
        acc += tw.dot((a[i, k] * scale).to(tw.bf16), b[k, j])
    y[i, j] = acc


@pytest.mark.parametrize("name", CASES)
def test_each_is_refused_at_its_line(name):
    kernel = tw.kernel(globals()[name])
    elements = {item.name: item.element or tw.bf16 for item in kernel.parameters}
    program = the_program(trace(kernel, dict.fromkeys(kernel.axes, 64), elements))
    with pytest.raises(TilewrightError, match=CASES[name]) as caught:
        refuse_unsupported(program, target("sm_90a"))
    assert caught.value.remedy
    span = caught.value.span
    assert span is not None
    with open(span.file) as file:
        assert file.read().splitlines()[span.line - 1].endswith("# here")


def test_plain_programs_are_not_refused():
    @tw.kernel
    def plain(a: A, b: B, y: C):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        y[i, j] = acc

    refuse_unsupported(
        the_program(trace(plain, {"M": 8, "N": 8, "K": 8}, dict.fromkeys(("a", "b", "y"), tw.bf16))), target("sm_90a")
    )
