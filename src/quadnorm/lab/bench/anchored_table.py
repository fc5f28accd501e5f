"""Trained models on finer grids: as trained, anchored, and run at the training grid.

``python -m quadnorm.lab.bench.anchored_table FOLDER [--preset smoke|desk] [--seeds 3] [--models fno …] [--test 40]``
trains and evaluates what FOLDER does not hold yet, prints the table and writes FOLDER/table.json and FOLDER/table.md.
Stopped, it goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from quadnorm._files import write_atomic
from quadnorm.adapt import anchor, at_native, extend
from quadnorm.training import Normalised, TrainConfig, evaluate_model, load_model, relative_l2, train
from quadnorm.training.data import samples

PRESETS: dict[str, dict[str, Any]] = {  # a model that has not learned much does not show what a grid does to it
    "smoke": {"samples": {"train": 200, "val": 20, "test": 40}, "epochs": 40, "fno": {"width": 24}},
    "desk": {"samples": {"train": 500, "val": 50, "test": 100}, "epochs": 60, "fno": {}},
}
MODELS: dict[str, dict[str, Any]] = {
    "fno": {"name": "fno", "params": {"norm": "layer"}},
    "fno-instance": {"name": "fno", "params": {"norm": "instance"}},
    "galerkin": {"name": "galerkin", "params": {"norm": "layer"}},
    "transolver": {"name": "transolver", "params": {"norm": "layer"}},
    "neuraloperator": {"name": "fno", "params": {}},
}
WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "as trained": lambda m: m,
    "anchored": lambda m: anchor(m, 33, "endpoint"),
    "native, upsampled": lambda m: at_native(m, (33, 33), "endpoint"),
    "extended": lambda m: extend(m, 33, "endpoint"),
}
GRIDS = (33, 65, 129, 257)


def config_of(name: str, preset: str, seed: int) -> TrainConfig:
    """Darcy, trained at 33²."""
    budget, chosen = PRESETS[preset], MODELS[name]
    params = {**chosen["params"], **(budget["fno"] if chosen["name"] == "fno" else {})}
    # Cosine from twice the paper's rate: the budget is shorter than the paper's.
    return TrainConfig.model_validate(
        {
            "problem": {"name": "darcy"},
            "operator": {"name": chosen["name"], "params": params},
            "resolutions": {"train": [33]},
            "samples": budget["samples"],
            "optimiser": {"lr": 1e-3},
            "epochs": budget["epochs"],
            "patience": None,
            "seed": seed,
        }
    )


def trained(name: str, preset: str, seed: int, folder: Path) -> tuple[nn.Module, TrainConfig]:
    """The trained model, from the folder if it is there."""
    config = config_of(name, preset, seed)
    where = folder / f"{name}-{preset}-{seed}"
    if name == "neuraloperator":
        return _trained_neuralop(config, where), config
    train(config, where, progress=False)
    model, _ = load_model(where)
    return model, config


def _trained_neuralop(config: TrainConfig, where: Path) -> nn.Module:
    """Neuraloperator's FNO of the same width, modes and layers, trained in the same way."""
    from neuralop.models import FNO as Theirs  # noqa: N811
    from safetensors.torch import load_file, save_file

    params = {"width": 32, "modes": 12, "layers": 4, **config.operator.params}
    torch.manual_seed(config.seed)
    operator = Theirs(
        n_modes=(2 * params["modes"],) * 2,
        in_channels=1,
        out_channels=1,
        hidden_channels=params["width"],
        n_layers=params["layers"],
        norm="group_norm",
        use_channel_mlp=False,
    )
    model = Normalised(operator, 1, 1)
    x, y = samples(config, "train", [33])[33]
    model.fit(x, y)
    # Not its state_dict, into which neuraloperator puts a dictionary of its own.
    tensors = {k: v.detach() for k, v in (*model.named_parameters(), *model.named_buffers())}
    file = where / "weights.safetensors"
    if file.exists():
        with torch.no_grad():
            for key, value in load_file(file).items():
                tensors[key].copy_(value)
        return model.eval()
    steps, optimiser = config.steps, torch.optim.AdamW(model.parameters(), config.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.lr, total_steps=steps)
    for step in range(steps):
        if step % config.steps_per_epoch == 0:
            order = torch.randperm(len(x))
        start = step % config.steps_per_epoch * config.batch
        index = order[start : start + config.batch]
        optimiser.zero_grad()
        torch.autograd.backward(relative_l2(model(x[index]), y[index]).mean())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    where.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file)
    return model.eval()


def errors(name: str, preset: str, seed: int, folder: Path, test: int | None = None) -> dict[str, list[float]]:
    """Mean relative L² error in % on the test samples, or on the first ``test`` of them, by way and grid.

    Kept beside the weights: an attention's error on a fine grid takes as long as its training.
    """
    count = test or PRESETS[preset]["samples"]["test"]
    file = folder / f"{name}-{preset}-{seed}" / f"errors-{count}.json"
    if file.exists():
        kept: dict[str, list[float]] = json.loads(file.read_text(encoding="utf-8"))
        return kept
    model, config = trained(name, preset, seed, folder)
    model.eval()
    config = config.model_copy(update={"samples": config.samples.model_copy(update={"test": count})})
    errors_by_norm = {
        way: [100 * e.mean for e in evaluate_model(_quiet(make(model)), config, GRIDS).grids]
        for way, make in WAYS.items()
    }
    write_atomic(file, json.dumps(errors_by_norm) + "\n", "the errors")
    return errors_by_norm


def _quiet(model: nn.Module) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        with torch.no_grad():
            y: Tensor = model(x)
        return y

    return call


def table(results: dict[str, list[dict[str, list[float]]]]) -> str:
    """Markdown: means over seeds, and how much smaller the degradation at the finest grid is than as trained."""
    lines = [
        "| model | way | " + " | ".join(f"{n}²" for n in GRIDS) + " | degradation at 257² |",
        "|---|---|" + "---|" * 5,
    ]
    for name, runs in results.items():
        for way in WAYS:
            values = [mean(r[way][k] for r in runs) for k in range(len(GRIDS))]
            worse = mean(r["as trained"][-1] - r["as trained"][0] for r in runs)
            mine = values[-1] - values[0]
            ratio = "" if way == "as trained" else f", {worse / mine:.1f}× less" if mine > 0.01 * worse else ", none"
            lines.append(f"| {name} | {way} | " + " | ".join(f"{v:.2f}" for v in values) + f" | {mine:+.2f}{ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Train, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="smoke")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=list(MODELS))
    parser.add_argument("--test", type=int, help="test samples, if fewer than the preset's")
    options = parser.parse_args()
    results: dict[str, list[dict[str, list[float]]]] = {}
    for name in options.models:
        for seed in range(options.seeds):
            errors_by_norm = errors(name, options.preset, seed, options.folder, options.test)
            results.setdefault(name, []).append(errors_by_norm)
            print(name, seed, {k: [round(v, 3) for v in e] for k, e in errors_by_norm.items()}, flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    write_atomic(options.folder / "table.json", json.dumps(results, indent=1), "the results")
    write_atomic(options.folder / "table.md", table(results) + "\n", "the table")
    print(table(results))


if __name__ == "__main__":
    main()
