"""Datasets as geoscience writes them, CF-conforming: fields ``a`` and ``u`` of 6 samples on each kind of grid."""

import numpy as np
import xarray as xr

from tests.measures.geometry.spheres import healpix as healpix_centres
from tests.measures.geometry.spheres import icosahedron, reduced_gaussian

COUNT = 6
LAT = {"standard_name": "latitude", "units": "degrees_north"}
LON = {"standard_name": "longitude", "units": "degrees_east"}


def fields(dims, z):
    """a and u = 2a, smooth in the height z above the equator; a differs from sample to sample."""
    a = np.stack([np.cos(k + 3 * z) for k in range(COUNT)])
    return xr.Dataset({"a": (("sample", *dims), a), "u": (("sample", *dims), 2 * a)})


def gaussian(n=8, m=16):
    z = np.polynomial.legendre.leggauss(n)[0][::-1]
    ds = fields(("lat", "lon"), np.add.outer(z, 0 * np.arange(m)))
    return ds.assign_coords(lat=("lat", np.degrees(np.arcsin(z)), LAT), lon=("lon", 360 / m * np.arange(m), LON))


def closed(n=9, m=16):
    """Longitudes with the first repeated at the end, as etopo20."""
    lat = np.linspace(-90, 90, n)
    ds = fields(("lat", "lon"), np.add.outer(np.sin(np.radians(lat)), np.zeros(m + 1)))
    return ds.assign_coords(lat=("lat", lat, LAT), lon=("lon", 20 + 360 / m * np.arange(m + 1), LON))


def bounded():
    """Uneven latitudes with bounds."""
    edges = np.array([-90, -50, -10, 20, 90.0])
    lat = np.array([-80.0, -20, 0, 30])
    ds = fields(("lat", "lon"), np.add.outer(np.sin(np.radians(lat)), np.zeros(6)))
    ds = ds.assign_coords(lat=("lat", lat, {**LAT, "bounds": "lat_bnds"}), lon=("lon", 60.0 * np.arange(6), LON))
    return ds.assign(lat_bnds=(("lat", "bnds"), np.stack((edges[:-1], edges[1:]), 1)))


def curvilinear(n=5, m=6):
    def place(j, i):
        return 30 + 30 * j / n + 5 * np.sin(2 * i / m), -20 + 40 * i / m + 8 * (j / n) ** 2

    j, i = np.meshgrid(np.arange(n) + 0.5, np.arange(m) + 0.5, indexing="ij")
    lat, lon = place(j, i)
    around = np.array([(0, 0), (0, 1), (1, 1), (1, 0)]) - 0.5
    a, b = place(j[..., None] + around[:, 0], i[..., None] + around[:, 1])
    ds = fields(("j", "i"), np.sin(np.radians(lat)))
    ds = ds.assign_coords(
        lat=(("j", "i"), lat, {**LAT, "bounds": "vertices_lat"}),
        lon=(("j", "i"), lon, {**LON, "bounds": "vertices_lon"}),
    )
    return ds.assign(vertices_lat=(("j", "i", "nv"), a), vertices_lon=(("j", "i", "nv"), b))


def triangles(radians=True):
    """ICON's: the centre and three corners of each cell, in radians."""
    points, faces = icosahedron(1)
    corners = points[faces]
    centre = corners.mean(1)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    scale = 1 if radians else 180 / np.pi
    units = {"units": "radian"} if radians else {}
    lat, lon = (lambda x: scale * np.arcsin(x[..., 2])), (lambda x: scale * np.arctan2(x[..., 1], x[..., 0]))
    ds = fields(("cell",), centre[:, 2]).assign_coords(
        clat=("cell", lat(centre), {**LAT, **units, "bounds": "clat_vertices"}),
        clon=("cell", lon(centre), {**LON, **units, "bounds": "clon_vertices"}),
    )
    return ds.assign(clat_vertices=(("cell", "nv"), lat(corners)), clon_vertices=(("cell", "nv"), lon(corners)))


def columns(n=6):
    """CAM-SE's: lat(ncol), lon(ncol) and, as some files have it, area(ncol)."""
    lat, lon, area = reduced_gaussian(n)
    ds = fields(("ncol",), np.sin(np.radians(lat)))
    ds = ds.assign(area=("ncol", area, {"units": "steradians"}))
    return ds.assign_coords(lat=("ncol", lat, LAT), lon=("ncol", lon, LON))


def ugrid():
    points, faces = icosahedron(1)
    ds = fields(("nnode",), points[:, 2])
    for name in ("a", "u"):
        ds[name].attrs = {"mesh": "mesh", "location": "node"}
    topology = {"cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "mlon mlat"}
    ds = ds.assign(mesh=((), 0, {**topology, "face_node_connectivity": "mfaces"}))
    return ds.assign(
        mfaces=(("nface", "three"), faces + 1, {"start_index": 1}),
        mlat=("nnode", np.degrees(np.arcsin(points[:, 2])), LAT),
        mlon=("nnode", np.degrees(np.arctan2(points[:, 1], points[:, 0])), LON),
    )


def healpix(nside=4):
    """Pixels in the order of rings; the grid mapping says it, and there are no coordinates."""
    ds = fields(("cell",), healpix_centres(nside)[:, 2])
    notes = {"grid_mapping_name": "healpix", "refinement_level": 2, "indexing_scheme": "ring"}
    return ds.assign_coords(crs=((), 0, notes))


def reduced(n=6):
    """A reduced Gaussian grid without areas."""
    return columns(n).drop_vars("area")


KINDS = {f.__name__: f for f in (gaussian, closed, bounded, curvilinear, triangles, columns, ugrid, healpix, reduced)}


def write(dataset, folder, how):
    """Write a Dataset as netCDF-4, netCDF-3 or zarr."""
    path = folder / {"netcdf4": "a4.nc", "netcdf3": "a3.nc", "zarr": "a.zarr"}[how]
    if how == "zarr":
        dataset.to_zarr(path, consolidated=False, zarr_format=2)
    else:
        dataset.to_netcdf(path, engine="h5netcdf" if how == "netcdf4" else "scipy")
    return path
