"""Targets of which little but the shared memory is known: every fact has a source, and every feature an answer."""

import pytest

from tilewright.base.error import TilewrightError
from tilewright.targets import BANK_TARGET_NAMES, TARGET_NAMES, target
from tilewright.targets.schema import UNITS

OTHERS = [name for name in BANK_TARGET_NAMES if name not in TARGET_NAMES]


@pytest.mark.parametrize("name", OTHERS)
def test_every_fact_has_a_source(name: str) -> None:
    facts = target(name).facts
    assert len(facts) > 20
    for key, fact in facts.items():
        assert len(fact.source) > 10 and fact.unit in UNITS and (fact.since or fact.measured), key


@pytest.mark.parametrize("name", OTHERS)
def test_every_feature_is_answered(name: str) -> None:
    for key in target("sm_90a").facts:
        group, _, feature = key.partition(".")
        if group == "feature":
            assert not target(name).supports(feature)
    with pytest.raises(TilewrightError, match="states no fact"):
        target(name).limit("tensor_map.rank_max")


@pytest.mark.parametrize("name", BANK_TARGET_NAMES)
def test_lanes_that_are_served_together_fill_all_banks_once_and_their_numbers_are_closed_under_xor(name: str) -> None:
    facts = target(name)
    row_bytes = facts.limit("multiprocessor.shared_banks") * facts.limit("multiprocessor.shared_bank_bytes")
    keys = [key for key in facts.facts if key.startswith("shared_access.") and key.endswith("_lanes")]
    widths = [int(part) for key in keys if (part := key.split("_")[-2]).isdigit()]
    assert len(widths) >= 3
    for key in keys:
        part = key.split("_")[-2]
        if part.isdigit():
            lanes = facts.limits(key)
            assert len(set(lanes)) == len(lanes) == row_bytes // int(part)
            assert {first ^ second for first in lanes for second in lanes} == set(lanes)
