"""neuraloperator's FNOGNO on grids it was not trained on, asked at scattered points, for ``examples/zoo.py``.

Its input is a grid, as for an FNO; its output at a point is a sum over the grid's nodes within a radius. The points
are queries and enter no sum, so that drift is the change of the output at 400 points that stay where they are.
"""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import torch
from torch import Tensor, nn
from zoo_points import COUNT, RADIUS
from zoo_ways import NATIVE, WAYS, smooth, ways

import quadnorm as qn

WEIGHED = "anchored, weights in the last sum"
GRID_WAYS = (*WAYS[:2], WEIGHED, *WAYS[2:])


class AskedAtPoints(nn.Module):
    """FNOGNO from a grid with its boundary, (B, 1, n, m), to the same points always, (B, 1, 400)."""

    def __init__(self) -> None:
        super().__init__()
        from neuralop.models import FNOGNO

        with contextlib.redirect_stdout(io.StringIO()):
            self.fnogno = FNOGNO(
                in_channels=1,
                out_channels=1,
                gno_coord_dim=2,
                gno_radius=RADIUS,
                gno_channel_mlp_hidden_layers=[32, 32],
                gno_use_open3d=False,
                gno_use_torch_scatter=False,
                gno_batched=True,
                fno_n_modes=(6, 6),
                fno_hidden_channels=12,
                fno_n_layers=2,
                fno_norm="instance_norm",
            )
        self.queries = torch.rand(COUNT, 2, generator=torch.Generator().manual_seed(0))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, n, m) → (B, 1, 400)."""
        axes = [torch.linspace(0, 1, n) for n in x.shape[-2:]]
        nodes = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
        y: Tensor = self.fnogno(nodes, self.queries, x.movedim(1, -1))
        return y.movedim(-1, 1)


class TrainingWeights(nn.Module):
    """A neighbour search that also gives weights: with them a sum over a square grid is one over the training grid."""

    def __init__(self, search: nn.Module) -> None:
        super().__init__()
        self.search = search

    def forward(self, data: Tensor, queries: Tensor, radius: float) -> dict[str, Tensor]:
        """As neuraloperator's ``NeighborSearch``, for the nodes of a grid in a row."""
        found: dict[str, Tensor] = self.search(data, queries, radius)
        n = math.isqrt(len(data))
        weights = NATIVE**2 * qn.Anchored((NATIVE, NATIVE)).weights((n, n), dtype=data.dtype)
        return {**found, "weights": weights.flatten()[found["neighbors_index"]]}


@torch.no_grad()
def grid_drift(grids: tuple[int, ...] = (65, 129)) -> dict[str, Any]:
    """Relative change from 33² to finer grids in every way, and what was refused."""
    torch.manual_seed(0)
    model = AskedAtPoints().eval()
    native = model(smooth(NATIVE))
    usable, refused = ways(model)
    weighed: Any = qn.anchor(model, (NATIVE, NATIVE), "endpoint", example=smooth(NATIVE))
    weighed.fnogno.gno.neighbor_search = TrainingWeights(weighed.fnogno.gno.neighbor_search)
    usable[WEIGHED] = weighed
    drifts = {w: [float((f(smooth(n)) - native).norm() / native.norm()) for n in grids] for w, f in usable.items()}
    return {"refused": refused, **drifts}


def grid_table(values: dict[str, Any]) -> str:
    """Markdown, one row."""
    cells = [" / ".join(f"{v:.1e}" for v in values[way]) if way in values else "refused" for way in GRID_WAYS]
    heads = "| model | " + " | ".join(GRID_WAYS) + " |\n|---|" + "---|" * len(GRID_WAYS)
    return f"{heads}\n| FNOGNO, asked at {COUNT} points | " + " | ".join(cells) + " |"
