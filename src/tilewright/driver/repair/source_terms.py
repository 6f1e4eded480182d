"""How does the author of a program write a PTX instruction? In CUDA C++, Gluon and Triton, as far as they have words.

CUDA C++ takes any instruction as inline assembly; Gluon has calls for barriers, fences and waits for copies, whose
operands the author knows better than the text; Triton has a barrier of the CTA, and leaves the rest to its compiler.
Source: PTX ISA 9.1; Triton 3.9, `triton.experimental.gluon.language` (`nvidia.hopper`, `nvidia.blackwell`,
`nvidia.ampere`) and `triton.language.debug_barrier`. Not handled: CuTe DSL, TileLang and other compilers of Python.
Checked by: tests/driver/repair/test_source_edits.py.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Literal

Language = Literal["C++", "Triton", "Gluon", "Python"]
"""Python: of a compiler that is not known."""

_GUARD = re.compile(r"@!?\S+\s+")
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"\s(\d+)\s*;?$")
_CTA_BARRIER = re.compile(r"(?:bar\.sync|bar\.cta\.sync|barrier\.sync|barrier\.cta\.sync)(?:\.aligned)?\s+0\s*;?$")
_WARP_BARRIER = re.compile(r"bar\.warp\.sync\s+(?:0xffffffff|-1)\s*;?$")

_GLUON: tuple[tuple[str, str], ...] = (
    ("fence.proxy.async", "fence_async_shared()"),
    ("mbarrier.arrive.expect_tx", "mbarrier.expect(barrier, {number})"),
    ("mbarrier.expect_tx", "mbarrier.expect(barrier, {number})"),
    ("mbarrier.arrive", "mbarrier.arrive(barrier)"),
    ("mbarrier.init", "mbarrier.init(barrier, count={number})"),
    ("mbarrier.inval", "mbarrier.invalidate(barrier)"),
    ("mbarrier.try_wait", "mbarrier.wait(barrier, phase)"),
    ("mbarrier.test_wait", "mbarrier.wait(barrier, phase)"),
    ("cp.async.bulk.wait_group", "tma.store_wait({number})"),
    ("cp.async.wait_group", "async_copy.wait_group({number})"),
    ("cp.async.wait_all", "async_copy.wait_group(0)"),
    ("cp.async.commit_group", "async_copy.commit_group()"),
    ("wgmma.wait_group", "warpgroup_mma_wait(num_outstanding={number}, deps=[...])"),
    ("tcgen05.commit", "tcgen05_commit(barrier)"),
)
"""By how an opcode begins, the longest first where one begins another."""


def language_of(file: str, text_path: str = "") -> Language:
    """The language of a program's file. text_path: of the text, beside which Triton's cache has the other stages: a
    Triton kernel's has `.ttir`, a Gluon kernel's begins with `.ttgir`."""
    if PurePath(file).suffix != ".py":
        return "C++"
    try:
        if Path(text_path).with_suffix(".ttir").is_file():
            return "Triton"
        return "Gluon" if Path(text_path).with_suffix(".ttgir").is_file() else "Python"
    except (OSError, ValueError):
        return "Python"


def source_term(statement: str, language: Language) -> str | None:
    """What the author writes for a PTX statement; None where the language has no word for it."""
    statement = _SPACE.sub(" ", statement).strip()
    bare = _GUARD.sub("", statement, count=1)
    match language:
        case "C++":
            return _cuda(statement)
        case "Triton":
            return "tl.debug_barrier()" if _CTA_BARRIER.match(bare) else None
        case "Gluon":
            return "gl.barrier()" if _CTA_BARRIER.match(bare) else _gluon(bare)
        case "Python":
            return None


def _cuda(statement: str) -> str | None:
    if _CTA_BARRIER.match(statement):
        return "__syncthreads();"
    if _WARP_BARRIER.match(statement):
        return "__syncwarp();"
    if "%" in statement or '"' in statement or not statement.endswith(";"):
        return None  # registers are the compiler's
    return f'asm volatile("{statement}" ::: "memory");'


def _gluon(bare: str) -> str | None:
    number = _NUMBER.search(bare)
    for opcode, call in _GLUON:
        if bare.startswith(opcode):
            return call.format(number=number[1] if number is not None else "...")
    return None
