"""A model on a DataArray: the right axes go in, and the output lies where the input does."""

import numpy as np
import pytest
import torch
import xarray as xr

import quadnorm as qn
from quadnorm.problems import on_array
from quadnorm.problems.files import read_fields
from quadnorm.training import read_config, train
from tests.problems.files.earth import KINDS, write

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


def evaluated(folder, *args):
    """What ``quadnorm eval -o`` writes, read back."""
    from quadnorm.cli.app import run

    assert run(["eval", str(folder / "run"), *args]) == 0


def trained(folder, name, problem, samples=3):
    params = {"width": 8, "layers": 1, "norm": "quad"} | ({"modes": 4} if name == "fno" else {})
    config = {
        "problem": problem,
        "operator": {"name": name, "params": params},
        "samples": {"train": 4, "val": samples, "test": samples},
        "resolutions": {"train": [9]} if problem["name"] == "poisson" else {},
        "epochs": 1,
    }
    train(read_config(config), folder / "run", progress=False)


def test_an_evaluation_comes_back_with_coordinates(tmp_path, capsys):
    """Truth and prediction at each grid, by way; the errors made of them are those that are printed."""
    import json

    trained(tmp_path, "fno", {"name": "poisson", "cache": False})
    evaluated(tmp_path, "-r", "9", "17", "--how", "as-trained,native", "-o", str(tmp_path / "p.nc"), "--json")
    printed = json.loads(capsys.readouterr().out)
    tree = xr.open_datatree(tmp_path / "p.nc", engine="h5netcdf")
    assert sorted(tree.children) == ["17", "9"]
    fine = tree["17"].to_dataset()
    assert fine.prediction.dims == ("way", "sample", "x", "y")
    np.testing.assert_allclose(fine.x, np.linspace(0, 1, 17))
    p = qn.problems.problem("poisson")
    np.testing.assert_allclose(fine.truth, p.sample(fine.sample.values, 17)[1][:, 0], rtol=1e-5)
    square = ((fine.prediction - fine.truth) ** 2).sum(("x", "y")) / (fine.truth**2).sum(("x", "y"))
    relative = np.sqrt(square).mean("sample")
    for way, name in (("as-trained", "as trained"), ("native", "run at the training grid")):
        said = next(r["relative_l2"] for r in printed if (r["way"], r["grid"]) == (way, 17))
        np.testing.assert_allclose(relative.sel(way=name), said, rtol=1e-5)
    # the same model, adapted in Python and called on the DataArray of the inputs
    model, _ = qn.training.load_model(tmp_path / "run", as_trained=True)
    out = on_array(qn.at_native(model.eval(), (9, 9), "endpoint"), fine["input"])
    np.testing.assert_allclose(out, fine.prediction.sel(way="run at the training grid"), atol=1e-6)
    assert out.sample.equals(fine.sample)


@pytest.mark.parametrize(("kind", "dims"), [("gaussian", ("latitude", "longitude")), ("triangles", ("cell",))])
def test_points_come_back_where_they_were(tmp_path, kind, dims):
    dataset = KINDS[kind]()
    trained(tmp_path, "transolver", {"name": "files", "params": {"train": str(write(dataset, tmp_path, "zarr"))}}, 1)
    evaluated(tmp_path, "-o", str(tmp_path / "p.zarr"))
    found = xr.open_zarr(tmp_path / "p.zarr", consolidated=False)
    assert found.truth.dims == ("sample", *dims)
    np.testing.assert_allclose(found.truth, dataset["u"][found.sample], rtol=1e-6)
    np.testing.assert_allclose(found["input"], dataset["a"][found.sample], rtol=1e-6)
    lat, lon = (dataset[n].values for n in (("lat", "lon") if kind == "gaussian" else ("clat", "clon")))
    if kind == "triangles":
        lat, lon = np.degrees(lat), np.degrees(lon)
    np.testing.assert_allclose(found.latitude, lat, atol=1e-9)
    np.testing.assert_allclose(np.cos(np.radians(found.longitude - lon)), 1)
    expected = qn.measure_of(dataset["a"], dataset)
    np.testing.assert_allclose(found.volume[0], expected.weights(expected.shape), rtol=1e-5)
    again = read_fields(tmp_path / "p.zarr", fields=["truth"])
    np.testing.assert_allclose(again.tensor("truth")[:, 0], found.truth)


def test_a_subgrid_of_a_file_keeps_its_names_and_direction(tmp_path):
    lat, lon = np.linspace(90, -90, 9), 22.5 * np.arange(16)
    a = np.random.default_rng(0).normal(size=(6, 9, 16))
    where = {"lat": lat, "lon": lon}
    dims = ("sample", "lat", "lon")
    xr.Dataset({"a": (dims, a), "u": (dims, a)}, where).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    p = qn.problems.problem("files", train=str(tmp_path / "a.nc"))
    names, shape, found = p.coordinates((5, 8))
    assert (names, shape) == (("latitude", "longitude"), (5, 8))
    np.testing.assert_allclose(found["latitude"][1], lat[::2])
    np.testing.assert_allclose(found["longitude"][1], lon[::2])
    np.testing.assert_allclose(p.sample([1], (5, 8))[0][0, 0], a[1, ::2, ::2], rtol=1e-6)
