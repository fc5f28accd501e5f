"""Equal weights in place of every quadrature that the mesh statements use."""

import pytest
import torch

from quadnorm.lab.theory import meshes
from quadnorm.measures import Grid


def equal_grid(*nodes, bounds=None):
    return Grid("counting")


def equal_points(points, *args, **kwargs):
    return torch.ones(len(points), dtype=torch.float64)


def equal_cells(points, cells):
    return torch.ones(len(cells), dtype=torch.float64)


class EqualLatLon:
    def __init__(self, rule):
        pass

    def weights(self, shape):
        return torch.full(shape, 1 / (shape[0] * shape[1]), dtype=torch.float64)


@pytest.fixture
def equal_weights(monkeypatch):
    """Equal weights in place of every quadrature that the families use."""
    monkeypatch.setattr(Grid, "from_coordinates", equal_grid)
    monkeypatch.setattr(meshes.qn, "voronoi_weights", equal_points)
    monkeypatch.setattr(meshes.qn, "lumped_weights", equal_points)
    monkeypatch.setattr(meshes.qn, "cell_weights", equal_cells)
    monkeypatch.setattr(meshes.qn, "LatLon", EqualLatLon)
