"""HDF5 and netCDF-4 files of named datasets; dimension scales say which axis is which and where its nodes lie."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from quadnorm.problems.files.assemble import Asked
from quadnorm.problems.files.axes.dimensions import Dimension
from quadnorm.problems.files.axes.request import Picker, Request
from quadnorm.problems.files.described import Variable, read_described
from quadnorm.problems.files.formats.hdf5 import attributes, datasets, loader, opened
from quadnorm.problems.files.formats.scales import dimensions_of
from quadnorm.problems.files.model import FieldFile


def read_hdf5(
    path: str | Path,
    *,
    fields: Sequence[str] | Picker | None = None,
    axes: Mapping[str, str] | str | None = None,
    dim: int = 2,
    channels: str = "auto",
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
    ignore_coordinates: bool = False,
) -> FieldFile:
    """Named datasets of any HDF5 or netCDF-4 file.

    Args:
        path: the file.
        fields: names of the datasets, "group/u" inside groups; default every dataset with samples and ``dim`` axes.
        axes: name → letters of its dimensions, n sample, t time, c channel, x y z space; or letters for all datasets
            with that many dimensions. Default: what the names of the dimensions say, else "nxy" or "ncxy".
        dim: number of spatial axes, if ``axes`` does not say it.
        channels: ``first``, ``last``, or ``auto``: first, unless the file shows that they are last.
        placement: where the nodes lie, one word or one for each axis. Not needed if the file has an attribute
            ``placement``, or coordinates (:mod:`quadnorm.problems.files.axes.coordinates`, or those of its dimensions)
            that fit one placement only.
        domain: (lo, hi), or one pair for each axis.
        ignore_coordinates: True if the file's coordinates are wrong; they are then built from placement and domain.
    """
    path = Path(path)
    request = Request(fields, axes, dim, channels, trusting=not ignore_coordinates)
    with opened(path) as file:
        scales: dict[str, Dimension] = {}
        variables = {
            name: Variable(
                shape,
                attributes(file[name]),
                dimensions_of(file, name, scales, ignore=ignore_coordinates),
                partial(loader, path, name),
            )
            for name, shape in datasets(file).items()
        }
        notes = attributes(file)
    return read_described(path, "hdf5", variables, request, Asked(placement, domain, ignore_coordinates), notes)
