"""``quadnorm study list``: all studies, which one to start with, and which runs are recorded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from quadnorm._text import printable
from quadnorm.cli.terminal import rows_as, say

FIRST = "demo"
NAME = 25  # wide enough for nearly all names; a longer one moves its own line, and is never cut
HEADS = {"start here": "start here", "paper": "the paper, by table", "ours": "ours"}


def group_of(s: Any) -> str:
    """The part of the list a study belongs to: the first one to try, the paper's studies, or ours."""
    if s.name == FIRST:
        return "start here"
    return "ours" if s.theme == "ours" else "paper"


def records_of(preset: str, out: Path) -> list[dict[str, Any]]:
    """One record for each study, in the order of the list."""
    from quadnorm.lab.studies import estimate, study, study_names
    from quadnorm.lab.studies.records import complete, tasks_of

    rows = []
    for name in study_names():
        s = study(name).at(preset)
        tasks = tasks_of(s).values()
        rows.append(
            {
                "group": group_of(s),
                "study": name,
                "tables": " ".join(s.tables),
                "runs": len(tasks),
                "recorded": sum(complete(out, t) for t in tasks) if (out / "runs").is_dir() else 0,
                "seconds": round(60 * estimate(s).minutes(), 1),
                "title": s.title,
            }
        )
    return sorted(rows, key=lambda row: list(HEADS).index(str(row["group"])))  # stable: the order of the paper stays


def show_list(preset: str, out: Path, as_json: bool, as_csv: bool) -> None:
    """Print the list; on a terminal titles are cut to its width, elsewhere nothing is."""
    records = records_of(preset, out)
    if rows_as(records, as_json, as_csv):
        return
    width = _width()
    unit, factor = ("s", 1) if preset == "smoke" else ("min", 60)
    say(_line("study", "runs", unit, "recorded", "title", width))
    group = None
    for row in records:
        if row["group"] != group:
            group = row["group"]
            say(f"\n{HEADS[str(group)]}")
        time = f"{row['seconds'] / factor:.0f}"
        there = f"{row['recorded']}/{row['runs']}" if row["recorded"] else "-"
        say(_line(f"  {row['study']}", str(row["runs"]), time, there, str(row["title"]), width))
    say(f"\n{preset} preset on two cores; records in {out}; next: quadnorm study run {FIRST}")


def _line(name: str, runs: str, time: str, there: str, title: str, width: int | None) -> str:
    text = f"{name:{NAME + 2}} {runs:>4} {time:>5} {there:>8}  {printable(title)}"
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def _width() -> int | None:
    """Columns of the terminal; None where the output is no terminal."""
    import shutil

    return max(60, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None
