"""A kernel that uses tensor memory, as text, and its verdict."""

from __future__ import annotations

from tilewright.base.verdict import Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.ac.reader import read_ac
from tilewright.targets import target

BLACKWELL = target("sm_100a")


Edit = tuple[str, str]


def verdict(text: str, edits: tuple[Edit, ...] = (), on: str = "sm_100a") -> Verdict:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    (kernel,) = read_ac(text, "edited.ac.mlir").kernels
    return verify(kernel.module, target(on), kernel.place)
