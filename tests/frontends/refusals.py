"""How wrong kernels are collected and held against their messages, for the tests of what the language refuses.

Each kernel is wrong on the line that ends in `# here`; one without such a line is blamed where it is declared.
"""

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace

DIMS = {"M": 64, "N": 32, "K": 16}
A = tw.Tensor["M", "K"]
B = tw.Tensor["K", "N"]
C = tw.Tensor["M", "N"]
ROW = tw.Tensor["N"]
COLUMN = tw.Tensor["M"]


def elements(kernel, element=tw.bf16):
    return {parameter.name: parameter.element or element for parameter in kernel.parameters}


def trace_plainly(kernel, **changed):
    return trace(
        kernel, {axis: DIMS.get(axis, 8) for axis in kernel.axes}, {**elements(kernel), **changed.get("elements", {})}
    )


def collector(cases):
    """A decorator that registers a wrong kernel in `cases`, by name, with the message it must be refused with."""

    def refused(message):
        def register(function):
            cases[function.__name__] = (function, message)
            return function

        return register

    return refused


def refused_at_its_line(function, message, file):
    """Assert that the kernel is refused with the message, at the author's line in `file`, with a remedy."""
    kernel = tw.kernel(function)
    with pytest.raises(TilewrightError, match=message) as caught:
        trace_plainly(kernel)
    span = caught.value.span
    assert span is not None and span.file == file
    expected = "# here" if "# here" in kernel.source else kernel.span.text
    assert span.text.endswith(expected)
    assert caught.value.remedy
