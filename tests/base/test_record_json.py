"""Records as JSON: what is written is read as the same value, and what is none is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.check_report import FileReport, KernelReport, Suppressed
from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.record_json import from_json, to_json
from tilewright.base.span import Span
from tilewright.base.timeline import Arrow, Mark, Timeline

words = st.text(max_size=8)
numbers = st.integers()
spans = st.builds(Span, words, st.integers(0, 99), st.integers(0, 99), words)
repairs = st.builds(Repair, words, st.lists(st.tuples(spans, words), max_size=2).map(tuple), words, st.booleans())
findings = st.builds(
    Diagnostic, words, words, words, st.none() | spans, st.none() | spans, st.lists(words, max_size=2).map(tuple),
    words, st.none() | repairs, st.sampled_from(Level),
)  # fmt: skip
timelines = st.builds(
    Timeline,
    st.lists(words, max_size=2).map(tuple),
    st.lists(st.builds(Mark, numbers, numbers, numbers, st.just("copy"), words), max_size=2).map(tuple),
    st.lists(st.builds(Arrow, numbers, numbers, words), max_size=2).map(tuple),
)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda held: st.lists(held, max_size=2) | st.dictionaries(words, held, max_size=2),
    max_leaves=4,
)
kernels = st.builds(
    KernelReport,
    words,
    words,
    st.sampled_from(("proven", "refuted", "unknown")),
    reasons=st.lists(words, max_size=2).map(tuple),
    findings=st.lists(findings, max_size=2).map(tuple),
    suppressed=st.lists(st.builds(Suppressed, findings, words), max_size=1).map(tuple),
    seconds=st.floats(0, 9),
    timeline=st.none() | timelines,
    launch=st.none() | st.dictionaries(words, documents, max_size=2),
)
several = st.lists(kernels, max_size=2).map(tuple)
reports = st.builds(FileReport, words, words, several, error_line=st.none() | st.just(3))


@given(reports)
def test_what_is_written_is_read_again(report: FileReport) -> None:
    assert from_json(FileReport, json.loads(json.dumps(to_json(report)))) == report


@pytest.mark.parametrize(
    "value",
    [
        None, 3, [], "text", {}, {"path": 3}, {"path": "p", "no_field": 1}, {"path": "p", "kernels": {}},
        {"path": "p", "kernels": [{"name": "k", "target": "t", "verdict": "fine"}]},
        {"path": "p", "kernels": [{"name": "k"}]},
        {"path": "p", "findings": [{"code": "a", "name": "b", "message": "c", "level": "worst"}]},
        {"path": "p", "error_line": True},
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        from_json(FileReport, value)


def test_a_value_without_a_form_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="object has no form"):
        to_json(object())
