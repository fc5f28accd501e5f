"""netCDF-3 files, written by scipy: read as netCDF-4 files are, and refused by name where they are damaged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.problems.files import read_fields

io = pytest.importorskip("scipy.io")
LAT, LON = np.linspace(90, -90, 19), 10.0 * np.arange(36)
U = np.random.default_rng(0).normal(size=(5, 19, 36))


def written(path, version=1, unlimited=False):
    """time, lat, lon; t2m packed in two bytes, mask without time."""
    with io.netcdf_file(str(path), "w", version=version) as file:
        for name, nodes in {"time": 6 * np.arange(5), "lat": LAT, "lon": LON}.items():
            file.createDimension(name, None if unlimited and name == "time" else len(nodes))
            file.createVariable(name, "d", (name,))[:] = nodes
        file.variables["lat"].units = "degrees_north"
        t = file.createVariable("t2m", "h", ("time", "lat", "lon"))
        t[:] = np.rint(1000 * U).astype(np.int16)
        t.scale_factor, t.add_offset, t.units = 0.001, 273.0, "K"
        file.createVariable("mask", "f", ("lat", "lon"))[:] = U[0]
        file.title = "a file"
    return path


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("unlimited", [False, True])
def test_dimensions_and_packed_values(tmp_path, version, unlimited):
    data = read_fields(written(tmp_path / "a.nc", version, unlimited))
    assert (data.layout, data.placement) == ("netcdf-3", ("endpoint", "periodic"))
    assert {name: f.axes for name, f in data.fields.items()} == {"t2m": "txy", "mask": "xy"}
    assert (data["t2m"].units, data.attributes["title"]) == ("K", "a file")
    np.testing.assert_array_equal(data.times, 6 * np.arange(5))
    np.testing.assert_allclose(data.tensor("t2m", time=2, dtype=None)[0, 0], 273 + U[2], atol=6e-4)
    np.testing.assert_array_equal(data.tensor("mask")[0, 0], U[0].astype(np.float32))
    data = read_fields(tmp_path / "a.nc", fields=["t2m"], axes="nxy")
    np.testing.assert_allclose(data["t2m"].read([4, 1]), 273 + U[[4, 1]], atol=6e-4)


def test_options(tmp_path):
    path = written(tmp_path / "a.nc")
    data = read_fields(path, placement="cell", ignore_coordinates=True)
    assert (data.placement, data["t2m"].axes) == (("cell", "cell"), "txy")
    with pytest.raises(ValueError, match="but the file calls that axis 'lon'"):
        read_fields(path, axes="xyn")


def test_other_kinds_are_named(tmp_path):
    path = tmp_path / "a.nc"
    path.write_bytes(b"CDF\x05" + bytes(100))
    with pytest.raises(ValueError, match=r"a\.nc: a netCDF file of a kind that cannot be read, number 05.*nccopy -k"):
        read_fields(path)


@settings(max_examples=25, deadline=None)
@given(part=st.floats(0.001, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused_by_name(tmp_path_factory, part):
    folder = tmp_path_factory.mktemp("cut")
    content = written(folder / "whole.nc").read_bytes()
    (folder / "cut.nc").write_bytes(content[: int(part * (len(content) - 4))])
    with pytest.raises((ValueError, OSError), match=r"cut\.nc"):
        read_fields(folder / "cut.nc")
