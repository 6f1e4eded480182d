"""Branches that only choose what registers hold, written as guards: when, when not, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch, module

from tilewright.base.plan import PointerParam, ScalarParam
from tilewright.frontends.ptx.ast import Instruction, Kernel
from tilewright.machine.core.run import run_launch
from tilewright.machine.protocol.slicing.guarded_regions import with_guards
from tilewright.machine.protocol.slicing.slice import cheap_stores, protocol_slice, text_of
from tilewright.machine.protocol.slicing.steering import steering

_PARAMETERS = ".param .u64 out, .param .u32 n"
_BEGIN = """.shared .align 16 .b8 buf[1024];
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [n];
mov.u32 %r9, buf;
mov.u32 %r2, 0;
setp.eq.u32 %p1, %r1, 3;
setp.lt.u32 %p2, %r1, 9;
"""
_END = "\nadd.u32 %r9, %r9, %r2;\nst.shared.u32 [%r9], 1;\nret;"


def kernel_of(body: str) -> Kernel:
    return module(body, parameters=_PARAMETERS).kernels[0]


def rewritten(kernel: Kernel) -> Kernel:
    text = text_of(kernel)
    sliced = protocol_slice(kernel, text=text, stores=cheap_stores(text))
    return with_guards(kernel, sliced, steering(sliced))


def branches(kernel: Kernel) -> int:
    return sum(isinstance(each, Instruction) and each.row == "bra" and each.guard is not None for each in kernel.body)


def left(body: str) -> int:
    """How many branches are left between the beginning and the end of a kernel."""
    return branches(rewritten(kernel_of(f"{_BEGIN}{body}{_END}")))


CHOOSING = {
    "one way": "@!%p1 bra L;\nmov.u32 %r2, 8;\nL:",
    "two ways": "@%p1 bra T;\nmov.u32 %r2, 4;\nbra.uni L;\nT:\nmov.u32 %r2, 8;\nL:",
    "far away": "bra.uni G;\nT:\nmov.u32 %r2, 8;\nbra.uni L;\nG:\n@%p1 bra T;\nL:",
    "one in another": "@!%p1 bra L;\nmov.u32 %r2, 4;\n@%p2 bra M;\nadd.u32 %r2, %r2, 4;\nM:\nadd.u32 %r2, %r2, 8;\nL:",
    "a guard in it": "@!%p1 bra L;\n@!%p2 mov.u32 %r2, 8;\nL:",
    "its predicate in it": "@!%p1 bra L;\nsetp.eq.u32 %p1, %r1, 9;\nadd.u32 %r2, %r2, 4;\nL:",
    "a parameter": "@!%p1 bra L;\nld.param.u32 %r3, [n];\nand.b32 %r2, %r3, 4;\nL:",
    "a global store": "@!%p1 bra L;\nst.global.u32 [%rd1], %r1;\nmov.u32 %r2, 8;\nL:",
    "a register of its own": "@!%p1 bra L;\nadd.u32 %r3, %r1, 1;\nand.b32 %r2, %r3, 4;\nL:",
    "undefined before, written by both": (
        "@%p1 bra T;\nmov.u32 %r3, 4;\nbra.uni L;\nT:\nmov.u32 %r3, 8;\nL:\nadd.u32 %r2, %r2, %r3;"
    ),
}


@pytest.mark.parametrize("body", CHOOSING.values(), ids=CHOOSING)
def test_what_only_chooses_has_no_branch(body: str) -> None:
    assert left(body) == 0


STAYING = {
    "a store to shared memory": "@!%p1 bra L;\nst.shared.u32 [%r9], 1;\nmov.u32 %r2, 8;\nL:",
    "a barrier": "@!%p1 bra L;\nbar.warp.sync -1;\nmov.u32 %r2, 8;\nL:",
    "a load that steers": "@!%p1 bra L;\nld.global.u32 %r2, [%rd1];\nL:",
    "undefined before": "@!%p1 bra L;\nmov.u32 %r3, 8;\nL:\nadd.u32 %r2, %r2, %r3;",
    "undefined before, in one of two": (
        "@!%p2 bra L;\n@%p1 bra T;\nmov.u32 %r3, 4;\nbra.uni M;\nT:\nmov.u32 %r3, 8;\nM:\nL:\nadd.u32 %r2, %r2, %r3;"
    ),
    "nothing that steers": "@!%p1 bra L;\nmov.u32 %r5, 8;\nL:",
    "no input": "mov.u32 %r4, %tid.x;\nsetp.eq.u32 %p3, %r4, 0;\n@%p3 bra L;\nmov.u32 %r2, 8;\nL:",
    "entered from elsewhere": "@%p2 bra M;\n@!%p1 bra L;\nM:\nmov.u32 %r2, 8;\nL:",
}


@pytest.mark.parametrize("body", STAYING.values(), ids=STAYING)
def test_what_does_more_stays_a_branch(body: str) -> None:
    assert left(body) > 0


def test_a_loop_stays_a_branch() -> None:
    body = "@!%p1 bra L;\nK:\nadd.u32 %r2, %r2, 4;\nsetp.lt.u32 %p3, %r2, 16;\n@%p3 bra K;\nL:"
    assert left(body) == 2


def test_a_kernel_without_such_branches_is_itself() -> None:
    kernel = kernel_of(f"{_BEGIN}{_END}")
    assert rewritten(kernel) is kernel


class _Program:
    """A random text of branches within branches."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.labels = 0

    def lines(self, depth: int) -> list[str]:
        found: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            found += self.branch(depth) if depth and self.random.random() < 0.6 else [self.step()]
        return found

    def step(self) -> str:
        target, one, other = (self.random.randint(2, 6) for _ in range(3))
        guard = self.random.choice(("", "", f"@%p{self.random.randint(1, 3)} ", f"@!%p{self.random.randint(1, 3)} "))
        match self.random.randrange(4):
            case 0:
                return f"{guard}ld.param.u32 %r{target}, [n];"
            case 1:
                return f"{guard}setp.lt.u32 %p{self.random.randint(1, 3)}, %r{one}, %r{other};"
            case _:
                row = self.random.choice(("add.u32", "sub.u32", "mul.lo.u32", "xor.b32"))
                return f"{guard}{row} %r{target}, %r{one}, %r{other};"

    def branch(self, depth: int) -> list[str]:
        self.labels += 1
        end, other = f"END{self.labels}", f"OTHER{self.labels}"
        guard = f"@{self.random.choice(('', '!'))}%p{self.random.randint(1, 3)}"
        if self.random.random() < 0.5:
            return [f"{guard} bra {end};", *self.lines(depth - 1), f"{end}:"]
        ways = self.lines(depth - 1), self.lines(depth - 1)
        return [f"{guard} bra {other};", *ways[0], f"bra.uni {end};", f"{other}:", *ways[1], f"{end}:"]

    def body(self) -> str:
        start = [f"mad.lo.u32 %r{place}, %r1, {place}, %r8;" for place in range(3, 7)]
        end = [f"mad.lo.u32 %r2, %r2, 31, %r{place};" for place in range(3, 7)]
        end += ["mad.wide.u32 %rd1, %r8, 4, %rd1;", "st.global.u32 [%rd1], %r2;", "and.b32 %r2, %r2, 508;"]
        return "\n".join((_BEGIN, "mov.u32 %r8, %tid.x;", "setp.gt.u32 %p3, %r1, %r8;", *start, *self.lines(3), *end))


@pytest.mark.parametrize("seed", range(24))
def test_the_same_is_computed(seed: int) -> None:
    whole = module(_Program(seed).body() + _END, parameters=_PARAMETERS)
    kernel = whole.kernels[0]
    guarded = rewritten(kernel)
    for n in (0, 3, 5, 17):
        results: list[list[int]] = []
        for each in (kernel, guarded):
            out = np.zeros(32, np.uint32)
            run_launch(replace(whole, kernels=(each,)), launch(PointerParam("out"), ScalarParam("i32", n)),
                       {"out": as_bytes(out)})  # fmt: skip
            results.append(out.tolist())
        assert results[0] == results[1]


def test_random_texts_have_branches_that_go() -> None:
    pairs = [(branches(kernel), branches(rewritten(kernel))) for seed in range(24)
             if (kernel := kernel_of(_Program(seed).body() + _END))]  # fmt: skip
    assert sum(before for before, _ in pairs) > 60
    assert all(after == 0 for _, after in pairs)
