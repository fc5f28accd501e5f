"""Commands on disks that are full: each in a child whose files may not grow beyond a limit. Run as a script:

    disks.py FOLDER LIMIT…

A limit is a number of bytes of each file; or, as i9, of files: a disk of its own, if it can be mounted.
Prints, as JSON, how many were run and every one that left a fragment or did not say in one line what was wrong.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.children import in_child
from tests.faults.command_lines import TINY

BEFORE = "what was there"
CACHE = os.environ.get("QUADNORM_CACHE", "")


def commands(out: Path) -> Iterator[list[str]]:
    """Every command that writes a file."""
    yield ["eval", "../run", "-r", "9", "-o", str(out / "errors.json")]
    yield ["anchor", "../run", "-r", "9", "-o", str(out / "anchored.safetensors")]
    yield ["data", "show", "poisson", "-n", "1", "-r", "17", "-o", str(out / "picture.png")]
    yield ["train", *TINY, "-o", str(out / "run")]
    yield ["audit", "../run", "-r", "9", "-r", "17", "-o", str(out / "audit.html")]
    yield ["theory", "means", "--figure", "-o", str(out / "theory")]
    yield ["data", "make", "poisson", "-n", "3", "-p", "modes=5"]


def mounted(folder: Path, files: str) -> bool:
    """Put a disk with room for so many files and folders, itself included, in place of a folder."""
    command = ["mount", "-t", "tmpfs", "-o", f"size=64m,nr_inodes={files}", "tmpfs", str(folder)]
    return shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0


def main(folder: Path, limits: list[str]) -> None:
    ready = in_child(["train", *TINY, "-o", "run"], folder)
    assert ready.code == 0, ready
    faults, tried = [], 0
    for limit in limits:
        out = folder / limit
        out.mkdir()
        if own := limit.startswith("i"):
            if not mounted(out, limit[1:]):
                continue
            atexit.register(subprocess.run, ["umount", str(out)])
        for command in commands(out):
            target = Path(command[-1])
            for path in out.iterdir() if own else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            if target.suffix:
                target.write_text(BEFORE)

            def full(most: int = resource.RLIM_INFINITY if own else int(limit)) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

            os.environ["QUADNORM_CACHE"] = str(out / "cache") if own else CACHE
            result = in_child(command, out, before=full)
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

    main(Path(sys.argv[1]), sys.argv[2:])
