"""Where each way to another grid wins, over trained models: writes the tables of docs/understand/where-each-wins.md.

``quadnorm study run NAME --preset desk --seeds 3 --out RUNS`` trains models and keeps their weights; this script
evaluates every run in the folders that it is given as trained, anchored, extended, run at the training grid, with a
user's own line of ``F.interpolate`` in place of that, and transferred with the run's validation pairs. With ``--cases``
it also runs the one-dimensional cases of ``native_or_anchored.py``. What is done is kept in a file and not done again:

    python examples/where_each_wins.py RUNS/runs --cases 3 --write docs/understand/where-each-wins.md
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm._files import write_atomic
from quadnorm.lab.studies.evaluate import TWO_VALUED, native_grid
from quadnorm.training import load_model
from quadnorm.training.data import problem_of, samples

sys.path.insert(0, str(Path(__file__).parent))
import native_or_anchored as one_dimensional

WAYS = ("as trained", "anchored", "extended", "run at the training grid", "bilinear", "bicubic", "transferred")
FOUR = WAYS[:4]  # the ways among which the best in hindsight is taken
RECORDED = {"as trained": "as-trained", "anchored": "anchor-all", "extended": "extended"}
FINEST = 128


def error(way: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, batch: int = 8) -> float:
    """Mean relative L² error, %."""
    with torch.no_grad():
        out = torch.cat([way(part) for part in x.split(batch)])
    return float(100 * ((out - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean())


def upsampled(model: nn.Module, sizes: tuple[int, ...], placement: Any, restrict: str, mode: str) -> Any:
    """The line that people write: run at the training grid, ``F.interpolate`` the output."""
    corners = all(p == "endpoint" for p in ((placement,) if isinstance(placement, str) else placement))

    def run(x: Tensor) -> Tensor:
        y: Tensor = model(qn.adapt.carry(x, sizes, placement, restrict))
        return F.interpolate(y, tuple(x.shape[2:]), mode=mode, align_corners=corners)

    return run


def evaluated(run: Path, done: dict[str, float], keep: Callable[[], None]) -> None:
    """Add the errors of a run that are missing, under the names grid|way."""
    model, config = load_model(run)
    model.eval()
    p, n0 = problem_of(config), native_grid(config)
    stored = [f.stem.split("@")[1] for f in (run / "evaluations").glob("as-trained@*.json")]
    grids = sorted(int(n) for n in stored if n.isdigit() and int(n) != n0 and int(n) <= FINEST)
    missing = [n for n in grids if any(f"{n}|{way}" not in done for way in WAYS)]
    if not missing:
        return
    restrict = "nearest" if config.problem.name in TWO_VALUED else "cubic"
    sizes, placement = p.shape(n0), p.placement
    data = samples(config, "test", missing)
    transferred = qn.transfer(model, sizes, placement, samples(config, "val", [n0])[n0])
    for n in missing:
        x, y = data[n]
        ways: dict[str, Any] = {
            "as trained": model,
            "anchored": lambda z: qn.anchor(model, sizes, placement, force=True)(z),
            "extended": lambda z: qn.extend(model, sizes, placement, restrict=restrict)(z),
            "run at the training grid": qn.at_native(model, sizes, placement, restrict=restrict, layout="first"),
            "bilinear": upsampled(model, sizes, placement, restrict, "bilinear"),
            "bicubic": upsampled(model, sizes, placement, restrict, "bicubic"),
            "transferred": transferred,
        }
        for name, way in ((name, way) for name, way in ways.items() if f"{n}|{name}" not in done):
            record = run / "evaluations" / f"{RECORDED.get(name, name)}@{n}.json"
            if name in RECORDED and record.exists():
                errors = json.loads(record.read_text(encoding="utf-8"))["plain"]
                done[f"{n}|{name}"] = 100 * sum(errors) / len(errors)
            else:
                done[f"{n}|{name}"] = error(way, x, y)
            keep()


def case(name: str, seed: int, count: int = 600) -> dict[str, float]:
    """The errors of a one-dimensional case."""
    make, n, fine = {
        "smooth answer, 33 → 257": (one_dimensional.smooth, 257, False),
        "smooth answer, 33 → 17": (one_dimensional.smooth, 17, False),
        "a wave between the training samples, 33 → 257": (one_dimensional.texture, 257, True),
        "a jump in the input, 33 → 100, not nested": (one_dimensional.steps, 100, False),
        "kinks in the answer, 33 → 257": (one_dimensional.kinks, 257, False),
    }[name]
    model = one_dimensional.trained(make, count, seed)
    g = torch.Generator().manual_seed(77 + seed)
    pairs = tuple(t.float() for t in make(g, 60, one_dimensional.N0, False))
    _, (x, y) = one_dimensional.unseen(make, n, fine)
    given = (33,), "endpoint"
    return {
        "as trained": error(model, x, y),
        "anchored": error(qn.anchor(model, *given), x, y),
        "extended": error(qn.extend(model, *given), x, y),
        "run at the training grid": error(qn.at_native(model, *given), x, y),
        "bilinear": error(upsampled(model, *given, "cubic", "linear"), x, y),
        "transferred": error(qn.transfer(model, *given, pairs), x, y),
    }


CASES = (
    "smooth answer, 33 → 257",
    "smooth answer, 33 → 17",
    "a wave between the training samples, 33 → 257",
    "a jump in the input, 33 → 100, not nested",
    "kinks in the answer, 33 → 257",
)


def settings(results: dict[str, dict[str, float]]) -> dict[str, list[dict[str, float]]]:
    """The errors by way of each setting (operator, problem, norm, grids), one entry for each seed."""
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for run, values in sorted(results.items()):
        if run.startswith("case|"):
            rows[run.split("|")[1]].append(values)
            continue
        name, size = re.fullmatch(r"(.*)-(\d+)-s\d+-[0-9a-f]+", run).groups()  # type: ignore[union-attr]
        for n in sorted({int(k.split("|")[0]) for k in values}):
            by_way = {k.split("|")[1]: v for k, v in values.items() if k.startswith(f"{n}|")}
            if set(by_way) == set(WAYS):
                rows[f"{name}, {size}² → {n}²"].append(by_way)
    return rows


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    values = list(values)
    return sum(values) / len(values)


def table(rows: dict[str, list[dict[str, float]]]) -> str:
    """One line per setting: means over the seeds, the best in bold, and transferred over the best of the four."""
    lines = ["| setting | seeds | " + " | ".join(WAYS) + " | over the best of four |", "|---" * (len(WAYS) + 3) + "|"]
    for name, seeds in rows.items():
        means = {w: mean(s[w] for s in seeds) for w in WAYS if all(w in s for s in seeds)}
        best = min(means.values())
        cells = [
            "" if w not in means else f"**{means[w]:.2f}**" if means[w] == best else f"{means[w]:.2f}" for w in WAYS
        ]
        ratio = means["transferred"] / min(means[w] for w in FOUR)
        lines.append(f"| {name} | {len(seeds)} | " + " | ".join(cells) + f" | {ratio:.3f} |")
    return "\n".join(lines)


def summary(rows: dict[str, list[dict[str, float]]]) -> str:
    """Each way's error over that of the best of the four in hindsight: geometric mean and worst, over the settings."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for seeds in rows.values():
        means = {w: mean(s[w] for s in seeds) for w in WAYS if all(w in s for s in seeds)}
        for way, value in means.items():
            ratios[way].append(value / min(means[w] for w in FOUR))
    lines = ["| way | geometric mean | worst | settings |", "|---|---|---|---|"]
    for way in sorted(ratios, key=lambda w: mean(map(math.log, ratios[w]))):
        value = math.exp(mean(map(math.log, ratios[way])))
        lines.append(f"| {way} | {value:.3f} | {max(ratios[way]):.2f} | {len(ratios[way])} |")
    return "\n".join(lines)


def written(page: str, name: str, text: str) -> str:
    """The page with ``text`` between the marks of a table."""
    begin, end = f"<!-- {name}: written by examples/where_each_wins.py -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise ValueError(f"the page has no place for {name}: it needs the lines {begin} and {end}")
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    """Evaluate what is missing, print the tables, write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="folders of runs, such as RUNS/runs")
    parser.add_argument("--cases", type=int, default=0, help="seeds of the one-dimensional cases")
    parser.add_argument("--kept", type=Path, default=Path("out/where-each-wins.json"), help="what is done already")
    parser.add_argument("--write", type=Path, help="the page to write the tables into")
    given = parser.parse_args()
    results: dict[str, dict[str, float]] = json.loads(given.kept.read_text()) if given.kept.exists() else {}

    def keep() -> None:
        given.kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(given.kept, json.dumps(results, indent=1) + "\n", "the results")

    for name in CASES:
        for seed in range(given.cases):
            if f"case|{name}|{seed}" not in results:
                results[f"case|{name}|{seed}"] = case(name, seed)
                keep()
    for run in sorted(r for folder in given.runs for r in folder.iterdir() if (r / "record.json").exists()):
        evaluated(run, results.setdefault(run.name, {}), keep)
        print(run.name, flush=True)
    rows = settings(results)
    print(summary(rows), table(rows), sep="\n\n")
    if given.write is not None:
        page = given.write.read_text(encoding="utf-8")
        for name, text in (("summary", summary(rows)), ("settings", table(rows))):
            page = written(page, name, text)
        write_atomic(given.write, page, "the page")


if __name__ == "__main__":
    main()
