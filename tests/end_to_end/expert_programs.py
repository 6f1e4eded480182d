# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Products of experts, and the operations of a role."""

import re
from collections.abc import Callable

import tilewright as tw


@tw.kernel
def experts(x: tw.Tensor["T", "K"], w: tw.Tensor["G", "N", "K"], ends: tw.Tensor["G", tw.i32], y: tw.Tensor["T", "N"]):
    g, i, j = tw.grid(tw.group("G", "T", ends), "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[g, j, k].T)
    y[i, j] = acc


@tw.kernel
def masked_experts(
    x: tw.Tensor["G", "M", "K"],
    w: tw.Tensor["G", "K", "N"],
    counts: tw.Tensor["G", tw.i32],
    y: tw.Tensor["G", "M", "N"],
):
    g, i, j = tw.grid("G", tw.within("M", counts), "N")
    acc = tw.zeros(g, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[g, i, k], w[g, k, j])
    y[g, i, j] = tw.relu(acc)


def role_of(text: str, name: str) -> str:
    """The part of the text that is a role."""
    begin = text.index(f"// role {name}")
    following = text.find("// role", begin + 1)
    return text[begin : following if following > 0 else len(text)]


def in_role(name: str, old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        part = role_of(text, name)
        changed = re.sub(old, new, part)
        assert changed != part
        return text.replace(part, changed)

    return edit
