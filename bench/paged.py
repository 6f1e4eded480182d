"""Decode attention of keys in one piece and in pages, beside cuDNN's and Flash's on one piece and a copy of the keys.

One query of each head, four heads to one of keys, bf16 on random normal data, all keys used: 1 to 64 sequences of 1024
to 131072 keys. Pages lie in random order in a pool that they fill, [page, row, head, element]; the other program reads
the same rows as [sequence, row, head, element]. Both are `examples/fused.py`'s, timed in turns with each other
(`bench.interleaved`) and with PyTorch's attention on keys in one piece, which stands for pages too. A copy, which moves
each byte twice, is timed in turns with one piece and these peers: the lines that it leaves in the L2 cache are written
back while the next contender runs, which is a peer. Results are compared with float64.

    python -m bench paged --prepare --kernels out/kernels    # compile ahead, in parallel; needs no GPU
    python -m bench paged --kernels out/kernels
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from examples import fused

from bench import case_suite
from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.peers_gemm import Absent
from bench.prepared import Refused, facts_of, load_prepared
from bench.suite import summarised
from tilewright.frontends.tile.kernel import Kernel

PAGES = (16, 64, 256)
"""Rows of a page."""
TARGETS = {16: 1.08, 64: 1.03, 256: 1.03}
"""Of the time of keys in one piece, what those in pages may take."""
_SCALE = 0.125
ONE_PIECE, _COPY = "one piece", "copy"
_LONG = 32768
"""Keys from which on the share of a copy's bandwidth has a target."""


@dataclass(frozen=True, slots=True)
class PagedCase:
    """page: rows of a page, 0 for keys in one piece. dims: by axis."""

    batch: int
    heads: int
    length: int
    width: int
    page: int = 0

    @property
    def name(self) -> str:
        return f"decode {self.batch} x {self.heads} heads x {self.length} keys x {self.width}"

    @property
    def program(self) -> Kernel:
        return fused.decode_in_pages(self.page) if self.page else fused.decode_attention

    @property
    def dims(self) -> tuple[tuple[str, int], ...]:
        found = {"B": self.batch, "H": self.heads, "T": self.length, "E": self.width, "F": self.width}
        if self.page:
            found |= {"P": self.batch * self.length // self.page, "S": self.page}
        return tuple(found.items())


def cases() -> list[PagedCase]:
    """Every shape of the suite, of keys in one piece."""
    few = [PagedCase(batch, 32, length, 128) for batch in (1, 8) for length in (1024, 8192, 32768, 131072)]
    many = [PagedCase(64, 32, 1024, 128), PagedCase(64, 32, 8192, 128), PagedCase(16, 32, 32768, 128)]
    narrow = [PagedCase(1, 32, 32768, 64), PagedCase(16, 32, 8192, 64), PagedCase(64, 32, 1024, 64)]
    return [*few, *many, *narrow, PagedCase(8, 64, 4096, 128)]


add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, "paged", cases(), _measured, _line, programs=_programs, summary=_summary)


def _programs(case: PagedCase) -> list[PagedCase]:
    return [replace(case, page=page) for page in (0, *PAGES)]


def _summary(rows: case_suite.Rows) -> Iterator[str]:
    for name in (ONE_PIECE, *(f"page {page}" for page in PAGES)):
        ratios = [row["of_peers"][name] for row in rows if name in row.get("of_peers", {})]
        if ratios:
            yield f"{name}: {statistics.geometric_mean(ratios):.3f} of the best peer, worst {min(ratios):.3f}"
    for page in PAGES:
        times = [row["pages"][str(page)]["median"] for row in rows if str(page) in row.get("pages", {})]
        if times:
            goal = f"at most {TARGETS[page]:.2f} wanted"
            yield f"page {page}: {statistics.geometric_mean(times):.3f} of one piece, worst {max(times):.3f}, {goal}"
    shares = [row["share_of_copy"] for row in rows if row["dims"]["T"] >= _LONG and "share_of_copy" in row]
    if shares:
        yield f"one piece, from {_LONG} keys: {min(shares):.3f} of a copy's bandwidth at least"


def _measured(torch: Any, case: PagedCase, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    """One shape: every size of pages, one piece, PyTorch's."""
    torch.cuda.empty_cache()
    row: dict[str, Any] = {"case": case.name, "dims": dict(case.dims), "dtype": "bf16"}
    generator = torch.Generator(device="cuda").manual_seed(0)
    groups = case.heads // fused.HEADS_PER_GROUP
    size = 4 * case.batch * case.length * groups * case.width
    sets = sets_for(size, warm=arguments.warm)

    def filled(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", generator=generator).bfloat16()

    rows = (case.batch, case.length, groups, case.width)
    arrays = [(filled(case.batch, case.heads, case.width), filled(*rows), filled(*rows)) for _ in range(sets)]
    lengths = torch.full((case.batch,), case.length, device="cuda", dtype=torch.int32)
    contenders: list[Contender] = []
    refused: dict[str, str] = {}
    tables: dict[int, Any] = {}
    pools: dict[int, list[tuple[Any, Any]]] = {}
    for page in (0, *PAGES):
        program = load_prepared(replace(case, page=page), arguments.kernels)
        name = f"page {page}" if page else ONE_PIECE
        if isinstance(program, Refused):
            refused[name] = program.message
            continue
        result = torch.empty_like(arrays[0][0])
        if page:
            count = case.batch * case.length // page
            order = torch.randperm(count, device="cuda", generator=generator)
            tables[page] = order.to(torch.int32).reshape(case.batch, -1).contiguous()
            pools[page] = [tuple(_in_pages(torch, each, order, page) for each in held[1:]) for held in arrays]

        def call(index: int, page: int = page, program: Any = program, result: Any = result) -> None:
            q, k, v = arrays[index % sets]
            if page:
                program(q, *pools[page][index % sets], tables[page], lengths, out=result)
            else:
                program(q, k, v, lengths, out=result)

        contenders.append(Contender(name, call, result, facts_of(program)))
    peers, absent = _peers(torch, arrays)
    copied = torch.empty_like(arrays[0][1])

    def copy(index: int) -> None:
        for each in arrays[index % sets][1:]:
            copied.copy_(each)

    contenders += peers
    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    row |= summarised(result, contenders, absent, {}, 4.0 * case.batch * case.heads * case.length * case.width)
    row |= {"refused": refused, "pages": {}, "of_peers": {}}
    ours = [each.name for each in contenders if each.name == ONE_PIECE or each.name.startswith("page ")]
    if peers:
        best = result.best_of([each.name for each in peers])
        row |= {"best_peer": best, "of_peers": {name: result.ratio(name, best)[1] for name in ours}}
    if ONE_PIECE in ours:
        # The copy's last lines are written back while the one behind it runs, which is a peer.
        ring = [next(each for each in contenders if each.name == ONE_PIECE), Contender(_COPY, copy, None), *peers]
        beside = race(torch, ring, sets=sets, turns=arguments.turns, sampler=sampler)
        row["copy"] = {name: beside.row(name) for name in (ONE_PIECE, _COPY)}
        row["share_of_copy"] = beside.ratio(ONE_PIECE, _COPY)[1] / 2
        for name in ours[1:]:
            low, median, high = result.ratio(ONE_PIECE, name)
            row["pages"][name.removeprefix("page ")] = {"median": median, "quartiles": [low, high]}
    if not arguments.no_accuracy:
        row["errors"] = _errors(torch, case, contenders, arrays[0])
    return row


def _in_pages(torch: Any, rows: Any, order: Any, page: int) -> Any:
    """A pool in which page `order[n]` holds the n-th page of the rows of all sequences."""
    pages = rows.reshape(-1, page, *rows.shape[2:])
    pool = torch.empty_like(pages)
    pool[order] = pages
    return pool


def _peers(torch: Any, arrays: list[Any]) -> tuple[list[Contender], list[Absent]]:
    """PyTorch's backends on keys in one piece."""
    attention, kinds = torch.nn.attention, torch.nn.attention.SDPBackend
    found, absent = list[Contender](), list[Absent]()
    for name, backend in (("cuDNN", kinds.CUDNN_ATTENTION), ("flash", kinds.FLASH_ATTENTION)):
        held: dict[str, Any] = {}

        def call(index: int, backend: Any = backend, held: dict[str, Any] = held) -> None:
            q, k, v = arrays[index % len(arrays)]
            k, v = (each.transpose(1, 2) for each in (k, v))
            with attention.sdpa_kernel(backend):
                held["result"] = torch.nn.functional.scaled_dot_product_attention(
                    q[:, :, None], k, v, scale=_SCALE, enable_gqa=True
                )[:, :, 0]

        try:
            call(0)
        except RuntimeError as error:  # how PyTorch refuses a backend
            absent.append(Absent(name, str(error).split("\n")[0]))
            continue
        found.append(Contender(name, call, None, fetch=lambda held=held: held["result"]))
    return found, absent


def _errors(torch: Any, case: PagedCase, contenders: list[Contender], arrays: Any) -> dict[str, float]:
    """Relative error of each contender, in the Frobenius norm, over the last sequence."""
    q, k, v = (each[-1:].double() for each in arrays)
    k, v = (each.repeat_interleave(fused.HEADS_PER_GROUP, 2) for each in (k, v))
    weights = torch.softmax(torch.einsum("bhe,bthe->bht", q, k) * _SCALE, -1)
    wanted, found = torch.einsum("bht,bthf->bhf", weights, v), dict[str, float]()
    for each in contenders:
        each.call(0)
        torch.cuda.synchronize()
        found[each.name] = ((each.result()[-1:].double() - wanted).norm() / wanted.norm()).item()
    return found


def _line(row: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {each['microseconds']:.1f} us" for name, each in row["contenders"].items())
    ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in row["of_peers"].items())
    pages = ", ".join(f"{page} {each['median']:.3f}" for page, each in row["pages"].items())
    gone = "".join(f"; no {name}: {why[:80]}" for name, why in (row["refused"] | row["absent"]).items())
    errors = f"; errors up to {max(row['errors'].values()):.1e}" if "errors" in row else ""
    share = f"; {row['share_of_copy']:.3f} of a copy" if "share_of_copy" in row else ""
    return f"{row['case']}: {times}; of the best peer: {ratios}; pages over one piece: {pages}{share}{gone}{errors}"
