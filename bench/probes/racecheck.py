"""What does compute-sanitizer's racecheck say of values that two CTAs exchange through distributed shared memory?

    python -m bench.probes.racecheck [--runs N] [--results FOLDER]

`exchange.cu` is the smallest such program, ordered seven ways: by the cluster's barrier, by mbarriers at which every
thread arrives, or one of each warp after the warp has met, or one after the CTA's barrier, by stores that count their
bytes at an mbarrier (st.async) with either way back, and not at all. The first six are right by the PTX ISA's memory
model (an arrival with release at cluster scope, a wait with acquire at that scope; of the stores, the completion).
The tool says nothing for certain of a kernel whose order it reports as a hazard in a program as small as these.
Without the tool, each program is timed: what an exchange there and back takes by each order.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.record import write

ORDERS = (
    "the cluster's barrier",
    "mbarriers, every thread arrives",
    "mbarriers, one thread of each warp arrives after the warp has met",
    "mbarriers, one thread arrives",
    "stores that count their bytes at an mbarrier, every thread arrives on the way back",
    "stores that count their bytes at an mbarrier, one thread arrives on the way back",
    "no order: a race",
)
_ROUNDS = (1, 2, 8)
_TIMED_ROUNDS = 2000
_TIMED_RUNS = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.probes.racecheck", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "exchange"
        source = Path(__file__).with_name("exchange.cu")
        subprocess.run(["nvcc", "-arch=sm_90a", "-o", str(program), str(source)], check=True)
        for order, words in enumerate(ORDERS):
            for rounds in _ROUNDS:
                hazards = [_hazards([str(program), str(order), str(rounds)]) for _ in range(arguments.runs)]
                rows.append({"order": words, "rounds": rounds, "hazards": hazards})
                print(f"{words}, {rounds} rounds: hazards in each run {hazards}", flush=True)
            cycles = sorted(_cycles([str(program), str(order), str(_TIMED_ROUNDS)]) for _ in range(_TIMED_RUNS))
            rows.append({"order": words, "rounds": _TIMED_ROUNDS, "cycles_a_round": cycles})
            print(f"{words}, without the tool: {cycles[_TIMED_RUNS // 2]} cycles a round", flush=True)
    print(f"written to {write('racecheck', rows, arguments.results, module='bench.probes.racecheck')}")
    return 0


def _hazards(command: list[str]) -> int:
    """Hazards that the tool's last line tells of."""
    done = subprocess.run(
        ["compute-sanitizer", "--tool", "racecheck", *command], capture_output=True, text=True, check=False, timeout=120
    )
    found = re.search(r"SUMMARY: (\d+) hazard", done.stdout)
    if found is None:
        raise SystemExit(f"racecheck said nothing: {(done.stdout + done.stderr)[-300:]}")
    return int(found[1])


def _cycles(command: list[str]) -> int:
    """What one round of exchanging and reading takes, by the program itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r"(\d+) cycles a round", done.stdout)
    if found is None:
        raise SystemExit(f"the program said nothing: {done.stdout[-300:]}")
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
