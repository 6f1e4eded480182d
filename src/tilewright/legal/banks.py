"""How many wavefronts does one warp-wide access of shared memory take?

Theory: 32 banks of 4 bytes; a wavefront serves each bank once, and lanes that ask for the same word share it. So a
group of lanes that is served together takes as many wavefronts as the busiest bank has distinct words asked of it.
Lanes are served together 32 at a time for 4 bytes a lane, 16 for 8 and 8 for 16; `ldmatrix` and `stmatrix` serve the
eight rows of one matrix together. One exception, measured: a load of 8 or 16 bytes serves twice as many lanes together
where all through the warp lanes n and n ^ 1 ask for the same address, or all through it lanes n and n ^ 2.

Not handled: lanes that are switched off (leave them out of the addresses only where whole groups are), atomics, and the
asynchronous engines, which do not conflict this way. Checked by tests/legal/test_banks.py against wavefronts measured
on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.base.error import TilewrightError
from tilewright.targets import Target


def load_wavefronts(addresses: Sequence[int], lane_bytes: int, target: Target) -> int:
    """Wavefronts of one `ld.shared` of `lane_bytes` (4, 8 or 16) by each lane, at these byte addresses, lane 0 first.

    Raises TilewrightError for another width, a misaligned address or a number of lanes that is no warp.
    """
    lanes = _lanes_together(addresses, lane_bytes, target)
    if lane_bytes > target.limit("multiprocessor.shared_bank_bytes") and _in_pairs(addresses):
        lanes *= 2
    return _wavefronts(addresses, lane_bytes, lanes, target)


def store_wavefronts(addresses: Sequence[int], lane_bytes: int, target: Target) -> int:
    """Wavefronts of one `st.shared` of `lane_bytes` (4, 8 or 16) by each lane, at these byte addresses, lane 0 first.

    Raises TilewrightError as `load_wavefronts` does.
    """
    return _wavefronts(addresses, lane_bytes, _lanes_together(addresses, lane_bytes, target), target)


def matrix_wavefronts(row_addresses: Sequence[int], target: Target) -> int:
    """Wavefronts of one `ldmatrix` or `stmatrix`, transposed or not, of 1, 2 or 4 matrices: 8 row addresses for each.

    Raises TilewrightError for another number of rows or a row that is not aligned to its 16 bytes.
    """
    rows, row_bytes = target.limit("matrix_access.rows"), target.limit("matrix_access.row_bytes")
    if len(row_addresses) not in (rows, 2 * rows, 4 * rows):
        raise TilewrightError(f"{len(row_addresses)} row addresses; ldmatrix and stmatrix take {rows} for each matrix")
    _check_alignment(row_addresses, row_bytes)
    return _wavefronts(row_addresses, row_bytes, rows, target)


def _lanes_together(addresses: Sequence[int], lane_bytes: int, target: Target) -> int:
    bank_bytes, lanes = target.limit("multiprocessor.shared_bank_bytes"), target.limit("warp.threads")
    if lane_bytes not in (bank_bytes, 2 * bank_bytes, 4 * bank_bytes):
        raise TilewrightError(f"no model of accesses of {lane_bytes} bytes a lane")
    if len(addresses) != lanes:
        raise TilewrightError(f"{len(addresses)} addresses for a warp of {lanes} lanes")
    _check_alignment(addresses, lane_bytes)
    return lanes * bank_bytes // lane_bytes


def _check_alignment(addresses: Sequence[int], multiple: int) -> None:
    for address in addresses:
        if address < 0 or address % multiple:
            raise TilewrightError(f"shared address {address} is not a multiple of {multiple}")


def _in_pairs(addresses: Sequence[int]) -> bool:
    return any(all(address == addresses[lane ^ apart] for lane, address in enumerate(addresses)) for apart in (1, 2))


def _wavefronts(addresses: Sequence[int], lane_bytes: int, lanes_together: int, target: Target) -> int:
    bank_bytes, banks = target.limit("multiprocessor.shared_bank_bytes"), target.limit("multiprocessor.shared_banks")
    total = 0
    for first in range(0, len(addresses), lanes_together):
        words: set[int] = set()
        for address in addresses[first : first + lanes_together]:
            words.update(range(address // bank_bytes, (address + lane_bytes) // bank_bytes))
        asked = [0] * banks
        for word in words:
            asked[word % banks] += 1
        total += max(asked)
    return total
