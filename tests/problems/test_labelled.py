"""A model on a DataArray: the right axes go in, and the output lies where the input does."""

import numpy as np
import pytest
import torch
import xarray as xr

import quadnorm as qn
from quadnorm.problems import on_array
from tests.problems.files.earth import KINDS

LAT, LON = np.linspace(-90, 90, 5), 45.0 * np.arange(8)
DATA = xr.DataArray(
    np.random.default_rng(0).normal(size=(8, 3, 2, 5)),
    {"lon": LON, "time": [1, 2, 3], "channel": ["u", "v"], "lat": LAT, "height": 2.0},
    ("lon", "time", "channel", "lat"),
    name="wind",
)


def test_every_axis_arrives_where_it_belongs():
    seen = []
    out = on_array(lambda x: seen.append(x) or x * torch.tensor([1.0, -1.0])[:, None, None], DATA)
    assert seen[0].shape == (3, 2, 8, 5)  # samples, channels, space as it is stored
    assert (out.dims, out.name) == (DATA.dims, "wind")
    np.testing.assert_allclose(out.sel(channel="u"), DATA.sel(channel="u"), rtol=1e-6)
    np.testing.assert_allclose(out.sel(channel="v"), -DATA.sel(channel="v"), rtol=1e-6)
    assert out.lat.equals(DATA.lat)
    turned = on_array(lambda x: seen.append(x) or x, DATA, dims=("lat", "lon"))
    assert seen[1].shape == (3, 2, 5, 8)
    np.testing.assert_allclose(turned, DATA, rtol=1e-6)


def test_other_numbers_of_channels():
    one = on_array(lambda x: x.sum(1, keepdim=True), DATA)
    assert (one.sizes["channel"], "channel" in one.coords) == (1, False)
    plain = DATA.isel(channel=0, drop=True)
    assert on_array(lambda x: x, plain).dims == plain.dims
    assert on_array(lambda x: torch.cat([x, x], 1), plain).sizes["channel"] == 2


def test_an_adapted_model_on_another_grid():
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 1), torch.nn.GroupNorm(1, 4), torch.nn.Conv2d(4, 1, 1)).eval()
    adapted = qn.at_native(model, (9, 9), "endpoint")
    t = np.linspace(0, 1, 17)
    data = xr.DataArray(np.exp(np.add.outer(t, t)), {"x": t, "y": t}, ("x", "y"))
    out = on_array(adapted, data)
    x = torch.from_numpy(data.values).float()[None, None]
    np.testing.assert_allclose(out, adapted(x)[0, 0].detach(), rtol=1e-5)
    assert out.x.equals(data.x)


def test_points():
    dataset = KINDS["triangles"]()
    seen = []
    out = on_array(lambda x: seen.append(x) or x[:, 4:], dataset["a"], dataset, points=True)
    assert seen[0].shape == (6, 5, 80)
    np.testing.assert_allclose(seen[0][:, 0].sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(out, dataset["a"], rtol=1e-6)
    assert "clat" in out.coords


def test_a_model_that_changes_the_grid_is_refused():
    with pytest.raises(ValueError, match=r"the model gives \(3, 2, 4, 5\) for an input of shape \(3, 2, 8, 5\)"):
        on_array(lambda x: x[:, :, ::2], DATA)
