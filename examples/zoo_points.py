"""neuraloperator's GINO and FNOGNO, for ``examples/zoo.py``: points and grids that they were not trained on.

GINO: its latent grid has a size of its own and never changes; what changes is the mean over the input points that lie
within a radius of each latent node. Output points are queries and do not enter any sum. So its output on the training
cloud is a function that can be asked anywhere, and drift is the distance from it at the new cloud's points.

FNOGNO: its input is a grid, its output at a point a sum over the grid's nodes within a radius. The points are queries
and enter no sum, so that drift is the change of the output at 400 points that stay where they are.
"""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import torch
from strangers import NATIVE, WAYS, smooth, ways
from torch import Tensor, nn

import quadnorm as qn
from quadnorm.carry.scattered import linear_map

COUNT, LATENT, RADIUS = 400, 16, 0.15
WEIGHED = "anchored, weights in the last sum"
GRID_WAYS = (*WAYS[:2], WEIGHED, *WAYS[2:])
POINT_WAYS = (
    "as trained",
    "training measure",
    "run at its points, asked",
    "run at its points, by lines",
)


class OnPoints(nn.Module):
    """GINO as ``model(x, coordinates)``, with outputs at other points on request."""

    def __init__(self) -> None:
        super().__init__()
        from neuralop.models import GINO

        with contextlib.redirect_stdout(io.StringIO()):
            self.gino = GINO(
                in_channels=1,
                out_channels=1,
                gno_coord_dim=2,
                in_gno_radius=RADIUS,
                out_gno_radius=RADIUS,
                fno_in_channels=8,
                fno_n_modes=(6, 6),
                fno_hidden_channels=12,
                fno_n_layers=2,
                fno_norm="instance_norm",
                in_gno_channel_mlp_hidden_layers=[32, 32],
                out_gno_channel_mlp_hidden_layers=[32, 32],
                in_gno_transform_type="linear",
                gno_use_open3d=False,
                gno_use_torch_scatter=False,
            )
        axis = (torch.arange(LATENT) + 0.5) / LATENT
        self.latent = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1)[None]

    def forward(self, x: Tensor, coordinates: Tensor, queries: Tensor | None = None) -> Tensor:
        """(B, M, 1) at the coordinates → (B, M', 1) at the queries."""
        y: Tensor = self.gino(coordinates[None], self.latent, (coordinates if queries is None else queries)[None], x)
        return y


class WeighedSearch(nn.Module):
    """A neighbour search that also gives weights, one measure's shares within each neighbourhood."""

    def __init__(self, search: nn.Module, weights: Tensor) -> None:
        super().__init__()
        self.search, self.weights = search, weights

    def forward(self, data: Tensor, queries: Tensor, radius: float) -> dict[str, Tensor]:
        """As neuraloperator's ``NeighborSearch``."""
        found: dict[str, Tensor] = self.search(data, queries, radius)
        counts = found["neighbors_row_splits"].diff()
        owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
        weights = self.weights[found["neighbors_index"]]
        totals = torch.zeros(len(counts)).index_add(0, owner, weights)
        return {**found, "weights": weights / totals[owner].clamp(min=1e-12)}


def training_measure(points: Tensor, new: Tensor) -> Tensor:
    """Weights w of the new points with Σ w f(new) = Σ f(points), f taken to the points by lines: w = Pᵀ1."""
    index, weight = linear_map(new, points)
    return torch.zeros(len(new), dtype=weight.dtype).index_add(0, index.flatten(), weight.flatten()).float()


def field(points: Tensor) -> Tensor:
    """Two smooth fields, (2, M, 1)."""
    u, v = points.T
    fields = torch.sin(2.9 * u + 1) * torch.cos(2.1 * v), torch.exp(u - v) * torch.cos(3.1 * u * v)
    return torch.stack(fields)[..., None]


def clouds() -> dict[str, Tensor]:
    """The training cloud, and others: with its points among them, of other points, and of another density."""
    random = torch.Generator().manual_seed(0)
    native, more, other, dense = (torch.rand(n, 2, generator=random) for n in (COUNT, 3 * COUNT, 4 * COUNT, 4 * COUNT))
    return {
        "training, 400 points": native,
        "1600 points, the 400 among them": torch.cat([native, more]),
        "1600 other points": other,
        "1600 other points, denser to one side": dense**2,
    }


@torch.no_grad()
def cloud_drift() -> dict[str, Any]:
    """Relative distance from the training cloud's output function, for every cloud in every way."""
    torch.manual_seed(0)
    model = OnPoints().eval()
    native, *_ = clouds().values()
    search = model.gino.gno_in.neighbor_search
    asked, carried = qn.at_native(model, native, queries="queries"), qn.at_native(model, native)
    values: dict[str, Any] = {}
    for name, new in clouds().items():
        reference = model(field(native), native, new)
        outputs = {"as trained": model(field(new), new)}
        model.gino.gno_in.neighbor_search = WeighedSearch(search, training_measure(native, new))
        outputs["training measure"] = model(field(new), new)
        model.gino.gno_in.neighbor_search = search
        outputs["run at its points, asked"] = asked(field(new), new)
        outputs["run at its points, by lines"] = carried(field(new), new)
        values[name] = {way: float((y - reference).norm() / reference.norm()) for way, y in outputs.items()}
    return values


def cloud_table(values: dict[str, Any]) -> str:
    """Markdown, one row per cloud."""
    lines = ["| GINO on | " + " | ".join(POINT_WAYS) + " |", "|---|" + "---|" * len(POINT_WAYS)]
    for name, row in values.items():
        lines.append(f"| {name} | " + " | ".join(f"{row[way]:.1e}" for way in POINT_WAYS) + " |")
    return "\n".join(lines)


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
    gno = getattr(weighed, "model", weighed).fnogno.gno
    gno.neighbor_search = TrainingWeights(gno.neighbor_search)
    usable[WEIGHED] = weighed
    drifts = {w: [float((f(smooth(n)) - native).norm() / native.norm()) for n in grids] for w, f in usable.items()}
    return {"refused": refused, **drifts}


def grid_table(values: dict[str, Any]) -> str:
    """Markdown, one row."""
    cells = [" / ".join(f"{v:.1e}" for v in values[way]) if way in values else "refused" for way in GRID_WAYS]
    heads = "| model | " + " | ".join(GRID_WAYS) + " |\n|---|" + "---|" * len(GRID_WAYS)
    return f"{heads}\n| FNOGNO, asked at {COUNT} points | " + " | ".join(cells) + " |"
