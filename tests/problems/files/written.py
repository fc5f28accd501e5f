"""The same arrays written in each format that keeps arrays by name."""

import h5py
import numpy as np
import torch

FORMATS = ("npz", "pt", "h5", "mat5", "mat73")


def write(folder, kind, **arrays):
    """A file with the given arrays; MATLAB stores 1-D arrays as (1, n)."""
    arrays = {name: np.asarray(values) for name, values in arrays.items()}
    path = folder / f"a.{kind[:3]}"
    if kind == "npz":
        np.savez(path, **arrays)
    elif kind == "pt":
        torch.save({name: torch.from_numpy(values.copy()) for name, values in arrays.items()}, path)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values
    elif kind == "mat5":
        from scipy.io import savemat

        savemat(path, arrays)
    else:
        with h5py.File(path, "w", userblock_size=512) as file:
            for name, values in arrays.items():
                file[name] = np.atleast_2d(values).T
        with path.open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + b" " * 8 + b"\x00\x02IM")
    return path


def write_netcdf(path, dims, fields, notes=None):
    """A netCDF-4 file: ``dims`` are name → coordinates, or the length of a dimension without any; ``fields`` are
    name → (names of dimensions, values), with "" for an axis without a name; ``notes`` are attributes by name."""
    with h5py.File(path, "w") as file:
        for name, nodes in dims.items():
            if isinstance(nodes, int):
                file.create_dataset(name, (nodes,), ">f4")
                file[name].make_scale(f"This is a netCDF dimension but not a netCDF variable.{nodes:10d}")
            else:
                file[name] = nodes
                file[name].make_scale(name)
        for name, (axes, values) in fields.items():
            file[name] = values
            for k, axis in enumerate(axes):
                if axis:
                    file[name].dims[k].attach_scale(file[axis])
        for name, attributes in (notes or {}).items():
            file[name].attrs.update(attributes)
    return path
