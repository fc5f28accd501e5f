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
from statistics import mean
from typing import Any

import torch
from strangers import MODELS
from torch import Tensor, nn

import quadnorm as qn
from quadnorm.problems import problem

NATIVE, FINER = 33, (65, 129)
ONLY_TWICE = ("softmax attention",)  # at 129² its scores take a gigabyte
WAYS = ("as it is", "anchored", "extended", "run at 33²")
TRAINED = (
    "neuraloperator FNO",
    "neuraloperator FNO, domain padding",
    "FNO by torch.fft",
    "FNO by torch.fft, padded by 9",
    "Galerkin attention",
    "U-Net",
)
Values = dict[str, Any]


def smooth(n: int) -> Tensor:
    """Three smooth fields that do not vanish at the boundary, at n endpoint-inclusive samples per axis."""
    r = torch.arange(n, dtype=torch.float64) / (n - 1)
    waves = [(1.3, 0.4, 2.1, 0.9), (2.9, 1.0, 0.7, 0.2), (3.7, 2.5, 3.1, 1.4)]
    return torch.stack([torch.sin(a * r + b)[:, None] * torch.cos(c * r + d) for a, b, c, d in waves])[:, None].float()


def ways(model: nn.Module) -> tuple[dict[str, Any], dict[str, str]]:
    """The model in every way that takes it, and why the others do not."""
    makers = {
        "anchored": lambda: qn.anchor(model, (NATIVE,) * 2, "endpoint", example=smooth(NATIVE)),
        "extended": lambda: qn.extend(model, (NATIVE,) * 2, "endpoint", example=smooth(NATIVE)),
        "run at 33²": lambda: qn.at_native(model, (NATIVE,) * 2, "endpoint"),
    }
    usable: dict[str, Any] = {"as it is": model}
    refused = {}
    for way, make in makers.items():
        try:
            usable[way] = make()
        except (ValueError, RuntimeError) as error:
            refused[way] = str(error).splitlines()[0]
    return usable, refused


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
            refused[way] = str(error).splitlines()[0]
            continue
        values[way] = [float((y - native).norm() / native.norm()) for y in outputs]
        values[f"{way}, native"] = float((run(smooth(NATIVE)) - native).abs().max() / native.abs().max())
    return values


def trained(name: str, seed: int, samples: int = 160, epochs: int = 24) -> Values:
    """Mean relative L² error in % on 20 other samples of Darcy flow: at 33², then at 129² in every way."""
    darcy = problem("darcy")
    ((x, y),) = darcy.dataset_many(range(samples), [NATIVE])
    tests = darcy.dataset_many(range(samples, samples + 20), [NATIVE, FINER[-1]])
    torch.manual_seed(seed)
    model, scale = MODELS[name](), (x.mean(), x.std(), y.std())
    optimiser = torch.optim.AdamW(model.parameters(), 4e-3, weight_decay=1e-4)
    steps = epochs * (samples // 16)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(steps):
        at = torch.randperm(samples)[:16]
        loss = error(model((x[at] - scale[0]) / scale[1]) * scale[2], y[at])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    model.eval()
    usable, _ = ways(model)
    with torch.no_grad():
        (x0, y0), (x1, y1) = tests
        values = {"at 33²": 100 * float(error(model((x0 - scale[0]) / scale[1]) * scale[2], y0))}
        for way, run in usable.items():
            parts = [run((part - scale[0]) / scale[1]) * scale[2] for part in x1.split(4)]
            values[way] = 100 * float(error(torch.cat(parts), y1))
    return values


def error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


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


def trained_table(results: Values) -> str:
    """Markdown: means over the seeds that were run."""
    lines = [
        "| model | seeds | at 33² | " + " | ".join(f"{w}, 129²" for w in WAYS) + " |",
        "|---|---|---|" + "---|" * 4,
    ]
    for name in TRAINED:
        runs = [results[key] for key in results if key.startswith(f"trained {name} ")]
        if runs:
            cells = [
                f"{mean(r[k] for r in runs):.2f}" if all(k in r for r in runs) else "refused" for k in ("at 33²", *WAYS)
            ]
            lines.append(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else "Not run yet."


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
        ("trained", trained_table(results)),
    ):
        start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        head, _, rest = text.partition(start)
        text = head + start + body + end + rest.partition(end)[2]
    return text


def main() -> None:
    """Measure what is not there yet, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("zoo.json"))
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    results: Values = json.loads(options.results.read_text()) if options.results.exists() else {}
    work = [(name, lambda name=name: drift(name)) for name in MODELS]
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
