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
