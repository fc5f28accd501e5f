"""Geoscience's grids, written as netCDF-4, netCDF-3 and zarr: what is a field, where its samples lie, how much each
weighs."""

import numpy as np
import pytest
import xarray as xr

import quadnorm as qn
from quadnorm.problems.files import ReadOptions, read_dataset, read_fields
from quadnorm.problems.files.joined import join
from tests.problems.files.earth import COUNT, KINDS, write

HOW = ("netcdf4", "netcdf3", "zarr")


def opened(kind, folder, how):
    dataset = KINDS[kind]()
    return dataset, read_fields(write(dataset, folder, how))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_in_every_format(tmp_path, kind, how):
    dataset, file = opened(kind, tmp_path, how)
    assert sorted(file.fields) == ["a", "u"]
    assert len(file) == COUNT
    np.testing.assert_allclose(file.tensor("a", [4, 1], dtype=None)[:, 0], dataset["a"].values[[4, 1]], rtol=1e-12)
    expected = qn.measure_of(dataset["a"], dataset)
    found = file.locate()
    assert found.measure.shape == file.resolution
    np.testing.assert_allclose(found.measure.weights(file.resolution), expected.weights(expected.shape), rtol=1e-9)
    np.testing.assert_allclose(found.measure.total, expected.total)
    assert found.sphere
    np.testing.assert_allclose((found.places**2).sum(0), 1)


def test_where_samples_lie_is_said(tmp_path):
    placements = {kind: opened(kind, tmp_path, "netcdf4")[1].placement for kind in KINDS}
    assert placements == {
        "gaussian": ("coordinates", "periodic"),
        "closed": ("endpoint", "endpoint"),
        "bounded": ("coordinates", "periodic"),
        "curvilinear": ("points", "points"),
        "triangles": ("points",),
        "columns": ("points",),
        "ugrid": ("points",),
        "healpix": ("points",),
        "reduced": ("points",),
    }


def test_a_dataset_is_read_as_its_file_is():
    dataset = KINDS["gaussian"]()
    file = read_dataset(dataset)
    assert (file.layout, file.placement, file["a"].axes) == ("xarray", ("coordinates", "periodic"), "nxy")
    np.testing.assert_array_equal(file.tensor("u", dtype=None)[:, 0], dataset["u"])


def test_a_placement_must_not_contradict_two_coordinates(tmp_path):
    path = write(KINDS["triangles"](), tmp_path, "netcdf4")
    with pytest.raises(ValueError, match="each has two coordinates in the file; if these are wrong, pass ignore_coor"):
        read_fields(path, placement="cell")
    file = read_fields(path, placement="cell", ignore_coordinates=True, dim=1, fields=["a", "u"])
    assert file.placement == ("cell",)


def test_lazily(tmp_path):
    """Only the samples that are asked for are read."""
    import h5py

    path = write(KINDS["columns"](), tmp_path, "netcdf4")
    file = read_fields(path)
    with h5py.File(path, "a") as raw:
        raw["a"][3] = 7.0
    assert (file.tensor("a", [3]) == 7).all()
    assert (file.tensor("a", [2]) != 7).all()


def test_a_damaged_store_is_named(tmp_path):
    path = write(KINDS["gaussian"](), tmp_path, "zarr")
    (path / ".zgroup").write_text("{")
    with pytest.raises((ValueError, OSError), match="zarr"):
        read_fields(path)


@pytest.mark.parametrize("how", ["netcdf4", "zarr"])
@pytest.mark.parametrize("kind", ["bounded", "triangles"])
def test_fields_in_a_group(tmp_path, kind, how):
    """Bounds and corners are those of the group; they are no fields."""
    dataset = KINDS[kind]()
    path = tmp_path / ("a.zarr" if how == "zarr" else "a.nc")
    if how == "zarr":
        dataset.to_zarr(path, group="run/one", consolidated=False, zarr_format=2)
    else:
        dataset.to_netcdf(path, group="run/one", engine="h5netcdf")
    file = read_fields(path)
    assert sorted(file.fields) == ["run/one/a", "run/one/u"]
    np.testing.assert_array_equal(file.tensor("run/one/u", [2], dtype=None)[0, 0], dataset["u"][2])
    expected = qn.measure_of(dataset["a"], dataset)
    weights = file.locate().measure.weights(file.resolution)
    np.testing.assert_allclose(weights, expected.weights(expected.shape), rtol=1e-9)


@pytest.mark.parametrize("flip", [1, -1])
def test_bounds_say_where_evenly_spaced_samples_lie(tmp_path, flip):
    """0.55, 1.05, … may be centres of cells or the ends of an axis; the bounds tell."""
    x = 0.55 + 0.5 * np.arange(19)[::flip]
    ds = xr.Dataset({"u": (("sample", "x"), np.zeros((4, 19)))}, {"x": ("x", x, {"bounds": "x_bnds"})})
    with pytest.raises(ValueError, match="do not say where the axis ends"):
        read_dataset(ds, ReadOptions(dim=1))
    cells = ds.assign(x_bnds=(("x", "nv"), np.stack((x - 0.25, x + 0.25), 1)))
    file = read_dataset(cells, ReadOptions(dim=1))
    assert file.placement == ("cell",)
    np.testing.assert_allclose(file.domain, [(0.3, 9.8)])
    cut = ds.assign(x_bnds=(("x", "nv"), np.stack((np.maximum(x - 0.25, 0.55), np.minimum(x + 0.25, 9.55)), 1)))
    assert read_dataset(cut, ReadOptions(dim=1)).placement == ("endpoint",)
    file = qn.measure_of(cut["u"], cut)
    np.testing.assert_allclose(file.weights(19)[[0, 1]], [1 / 36, 1 / 18])


def test_files_of_another_region_are_not_joined(tmp_path):
    for k, first in enumerate((0.0, 10.0)):
        x = first + np.arange(5) / 4
        np.savez(tmp_path / f"{k}.npz", u=np.zeros((3, 5)), x=x)
    files = [read_fields(tmp_path / f"{k}.npz", dim=1) for k in (0, 1)]
    with pytest.raises(ValueError, match=r"1\.npz has other nodes than 0\.npz"):
        join(tmp_path / "*.npz", files)
