"""Is one layout after another a layout, and which?

Theory: write the values of the second layout in the mixed radix of the first one's extents (its coalesced form).
A run of `n` steps of a leaf of stride e is linear as long as no digit of e, taken n - 1 times, overflows its extent; an
overflow ends the run, because in a coalesced layout it changes the value. So each leaf splits in one way, into runs
whose lengths divide its extent, and the whole is a layout if the digits of all runs together never overflow. That is
the admissibility condition. CuTe's (each stride divides, or is divided by, the running extent) implies the first part;
without the second, which it does not ask for, its rule gives a wrong layout.

Negative strides are turned round first; an offset is a digit that is always there. A swizzle of the first layout stays
last. One between the two moves to the front where the first layout keeps the bits it reads and changes together, and is
`NotDecided` otherwise. With symbolic sizes the splits are those that divide as polynomials, and disjoint digits are
proved by chains of divisors.

The second layout's values must lie in the first one's domain. `extend=True` instead continues the last leaf of the
first layout, as CuTe does. What is not settled by digits is settled by enumeration up to 2**16 elements, and is
`NotDecided` beyond. Checked by tests/layout/test_composition.py against enumeration.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible, Refusal
from tilewright.layout.coalescing import canonical, merged, swizzled
from tilewright.layout.composition_by_values import by_values, filled
from tilewright.layout.layout import Layout, joined, made
from tilewright.layout.nested import Nested
from tilewright.layout.swizzle import Swizzle
from tilewright.layout.symbolic_composition import never_negative, symbolic_runs

Tiler = Layout | int | None | tuple["Tiler", ...]
"""A layout for the whole, its size, or one tiler for each part; None leaves a part as it is."""


def compose(left: Layout, right: Tiler, *, extend: bool = False) -> Layout | Refusal:
    """`left` after `right`: the layout R with R(i) = left(right(i)), whose shape refines `right`'s, leaf by leaf.

    right: a layout, a size (the first elements), or a tuple of them for the parts of `left`, None leaving a part.
    extend: values beyond `left`'s domain continue its last leaf.

    NotExpressible: values lie outside the domain, or no shape and strides, under `left`'s swizzle, have these values.
    Raises TilewrightError for more tilers than parts.
    """
    if isinstance(right, Layout):
        return _composed(left, right, extend)
    if right is None:
        return left
    if isinstance(right, tuple):
        modes = left.modes
        if len(right) > len(modes):
            raise TilewrightError(f"compose: {len(right)} tilers for the {len(modes)} parts of {left}")
        done: list[Layout] = []
        for mode, tiler in zip(modes, right, strict=False):
            answer = compose(mode, tiler, extend=extend)
            if not isinstance(answer, Layout):
                return answer
            done.append(answer)
        result = joined([*done, *modes[len(done) :]])
        return behind(left, result)
    return _composed(left, Layout(right), extend)


@lru_cache(maxsize=1 << 14)
def _composed(left: Layout, right: Layout, extend: bool) -> Layout | Refusal:
    if right.swizzle is not None:
        simpler = canonical(right)
        if simpler.swizzle is None:
            refined = compose(simpler, Layout(right.shape))
            return _composed(left, refined, extend) if isinstance(refined, Layout) else refined
        return _past_swizzle(left, right, simpler.swizzle)
    if left.is_symbolic or right.is_symbolic:
        return _symbolic(left, right)
    return _constant(left, right, extend)


def _checked(left: Layout, inner: Layout | Refusal) -> Layout | Refusal:
    return behind(left, inner) if isinstance(inner, Layout) else inner


def behind(left: Layout, inner: Layout) -> Layout:
    """`inner`, computed for `left` without its offset and swizzle, with them."""
    return inner.with_values(nested.settled(left.offset + inner.offset), left.swizzle)


def _constant(left: Layout, right: Layout, extend: bool) -> Layout | Refusal:
    flat = cast("list[tuple[int, int]]", merged(left.flat)) or [(1, 0)]
    leaves = right.constant_flat()
    least = greatest = cast("int", right.offset)
    for extent, stride in leaves:
        if stride < 0:
            least += (extent - 1) * stride
        else:
            greatest += (extent - 1) * stride
    size = 1
    for extent, _ in flat:
        size *= extent
    if least < 0 or (greatest >= size and not extend):
        return NotExpressible(
            f"{right} takes values from {least} to {greatest}, outside the {size} elements of {left.plain}"
        )
    if greatest >= size:
        flat[-1] = (flat[-1][0] * (greatest // size + 1), flat[-1][1])
    start = _digits(least, flat) if least else [0] * len(flat)
    used = list(start)
    splits: list[Nested] = []
    strides: list[Nested] = []
    offset = first = sum([digit * stride for digit, (_, stride) in zip(start, flat, strict=True)]) if least else 0
    for extent, stride in leaves:
        found = _runs(extent, abs(stride), flat, start, used)
        if not isinstance(found, list):
            if found and all(_ends(least, step, length, first, flat) for step, length in found):
                lengths = " times ".join(str(length) for _, length in found)
                return NotExpressible(
                    f"{left} o {right}: along {extent}:{stride} the values are evenly spaced {lengths} at a time, "
                    f"which does not divide {extent}"
                )
            return _checked(left, by_values(left, right, flat))
        if stride < 0:
            offset += sum([(n - 1) * d for n, d in found])
            found = [(n, -d) for n, d in found]
        if len(found) == 1:
            splits.append(found[0][0])
            strides.append(found[0][1])
        else:
            splits.append(tuple([n for n, _ in found]))
            strides.append(tuple([d for _, d in found]))
    for digit, (extent, _) in zip(used, flat, strict=True):
        if digit >= extent:
            return _checked(left, by_values(left, right, flat))
    return behind(left, made(filled(splits, right.shape), filled(strides, right.shape), offset))


def _digits(value: int, flat: list[tuple[int, int]]) -> list[int]:
    digits: list[int] = []
    for extent, _ in flat:
        value, digit = divmod(value, extent)
        digits.append(digit)
    return digits


def _value(place: int, flat: list[tuple[int, int]]) -> int:
    return sum([digit * stride for digit, (_, stride) in zip(_digits(place, flat), flat, strict=True)])


def _ends(least: int, step: int, length: int, first: int, flat: list[tuple[int, int]]) -> bool:
    """Whether a run of `length` values `step` apart, from `least` on, where the value is `first`, really ends there."""
    return _value(least + length * step, flat) - first != length * (_value(least + step, flat) - first)


def _runs(
    extent: int, step: int, flat: list[tuple[int, int]], start: list[int], used: list[int]
) -> list[tuple[int, int]] | tuple[tuple[int, int], ...]:
    """The leaves that `extent` values `step` apart become; `used` grows by the largest digits they need.

    Where there are none, a tuple instead: (step, length) of the runs up to the one that does not divide what is left,
    or nothing if none starts.
    """
    if extent == 1:
        return [(1, 0)]
    runs: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []
    left = extent
    while True:
        value, stride, longest = step, 0, left
        digits: list[tuple[int, int]] = []
        for place, (radix, weight) in enumerate(flat):
            if not value:
                break
            value, digit = divmod(value, radix)
            if digit:
                digits.append((place, digit))
                stride += digit * weight
                longest = min(longest, (radix - 1 - start[place]) // digit + 1)
        if longest < 2:
            return ()
        for place, digit in digits:
            used[place] += (longest - 1) * digit
        runs.append((longest, stride))
        if longest == left:
            return runs
        taken.append((step, longest))
        if left % longest:
            return tuple(taken)
        left //= longest
        step *= longest


def _symbolic(left: Layout, right: Layout) -> Layout | Refusal:
    if right.offset != 0:
        return NotDecided(f"{right} has an offset and sizes are symbolic", "the sizes")
    if not all(map(never_negative, nested.leaves(right.stride))):
        return NotDecided(f"the strides of {right} may be negative", "the sizes")
    found = symbolic_runs(tuple(merged(left.flat)), right.flat)
    if isinstance(found, NotDecided):
        return NotDecided(f"{left} o {right}: {found.reason}", found.would_decide)
    splits: list[Nested] = [runs[0][0] if len(runs) == 1 else tuple(n for n, _ in runs) for runs in found]
    strides: list[Nested] = [runs[0][1] if len(runs) == 1 else tuple(d for _, d in runs) for runs in found]
    return behind(left, made(filled(splits, right.shape), filled(strides, right.shape)))


def _past_swizzle(left: Layout, right: Layout, swizzle: Swizzle) -> Layout | Refusal:
    """`left` after a swizzled layout: the swizzle, moved to the front of `left`, after their composition."""
    if left.is_symbolic or right.is_symbolic:
        return NotDecided(f"which elements of {left} {right} swizzles depends on the sizes", "the sizes")
    size, end = nested.product(left.shape), right.cosize
    assert isinstance(size, int)
    if end > size:
        return _unmoved(f"{right} swizzles whole blocks, which end beyond the {size} elements of {left.plain}")
    inner = _composed(left.with_values(left.offset, None), right.with_values(right.offset, None), False)
    if not isinstance(inner, Layout):
        return inner
    moved = swizzle_after(left, swizzle)
    if not isinstance(moved, Swizzle):
        reached = _composed(left.with_values(left.offset, None), Layout(end), False)
        moved = swizzle_after(reached, swizzle) if isinstance(reached, Layout) else moved
    if not isinstance(moved, Swizzle):
        return moved
    result = inner.with_values(inner.offset, moved)
    if left.swizzle is None:
        return result
    both = swizzled(result, left.swizzle)
    if both is None:
        return _unmoved(f"{left.swizzle} after {moved} is no single swizzle")
    return both


def swizzle_after(layout: Layout, swizzle: Swizzle) -> Swizzle | NotDecided:
    """The swizzle T with T(layout(x)) = layout(swizzle(x)), the layout taken without its own swizzle.

    It is found where the bits that `swizzle` reads, and those it changes, are each carried to adjacent bits of the
    value in the same order, and nothing else reaches the bits up to the highest of them.
    """
    if swizzle.is_identity:
        return swizzle
    if layout.is_symbolic:
        return NotDecided(f"{swizzle} before {layout}: where its bits go depends on the sizes", "the sizes")
    carried, rest = _binary_digits(layout)
    if len(carried) < swizzle.top:
        return _unmoved(f"{swizzle} reads or changes what is no whole binary digit of {layout.plain}")
    source = carried[swizzle.source : swizzle.source + swizzle.bits]
    target = carried[swizzle.target : swizzle.target + swizzle.bits]
    for chain in (source, target):
        low = chain[0]
        if low <= 0 or low & (low - 1) or any(image != low << place for place, image in enumerate(chain)):
            return _unmoved(f"{layout.plain} does not keep the bits of {swizzle} together")
    from_bit, to_bit = source[0].bit_length() - 1, target[0].bit_length() - 1
    if abs(from_bit - to_bit) < swizzle.bits:
        return _unmoved(f"{layout.plain} brings the bits of {swizzle} closer than it has bits")
    top = 1 << max(from_bit, to_bit) + swizzle.bits
    taken = 0
    for image in carried:
        if image % top:
            if image < 0 or image & (image - 1) or image & taken:
                return _unmoved(f"the stride {image} of {layout.plain} reaches the bits of {swizzle}")
            taken |= image
    for value in (*rest, layout.offset):
        if not isinstance(value, int) or value % top:
            return _unmoved(f"the stride or offset {value} of {layout} reaches the bits of {swizzle}")
    return Swizzle(swizzle.bits, min(from_bit, to_bit), from_bit - to_bit)


def _unmoved(reason: str) -> NotDecided:
    return NotDecided(reason, "a linear layout over F2, where sizes are powers of two")


def _binary_digits(layout: Layout) -> tuple[list[int], list[int]]:
    """The value of each binary digit of the domain, least first, as far as it has binary digits; the strides of what
    comes after those."""
    digits: list[int] = []
    rest: list[int] = []
    for extent, stride in Layout(layout.shape, layout.stride).constant_flat():
        if rest:
            rest.append(stride)
            continue
        odd = extent
        while odd % 2 == 0:
            digits.append(stride)
            odd, stride = odd // 2, stride * 2
        if odd > 1:
            rest.append(stride)
    return digits, rest
