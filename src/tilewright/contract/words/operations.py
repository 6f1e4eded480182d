"""What stands in an op of a structured program's text: the values it uses, its numbers, the parts of a loop's head.

Checked by: tests/contract/words/test_structured_proof.py, tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.contract.words.values import NotFollowed
from tilewright.frontends.mlir.ast import Operation, Token
from tilewright.frontends.mlir.ast import Region as Body

TERMINATORS = frozenset(
    {
        "scf.yield", "tt.return", "ttg.warp_yield", "ttg.warp_return", "gpu.return", "gpu.terminator", "func.return",
        "gpu.yield",
    }
)  # fmt: skip


@lru_cache(maxsize=4096)
def is_integer(types: str) -> bool:
    """Does an op with these types yield an integer?"""
    last = types.rsplit("->", 1)[-1].rsplit("to ", 1)[-1]
    return last in ("i1", "i8", "i16", "i32", "i64", "index")


def plain_uses(operation: Operation, until: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The values that stand outside of brackets, and those inside, up to the word `until`."""
    return _plain_uses(operation.tokens, until)


@lru_cache(maxsize=4096)
def _plain_uses(tokens: tuple[Token, ...], until: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    outside: list[str] = []
    inside: list[str] = []
    depth = 0
    for token in tokens:
        if token.kind == "mark":
            depth += (token.text in "([{<" and token.text != "") - (token.text in ")]}>" and token.text != "")
        elif token.kind == "word" and token.text == until:
            break
        elif token.kind == "value":
            (inside if depth else outside).append(token.text)
    return tuple(outside), tuple(inside)


def number_token(operation: Operation) -> int:
    """The first number that is written among the op's operands."""
    found = next((token.text for token in operation.tokens if token.kind == "number"), "")
    if not found.isdigit():
        raise NotFollowed(operation.line, f"{operation.name} names no number that is read")
    return int(found)


def attribute_number(operation: Operation, name: str) -> int:
    """The integer of an attribute, such as `pendings = 0 : i32`."""
    text = operation.attributes.get(name, "").split(":")[0]
    if not text.isdigit():
        raise NotFollowed(operation.line, f"{operation.name} has no attribute {name} that is read")
    return int(text)


def for_parts(operation: Operation) -> tuple[str, str, str, str, tuple[str, ...], tuple[str, ...]]:
    """index, lower, upper, step, the names that the body knows carried values by, and their initial values."""
    uses = operation.uses
    pairs = uses[4:]
    if "iter_args" not in (token.text for token in operation.tokens):
        pairs = ()
    if len(uses) < 4:
        raise NotFollowed(operation.line, "a loop whose counter or bounds are missing")
    return uses[0], uses[1], uses[2], uses[3], pairs[0::2], pairs[1::2]


def all_operations(body: Body) -> list[Operation]:
    """Every op of a region, nested ones included."""
    found: list[Operation] = []
    for operation in body.operations:
        found.append(operation)
        for region in operation.regions:
            found += all_operations(region)
    return found
