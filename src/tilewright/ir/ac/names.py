"""What are the values of an `ac` program called, where nothing has named them?

By the words of their operations: a ring, a buffer or a map by its symbol; other results by their field, or by what they
are (`%tx`, `%phase`); arguments of regions by what their class says of them, carried ones as the values that they begin
with. The printer tells values of one name apart by numbers. Names mean nothing. Checked by: tests/ir/ac/test_format.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from tilewright.ir.ac.format import AcOperation, result_fields

_FIELDS_THAT_SAY_NOTHING = ("", "result", "outputs", "sum")
_BY_TYPE = {"fragment": "values", "index": "at", "scalar_type": "x", "acc": "sums", "inflight": "sums"}
"""Names by type, where the type's own is not a good one."""


def name_values(op: Operation) -> None:
    """Name every value of an operation and of those in it that has no name."""
    for each in op.walk():
        if isinstance(each, AcOperation):
            _name_arguments(each)
            _name_results(each)


def _name_arguments(op: AcOperation) -> None:
    carried = op.operands[len(op.operands) - _carried(op) :]
    for region in op.regions:
        for block in region.blocks:
            first = len(block.args) - len(carried)
            for number, argument in enumerate(block.args[: max(first, 0)]):
                _name(argument, op.ARGUMENT_NAMES[min(number, len(op.ARGUMENT_NAMES) - 1)])
            for argument, initial in zip(block.args[max(first, 0) :], carried, strict=False):
                _name(argument, initial.name_hint)


def _carried(op: AcOperation) -> int:
    """How many of its operands are carried: the last ones."""
    fields = [name for name, _ in op.get_irdl_definition().operands]
    return max(len(op.operands) - len(fields) + 1, 0) if fields and fields[-1] == "carried" else 0


def _name_results(op: AcOperation) -> None:
    symbol = op.properties.get("sym_name")
    fields = result_fields(op)
    carried = op.operands[len(op.operands) - _carried(op) :]
    for number, result in enumerate(op.results):
        field = fields.get(result, "")
        if isinstance(symbol, StringAttr):
            _name(result, symbol.data)
        elif field == "outputs" and number < len(carried):
            _name(result, carried[number].name_hint)
        else:
            _name(result, _of_type(result.type) if field in _FIELDS_THAT_SAY_NOTHING else field)


def _of_type(kind: Attribute) -> str | None:
    word = kind.name.rpartition(".")[2] if isinstance(kind, ParametrizedAttribute) else "value"
    return _BY_TYPE.get(word, word)


def _name(value: SSAValue, name: str | None) -> None:
    if value.name_hint is None and name and SSAValue.is_valid_name(name):
        value.name_hint = name
