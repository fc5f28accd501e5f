"""Files of the atmosphere as problems: what a user is told, and that the samples are those of the file."""

import numpy as np
import pytest
import torch

from quadnorm.cli.app import run
from quadnorm.problems import problem
from quadnorm.problems.files import read_fields
from quadnorm.problems.stored.describe import describe
from tests.problems.files.written import write_netcdf

LAT, LON = np.linspace(90, -90, 19), 10.0 * np.arange(36)
U = np.random.default_rng(0).normal(size=(6, 19, 36))


def write(path, lat=LAT, first="time", **more):
    dims = {first: np.arange(6), "lat": lat, "lon": LON}
    fields = {"a": ((first, "lat", "lon"), U), "u": ((first, "lat", "lon"), 2 * U), **more}
    return str(write_netcdf(path, dims, fields))


def test_times_as_samples_and_as_steps(tmp_path):
    path = write(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"'a' holds 6 time steps.*input_time=.*each time is a sample, say axes=nxy"):
        problem("files", train=path)
    p = problem("files", train=path, axes="nxy")
    assert p.placement == ("endpoint", "periodic")
    x, y = p.sample([4, 1], (19, 36), dtype=torch.float64)
    np.testing.assert_array_equal(x[:, 0], U[[4, 1]])
    np.testing.assert_array_equal(y[:, 0], 2 * U[[4, 1]])
    p = problem("files", train=path, input="a", output="a", input_time=0, output_time=3)
    x, y = p.sample([0], (19, 36), dtype=torch.float64)
    np.testing.assert_array_equal(torch.cat([x, y])[:, 0], U[[0, 3]])


def test_a_field_without_samples_is_the_same_for_all(tmp_path):
    path = write(tmp_path / "a.nc", first="sample", mask=(("lat", "lon"), U[0]))
    p = problem("files", train=path, input="mask", output="u")
    x, y = p.sample([5, 2], (19, 36), dtype=torch.float64)
    np.testing.assert_array_equal(x[:, 0], np.stack([U[0], U[0]]))
    np.testing.assert_array_equal(y[:, 0], 2 * U[[5, 2]])


def test_gaussian_latitudes_are_named(tmp_path):
    gauss = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(19)[0]))
    path = write(tmp_path / "a.nc", gauss, "sample")
    assert problem("files", train=path).placement == "points"
    assert "weights: 1 of the sphere, lat: Gaussian latitudes, lon: longitudes around the circle; sure" in str(
        describe(path)
    )
    assert "not equispaced are those of latitude, 19 Gaussian latitudes" in str(describe(path))
    p = problem("files", train=path, placement=["cell", "periodic"], ignore_coordinates=True)
    assert p.placement == ("cell", "periodic")


def test_show_prints_the_axes_by_name(tmp_path, capsys):
    path = write(tmp_path / "a.nc")
    assert run(["data", "show", path]) == 0
    card = " ".join(capsys.readouterr().out.split())
    assert (
        "nodes: latitude endpoint, longitude periodic, by the coordinates in the file; domain [-90, 90] × [0, 360]"
        in card
    )
    assert "a: 6×19×36 (time, latitude, longitude)" in card
    assert "one sample: if each time is a sample, say -p axes=nxy" in card
    assert run(["data", "show", path, "-p", "axes=nxy"]) == 0
    assert "6 samples at 19×36" in capsys.readouterr().out
    np.savez(tmp_path / "b.npz", u=U, lat=LAT, lon=LON)
    assert run(["data", "show", str(tmp_path / "b.npz")]) == 0
    assert "(sample, latitude, longitude)" in capsys.readouterr().out


def test_one_step_is_read_at_a_time(tmp_path):
    """Of a file with many times: a step takes the memory of a step."""
    data = read_fields(write(tmp_path / "a.nc"))
    asked = []
    load = data["a"].load
    object.__setattr__(data["a"], "load", lambda index: (asked.append(index), load(index))[1])
    np.testing.assert_array_equal(data.tensor("a", time=4, dtype=None)[0, 0], U[4])
    assert asked == [slice(4, 5)]


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i2", "f2", "u4", "?"])
def test_every_kind_of_number(tmp_path, kind):
    """Also with the bytes in the other order, as netCDF-3 and many HDF5 files have them."""
    u = (np.arange(32).reshape(2, 4, 4) % 2).astype(kind)
    np.savez(tmp_path / "a.npz", u=u)
    data = read_fields(tmp_path / "a.npz", placement="cell")
    np.testing.assert_array_equal(data.tensor("u")[:, 0], u.astype(np.float32))
