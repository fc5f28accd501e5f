"""Data that are objects of Python: tensors, named arrays, DataArrays, Datasets."""

import numpy as np
import pytest
import torch

from quadnorm.problems import problem, problem_names
from tests.problems.files.earth import KINDS

RNG = torch.Generator().manual_seed(0)
X, Y = torch.rand(12, 2, 9, 9, generator=RNG), torch.rand(12, 1, 9, 9, generator=RNG)


def test_a_pair_of_tensors():
    p = problem("arrays", train=(X, Y.numpy()), test=(X[:3], Y[:3]), placement="endpoint")
    assert (p.dim, len(p.inputs), len(p.outputs), p.placement) == (2, 2, 1, "endpoint")
    assert {name: len(s) for name, s in p.splits.items()} == {"train": 12, "test": 3}
    x, y = p.sample([3, 12], resolution=9)
    torch.testing.assert_close(x, X[[3, 0]])
    torch.testing.assert_close(y, Y[[3, 0]])
    torch.testing.assert_close(p.sample([0], 5)[0], X[:1, :, ::2, ::2])
    assert "arrays" not in problem_names()  # no config can hold them
    assert "train: x (12, 2, 9, 9), y (12, 1, 9, 9)" in p.key()
    assert "12 samples at 9×9" in p.card()


@pytest.mark.parametrize("dim", [1, 3])
def test_other_dimensions(dim):
    x, y = torch.rand(4, 1, *[5] * dim), torch.rand(4, 3, *[5] * dim)
    p = problem("arrays", train=(x, y), placement="cell")
    assert p.dim == dim
    torch.testing.assert_close(p.sample([1], 5)[1], y[1:2])


def test_several_resolutions_say_where_the_nodes_lie():
    """sin(x + k) on 17 and 33 endpoint nodes: every second node is the same."""

    def fields(n):
        t = torch.linspace(0, 1, n, dtype=torch.float64)
        u = torch.stack([torch.sin(3 * t[:, None] + k + 5 * t * t) for k in range(6)])[:, None]
        return u, 2 * u

    p = problem("arrays", train=fields(17), test=[fields(17), fields(33)])
    assert p.placement == "endpoint"
    with pytest.raises(ValueError, match="does not say where the 17 nodes"):
        problem("arrays", train=fields(17))


def test_named_arrays_with_coordinates():
    cells = (np.arange(9) + 0.5) / 9
    p = problem("arrays", train={"a": X[:, 0], "u": Y[:, 0], "x": cells, "y": cells})
    assert p.placement == "cell"
    torch.testing.assert_close(p.sample([2], 9)[0], X[2:3, :1])


@pytest.mark.parametrize("kind", ["gaussian", "columns"])
def test_datasets(kind):
    dataset = KINDS[kind]()
    n = dataset["a"][0].size
    p = problem("arrays", train=dataset)
    q = problem("arrays", train=(dataset["a"], dataset["u"])) if kind == "gaussian" else p
    for each in (p, q):
        assert each.placement == "points"
        x, y = each.sample([2, 5], n, dtype=torch.float64)
        np.testing.assert_allclose(x[:, -1], dataset["a"].values[[2, 5]].reshape(2, -1))
        np.testing.assert_allclose(y[:, 0], dataset["u"].values[[2, 5]].reshape(2, -1))


def test_lazy_datasets_are_read_sample_by_sample(tmp_path):
    import xarray

    KINDS["gaussian"]().to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf", cache=False) as dataset:
        p = problem("arrays", train=dataset)
        p.sample([1], 128)
        assert not dataset["a"].variable._in_memory


@pytest.mark.parametrize("entry", ["tensors", "dataset"])
def test_saved_sets_are_the_same_problem(tmp_path, entry):
    p = (
        problem("arrays", train=(X, Y), placement="cell")
        if entry == "tensors"
        else problem("arrays", train=KINDS["gaussian"]())
    )
    q = problem("files", **p.save(tmp_path / "sets"))
    grid = 9 if entry == "tensors" else 128
    for a, b in zip(p.sample([3], grid), q.sample([3], grid), strict=True):
        torch.testing.assert_close(a, b)
    assert q.placement == p.placement


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({}, ValueError, r"nothing to train on; give train=\(x, y\)"),
        ({"train": "a.npz"}, TypeError, "got str"),
        ({"train": (X, Y, X)}, TypeError, "a tuple of Tensor, Tensor, Tensor"),
        ({"train": (X, Y)}, ValueError, "train: the file does not say where the 9 nodes"),
        ({"train": (X, Y[:5]), "placement": "cell"}, ValueError, "different numbers of samples"),
    ],
)
def test_refusals(given, kind, words):
    with pytest.raises(kind, match=words):
        problem("arrays", **given)
