"""A text whose shared addresses lack the address of the shared variable is refuted.

Hardware keeps the first bytes of a CTA's shared memory to itself, so dynamic memory does not begin at address 0 there;
a run in which it did would not tell `[zero + offset]` from `[base + offset]`.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.end_to_end.compiled_programs import emitted

from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.replay.replay import replay
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read

_BASE = re.compile(r"\tmov\.u32 (%r\d+), dynamic_smem;")
_FIELDS = re.compile(r"or\.b64 %rd\d+, %rd\d+, (\d+);")


def judged(name: str, text: str) -> Verdict:
    """The verdict on a text in the place of a program's pipeline kernel."""
    item = emitted(name)
    plan = replace(item.plan, launches=item.plan.launches[-1:])
    return replay_plan(read(text, f"<{name}.ptx>"), plan, {plan.launches[0].entry: item.claims}, (0,))


def spoiled(text: str) -> dict[str, str]:
    """Texts in which one use of the register that holds the variable's address, or all, have 0 in its place."""
    lines = text.split("\n")
    (at,) = (number for number, line in enumerate(lines) if _BASE.fullmatch(line))
    base = _BASE.sub(r"\1", lines[at])
    found = {"all": "\n".join([*lines[:at], lines[at].replace("dynamic_smem", "0"), *lines[at + 1 :]])}
    for number, line in enumerate(lines):
        if number != at and re.search(rf"{base}\b", line):
            without = re.sub(rf"{base}\b", "0", line.replace(f"[{base}+", "["))
            found[f"{number + 1}: {line.strip()}"] = "\n".join([*lines[:number], without, *lines[number + 1 :]])
    return found


@pytest.mark.parametrize("name", ["one-group", "cluster-2x1"])
def test_a_register_that_is_zero_in_place_of_the_variable_is_refuted(name: str) -> None:
    text = emitted(name).text
    assert isinstance(judged(name, text), Proven)
    texts = spoiled(text)
    assert len(texts) > 10
    for what, other in texts.items():
        assert isinstance(judged(name, other), Refuted), what


def test_where_memory_begins_at_zero_the_address_cannot_be_missed() -> None:
    """Why the proof's runs do not begin there."""
    item = emitted("one-group")
    random = np.random.default_rng(0)
    buffers = {
        buffer.name: random.integers(0, 64, size=buffer.span_bytes, dtype=np.uint8) for buffer in item.plan.buffers
    }
    module = read(spoiled(item.text)["all"], "<one-group.ptx>")
    for high in (False, True):
        verdict = replay(module, item.plan.launches[-1], dict(buffers), claims=item.claims, shared_high=high)
        assert isinstance(verdict, Refuted if high else Proven)


def test_a_bit_that_the_place_of_shared_memory_has_by_chance_is_not_set_by_the_text() -> None:
    """Each bit of a descriptor's address, set by the `or` that puts its fields together."""
    text = emitted("one-group").text
    lines = text.split("\n")
    at, field = next((at, found) for at, line in enumerate(lines) if (found := _FIELDS.search(line)) is not None)
    for bit in range(14):
        other = lines[at].replace(field[1], str(int(field[1]) | 1 << bit))
        assert not isinstance(judged("one-group", "\n".join([*lines[:at], other, *lines[at + 1 :]])), Proven), bit
