"""What the usual names of axes mean: x, lat, lon, level, time, member, channel; and the attributes that say it.

Names are compared without regard to case, folders and signs: ``coords/Lat``, ``x-coordinate`` and ``grid_x`` are known.
"""

from collections.abc import Mapping
from typing import Any

POINTS = "points"  # an axis, or two, whose samples have two coordinates each
FLAT = ("x", "y", "latitude", "longitude", POINTS)
UPRIGHT = ("z", "vertical")
SPATIAL = (*FLAT, *UPRIGHT)

_LAT = ("lat2d", "clat", "tlat", "ulat", "latcell", "geolat", "gphit", "gridcenterlat", "latr", "latrho")
_LON = ("lon2d", "clon", "tlong", "ulong", "loncell", "geolon", "glamt", "gridcenterlon", "lonr", "lonrho")
_NAMES = {
    "x": ("x", "xc", "xg", "xu", "xv", "xt", "xrho", "easting", "westeast", "projectionxcoordinate"),
    "y": ("y", "yc", "yg", "yu", "yv", "yt", "yrho", "northing", "southnorth", "projectionycoordinate"),
    "z": ("z", "zc"),
    "latitude": ("lat", "lats", "latitude", "latitudes", "nlat", "navlat", "xlat", "rlat", "gridlatitude", *_LAT),
    "longitude": (
        "lon",
        "lons",
        "longitude",
        "longitudes",
        "nlon",
        "navlon",
        "xlong",
        "rlon",
        "gridlongitude",
        "long",
        *_LON,
    ),
    "vertical": (
        *("level", "levels", "lev", "plev", "pressure", "pressurelevel", "airpressure", "isobaric", "isobaricinhpa"),
        *("depth", "deptht", "height", "altitude", "alt", "bottomtop", "modellevel", "modellevelnumber", "hybrid"),
    ),
    "time": ("time", "times", "t", "validtime", "timestep", "timesteps", "date", "datetime", "month", "hour", "year"),
    "lead": ("step", "lead", "leadtime", "predictiontimedelta", "forecastperiod", "forecasthour"),
    "sample": (
        *("n", "sample", "samples", "batch", "instance", "case", "trajectory", "simulation", "sim", "run", "index"),
        *("number", "member", "members", "ensemble", "realization", "realisation", "initialtime", "inittime"),
        *("sampleid", "sampleindex", "idx", "forecastreferencetime"),
    ),
    "channel": (
        *("c", "channel", "channels", "variable", "variables", "var", "feature", "features", "component"),
        *("components", "band", "bands", "field", "fields", "vector"),
    ),
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names}
_MARKS = ("coordinates", "coordinate", "coords", "coord", "grid")
_AXIS = {"x": "x", "y": "y", "z": "vertical", "t": "time"}  # the attribute axis of the CF conventions


def kind_of(name: str, notes: Mapping[str, Any] | None = None) -> str:
    """What an axis or an array of coordinates is, by its attributes and its name; empty where neither says it.

    >>> kind_of("coords/Lat"), kind_of("x-coordinate"), kind_of("u"), kind_of("j", {"units": "degrees_north"})
    ('latitude', 'x', '', 'latitude')
    """
    said = {key: str((notes or {}).get(key, "")).lower() for key in ("standard_name", "units", "axis")}
    by_attribute = _KINDS.get(_plain(said["standard_name"]), "")
    by_attribute = by_attribute or {"north": "latitude", "east": "longitude"}.get(_direction(said["units"]), "")
    return (
        by_attribute
        or _KINDS.get(_plain(name), "")
        or ("time" if " since " in said["units"] else _AXIS.get(said["axis"], ""))
    )


def letter_of(name: str) -> str:
    """The letter of an array of coordinates that is called x, y or z, with or without a word such as grid; else empty.

    >>> letter_of("x"), letter_of("grid_X"), letter_of("coords/y"), letter_of("train/y"), letter_of("xu")
    ('x', 'x', 'y', '', '')
    """
    plain = _plain(name)
    return plain if plain in ("x", "y", "z") and at_top(name) else ""


def at_top(name: str) -> bool:
    """Whether an array is in no folder, or in one for coordinates."""
    return "/" not in name or name.rpartition("/")[0].lower() in _MARKS


def _direction(units: str) -> str:
    """The direction of CF units of longitude and latitude: degrees_north, degree_N, degreesE, …"""
    if not units.startswith("degree"):
        return ""
    rest = units.removeprefix("degree").removeprefix("s").strip("_ ")
    return {"n": "north", "e": "east"}.get(rest, rest)


def _plain(name: str) -> str:
    """A name without folders, signs and words such as coordinate.

    >>> _plain("grid/x"), _plain("x_coord"), _plain("Grid-X"), _plain("pressure_level"), _plain("grid_latitude")
    ('x', 'x', 'x', 'pressurelevel', 'gridlatitude')
    """
    last = name.rsplit("/", 1)[-1].lower()
    plain = "".join(letter for letter in last if letter.isalnum())
    for mark in _MARKS:
        for short in (plain.removeprefix(mark), plain.removesuffix(mark)):
            if short != plain and short in ("x", "y", "z", "t", "lat", "lon"):
                return short
    return plain
