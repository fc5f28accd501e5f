"""``make house``: the size of the package, and how many functions and files a reader passes on the common journeys.

    python -m tests.house.measure

A journey is a call; counted are the functions of the package that run in it, each once, and the files they are in.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "quadnorm"
ROOMS = {
    "library": ("measures", "carry", "norms", "operators", "parallel", "adapt", ""),
    "problems and training": ("problems", "training"),
    "laboratory and command line": ("lab", "cli"),
}


def modules() -> list[Path]:
    """The package's modules, without the ``__init__`` files."""
    return [p for p in SOURCE.rglob("*.py") if p.name != "__init__.py"]


def folders() -> list[Path]:
    """The package's folders with code."""
    return sorted({p.parent for p in SOURCE.rglob("*.py")})


def depth() -> int:
    """Folders between the package and its deepest module."""
    return max(len(p.relative_to(SOURCE).parts) for p in folders())


def lines(rooms: tuple[str, ...]) -> int:
    """Lines of source of some rooms; '' stands for the files beside them."""
    files = [p for room in rooms for p in ((SOURCE / room).rglob("*.py") if room else SOURCE.glob("*.py"))]
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in files)


def passed(call: Callable[[], Any]) -> tuple[int, int]:
    """The functions of the package that a call runs through, and the files they are in."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call()
    finally:
        sys.setprofile(None)
    return len(seen), len({file for file, _ in seen})


def journeys(of_library: bool = False) -> dict[str, tuple[int, int]]:
    """Functions and files of each journey; modules are imported before, which is not part of it."""
    import torch

    import quadnorm as qn
    from quadnorm.operators import FNO

    torch.manual_seed(0)
    x, field = torch.randn(2, 8, 33, 33), torch.randn(1, 1, 33, 33)
    for name in qn.__all__:
        getattr(qn, name)
    norm, fno = qn.QuadNorm(8), FNO(width=8, modes=4, layers=2).eval()
    passed(lambda: qn.QuadNorm(8)(x))  # what a process does once is not part of a journey
    counts = {"norm, first call": passed(lambda: norm(x)), "norm, repeated": passed(lambda: norm(x))}
    fno(field)
    counts["FNO, forward"] = passed(lambda: fno(field))
    counts["anchor"] = passed(lambda: qn.anchor(fno, 33, "endpoint"))
    counts["extend"] = passed(lambda: qn.extend(fno, 33, "endpoint"))
    if of_library:
        return counts
    with tempfile.TemporaryDirectory() as folder:
        for out in ("first", "out"):  # the first time loads modules
            study = ["study", "run", "demo", "--preset", "smoke", "--workers", "1", "--out", f"{folder}/{out}"]
            counts["study run"] = passed(lambda words=study: command(*words))
            report = ["report", f"{folder}/{out}", "--out", f"{folder}/{out}.html"]
            counts["report"] = passed(lambda words=report: command(*words))
    return counts


def command(*words: str) -> None:
    """Run a command of the command line in this process."""
    from quadnorm.__main__ import main

    before, sys.argv = sys.argv, ["quadnorm", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


# The bars: at most this many modules, folders, levels, lines; functions and files of each journey.
BARS = {"modules": 330, "folders": 45, "levels": 3}
LINES = {"library": 21_000, "problems and training": 8_500, "laboratory and command line": 14_800}
JOURNEYS = {
    "norm, repeated": (8, 5),
    "norm, first call": (30, 10),
    "FNO, forward": (35, 10),
    "anchor": (150, 35),
    "extend": (120, 30),
    "study run": (150, 45),
    "report": (200, 50),
}


def main() -> None:
    """Print what is, beside the bars."""
    sizes = {"modules": len(modules()), "folders": len(folders()), "levels": depth()}
    for what, bar in BARS.items():
        print(f"{what:36s} {sizes[what]:>7,d}   at most {bar:,d}")
    for part, rooms in ROOMS.items():
        print(f"{'lines, ' + part:36s} {lines(rooms):>7,d}   at most {LINES[part]:,d}")
    print("\njourney: functions, files of the package; bars")
    for name, (functions, files) in journeys().items():
        print(f"{name:18s} {functions:4d} {files:4d}   at most {JOURNEYS[name][0]}, {JOURNEYS[name][1]}")


if __name__ == "__main__":
    main()
