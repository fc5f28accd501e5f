"""Compiled norms without breaks in the graph, where sizes are numbers in one argument and symbols in another."""

import pytest
import torch

from quadnorm import QuadNorm
from quadnorm.measures import Grid


def compiled(layer):
    torch._dynamo.reset()
    return torch.compile(layer, backend="eager", fullgraph=True)


@pytest.mark.parametrize("per_entry", [True, False])
@pytest.mark.parametrize("name", ["mask", "weights"])
def test_masks_and_weights_after_several_sizes(name, per_entry):
    """After two sizes the compiler takes those of x for symbols; a mask that it has not seen before has numbers."""
    layer = QuadNorm(4)
    run = compiled(layer)
    for size in ((9, 8), (12, 7)):
        run(torch.randn(2, 4, *size))
    for size in ((9, 8), (12, 7), (10, 10)):
        x, given = torch.randn(2, 4, *size), torch.rand((2, *size) if per_entry else size)
        given = given > 0.3 if name == "mask" else given
        torch.testing.assert_close(run(x, **{name: given}), layer(x, **{name: given}))


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("falling", [False, True])
def test_nonuniform_nodes(periodic, falling):
    nodes = [0.0, 0.1, 0.4, 0.9]
    grid = Grid.from_coordinates(nodes[::-1] if falling else nodes, bounds=[(0, 1)], periodic=periodic)
    layer = QuadNorm(4, measure=grid)
    run = compiled(layer)
    for batch in (2, 3, 5):
        x = torch.randn(batch, 4, 4)
        torch.testing.assert_close(run(x), layer(x))
