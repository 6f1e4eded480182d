"""What a text's steps make of a tile's number."""

from collections.abc import Mapping

from tilewright.lower.ptx.emit import Text

_MASK = (1 << 32) - 1


def evaluated(text: Text, results: tuple[str, str], passed: Mapping[str, int]) -> tuple[int, int]:
    """What emitted instructions compute, interpreted one by one. passed: numbers by the names of parameters."""
    values: dict[str, int] = {}
    for line in text.lines:
        opcode, _, rest = line.strip().rstrip(";").partition(" ")
        target, *operands = rest.split(", ")
        if opcode == "ld.param.u32":
            values[target] = passed[operands[0].strip("[]")]
            continue
        given = [values[item] if item.startswith("%") else int(item) for item in operands]
        match opcode:
            case "mov.u32":
                result = given[0]
            case "add.u32":
                result = given[0] + given[1]
            case "sub.u32":
                result = given[0] - given[1]
            case "min.u32":
                result = min(given)
            case "mul.lo.u32":
                result = given[0] * given[1]
            case "div.u32":
                result = given[0] // given[1]
            case "rem.u32":
                result = given[0] % given[1]
            case "mul.hi.u32":
                result = given[0] * given[1] >> 32
            case "mad.lo.u32":
                result = given[0] * given[1] + given[2]
            case "and.b32" | "and.pred":
                result = given[0] & given[1]
            case "xor.b32":
                result = given[0] ^ given[1]
            case "shr.u32":
                result = given[0] >> given[1]
            case "setp.ne.u32":
                result = int(given[0] != given[1])
            case "setp.lt.u32":
                result = int(given[0] < given[1])
            case "setp.ge.u32":
                result = int(given[0] >= given[1])
            case "selp.b32":
                result = given[0] if given[2] else given[1]
            case _:
                raise AssertionError(line)
        values[target] = result & _MASK
    m, n = results
    return values[m], values[n]
