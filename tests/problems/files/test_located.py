"""Geoscience's grids, written as netCDF-4, netCDF-3 and zarr: what is a field, where its samples lie, how much each
weighs."""

import numpy as np
import pytest

import quadnorm as qn
from quadnorm.problems.files import read_dataset, read_fields
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
