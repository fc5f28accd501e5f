"""Latitudes and longitudes by name, in every format: where their nodes lie, by formulas that are written out here."""

import numpy as np
import pytest
import torch

from quadnorm.problems.files import read_fields
from tests.problems.files.written import FORMATS, write

LAT, LON = np.linspace(90, -90, 19), 10.0 * np.arange(36)
U = np.random.default_rng(0).normal(size=(3, 19, 36))
NAMES = [("lat", "lon"), ("latitude", "longitude"), ("Latitude", "Longitude"), ("lats", "lons"), ("nav_lat", "nav_lon")]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("names", NAMES)
def test_the_poles_are_ends_and_the_circle_is_periodic(tmp_path, kind, names):
    data = read_fields(write(tmp_path, kind, u=U, **dict(zip(names, (LAT, LON), strict=True))))
    assert data.placement == ("endpoint", "periodic")
    assert data.domain == ((-90.0, 90.0), (0.0, 360.0))
    assert data.words == ("latitude", "longitude")
    assert list(data.fields) == ["u"]
    np.testing.assert_array_equal(data.coordinates[0], LAT)
    np.testing.assert_array_equal(data.tensor("u", dtype=None)[:, 0], U)


@pytest.mark.parametrize(
    ("lat", "placement", "ends"),
    [
        (np.arange(-88.75, 90, 2.5), "cell", (-90, 90)),
        (np.arange(89.5, -90, -1.0), "cell", (-90, 90)),
        (np.linspace(-90, 90, 181), "endpoint", (-90, 90)),
        (np.arange(90, -90, -0.25), "left", (-90, 90)),  # 720 rows: the south pole is left out
        (np.arange(90, -90, -1.0), "left", (-90, 90)),
        (np.arange(-89.0, 90.0), "interior", (-90, 90)),
        (np.arange(35, 60.1, 0.25), "endpoint", (35, 60)),
        (np.radians(np.linspace(90, -90, 19)), "endpoint", (-np.pi / 2, np.pi / 2)),
    ],
)
def test_latitudes(tmp_path, lat, placement, ends):
    data = read_fields(write(tmp_path, "npz", u=np.zeros((2, len(lat), 36)), lat=lat.astype(np.float32), lon=LON))
    assert data.placement == (placement, "periodic")
    np.testing.assert_allclose(data.domain[0], ends, rtol=1e-6)


@pytest.mark.parametrize(
    ("lon", "placement", "start"),
    [
        (0.25 * np.arange(1440), "periodic", 0),
        (np.arange(-180.0, 180.0), "periodic", -180),
        (np.arange(0.5, 360.0), "periodic", None),  # wherever the circle begins
        (np.arange(0.3, 360, 1.5), "periodic", 0.3),
        (np.arange(359.0, -1.0, -1.0), "periodic", None),
        (np.radians(np.arange(0, 360, 10.0)), "periodic", 0),
        (np.r_[np.arange(0, 180, 5.0), np.arange(-180, 0, 5.0)], "periodic", 0),
        (np.linspace(0, 360, 37), "endpoint", 0),  # the first meridian is stored twice
        (np.r_[np.arange(350, 360, 0.25), np.arange(0, 20.1, 0.25)], "endpoint", 350),
        (np.arange(0, 90, 0.5), "left", 0),  # a part of the circle is not periodic
    ],
)
def test_longitudes(tmp_path, lon, placement, start):
    data = read_fields(write(tmp_path, "npz", u=np.zeros((2, 19, len(lon))), lat=LAT, lon=lon))
    assert data.placement == ("endpoint", placement)
    if start is not None:
        np.testing.assert_allclose(data.domain[1][0], start, atol=1e-9)


@pytest.mark.parametrize("kind", FORMATS)
def test_longitude_first(tmp_path, kind):
    """The numbers of nodes show it; what is read is (sample, latitude, longitude)."""
    data = read_fields(write(tmp_path, kind, u=U.transpose(0, 2, 1), lat=LAT, lon=LON))
    assert data.placement == ("endpoint", "periodic")
    np.testing.assert_array_equal(data.tensor("u", dtype=None)[:, 0], U)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_meshgrid_of_both(tmp_path, kind):
    lon, lat = np.meshgrid(LON, LAT)
    data = read_fields(write(tmp_path, kind, u=U[..., None], lat=lat, lon=lon))
    assert (data.placement, data["u"].axes) == (("endpoint", "periodic"), "nxyc")
    data = read_fields(write(tmp_path, kind, u=U.transpose(0, 2, 1), lat=lat.T, lon=lon.T))
    np.testing.assert_array_equal(data.tensor("u", dtype=None)[:, 0], U)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_curvilinear_grid_is_refused(tmp_path, kind):
    lon, lat = np.meshgrid(LON, LAT)
    path = write(tmp_path, kind, u=U, lat=lat + 0.1 * lon, lon=lon)
    with pytest.raises(ValueError, match=r"'lat', 'lon' are not those of a grid with.*curvilinear.*Interp"):
        read_fields(path)
    assert read_fields(path, placement="cell", ignore_coordinates=True).resolution == (19, 36)


@pytest.mark.parametrize("count", [16, 64, 512])
def test_gaussian_latitudes_are_not_equispaced(tmp_path, count):
    """They are within 0.02 of a spacing of equispaced ones, and still other nodes."""
    lat = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(count)[0]))[::-1]
    path = write(tmp_path, "npz", u=np.zeros((2, count, 36)), lat=lat, lon=LON)
    assert read_fields(path).placement == ("coordinates", "periodic")
    with pytest.raises(ValueError, match=r"axis x \(latitude\) is 'cell', but its .* are not equispaced"):
        read_fields(path, placement=["cell", "periodic"])


def test_letters_say_where_space_is_not_which_axis_is_the_latitude(tmp_path):
    path = write(tmp_path, "npz", u=U, lat=LAT, lon=LON)
    assert read_fields(path, axes="nxy").placement == ("endpoint", "periodic")
    assert read_fields(path, axes="nyx").placement == ("periodic", "endpoint")
    path = write(tmp_path, "npz", u=U.transpose(2, 1, 0), lat=LAT, lon=LON)
    with pytest.raises(ValueError, match=r"\(y, x, sample\) or as \(y, x, channel\); say .* axes=yxn or axes=yx"):
        read_fields(path)
    data = read_fields(path, axes="xyn")  # as MATLAB's ncread gives them
    assert (data.placement, data.words) == (("periodic", "endpoint"), ("longitude", "latitude"))


def test_as_many_latitudes_as_longitudes(tmp_path):
    path = write(tmp_path, "npz", u=np.zeros((3, 36, 36)), lat=np.linspace(-90, 90, 36), lon=LON)
    assert read_fields(path).placement == ("endpoint", "periodic")
    with pytest.raises(ValueError, match=r"latitude and longitude have 36 nodes each.*leave axes= out"):
        read_fields(path, axes="nxy")


def test_places_of_samples_are_no_coordinates(tmp_path):
    """One latitude and one longitude for each sample, as of satellite images."""
    places = np.random.default_rng(1).uniform(-60, 60, (2, 7))
    path = write(tmp_path, "npz", u=np.zeros((7, 8, 8)), lat=places[0], lon=places[1])
    assert read_fields(path, placement="cell").evidence == "as declared"


def test_other_numbers_of_axes(tmp_path):
    level = np.arange(50.0, 1000, 100)
    path = write(tmp_path, "npz", u=np.zeros((3, 10, 19, 36)), lat=LAT, lon=LON, level=level)
    assert read_fields(path)["u"].axes == "ncxy"
    assert read_fields(path, dim=3).placement == ("cell", "endpoint", "periodic")
    assert read_fields(write(tmp_path, "npz", u=U[:, :, 0], lat=LAT), dim=1).placement == ("endpoint",)
    assert read_fields(write(tmp_path, "npz", u=U[:, 0], lat=LAT, lon=LON), dim=1).placement == ("periodic",)
    path = write(tmp_path, "npz", u=np.zeros((3, 10, 19)), lat=LAT, level=level)
    assert read_fields(path).placement == ("cell", "endpoint")


def test_fields_called_x_and_y_and_coordinates_in_dictionaries(tmp_path):
    lat, lon, u = (torch.from_numpy(v.copy()) for v in (LAT, LON, U))
    for content in (
        {"x": u, "y": u, "lat": lat, "lon": lon},
        {"x": u, "y": u, "coords": {"lat": lat, "lon": lon}},
        {"train": {"x": u, "y": u, "lat": lat, "lon": lon}},
    ):
        torch.save(content, tmp_path / "a.pt")
        data = read_fields(tmp_path / "a.pt")
        assert data.placement == ("endpoint", "periodic")
        assert len(data.fields) == 2


@pytest.mark.parametrize("kind", FORMATS)
def test_capital_letters(tmp_path, kind):
    x, y = (np.arange(8) + 0.5) / 8, np.linspace(0, 1, 9)
    data = read_fields(write(tmp_path, kind, u=np.zeros((3, 8, 9)), X=x, Y=y))
    assert data.placement == ("cell", "endpoint")
    X, Y = np.meshgrid(x, y)
    assert read_fields(write(tmp_path, kind, u=np.zeros((3, 9, 8)), X=X, Y=Y))["u"].axes == "nyx"


@pytest.mark.parametrize("kind", ["mat5", "mat73"])
def test_a_number_called_x_is_no_coordinate(tmp_path, kind):
    """MATLAB stores a number as a matrix."""
    assert read_fields(write(tmp_path, kind, u=U, x=0.1, lat=LAT, lon=LON)).placement == ("endpoint", "periodic")
