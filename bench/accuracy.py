"""How exact is each implementation, on random, large-magnitude and NaN-carrying inputs, against float64?

The first input set is overwritten in place, so that whatever an implementation bound to its arrays sees it; the
reference is the product of the very values in float64 on the GPU. Reported: the relative error in the Frobenius norm
over the elements that are finite in the reference, and whether NaNs and infinities stand at the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from bench.interleaved import Contender

Kind = Literal["random", "large", "nan"]
KINDS: tuple[Kind, ...] = ("random", "large", "nan")
_LARGE_DEVIATION = {"bfloat16": 2.0**56, "float16": 12.0, "float8_e4m3fn": 96.0, "float8_e5m2": 4096.0}
"""Standard deviation of the large inputs: products come near the end of the output's range and sums stay inside it, but
for some of float16 over more than 10,000 terms."""
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float16": 65504.0}


def fill(torch: Any, matrices: Sequence[Any], kind: Kind, seed: int) -> None:
    """Overwrite matrices with values of a kind. NaN-carrying: about four rows and columns are touched."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    for place, matrix in enumerate(matrices):
        name = str(matrix.dtype).rpartition(".")[2]
        deviation = _LARGE_DEVIATION.get(name, 1.0) if kind == "large" else 1.0
        most = _LARGEST.get(name)
        # In slices, since a random matrix in float32 is as large as several of the matrices.
        for slab in matrix.split(4096, dim=0):
            values = deviation * torch.randn(slab.shape, device="cuda", generator=generator)
            slab.copy_((values.clamp(-most, most) if most is not None else values).to(matrix.dtype))
        if kind == "nan":
            rows, columns = matrix.shape[-2:]
            spot = matrix.reshape(-1, columns) if matrix.is_contiguous() else matrix
            spot[(7 + place) % rows, (3 + place) % columns] = float("nan")
            if most is None or name == "float16":
                spot[(rows // 2 + place) % rows, columns // 3] = float("inf")
                spot[rows - 1, columns - 1] = float("-inf")


def errors_of(
    torch: Any,
    contenders: Sequence[Contender],
    matrices: Sequence[Any],
    reference: Callable[[], Any],
    kinds: Sequence[Kind] = KINDS,
) -> dict[str, dict[str, dict[str, object]]]:
    """By contender and kind: {"relative_error": ..., "specials_agree": ...}. matrices: of input set 0, overwritten;
    reference: the product of what they hold, in float64. The matrices hold the last kind's values afterwards."""
    found: dict[str, dict[str, dict[str, object]]] = {each.name: {} for each in contenders}
    for kind in kinds:
        fill(torch, matrices, kind, seed=1234)
        exact = reference()
        finite = torch.isfinite(exact)
        norm = torch.where(finite, exact, 0.0).norm().item()
        for each in contenders:
            each.output.fill_(-77.0)
            each.call(0)
            torch.cuda.synchronize()
            found[each.name][kind] = _compare(torch, each.result(), exact, finite, norm)
        del exact, finite
    return found


def _compare(torch: Any, result: Any, exact: Any, finite: Any, norm: float) -> dict[str, object]:
    squares, agree = 0.0, True
    rows = max(1, (1 << 26) // exact.shape[-1])
    for part, truth, mask in zip(result.split(rows), exact.split(rows), finite.split(rows), strict=True):
        values = part.double()
        difference = torch.where(mask, values - truth, 0.0)
        squares += difference.square().sum().item()
        same = torch.where(mask, torch.isfinite(values), torch.isnan(values) == torch.isnan(truth))
        infinite = torch.isinf(truth)
        same &= torch.where(infinite, values == truth, True)
        agree = agree and bool(same.all().item())
    error = squares**0.5
    return {"relative_error": error / norm if norm else error, "specials_agree": agree}
