"""A neuraloperator FNO on a grid it was not trained on: what leaks, and the fix without training.

``python examples/neuralop_anchor.py [folder]`` trains a small FNO on u ↦ v, −0.02 v_xx + v = u, at 33², looks at it on
finer grids, anchors it, and writes ``neuralop_audit.html`` (default folder: out). About a minute on one core; needs
``pip install 'quadnorm[compat,bench]'``.
"""

import argparse
from pathlib import Path

import torch
from neuralop.models import FNO

from quadnorm.adapt import anchor, at_native, audit, extend

TRAIN, FINER = 33, [65, 129]


def fields(count: int, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random waves u on endpoint-inclusive n×n nodes, and v with −0.02 v_xx + v = u, solved on a fine grid."""
    g = torch.Generator().manual_seed(seed)
    fine = 129
    r = torch.linspace(0, 1, fine)
    k = torch.arange(1, 6)
    amplitude, phase = torch.randn(count, 2, 5, generator=g) / k, 6.3 * torch.rand(count, 2, 5, generator=g)
    waves = torch.sin(3 * k[:, None] * r + phase[..., None])  # (count, 2, 5, fine)
    axes = torch.einsum("cak,cakr->car", amplitude, waves)
    u = axes[:, 0, :, None] + axes[:, 1, None, :]
    h = 1 / (fine - 1)
    second = torch.diag(torch.full((fine - 1,), -1.0), 1)
    second = second + second.T + torch.diag(torch.full((fine,), 2.0))
    second[0, 1] = second[-1, -2] = -2.0  # zero slope at the ends
    v = torch.linalg.solve(torch.eye(fine) + 0.02 * second / h**2, u)
    step = (fine - 1) // (n - 1)
    return u[:, None, ::step, ::step], v[:, None, ::step, ::step]


def relative_error(model: torch.nn.Module, n: int) -> float:
    """Mean relative L² error on fields that were not trained on."""
    u, v = fields(20, n, seed=1)
    with torch.no_grad():
        gap = (model(u) - v).flatten(1).norm(dim=1) / v.flatten(1).norm(dim=1)
    return gap.mean().item()


def main(folder: Path, steps: int = 300) -> None:
    """Train, audit, anchor."""
    torch.manual_seed(0)
    model = FNO(n_modes=(12, 12), in_channels=1, out_channels=1, hidden_channels=16, n_layers=2, norm="group_norm")
    u, v = fields(200, TRAIN)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for _ in range(steps):
        pick = torch.randint(len(u), (10,))
        loss = ((model(u[pick]) - v[pick]).flatten(1).norm(dim=1) / v[pick].flatten(1).norm(dim=1)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    model.eval()

    fixed = anchor(model, TRAIN, "endpoint")
    print(fixed.anchor_report)
    ways = {
        "as trained": model,
        "anchored": fixed,
        "extended": extend(model, TRAIN, "endpoint"),
        "run at the training grid": at_native(model, TRAIN, "endpoint"),
    }
    print("\nmean relative error at", ", ".join(f"{n}²" for n in [TRAIN, *FINER]))
    for name, way in ways.items():
        print(f"  {name:24s}" + "  ".join(f"{relative_error(way, n):7.3%}" for n in [TRAIN, *FINER]))

    result = audit(model, lambda n: fields(4, n, seed=1), [TRAIN, *FINER], placement="endpoint")
    print(f"\n{result}")
    folder.mkdir(parents=True, exist_ok=True)
    result.html(folder / "neuralop_audit.html")
    print(f"\nwritten: {folder / 'neuralop_audit.html'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out"), help="where to write; default: out")
    main(parser.parse_args().folder)
