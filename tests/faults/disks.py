"""Commands on disks that are full: each in a child whose files may not grow beyond a limit. Run as a script:

    disks.py FOLDER LIMIT…

Prints, as JSON, how many were run and every one that left a fragment or did not say in one line what was wrong.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.children import in_child
from tests.faults.command_lines import TINY

BEFORE = "what was there"


def commands(out: Path) -> Iterator[list[str]]:
    """Every command that writes a file."""
    yield ["eval", "../run", "-r", "9", "-o", str(out / "errors.json")]
    yield ["anchor", "../run", "-r", "9", "-o", str(out / "anchored.safetensors")]
    yield ["data", "show", "poisson", "-n", "1", "-r", "17", "-o", str(out / "picture.png")]
    yield ["train", *TINY, "-o", str(out / "run")]
    yield ["audit", "../run", "-r", "9", "-r", "17", "-o", str(out / "audit.html")]
    yield ["theory", "means", "--figure", "-o", str(out / "theory")]
    yield ["data", "make", "poisson", "-n", "3", "-p", "modes=5"]


def main(folder: Path, limits: list[int]) -> None:
    ready = in_child(["train", *TINY, "-o", "run"], folder, seconds=600)
    assert ready.code == 0, ready
    faults, tried = [], 0
    for limit in limits:
        out = folder / str(limit)
        out.mkdir()
        for command in commands(out):
            target = Path(command[-1])
            if target.suffix:
                target.write_text(BEFORE)

            def full(limit: int = limit) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            result = in_child(command, out, before=full, seconds=600)
            tried += 1
            wrong = []
            if result.signal is not None or result.code not in (0, 2) or "Traceback" in result.err:
                wrong.append(f"ended with code {result.code}, signal {result.signal}")
            if result.code == 2 and sum(t.startswith("quadnorm: ") for t in result.err.splitlines()) != 1:
                wrong.append("not one line of explanation")
            if result.code == 2 and target.suffix and target.read_text() != BEFORE:
                wrong.append("a fragment in place of the old file")
            if list(out.rglob("*.part")):
                wrong.append("a temporary file is left")
            if wrong:
                faults.append({"line": command, "limit": limit, "fault": wrong, "err": result.err[-600:]})
    print(json.dumps({"tried": tried, "faults": faults}))


if __name__ == "__main__":
    import quadnorm.training.run  # noqa: F401

    main(Path(sys.argv[1]), [int(limit) for limit in sys.argv[2:]])
