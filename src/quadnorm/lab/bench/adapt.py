"""What anchoring costs: forward passes of anchored models against the models as they were."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from quadnorm.adapt import anchor, at_native
from quadnorm.lab.bench.timing import Row, interleaved, row
from quadnorm.operators import FNO, GalerkinTransformer, Transolver


def run(scale: float = 1.0, repeats: int = 11) -> list[Row]:
    """Forward at 257² (times ``scale``) of models of 33²: anchored, and at the training grid, against as trained."""
    n = max(17, round(256 * scale) + 1)
    torch.manual_seed(0)
    models: dict[str, nn.Module] = {
        "FNO, LayerNorm": FNO(),
        "FNO, InstanceNorm": FNO(norm="instance"),
        "GalerkinTransformer": GalerkinTransformer(),
        "Transolver": Transolver(),
    }
    theirs = _neuralop()
    if theirs is not None:
        models["neuraloperator FNO"] = theirs
    rows = []
    for name, model in models.items():
        rows += _compare(name, model.eval(), n, repeats)
    return rows


def _compare(name: str, model: nn.Module, n: int, repeats: int) -> list[Row]:
    x = torch.randn(2, 1, n, n)
    ways = {"as trained": model, "anchored": anchor(model, 33), "at the training grid": at_native(model, 33)}

    def forward(m: nn.Module) -> Any:
        with torch.no_grad():
            return m(x)

    for m in ways.values():
        forward(m)  # weights and matrices are made once per resolution
    seconds = interleaved({way: lambda m=m: forward(m) for way, m in ways.items()}, repeats)
    peer = seconds["as trained"]
    return [
        row(f"{name}, {way}", f"2×1×{n}×{n}", seconds[way], f"{name} as trained", peer)
        for way in ("anchored", "at the training grid")
    ]


def _neuralop() -> nn.Module | None:
    try:
        from neuralop.models import FNO as Theirs  # noqa: N811
    except ImportError:
        return None
    model: nn.Module = Theirs(
        n_modes=(24, 24), in_channels=1, out_channels=1, hidden_channels=32, norm="group_norm", use_channel_mlp=False
    )
    return model
