"""Models of others on grids they were not trained on: how far their outputs drift, as they are and in three ways.

``python examples/zoo.py`` measures every model of ``examples/strangers.py`` with random weights: the relative change of
its output, at the 33² training nodes, when the same smooth field is given at 65² and at 129². ``--results FILE`` keeps
what was measured and goes on from there; ``--train`` also trains six of them on Darcy flow at 33² and tests them at
129²; ``--page docs/zoo.md`` writes the page. About five minutes on one core without ``--train``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from strangers import MODELS
from zoo_fnogno import grid_drift, grid_table
from zoo_points import cloud_drift, cloud_table
from zoo_trained import TRAINED, trained, trained_table
from zoo_ways import NATIVE, WAYS, reason, smooth, ways

FINER = (65, 129)
ONLY_TWICE = ("softmax attention",)  # at 129² its scores take a gigabyte
Values = dict[str, Any]


@torch.no_grad()
def drift(name: str) -> Values:
    """Relative change from 33² to finer grids in every way."""
    torch.manual_seed(0)
    try:
        model = MODELS[name]().eval()
    except (ImportError, NameError) as error:
        return {"missing": f"{type(error).__name__}: {error}"}
    native = model(smooth(NATIVE))
    usable, refused = ways(model)
    values: Values = {"refused": refused}
    grids = FINER[:1] if name in ONLY_TWICE else FINER
    for way, run in usable.items():
        try:
            outputs = [run(smooth(n))[..., :: (n - 1) // (NATIVE - 1), :: (n - 1) // (NATIVE - 1)] for n in grids]
        except RuntimeError as error:
            refused[way] = reason(error)
            continue
        values[way] = [float((y - native).norm() / native.norm()) for y in outputs]
        values[f"{way}, native"] = float((run(smooth(NATIVE)) - native).abs().max() / native.abs().max())
    return values


def drift_table(results: Values) -> str:
    """Markdown, one row per model."""
    lines = ["| model | " + " | ".join(WAYS) + " | best way |", "|---|" + "---|" * 5]
    for name in MODELS:
        values = results[name]
        if "missing" in values:
            lines.append(f"| {name} | not run: {values['missing']} | | | | |")
            continue
        cells = [" / ".join(f"{v:.1e}" for v in values[w]) if w in values else "refused" for w in WAYS]
        if "as it is" not in values:
            cells[0] = "does not run"
        kept = {w: values[w][-1] for w in WAYS[1:3] if w in values}
        best = min(kept, key=lambda w: kept[w]) if kept else "run at 33²"
        before = values["as it is"][-1] if "as it is" in values else None
        factor = before / max(kept[best], 1e-30) if kept and before else 0.0
        gain = ", rounding" if kept and kept[best] < 1e-5 else f", {factor:.0f}× less" if factor else ""
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {best}{gain} |")
    return "\n".join(lines)


def refusals(results: Values) -> str:
    """One line for each way that does not take a model."""
    lines = [f"- {name}, {way}: {why}" for name in MODELS for way, why in results[name].get("refused", {}).items()]
    return "\n".join(lines)


def page(results: Values, template: Path) -> str:
    """The page: the text between its own lines, the tables anew."""
    text = template.read_text(encoding="utf-8")
    for mark, body in (
        ("drift", drift_table(results)),
        ("refused", refusals(results)),
        ("points", cloud_table(results["points"])),
        ("FNOGNO", grid_table(results["FNOGNO"])),
        ("trained", trained_table(results)),
    ):
        start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        head, _, rest = text.partition(start)
        text = head + start + body + end + rest.partition(end)[2]
    return text


def main() -> None:
    """Measure what is not there yet, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("zoo.json"), help="where measurements are kept")
    parser.add_argument("--train", action="store_true", help="also train six of the models")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to train")
    parser.add_argument("--page", type=Path, help="the page whose tables are written anew")
    options = parser.parse_args()
    results: Values = json.loads(options.results.read_text()) if options.results.exists() else {}
    work = [(name, lambda name=name: drift(name)) for name in MODELS]
    work += [("points", cloud_drift), ("FNOGNO", grid_drift)]
    if options.train:
        runs = [(name, seed) for seed in range(options.seeds) for name in TRAINED]
        work += [(f"trained {n} {s}", lambda n=n, s=s: trained(n, s)) for n, s in runs]
    for key, measure in work:
        if key not in results:
            results[key] = measure()
            options.results.write_text(json.dumps(results, indent=1))
            print(key, results[key], flush=True)
    print(drift_table(results))
    if options.page:
        options.page.write_text(page(results, options.page), encoding="utf-8")


if __name__ == "__main__":
    main()
