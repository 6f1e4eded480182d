# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs for sm_100a, edits of their texts, and their numbers beside NumPy's."""

import re
from dataclasses import replace

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Refuted, Verdict
from tilewright.cli.arrays import random_inputs
from tilewright.cli.commands.run_command import ERROR_LIMITS, relative_errors
from tilewright.driver.compile.compile import Compilation
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.ptx.reader import read
from tilewright.targets.schema import Fact, Facts

TARGET = "sm_100a"


def check_numbers(compilation: Compilation, seed: int = 0) -> None:
    """The machine's results against NumPy's."""
    bundle = compilation.bundle()
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], seed)
    outputs = run_on_machine(bundle, tuple(inputs.values()))
    stored = [each for each in bundle.plan.buffers if each.role == "output"]
    results = dict(zip((each.name for each in stored), outputs if len(stored) > 1 else (outputs,), strict=True))
    errors = relative_errors(bundle, inputs, results)
    assert errors is not None
    for each in stored:
        assert errors[each.name] <= ERROR_LIMITS[each.element], (each.name, errors)


@tw.kernel
def with_epilogue(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["K", "N"],
    b: tw.Tensor["N", tw.f32],
    r: tw.Tensor["M", "N"],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i, j] = tw.gelu(acc + b[j]) + r[i, j]


@tw.kernel
def of_columns(x: tw.Tensor["K", "M"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N", tw.f32]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[k, i], w[k, j], over=k)


@tw.kernel
def of_matrices(x: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], y: tw.Tensor["B", "M", "N"]):
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.relu(tw.dot(x[b, i, k], w[b, j, k], over=k))


@tw.kernel
def of_bytes(
    x: tw.Tensor["M", "K", tw.f8e4m3],
    w: tw.Tensor["N", "K", tw.f8e4m3],
    s: tw.Tensor["M", tw.f32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = acc * s[i]


@tw.kernel
def of_byte_columns(
    x: tw.Tensor["K", "M", tw.f8e5m2], w: tw.Tensor["K", "N", tw.f8e5m2], y: tw.Tensor["M", "N", tw.f8e4m3]
):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[k, i], w[k, j], over=k)


@tw.kernel
def gated(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], v: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    first, second = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        first += tw.dot(x[i, k], w[k, j])
        second += tw.dot(x[i, k], v[k, j])
    y[i, j] = tw.silu(first) * second


@tw.kernel
def both_ways(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["K", "N"],
    r: tw.Tensor["N", "M"],
    y: tw.Tensor["M", "N"],
    z: tw.Tensor["N", "M"],
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[k, j])
    y[i, j] = acc + r[j, i].T
    z[j, i] = tw.maximum(acc, -acc).T


@tw.kernel
def below_the_diagonal(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.where(j <= i, tw.dot(x[i, k], w[j, k], over=k), 0.0)


@tw.kernel
def of_neighbours(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], r: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i - 1, k], w[j + 3, k].T)
    y[i, j] = acc + r[i + 1, j]


def replaced(ptx: str, old: str, new: str, number: int = 0) -> str:
    """One occurrence of a pattern in the text, replaced."""
    found = list(re.finditer(old, ptx, re.DOTALL))[number]
    return ptx[: found.start()] + found.expand(new) + ptx[found.end() :]


def rejudged(compilation: Compilation, ptx: str) -> Verdict:
    """What the second proof's machine and judge, which know nothing of how a text was made, say of another one."""
    return replay_plan(read(ptx, "edited.ptx"), compilation.plan, dict(compilation.claims), (0,))


def check_edit(compilation: Compilation, edit: tuple[str, str, int]) -> None:
    """An edit of the text (`replaced`) is refuted."""
    edited = replaced(compilation.ptx, *edit)
    assert edited != compilation.ptx
    found = rejudged(compilation, edited)
    assert isinstance(found, Refuted), (edit, found)


def line(begin: str, guarded: bool = False) -> str:
    """A pattern for a line of the text that begins so."""
    return (r"\t@!?%p\d+ " if guarded else r"\t") + begin + r"[^\n]*\n"


ANY = r"[^\n]*\n"


COMMIT, AFTER, MEET = line("tcgen05.commit"), line("tcgen05.fence::after"), line("bar.sync %r")


FREE, ALLOCATE, RELEASE = (line(word, True) for word in (r"tcgen05\.dealloc", r"tcgen05\.alloc", "mbarrier.arrive"))


WAIT, GO_ON = line("mbarrier.try_wait") + r"\t@%p\d+ (bra wait_done)", r"\t\1"


READ = rf"(?:{line('add.u32')}{line('tcgen05.ld')})+{line('tcgen05.wait::ld')}"


class OfOneMultiprocessor(Facts):
    """Of a device whose one CTA takes all tiles."""

    def __getitem__(self, key: str) -> Fact:
        found = super().__getitem__(key)
        return replace(found, value=1) if key == "device.multiprocessors" else found
