"""How much of the suite is run: a minute of it with the other tests, FAULTS_MINUTES of it by ``make test-faults``."""

import os
import time
from collections.abc import Iterator

MINUTES = float(os.environ.get("FAULTS_MINUTES", "0"))
LONG = MINUTES > 0


def rounds(short: int, goal: int, share: float) -> Iterator[int]:
    """0, 1, …: ``short`` of them in a short run; in a long one ``goal`` and more, for ``share`` of the time."""
    until = time.monotonic() + 60 * MINUTES * share
    count = 0
    while count < (goal if LONG else short) or (LONG and time.monotonic() < until):
        yield count
        count += 1


def report(text: str) -> None:
    """A figure of the suite, for whoever runs it with -s."""
    print(f"\nfaults: {text}", flush=True)
