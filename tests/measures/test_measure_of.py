"""measure_of: the weights of every kind of grid that xarray holds, against areas by hand."""

import numpy as np
import pytest
import torch

import quadnorm as qn
from quadnorm.measures.data.placements import LONGITUDE, likely, on_earth, readings
from tests.measures.geometry.spheres import healpix, icosahedron, reduced_gaussian, spherical_excess

xr = pytest.importorskip("xarray")
NORTH, EAST = {"units": "degrees_north"}, {"units": "degrees_east"}


def array(dims, coords, sizes=None):
    shape = [(sizes or {}).get(d) or len(coords[d][1] if isinstance(coords[d], tuple) else coords[d]) for d in dims]
    return xr.DataArray(np.zeros(shape), coords, dims)


def weights(data, *args, **options):
    m = qn.measure_of(data, *args, **options)
    return m.weights(m.shape).numpy(), m.total


def bands(edges):
    """Shares of the bands between latitudes: differences of their sines, over 2."""
    return np.diff(np.sin(np.radians(edges))) / 2


def test_an_uneven_line_has_control_volumes():
    w, total = weights(array(["x"], {"x": [0.0, 0.1, 1.0]}))
    np.testing.assert_allclose(w, [0.05, 0.5, 0.45])
    assert total == 1
    w, _ = weights(array(["x"], {"x": [1.0, 0.1, 0.0]}))
    np.testing.assert_allclose(w, [0.45, 0.5, 0.05])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.linspace(0, 1, 5), [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8]),  # both ends: trapezoid
        ((np.arange(4) + 0.5) / 4, [1 / 4] * 4),  # centres of [0, 1]
        (np.linspace(0.03, 0.93, 4), [1 / 6, 1 / 3, 1 / 3, 1 / 6]),  # undecided: the nodes' own span
    ],
)
def test_even_lines_are_placed_by_their_ends(x, expected):
    np.testing.assert_allclose(weights(array(["x"], {"x": x}))[0], expected)
    np.testing.assert_allclose(weights(array(["x"], {"x": -x}))[0], expected)


def test_the_caller_may_say_where_samples_lie():
    data = array(["x"], {"x": np.arange(4) / 4})
    np.testing.assert_allclose(weights(data, placement="periodic")[0], [0.25] * 4)
    np.testing.assert_allclose(weights(data, placement={"x": "cell"})[0], [0.25] * 4)
    w, total = weights(data, placement="coordinates", domain=(0, 1))
    np.testing.assert_allclose(w, [1 / 8, 1 / 4, 1 / 4, 3 / 8])
    assert total == 1
    with pytest.raises(ValueError, match="uneven"):
        qn.measure_of(array(["x"], {"x": [0.0, 0.1, 1.0]}), placement="cell")


def test_bounds_are_the_cells():
    data = array(["x"], {"x": ("x", [0.2, 0.5, 2.0], {"bounds": "x_bnds"})})
    ds = data.to_dataset(name="t").assign(x_bnds=(("x", "nv"), [[0, 0.4], [0.4, 1], [1, 4]]))
    w, total = weights(ds)
    np.testing.assert_allclose(w, [0.1, 0.15, 0.75])
    assert total == 4
    wrong = ds.assign(x_bnds=(("x", "nv"), [[0, 0.1], [0.4, 1], [1, 4]]))
    with pytest.raises(ValueError, match=r"no cells around the nodes: node 0 is 0.2"):
        qn.measure_of(wrong)


@pytest.mark.parametrize("flip", [1, -1])
def test_global_latitudes_and_longitudes(flip):
    lon = np.arange(0.0, 360, 5)
    poles = array(["time", "lat", "lon"], {"lat": np.linspace(-90, 90, 19)[::flip], "lon": lon}, {"time": 2})
    w, total = weights(poles)
    np.testing.assert_allclose(w.sum(1), bands([-90, *np.arange(-85, 90, 10), 90]))
    np.testing.assert_allclose(w, qn.LatLon("equiangular").weights((19, 72)))
    np.testing.assert_allclose(total, 4 * np.pi)
    cells = array(["lat", "lon"], {"lat": np.arange(-85.0, 90, 10)[::flip], "lon": lon + 2.5})
    w, total = weights(cells)
    np.testing.assert_allclose(w, qn.LatLon("equiangular-cell").weights((18, 72)))
    np.testing.assert_allclose(total, 4 * np.pi)
    w, _ = weights(cells.transpose("lon", "lat"))
    np.testing.assert_allclose(w.T, qn.LatLon("equiangular-cell").weights((18, 72)))


def test_latitude_bounds_beat_halfway():
    edges = np.array([-90, -50, -10, 20, 90.0])
    lat = np.array([-80.0, -20.0, 0.0, 30.0])
    data = array(["lat", "lon"], {"lat": ("lat", lat, {"bounds": "lat_bnds"}), "lon": [0.0, 120, 240]})
    ds = xr.Dataset({"t": data, "lat_bnds": (("lat", "bnds"), np.stack((edges[1:], edges[:-1]), 1))})
    for w, total in (weights(ds), weights(ds["t"], ds)):
        np.testing.assert_allclose(w.sum(1), bands(edges))
        np.testing.assert_allclose(total, 4 * np.pi)


def test_coordinates_are_known_by_their_names_on_any_dimension():
    edges = np.linspace(-90, 90, 7)
    coords = {"lat": ("j", (edges[1:] + edges[:-1]) / 2), "lon": ("i", np.arange(8) * 45.0)}
    w, total = weights(xr.DataArray(np.zeros((6, 8)), coords, ("j", "i")))
    np.testing.assert_allclose(w.sum(1), bands(edges))
    np.testing.assert_allclose(total, 4 * np.pi)


@pytest.mark.parametrize("first", [0.0, 22.5, 1.3])
def test_a_whole_circle_is_periodic_wherever_it_begins(first):
    x = first + np.arange(8) * 45.0
    assert on_earth(LONGITUDE, x, readings(x), likely(x)).keys() == {"periodic"}


def test_a_single_cell_around_the_circle_has_all_of_it():
    data = array(["lat", "lon"], {"lat": [-60.0, 0.0, 60.0], "lon": ("lon", [10.0], {"bounds": "edges"})})
    ds = xr.Dataset({"t": data, "edges": (("lon", "side"), [[0.0, 360.0]])})
    np.testing.assert_allclose(weights(ds)[1], 4 * np.pi)


@pytest.mark.parametrize("digits", [12, 3])
@pytest.mark.parametrize("n", [6, 32, 160])
def test_gaussian_latitudes_have_gauss_weights(n, digits):
    z, w = np.polynomial.legendre.leggauss(n)
    lat = np.degrees(np.arcsin(z))[::-1].round(digits)
    got, total = weights(array(["lat", "lon"], {"lat": lat, "lon": np.arange(8) * 45.0}))
    np.testing.assert_allclose(got.sum(1), w / 2, rtol=1e-10)
    np.testing.assert_allclose(total, 4 * np.pi)


@pytest.mark.parametrize("n", [36, 1080, 4320])
def test_a_closed_circle_counts_its_first_longitude_once(n):
    """The first value is repeated at the end: both halves of one cell. 1081 values are etopo20's."""
    lon = np.linspace(20.0, 380.0, n + 1, dtype=np.float32)
    w, total = weights(array(["lat", "lon"], {"lat": [-45.0, 45.0], "lon": lon}))
    expected = np.full(n + 1, 1 / n)
    expected[[0, -1]] /= 2
    np.testing.assert_allclose(w.sum(0), expected, rtol=1e-3)
    np.testing.assert_allclose(total, 4 * np.pi, rtol=1e-6)
    measure = qn.LatLon.from_coordinates([-45.0, 45.0], np.linspace(20.0, 380.0, n + 1))
    np.testing.assert_allclose(measure.weights((2, n + 1)).sum(0), expected, rtol=1e-9)


def test_regional_longitudes_end_where_they_end():
    lat, lon = np.array([0.0, 30.0, 60.0]), np.array([350.0, 355.0, 0.0, 5.0, 10.0])
    w, total = weights(array(["lat", "lon"], {"lat": lat, "lon": lon}))
    np.testing.assert_allclose(w.sum(0), [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8])
    np.testing.assert_allclose(total, np.sin(np.pi / 3) * np.radians(20))
    with pytest.raises(ValueError, match="more than once"):
        qn.measure_of(array(["lat", "lon"], {"lat": lat, "lon": np.arange(0.0, 400, 20)}))


def test_a_circle_in_radians():
    lon = np.arange(8) * np.pi / 4
    for notes in ({}, {"units": "radian"}):
        coords = {"lat": ("lat", np.radians([-60.0, 0, 60]), notes), "lon": ("lon", lon, notes)}
        w, total = weights(array(["lat", "lon"], coords))
        np.testing.assert_allclose(w.sum(1), bands([-90, -30, 30, 90]))
        np.testing.assert_allclose(total, 4 * np.pi)


def curvilinear(n, m, corners=True):
    """A region of the sphere in rows and columns of a Lambert-like bent grid; corners by the same formula."""

    def place(j, i):
        s, t = j / n, i / m
        return 30 + 30 * s + 5 * np.sin(2 * t), -20 + 40 * t + 8 * s**2

    j, i = np.meshgrid(np.arange(n) + 0.5, np.arange(m) + 0.5, indexing="ij")
    lat, lon = place(j, i)
    ds = xr.Dataset({"t": (("y", "x"), np.zeros((n, m)))})
    ds = ds.assign_coords(lat=(("y", "x"), lat, NORTH), lon=(("y", "x"), lon, EAST))
    if corners:
        around = np.array([(0, 0), (0, 1), (1, 1), (1, 0)])
        cj, ci = j[..., None] - 0.5 + around[:, 0], i[..., None] - 0.5 + around[:, 1]
        a, b = place(cj, ci)
        ds["lat"].attrs["bounds"], ds["lon"].attrs["bounds"] = "lat_vertices", "lon_vertices"
        ds["lat_vertices"], ds["lon_vertices"] = (("y", "x", "v"), a), (("y", "x", "v"), b)
    return ds


def test_curvilinear_cells_with_corners():
    ds = curvilinear(3, 4)
    w, total = weights(ds)
    lat, lon = np.radians(ds.lat_vertices.values), np.radians(ds.lon_vertices.values)
    x = np.stack((np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)), -1).reshape(-1, 4, 3)
    areas = [spherical_excess(*q[:3]) + spherical_excess(q[0], q[2], q[3]) for q in x]
    np.testing.assert_allclose(w.ravel() * total, areas, rtol=1e-9)
    assert w.shape == (3, 4)
    turned, _ = weights(ds["t"].transpose("x", "y"), ds)
    np.testing.assert_allclose(turned.T, w)


def test_curvilinear_nodes_without_corners_approach_the_area():
    """∫ over the region of the nodes, between 30 and 60 rows; the corners' area is the reference, order 1 in the
    missing half cells at the rim, so the *weights inside* are compared."""
    full, full_total = weights(curvilinear(40, 40))
    bare, bare_total = weights(curvilinear(40, 40, corners=False))
    inside = (slice(1, -1), slice(1, -1))
    np.testing.assert_allclose(bare[inside] * bare_total, full[inside] * full_total, rtol=2e-3)
    assert 0.94 < bare_total / full_total < 0.96  # 39²/40² of the cells


def test_a_regular_grid_written_as_curvilinear_keeps_its_bands():
    """Sides along parallels, and repeated columns as ocean models have them."""
    lat, lon = np.arange(-85.0, 90, 10), np.arange(5.0, 380, 10)  # two columns twice
    la, lo = np.meshgrid(lat, lon, indexing="ij")
    corner = [(-5, -5), (-5, 5), (5, 5), (5, -5)]
    ds = xr.Dataset({"t": (("j", "i"), np.zeros(la.shape))})
    ds = ds.assign_coords(
        latitude=(("j", "i"), la, {**NORTH, "bounds": "vlat"}), longitude=(("j", "i"), lo, {**EAST, "bounds": "vlon"})
    )
    ds["vlat"] = (("j", "i", "v"), np.stack([la + a for a, _ in corner], -1))
    ds["vlon"] = (("j", "i", "v"), np.stack([lo + b for _, b in corner], -1))
    w, total = weights(ds)
    np.testing.assert_allclose(w.sum(1), bands(np.arange(-90, 91, 10)))
    np.testing.assert_allclose(total, 4 * np.pi)
    bare, bare_total = weights(ds.drop_vars(["vlat", "vlon"])["t"])
    np.testing.assert_allclose(bare_total, 4 * np.pi * np.sin(np.radians(85)), rtol=5e-3)
    np.testing.assert_allclose(bare[3:-3, 3:-3] / w[3:-3, 3:-3], bare[9, 9] / w[9, 9], rtol=0.01)


def test_curvilinear_in_the_plane():
    r, phi = np.meshgrid(np.linspace(1, 2, 41), np.linspace(0, np.pi / 2, 41), indexing="ij")
    data = xr.DataArray(np.zeros(r.shape), dims=("i", "j"))
    data = data.assign_coords(x=(("i", "j"), r * np.cos(phi)), y=(("i", "j"), r * np.sin(phi)))
    w, total = weights(data)
    np.testing.assert_allclose(total, 3 * np.pi / 4, rtol=1e-3)  # a quarter of the ring
    np.testing.assert_allclose((w * r**2).sum(), 2.5, rtol=1e-3)  # ∫r²·r dr / ∫r dr = (15/4)/(3/2)


def icon():
    points, triangles = icosahedron(2)
    corners = points[triangles]
    centre = corners.mean(1)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    lat = lambda x: np.arcsin(x[..., 2])  # noqa: E731
    lon = lambda x: np.arctan2(x[..., 1], x[..., 0])  # noqa: E731
    expected = np.array([spherical_excess(*p) for p in corners])
    return points, triangles, corners, centre, lat, lon, expected


def test_icons_triangles_in_radians():
    _, _, corners, centre, lat, lon, expected = icon()
    ds = xr.Dataset({"t": (("time", "cell"), np.zeros((2, 320)))})
    notes = {"units": "radian"}
    ds = ds.assign_coords(
        clat=("cell", lat(centre), {**notes, "standard_name": "latitude", "bounds": "clat_vertices"}),
        clon=("cell", lon(centre), {**notes, "standard_name": "longitude", "bounds": "clon_vertices"}),
    )
    ds["clat_vertices"], ds["clon_vertices"] = (("cell", "nv"), lat(corners)), (("cell", "nv"), lon(corners))
    w, total = weights(ds)
    np.testing.assert_allclose(w * total, expected, rtol=1e-9)


@pytest.mark.parametrize("location", ["face", "node"])
@pytest.mark.parametrize("start", [0, 1])
def test_ugrid_on_the_sphere(location, start):
    points, triangles, _, _, lat, lon, expected = icon()
    dim = {"face": "nface", "node": "nnode"}[location]
    ds = xr.Dataset({"t": ((dim,), np.zeros(len(points) if location == "node" else 320))})
    ds["t"].attrs = {"mesh": "mesh", "location": location}
    ds["mesh"] = ((), 0, {"cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "nlon nlat",
                          "face_node_connectivity": "tri"})  # fmt: skip
    ds["tri"] = (("nface", "three"), triangles + start, {"start_index": start})
    ds["nlat"] = ("nnode", np.degrees(lat(points)), {"standard_name": "latitude", **NORTH})
    ds["nlon"] = ("nnode", np.degrees(lon(points)), {"standard_name": "longitude", **EAST})
    w, total = weights(ds)
    np.testing.assert_allclose(total, 4 * np.pi)
    if location == "face":
        np.testing.assert_allclose(w * total, expected, rtol=1e-9)
    else:
        np.testing.assert_allclose(w, qn.voronoi_weights(points, sphere=True).numpy() / total, rtol=0.15)
    coords = ds.set_coords(["mesh", "tri", "nlat", "nlon"])["t"] if location == "node" else None
    if coords is not None:
        with pytest.raises(ValueError, match=r"pass the whole Dataset|pass the Dataset"):
            qn.measure_of(coords)  # the table of faces has other dimensions than the field
    with pytest.raises(ValueError, match="pass the Dataset"):
        qn.measure_of(ds["t"])


def test_ugrid_in_the_plane_with_triangles_and_quadrilaterals():
    """The unit square: a quadrilateral on the left half, two triangles on the right."""
    x, y = [0, 0.5, 1, 0, 0.5, 1.0], [0, 0, 0, 1, 1, 1.0]
    table = np.array([[0, 1, 4, 3], [1, 2, 5, np.nan], [1, 5, 4, np.nan]])
    ds = xr.Dataset({"t": (("f",), np.zeros(3), {"mesh": "m", "location": "face"})})
    ds["m"] = ((), 0, {"cf_role": "mesh_topology", "node_coordinates": "x y", "face_node_connectivity": "table",
                       "topology_dimension": 2})  # fmt: skip
    ds["table"] = (("f", "k"), table)
    ds["x"], ds["y"] = ("n", x), ("n", y)
    w, total = weights(ds)
    np.testing.assert_allclose(w * total, [0.5, 0.25, 0.25])
    ds = ds.drop_vars("t").assign(t=("n", np.zeros(6), {"mesh": "m", "location": "node"}))
    w, total = weights(ds)
    np.testing.assert_allclose(total, 1)
    np.testing.assert_allclose((w * np.array(x)).sum(), 0.5, atol=0.05)


def test_columns_without_cells_have_voronoi_cells_and_stated_areas_win():
    lat, lon, area = reduced_gaussian(8)
    coords = {"lat": ("ncol", lat, NORTH), "lon": ("ncol", lon, EAST)}
    data = xr.DataArray(np.zeros((2, len(lat))), coords, ("time", "ncol"))
    w, total = weights(data)
    np.testing.assert_allclose(w, qn.voronoi_weights(np.stack((lat, lon), 1), sphere=True).numpy() / (4 * np.pi))
    np.testing.assert_allclose(total, 4 * np.pi)
    w, _ = weights(xr.Dataset({"t": data, "area": ("ncol", area)}))
    np.testing.assert_allclose(w, area / area.sum())
    named = data.assign_attrs(cell_measures="area: mine").assign_coords(mine=("ncol", 3 * area))
    np.testing.assert_allclose(weights(named)[0], area / area.sum())


def test_stations_of_a_region_have_the_area_of_their_hull():
    """All in one half of the sphere: cells end at the hull. A dense grid of 30°×20° at 50° N."""
    lat, lon = (a.ravel() for a in np.meshgrid(np.linspace(40, 60, 41), np.linspace(0, 30, 61), indexing="ij"))
    data = xr.DataArray(np.zeros(len(lat)), {"lat": ("station", lat), "lon": ("station", lon)}, ("station",))
    _, total = weights(data)
    box = np.radians(30) * (np.sin(np.radians(60)) - np.sin(np.radians(40)))
    np.testing.assert_allclose(total, box, rtol=0.025)  # the hull's north side is a chord, not the parallel


def test_healpix_has_equal_areas():
    n = len(healpix(4))
    data = xr.DataArray(np.zeros((2, n)), dims=("time", "cell"))
    data = data.assign_coords(crs=((), 0, {"grid_mapping_name": "healpix", "healpix_nside": 4}))
    w, total = weights(data)
    np.testing.assert_allclose(w, 1 / n)
    np.testing.assert_allclose(total, 4 * np.pi)
    part = data[:, : n // 3].assign_coords(crs=((), 0, {"grid_mapping_name": "healpix", "refinement_level": 2}))
    np.testing.assert_allclose(weights(part)[1], 4 * np.pi / 3)  # 2² pixels along a side, too


def test_rotated_poles_are_a_sphere_of_their_own():
    rlat, rlon = np.linspace(-10, 10, 5), np.linspace(-20, 20, 9)
    coords = {
        "rlat": ("rlat", rlat, {"standard_name": "grid_latitude", "units": "degrees"}),
        "rlon": ("rlon", rlon, {"standard_name": "grid_longitude", "units": "degrees"}),
        "lat": (("rlat", "rlon"), np.add.outer(rlat + 50, 0 * rlon), NORTH),
        "lon": (("rlat", "rlon"), np.add.outer(0 * rlat, rlon + 8), EAST),
    }
    w, total = weights(xr.DataArray(np.zeros((5, 9)), coords, ("rlat", "rlon")))
    expected = qn.LatLon.from_coordinates(rlat, rlon)
    np.testing.assert_allclose(w, expected.weights((5, 9)))
    np.testing.assert_allclose(total, expected.total)


def test_levels_are_space_only_where_asked():
    data = array(["level", "lat", "lon"], {"level": [1000.0, 850, 500], "lat": [-45.0, 45], "lon": [0.0, 180]})
    assert qn.measure_of(data).shape == (2, 2)
    w, total = weights(data, dims=("level", "lat", "lon"))
    np.testing.assert_allclose(w.sum((1, 2)), [0.15, 0.5, 0.35])
    np.testing.assert_allclose(total, 500 * 4 * np.pi)
    assert qn.measure_of(data, dims="level").shape == (3,)
    with pytest.raises(ValueError, match="dimension"):
        qn.measure_of(data, dims="levle")


def test_what_it_integrates_is_right():
    """The mean of sin²φ over the sphere is 1/3, on every grid; counting samples gives 1/2 and more."""
    lat, lon = np.linspace(-90, 90, 181), np.arange(360.0)
    data = array(["lat", "lon"], {"lat": lat, "lon": lon})
    measure = qn.measure_of(data)
    f = torch.from_numpy(np.sin(np.radians(lat)))[:, None].expand(181, 360) ** 2
    assert abs(measure.integrate(f).item() / (4 * np.pi) - 1 / 3) < 1e-4


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (np.zeros(3), TypeError, r"DataArray or Dataset \(pip install 'quadnorm\[data\]'\)"),
        (xr.DataArray(np.zeros((2, 3)), dims=("x", "y")), ValueError, "no dimension .* has coordinates"),
        (xr.DataArray(np.zeros(3), {"x": [0.0, 2.0, 1.0]}, ("x",)), ValueError, "increasing or decreasing"),
        (xr.DataArray(np.zeros(2), {"x": ["a", "b"]}, ("x",)), ValueError, "expected numbers"),
        (xr.DataArray(np.zeros(1), {"x": [1.0]}, ("x",)), ValueError, "single node"),
        (xr.Dataset(), ValueError, "neither fields nor dimensions"),
    ],
)
def test_refusals(data, kind, words):
    with pytest.raises(kind, match=words):
        qn.measure_of(data)


def test_a_strip_across_greenwich_is_no_circle():
    """As iris's atlantic_profiles.nc stores it: 0.5, 325.5, …, 355.5 are 35 degrees, with half a cell at both ends."""
    lon = np.array([0.5, *np.arange(325.5, 360, 5)])
    data = xr.DataArray(np.zeros((3, 8)), {"lat": [-5.0, 0, 5], "lon": lon}, ("lat", "lon"))
    measure = qn.measure_of(data)
    w = measure.weights((3, 8)).sum(0).numpy()
    np.testing.assert_allclose(w, np.array([1, 1, 2, 2, 2, 2, 2, 2]) / 14)
    np.testing.assert_allclose(measure.total, np.radians(35) * 2 * np.sin(np.radians(5)))


def test_elements_with_their_points_are_no_curvilinear_grid():
    """As SEAM stores a cubed sphere, (element, point): neighbours in the array are none on the sphere, and points on
    the edge of two elements are there twice."""
    points, faces = icosahedron(1)
    corners = points[faces]
    lat, lon = np.degrees(np.arcsin(corners[..., 2])), np.degrees(np.arctan2(corners[..., 1], corners[..., 0]))
    order = np.random.default_rng(0).permutation(len(faces))
    where = {"lat2d": (("e", "p"), lat[order], {"units": "degrees_north"})}
    where["lon2d"] = (("e", "p"), lon[order], {"units": "degrees_east"})
    measure = qn.measure_of(xr.DataArray(np.zeros(lat.shape), where, dims=("e", "p")))
    np.testing.assert_allclose(measure.total, 4 * np.pi)
    together = np.zeros(len(points))
    np.add.at(together, faces[order], measure.weights(lat.shape).numpy())
    cells = qn.voronoi_weights(points, sphere=True).numpy()
    np.testing.assert_allclose(together, cells / cells.sum(), rtol=1e-6)


def test_axes_lie_where_files_say_that_they_lie():
    """One decision for measure_of and the readers: rows up to one pole belong to the whole sphere, interior nodes to
    the axis that they are inside of."""
    from quadnorm.problems.files import read_arrays

    lat, lon = np.arange(90, -90, -10.0), 20.0 * np.arange(18)
    w, total = weights(array(["lat", "lon"], {"lat": lat, "lon": lon}))
    np.testing.assert_allclose(total, 4 * np.pi)
    np.testing.assert_allclose(w.sum(1), -bands([90, *np.arange(85, -80, -10), -90]))
    assert read_arrays({"u": np.zeros((2, 18, 18)), "lat": lat, "lon": lon}).domain[0] == (-90, 90)
    w, total = weights(array(["x"], {"x": np.arange(1, 8) / 8}))
    assert total == 1
    np.testing.assert_allclose(w.sum(), 1)
    assert read_arrays({"u": np.zeros((2, 7, 7)), "x": np.arange(1, 8) / 8, "y": np.arange(1, 8) / 8}).domain[0] == (
        0,
        1,
    )
