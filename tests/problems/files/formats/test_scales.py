"""Dimension scales of HDF5 and netCDF-4: they say which axis is which, and where its nodes lie."""

import h5py
import numpy as np
import pytest

from quadnorm.problems.files import read_fields
from tests.problems.files.written import write_netcdf

RNG = np.random.default_rng(0)
LAT, LON, TIME = np.linspace(90, -90, 19), 10.0 * np.arange(36), 6 * np.arange(5)
EARTH = {"time": TIME, "lat": LAT, "lon": LON}
U = RNG.normal(size=(5, 19, 36))
LONS, LATS = np.meshgrid(LON, LAT)


def era5(path, **more):
    return write_netcdf(path, EARTH, {"t2m": (("time", "lat", "lon"), U), **more})


def test_time_latitude_longitude(tmp_path):
    data = read_fields(era5(tmp_path / "a.nc"))
    assert (data["t2m"].axes, data.placement, len(data)) == ("txy", ("endpoint", "periodic"), 1)
    assert data.domain == ((-90.0, 90.0), (0.0, 360.0))
    np.testing.assert_array_equal(data.times, TIME)
    np.testing.assert_array_equal(data.tensor("t2m", time=3, dtype=None)[0, 0], U[3])
    with pytest.raises(ValueError, match=r"holds 5 time steps.*if each time is a sample, say axes=nxy"):
        data.tensor("t2m")
    data = read_fields(tmp_path / "a.nc", axes="nxy")
    assert (len(data), data.placement) == (5, ("endpoint", "periodic"))


SIZES = {"number": 4, "level": 3, "channel": 2, "time": 5, "lat": 19, "lon": 36, "step": 6, "expver": 2}


@pytest.mark.parametrize(
    ("axes", "letters"),
    [
        (("number", "time", "lat", "lon"), "ntxy"),
        (("time", "number", "lat", "lon"), "tnxy"),
        (("time", "level", "lat", "lon"), "tcxy"),
        (("number", "lat", "lon", "channel"), "nxyc"),
        (("channel", "number", "lon", "lat"), "cnyx"),
        (("number", "channel", "level", "lat", "lon"), "ncdxy"),
        (("lon", "lat", "time"), "yxt"),
        (("time", "step", "lat", "lon"), "ntxy"),
        (("lat", "lon"), "xy"),
        (("", "lat", "lon"), "nxy"),
        (("", "", "lat", "lon"), "ncxy"),
        (("", "lat", "lon", ""), "nxyc"),
        (("lat", "time", "lon"), "xty"),
    ],
)
def test_names_say_which_axis_is_which(tmp_path, axes, letters):
    dims = {name: EARTH.get(name, size) for name, size in SIZES.items()}
    u = RNG.normal(size=[SIZES.get(name, 7 + k) for k, name in enumerate(axes)])
    data = read_fields(write_netcdf(tmp_path / "a.nc", dims, {"u": (axes, u)}))
    n = letters.find("n")
    assert data["u"].axes == ("n" + letters.replace("n", "") if n >= 0 else letters)
    assert data.placement == ("endpoint", "periodic")
    stored = [letters.index(a) for a in "ntcdxy" if a in letters]
    whole = data["u"].read()
    read = [data["u"].axes.index(a) for a in "ntcdxy" if a in letters]
    np.testing.assert_array_equal(whole.transpose(read), u.transpose(stored))


def test_what_names_do_not_say_is_asked(tmp_path):
    dims = EARTH | {"expver": 2}
    path = write_netcdf(tmp_path / "a.nc", dims, {"u": (("time", "expver", "lat", "lon"), np.zeros((5, 2, 19, 36)))})
    with pytest.raises(ValueError, match=r"\(time, expver, lat, lon\).*axes=\{u: tnxy\} or axes=\{u: tcxy\}"):
        read_fields(path)
    assert read_fields(path, axes={"u": "tcxy"}).placement == ("endpoint", "periodic")


def test_one_and_three_axes(tmp_path):
    dims = EARTH | {"sample": 7, "x": np.linspace(0, 1, 9), "depth": np.arange(50.0, 1000, 100)}
    path = write_netcdf(tmp_path / "a.nc", dims, {"u": (("sample", "time", "x"), np.zeros((7, 5, 9)))})
    assert (read_fields(path, dim=1)["u"].axes, read_fields(path, dim=1).placement) == ("ntx", ("endpoint",))
    with pytest.raises(ValueError, match=r"got .*u \(sample, time, x\) of the sizes \(7, 5, 9\).*axes=1"):
        read_fields(path)
    path = write_netcdf(tmp_path / "b.nc", dims, {"u": (("sample", "depth", "lat", "lon"), np.zeros((7, 10, 19, 36)))})
    assert read_fields(path, dim=3).placement == ("cell", "endpoint", "periodic")
    assert read_fields(path)["u"].axes == "ncxy"


def test_any_other_names(tmp_path):
    """A scale decides by its nodes, whatever it is called; x and y in the order in which they are stored."""
    dims = {"run": np.arange(7), "r": np.linspace(0, 1, 9), "theta": (np.arange(9) + 0.5) / 9}
    for axes in (("run", "r", "theta"), ("", "r", "theta")):
        data = read_fields(write_netcdf(tmp_path / "a.h5", dims, {"u": (axes, np.zeros((7, 9, 9)))}))
        assert (data["u"].axes, data.placement, data.words) == ("nxy", ("endpoint", "cell"), ("r", "theta"))
    path = write_netcdf(tmp_path / "b.h5", dims, {"u": (("r", "theta", ""), np.zeros((9, 9, 7)))})
    with pytest.raises(ValueError, match=r"axes=\{u: xyn\} or axes=\{u: xyc\}"):
        read_fields(path)
    dims = {"x": (np.arange(9) + 0.5) / 9, "y": np.linspace(0, 1, 9)}
    u = RNG.normal(size=(7, 9, 9))
    data = read_fields(write_netcdf(tmp_path / "c.h5", dims, {"u": (("", "y", "x"), u)}))
    assert (data["u"].axes, data.placement) == ("nyx", ("cell", "endpoint"))
    np.testing.assert_array_equal(data.tensor("u", dtype=None)[:, 0], u.transpose(0, 2, 1))


def test_names_that_say_nothing_are_no_reason_to_guess(tmp_path):
    path = write_netcdf(tmp_path / "a.h5", {"i": 8, "k": 5}, {"u": (("i", "i", "k"), np.zeros((8, 8, 5)))})
    with pytest.raises(ValueError, match=r"\(sample, x, y\) or as \(x, y, sample\)"):
        read_fields(path, placement="cell")


def test_attributes_say_what_names_do_not(tmp_path):
    notes = {
        "j": {"units": "degrees_north"},
        "i": {"standard_name": "longitude"},
        "k": {"units": "hours since 1900-01-01"},
    }
    path = write_netcdf(
        tmp_path / "a.nc", {"k": TIME, "j": LAT, "i": LON}, {"u": (("k", "i", "j"), U.transpose(0, 2, 1))}, notes
    )
    data = read_fields(path)
    assert (data["u"].axes, data.placement) == ("tyx", ("endpoint", "periodic"))


@pytest.mark.parametrize("names", [("lat", "lon"), ("XLAT", "XLONG")])
def test_coordinates_on_dimensions_of_other_names(tmp_path, names):
    """lat(row), lon(col); lat(y, x), lon(y, x); and XLAT(Time, y, x), as WRF has them."""
    dims = {"Time": 5, "row": 19, "col": 36}
    field = {"u": (("Time", "row", "col"), U)}
    for axes, lat, lon in [
        ((("row",), ("col",)), LAT, LON),
        ((("row", "col"),) * 2, LATS, LONS),
        ((("Time", "row", "col"),) * 2, np.stack([LATS] * 5), np.stack([LONS] * 5)),
    ]:
        more = {name: (a, v) for name, a, v in zip(names, axes, (lat, lon), strict=True)}
        data = read_fields(write_netcdf(tmp_path / "a.nc", dims, field | more))
        assert (data["u"].axes, data.placement) == ("txy", ("endpoint", "periodic"))
        assert list(data.fields) == ["u"]


def test_curvilinear_coordinates(tmp_path):
    """They are refused where nothing else says where the nodes lie, and not needed where projected coordinates do."""
    bent = {"lat": (("y", "x"), LATS + 0.1 * LONS), "lon": (("y", "x"), LONS)}
    field = {"u": (("time", "y", "x"), U)}
    path = write_netcdf(tmp_path / "a.nc", {"time": TIME, "y": 19, "x": 36}, field | bent)
    with pytest.raises(ValueError, match=r"'lat' are not those of a grid with straight axes.*curvilinear"):
        read_fields(path)
    assert read_fields(path, placement="cell", ignore_coordinates=True)["u"].axes == "tyx"
    dims = {"time": TIME, "y": 25e3 * np.linspace(-4, 4, 19), "x": 25e3 * np.linspace(-4, 4, 36)}
    assert read_fields(write_netcdf(tmp_path / "b.nc", dims, field | bent)).placement == ("endpoint", "endpoint")
    with h5py.File(write_netcdf(tmp_path / "c.nc", {}, {"u": ((), U)}), "a") as file:
        for k, (name, values) in enumerate((("lat", LATS + 0.1 * LONS), ("lon", LONS))):
            file[name] = values
            file[name].make_scale(name)
            file["u"].dims[k + 1].attach_scale(file[name])
    with pytest.raises(ValueError, match="curvilinear"):
        read_fields(tmp_path / "c.nc")


def test_bounds_and_masks(tmp_path):
    """Bounds of cells are no fields; a mask without a time axis is one."""
    path = write_netcdf(
        tmp_path / "a.nc",
        EARTH | {"bnds": 2},
        {
            "u": (("time", "lat", "lon"), U),
            "mask": (("lat", "lon"), U[0]),
            "lat_bnds": (("lat", "bnds"), np.zeros((19, 2))),
        },
        {"lat": {"bounds": "lat_bnds"}},
    )
    assert sorted(read_fields(path).fields) == ["mask", "u"]


def test_fields_on_staggered_grids(tmp_path):
    dims = {"time": TIME, "xc": np.arange(8) + 0.5, "xg": np.arange(8.0), "yc": np.arange(8) + 0.5}
    zeros = np.zeros((5, 8, 8))
    path = write_netcdf(
        tmp_path / "a.nc", dims, {"u": (("time", "yc", "xg"), zeros), "v": (("time", "yc", "xc"), zeros)}
    )
    with pytest.raises(ValueError, match="axis x is 'xg' in 'u' and 'xc' in 'v'; choose fields that belong together"):
        read_fields(path)
    assert read_fields(path, fields=["v"], placement="cell").placement == ("cell", "cell")


def test_letters_must_not_contradict_the_names(tmp_path):
    path = era5(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"axes=xyn say .* the samples, but the file calls that axis 'lon'"):
        read_fields(path, axes="xyn")
    assert read_fields(path, axes="xyn", placement="cell", ignore_coordinates=True).resolution == (5, 19)


def test_gaussian_and_unequal_nodes(tmp_path):
    lat = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(19)[0]))
    path = write_netcdf(tmp_path / "a.nc", EARTH | {"lat": lat}, {"u": (("time", "lat", "lon"), U)})
    assert read_fields(path).placement == ("coordinates", "periodic")
    path = write_netcdf(tmp_path / "b.nc", EARTH | {"lat": LAT[:-1]}, {"u": (("time", "lat", "lon"), U)})
    with pytest.raises(ValueError, match=r"axis x \(latitude\) has 19 nodes, its coordinates have shape \(18,\)"):
        read_fields(path)


def test_packed_coordinates(tmp_path):
    dims = EARTH | {"lat": np.rint(10 * LAT).astype(np.int16)}
    notes = {"lat": {"scale_factor": 0.1}}
    data = read_fields(write_netcdf(tmp_path / "a.nc", dims, {"u": (("time", "lat", "lon"), U)}, notes))
    np.testing.assert_allclose(data.coordinates[0], LAT)


def test_labels_without_scales(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["lat"], file["lon"] = U, LAT, LON
        for k, label in enumerate(("time", "lat", "lon")):
            file["u"].dims[k].label = label
    data = read_fields(tmp_path / "a.h5")
    assert (data["u"].axes, data.placement) == ("txy", ("endpoint", "periodic"))


def test_several_scales_on_one_axis_and_texts(tmp_path):
    """The scale whose name says something is taken; a scale of texts names its axis."""
    dims = EARTH | {"row": np.arange(19)}
    path = write_netcdf(tmp_path / "a.h5", dims, {"u": (("", "", "row", "lon"), np.zeros((4, 2, 19, 36)))})
    with h5py.File(path, "a") as file:
        file["variable"] = np.array([b"u", b"v"])
        file["variable"].make_scale("variable")
        file["u"].dims[1].attach_scale(file["variable"])
        file["u"].dims[2].attach_scale(file["lat"])
    data = read_fields(path)
    assert (data["u"].axes, data.placement) == ("ncxy", ("endpoint", "periodic"))


def test_damaged_scales(tmp_path):
    path = era5(tmp_path / "a.nc")
    with h5py.File(path, "a") as file:
        del file["lat"], file["lon"]
    with pytest.raises(ValueError, match="does not say where the 19 nodes of axis x lie"):
        read_fields(path)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("lat", (10**12,), "f8", chunks=(1024,))
        file["lat"].make_scale("lat")
        file["u"] = U
        file["u"].dims[1].attach_scale(file["lat"])
    with pytest.raises(ValueError, match=r"b\.h5: 'lat' has shape .* at most"):
        read_fields(tmp_path / "b.h5")


def test_units_in_latin_1(tmp_path):
    era5(tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.nc", "a") as file:
        file["t2m"].attrs["units"] = np.bytes_("°C".encode("latin-1"))
    assert read_fields(tmp_path / "a.nc")["t2m"].units == "°C"


def test_a_text_in_an_array_is_a_text(tmp_path):
    notes = {"t2m": {"units": np.array(["K"], dtype=h5py.string_dtype())}, "j": {"units": np.array([b"degrees_north"])}}
    dims = {"time": TIME, "j": LAT, "lon": LON}
    data = read_fields(write_netcdf(tmp_path / "a.nc", dims, {"t2m": (("time", "j", "lon"), U)}, notes))
    assert (data["t2m"].units, data.words) == ("K", ("latitude", "longitude"))
