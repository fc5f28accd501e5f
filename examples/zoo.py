"""Models of others on grids they were not trained on: how far they drift, what they cost, and errors once trained.

``python examples/zoo.py`` measures every model of ``examples/strangers.py`` that is installed, with random weights: the
relative change of its output, at the training nodes, when the same smooth field is given on a grid twice as fine; what
`qn.extend` makes of it, how long that takes, and the time of a call against the model's own on the finer grid.
``--results FILE`` keeps what was measured and goes on from there; ``--train`` also trains some of them for less than a
minute each; ``--only PhysicsNeMo`` measures the models whose names begin so; ``--page docs/zoo.md`` writes the page,
where rows of models that were not measured now stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from strangers import MODELS, PACKAGED, WAYS, reason, smooth, ways
from torch import Tensor, nn
from zoo_points import cloud_drift, cloud_table, grid_drift, grid_table

import quadnorm as qn
from quadnorm.adapt.drift import drift as relative_drift

BUILDERS = {**MODELS, **PACKAGED}
SAMPLES, TESTS, STEPS, BATCH = 256, 16, 150, 16
TRAINED = (
    "neuraloperator FNO",
    "UNO",
    "FNO by torch.fft",
    "U-Net",
    "the_well FNO",
    "the_well UNetClassic",
    "the_well UNetConvNext",
    "the_well AFNO",
    "the_well AViT",
    "the_well DilatedResNet",
    "MONAI UNet",
    "MONAI SegResNet",
    "segmentation-models Unet",
    "x-unet",
)
Values = dict[str, Any]


def grid_of(name: str) -> tuple[int, int, str]:
    """The training grid of a model, one twice as fine, and where samples lie."""
    return (33, 65, "endpoint") if name in MODELS else (32, 64, "periodic")


def seconds(run: Callable[[], Any]) -> float:
    """The shortest of three runs."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@torch.no_grad()
def drift(name: str) -> Values:
    """Relative change from the training grid to one twice as fine in every way, and what extension costs."""
    torch.manual_seed(0)
    try:
        model = BUILDERS[name]().eval()
        n, fine, placement = grid_of(name)
        periodic = placement == "periodic"
        x, wide = smooth(n, periodic), smooth(fine, periodic)
        native = model(x)
    except Exception as error:  # a package that is not installed, or not as expected
        return {"missing": f"{type(error).__name__}: {reason(error)}"}
    usable, refused = ways(model, n, placement)
    values: Values = {"refused": refused}
    for way, run in usable.items():
        try:
            y = run(wide)
        except Exception as error:  # what the model itself does not take
            refused[way] = reason(error)
            continue
        values[way] = relative_drift(y, native, (placement,) * 2)
    if "extended" in usable:
        extended = usable["extended"]
        actions = {e.action for e in extended.extend_report}
        values["how"] = (
            extended.stencils if extended.stencils != "carried" else "carried" if "carried" in actions else "replayed"
        )
        start = time.perf_counter()
        qn.extend(model, (n, n), placement, example=x)
        values["seconds"] = time.perf_counter() - start
        if "as trained" in values and "extended" in values:
            values["ratio"] = seconds(lambda: extended(wide)) / seconds(lambda: model(wide))
    return values


def drift_table(results: Values) -> str:
    """Markdown, one row per model that was found."""
    lines = ["| model | as trained | anchored | extended | how | adapted in | time of a call |", "|---|" + "---|" * 6]
    for name in BUILDERS:
        values = results.get(name, {"missing": ""})
        if "missing" in values:
            continue
        cells = [f"{values[w]:.1e}" if w in values else "refused" for w in WAYS[:3]]
        if "as trained" not in values:
            cells[0] = "does not run"
        cells += [values.get("how", ""), f"{values['seconds']:.1f} s" if "seconds" in values else ""]
        cells.append(f"{values['ratio']:.1f}" if "ratio" in values else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(results: Values) -> str:
    """How many models were found, served, and made worse."""
    found = {name: results[name] for name in BUILDERS if "missing" not in results.get(name, {"missing": ""})}
    served = [name for name, v in found.items() if v.get("extended", 1.0) < 1e-3]
    runs = [v for v in found.values() if "as trained" in v and "extended" in v]
    worse = [v for v in runs if v["extended"] > max(v["as trained"], 1e-5)]
    return (
        f"{len(found)} models; {len(served)} of them are extended and keep their output at the training nodes, "
        f"{len(found) - len(served)} are refused; extended, {len(worse)} drift more than as trained."
    )


def refusals(results: Values) -> str:
    """One line for each way that does not take a model, and for models that were not found."""
    lines = []
    for name in BUILDERS:
        values = results.get(name, {})
        if values.get("missing"):
            lines.append(f"- {name}: not measured ({values['missing']})")
        lines += [f"- {name}, {way}: {why}" for way, why in values.get("refused", {}).items() if way != "anchored"]
    return "\n".join(lines) or "Nothing."


@cache
def data(placement: str, n: int, fine: int) -> list[Tensor]:
    """Inputs and answers for training at n, then for tests at ``fine``: fields with content between the training
    nodes, and what a diffusion followed by a reaction makes of them.

    Waves up to 3n/4 of a period; y = sin(2 S x) with S the damping 1 / (1 + (|k| / 8)²) of each wave, exact on every
    grid. Endpoint-inclusive samples see two thirds of a period, so that nothing is periodic there.
    """
    waves = 3 * n // 8
    random = torch.Generator().manual_seed(0)
    k = torch.arange(-waves, waves + 1).double()
    damping = 1 / (1 + (k[:, None] ** 2 + k**2) / 64)
    shape = (SAMPLES + TESTS, len(k), len(k))
    amplitudes = torch.complex(*(torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(2)))
    amplitudes = amplitudes / (1 + (k[:, None] ** 2 + k**2).sqrt() / 2) ** 1.5

    def at(m: int, spectrum: Tensor) -> Tensor:
        r = torch.arange(m).double() / m if placement == "periodic" else torch.arange(m).double() / (m - 1) * 2 / 3
        basis = torch.exp(2j * torch.pi * r[:, None] * k)  # (m, waves)
        return torch.einsum("ip,bpq,jq->bij", basis, spectrum, basis).real[:, None]

    fields = [(at(m, amplitudes), torch.sin(2 * at(m, amplitudes * damping) / 3)) for m in (n, fine)]
    scale = fields[0][0].std()
    (x, y), (u, v) = [((a / scale).float(), b.float()) for a, b in fields]
    return [x[:SAMPLES], y[:SAMPLES], x[SAMPLES:], y[SAMPLES:], u[SAMPLES:], v[SAMPLES:]]


def relative_error(y: Tensor, truth: Tensor) -> Tensor:
    """Mean relative L²."""
    return ((y - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def trained(name: str) -> Values:
    """Error in % at the training grid, then on a grid twice as fine: as trained, transferred, run there."""
    n, fine, placement = grid_of(name)
    x, y, x0, y0, x1, y1 = data(placement, n, fine)
    torch.manual_seed(0)
    try:
        model: nn.Module = BUILDERS[name]()
    except Exception as error:  # as in drift
        return {"missing": reason(error)}
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=STEPS)
    for _ in range(STEPS):
        at = torch.randperm(SAMPLES)[:BATCH]
        optimiser.zero_grad()
        relative_error(model(x[at]), y[at]).backward()
        optimiser.step()
        schedule.step()
    model.eval()
    values: Values = {}
    with torch.no_grad():
        values["at the training grid"] = 100 * float(relative_error(model(x0), y0))
    makers = {
        "as trained": lambda: model,
        "transferred": lambda: qn.transfer(model, (n, n), placement, data=(x[:64], y[:64])),
        "extended": lambda: qn.extend(model, (n, n), placement, example=x[:2]),
        "run at the training grid": lambda: qn.at_native(model, (n, n), placement),
    }
    for way, make in makers.items():
        try:
            run = make()
            with torch.no_grad():
                values[way] = 100 * float(relative_error(torch.cat([run(part) for part in x1.split(4)]), y1))
        except Exception as error:  # what a way or the model refuses is part of the table
            values[f"{way}, refused"] = reason(error)
    return values


TRAINED_COLUMNS = ("at the training grid", "as trained", "transferred", "extended", "run at the training grid")


def trained_table(results: Values) -> str:
    """Markdown, one row per trained model."""
    lines = ["| model | " + " | ".join(TRAINED_COLUMNS) + " |", "|---|" + "---|" * len(TRAINED_COLUMNS)]
    for name in TRAINED:
        values = results.get(f"trained {name}", {"missing": ""})
        if "missing" not in values:
            cells = [f"{values[c]:.2f}" if c in values else "refused" for c in TRAINED_COLUMNS]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else "Not run yet."


def on_page(text: str) -> Values:
    """What the page says about models on grids: the rows of its table, and what was refused."""
    between = {mark: text.partition(f"<!-- {mark} -->\n")[2].partition("\n<!--")[0] for mark in ("drift", "refused")}
    found: Values = {}
    for line in between["drift"].splitlines()[2:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        values: Values = {way: float(c) for way, c in zip(WAYS, cells[:3], strict=False) if c[0].isdigit()}
        values |= {key: float(c.split()[0]) for key, c in zip(("seconds", "ratio"), cells[4:], strict=True) if c}
        found[name] = {**values, "how": cells[3], "refused": {}}
    for name, why in re.findall(r"^- (.+?): not measured \((.*)\)$", between["refused"], re.MULTILINE):
        found[name] = {"missing": why}
    for name, way, why in re.findall(rf"^- (.+?), ({'|'.join(WAYS)}): (.*)$", between["refused"], re.MULTILINE):
        found.setdefault(name, {"refused": {}})["refused"][way] = why
    return found


def page(results: Values, template: Path) -> str:
    """The page: the text between its own lines, the tables anew; what is not installed here keeps its row."""
    text = template.read_text(encoding="utf-8")
    known = on_page(text)
    grids = known | {name: v for name, v in results.items() if "missing" not in v or "how" not in known.get(name, {})}
    trained_now = any(name.startswith("trained ") for name in results)
    for mark, body in (
        ("summary", summary(grids)),
        ("drift", drift_table(grids)),
        ("refused", refusals(grids)),
        ("points", cloud_table(results["points"]) if "points" in results else None),
        ("FNOGNO", grid_table(results["FNOGNO"]) if "FNOGNO" in results else None),
        ("trained", trained_table(results) if trained_now else None),
    ):
        if body is None:  # not measured: the page keeps what it has
            continue
        start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        head, _, rest = text.partition(start)
        text = head + start + body + end + rest.partition(end)[2]
    return text


def main() -> None:
    """Measure what is not there yet, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("zoo.json"), help="where measurements are kept")
    parser.add_argument("--train", action="store_true", help="also train some of the models")
    parser.add_argument("--only", default="", help="measure only models whose names begin so")
    parser.add_argument("--page", type=Path, help="the page whose tables are written anew")
    options = parser.parse_args()
    results: Values = json.loads(options.results.read_text()) if options.results.exists() else {}
    work: list[tuple[str, Callable[[], Values]]] = [(name, lambda name=name: drift(name)) for name in BUILDERS]
    work += [("points", cloud_drift), ("FNOGNO", grid_drift)]
    work = [(name, measure) for name, measure in work if name.startswith(options.only)]
    if options.train:
        names = [name for name in TRAINED if name.startswith(options.only)]
        work += [(f"trained {name}", lambda name=name: trained(name)) for name in names]
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
