"""Which products are added to which: a sum that begins with rubbish, is lost, or is counted twice is refuted."""

import re

import pytest
from tests.driver.reproof.judged_instances import codes, instance

from tilewright.base.verdict import Proven, Refuted

SCALE = re.compile(r"\tsetp\.ne\.u32 (%p\d+), ([01]), 0;")
PRODUCT = re.compile(r"\twgmma\.mma_async\S* \{(%f\d+),.*, (%p\d+), 1, 1")


def scales(text: str) -> list[int]:
    """The lines that say whether a wgmma adds."""
    lines = text.split("\n")
    added = {found[2] for line in lines if (found := PRODUCT.match(line)) is not None}
    return [at for at, line in enumerate(lines) if (found := SCALE.match(line)) is not None and found[1] in added]


def other_scale(text: str, at: int) -> str:
    lines = text.split("\n")
    lines[at] = SCALE.sub(lambda found: f"\tsetp.ne.u32 {found[1]}, {1 - int(found[2])}, 0;", lines[at])
    return "\n".join(lines)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["plain", "streamed", "groups", "two levels"])
def test_each_wgmma_adds_or_not_as_its_place_in_the_sum_asks(name: str) -> None:
    made = instance(name)
    assert isinstance(made.judge(made.text), Proven)
    places = scales(made.text)
    found = [codes(made.judge(other_scale(made.text, at))) for at in places[:5]]
    # What adds to a register that nobody has written is at fault before sums are looked at.
    assert all(each <= {"UM108", "MF003"} for each in found)
    assert {"UM108"} in found


def test_sums_that_nobody_adds_to_the_total() -> None:
    """The next slices begin anew, as they do in the right text."""
    made = instance("two levels")
    lines = made.text.split("\n")
    accumulator = next(found[1] for line in lines if (found := PRODUCT.match(line)) is not None)
    product = next(line for line in lines if f"{{{accumulator}," in line and "wgmma" in line)
    sums = set(re.findall(r"%f\d+", product.split("}")[0]))
    assert len(sums) > 8
    kept = [line for line in lines if "wgmma" in line or sums.isdisjoint(re.findall(r"%f\d+", line.partition(",")[2]))]
    assert len(lines) - len(kept) >= len(sums)
    assert "UM108" in codes(made.judge("\n".join(kept)))


def test_a_head_is_multiplied_by_its_own_group_alone() -> None:
    """Blocks of an axis, as groups of heads are, go with the axis."""
    made = instance("grouped heads")
    assert isinstance(made.judge(made.text), Proven)
    # Divisions by 4: by the quotient of 2 ** 32, and what it leaves.
    by_four = re.compile(r"(\tmov\.u32 %r\d+, )4(;\n\tmov\.u32 %r\d+, )1073741824;")
    places = list(by_four.finditer(made.text))
    assert places
    found: list[set[str]] = []
    for at in places:
        halved = made.text[: at.start()] + f"{at[1]}2{at[2]}2147483648;" + made.text[at.end() :]
        verdict = made.judge(halved)
        # Where a consumer alone takes other rows, sums are as they were: what is stored is another proof's question.
        found += [codes(verdict)] if isinstance(verdict, Refuted) else []
    assert any(each & {"UM104", "UM105"} for each in found), found
