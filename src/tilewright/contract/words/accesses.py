"""When do two accesses of a structured program's agents touch the same bytes, and which rule do they break unordered?

Checked by: tests/contract/words/test_structured_run.py.
"""

from __future__ import annotations

from tilewright.contract.words.state import Record
from tilewright.contract.words.word import Region, Step


def overlap(one: Region, other: Region) -> bool:
    return all(a[0] < b[1] and b[0] < a[1] for a, b in zip(one.box, other.box, strict=True))


def covers(one: Region, other: Region) -> bool:
    """Is all of `other` in `one`?"""
    if not one.exact and one.box != other.box:
        return False
    return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(one.box, other.box, strict=True))


def conflict_code(record: Record, region: Region, writes: bool, kind: str, name: str, step: Step) -> tuple[str, str]:
    """The rule that two unordered accesses break, and what happens."""
    freed = step.kind == "free"
    match record.kind:
        case "load":
            if kind == "load":
                return "TM102", "two copies write the same bytes and nothing orders them"
            return "MB111", "bytes of a copy are used before the phase that reports them"
        case "dot":
            return "WG105", "shared memory is overwritten while a wgmma may still read it"
        case "mma" if region.tensor:
            if freed:
                return "TC103", "tensor memory is given up while an operation may still use it"
            if kind == "mma" and record.agent != name:
                return "TC118", "two agents' operations use the same tensor memory and nothing orders them"
            return "TC107", "the result of a tensor-core operation is touched before it is complete"
        case "mma":
            return "TC110", "shared memory is overwritten while a tensor-core operation may still read it"
        case "store":
            return "BG103", "bytes of a bulk store are overwritten before it has read them"
        case "copy":
            return "BG105", "bytes of a cp.async are used before it is waited for"
        case _:
            if region.tensor:
                return "TC118", "two agents use the same tensor memory and nothing orders them"
            if kind == "thread":
                return "NB101", f"{name} and {record.agent} use the same bytes and nothing orders them"
            verb = "overwrites" if writes else "reads"
            return "TM101", f"an engine {verb} bytes that {record.agent} may still use"
