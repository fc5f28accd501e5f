"""HDF5 files: opened for as long as a read takes, and errors that name the file.

Reads any user's file of named datasets; the public layouts (PDEBench, the_well, MATLAB v7.3) build on the helpers here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm._suggest import unknown
from quadnorm.problems.files.assemble import Asked, assemble, default_axes
from quadnorm.problems.files.model import SPACE, Field, FieldFile


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An HDF5 file open for reading."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("reading HDF5 needs h5py: pip install 'quadnorm[bench]'") from error
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise OSError(f"{path}: not a readable HDF5 file, damaged or cut short ({error})") from error
    try:
        with file:
            yield file
    except (KeyError, RuntimeError, TypeError, OverflowError, ValueError) as error:
        if str(error).startswith(str(path)):  # a reader's own words
            raise
        # h5py reports damaged metadata through whatever it stumbles over; readers ask only for what is there
        raise OSError(f"{path}: damaged, its contents cannot be read ({error})") from error


def loader(path: Path, key: str, *, reverse: bool = False) -> Callable[[Any], np.ndarray]:
    """Reads samples of one dataset; ``reverse`` for MATLAB, which stores the axes last to first."""
    return partial(_load, path, key, reverse)


def _load(path: Path, key: str, reverse: bool, index: Any) -> np.ndarray:
    with opened(path) as file:
        data = file[key]
        inverse = None
        if isinstance(index, np.ndarray):  # HDF5 takes indices only in increasing order, each once
            index, inverse = np.unique(index, return_inverse=True)
        try:
            values = np.asarray(data[(..., index)] if reverse else data[index] if data.ndim else data[()])
        except OSError as error:
            raise OSError(f"{path}: dataset {key!r} cannot be read, the file is damaged ({error})") from error
        values = values.T if reverse else values
        return values if inverse is None else values[inverse]


def datasets(file: Any) -> dict[str, tuple[int, ...]]:
    """Every numeric dataset of an open file: path inside it → shape."""
    found: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "shape") and item.shape is not None and item.dtype.kind in "fiub":
            found[name] = tuple(item.shape)

    file.visititems(visit)
    return found


def text(value: Any) -> Any:
    """An attribute in Python's own types: bytes become str, arrays become lists."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray):
        return [text(v) for v in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def attributes(item: Any) -> dict[str, Any]:
    """All attributes of a file, group or dataset."""
    return {name: text(value) for name, value in item.attrs.items()}


def choose(path: Path, wanted: Sequence[str] | None, present: Sequence[str]) -> list[str]:
    """The wanted names, each of which must be present; all of them where none is named."""
    for name in wanted or ():
        if name not in present:
            raise ValueError(f"{path}: " + unknown("field", name, present))
    return list(wanted or present)


def read_hdf5(
    path: str | Path,
    *,
    fields: Sequence[str] | None = None,
    axes: Mapping[str, str] | None = None,
    dim: int = 2,
    placement: str | Sequence[str] | None = None,
    domain: Any = None,
    ignore_coordinates: bool = False,
) -> FieldFile:
    """Named datasets of any HDF5 file.

    Args:
        path: the file.
        fields: names of the datasets, "group/u" inside groups; default every dataset with samples and ``dim`` axes.
        axes: name → letters of its dimensions, n sample, t time, c channel, x y z space; default "nxy" or "ncxy".
        dim: number of spatial axes where ``axes`` does not say.
        placement: where the nodes lie, one word or one for each axis. Not needed where the file has an attribute
            ``placement``, or 1-D datasets x, y, z (or ``x-coordinate``, …) that can be read in one way only.
        domain: (lo, hi), or one pair for each axis.
        ignore_coordinates: the coordinates in the file are wrong, build them from placement and domain.
    """
    path = Path(path)
    with opened(path) as file:
        present, said = datasets(file), attributes(file)
    coordinates: dict[str, np.ndarray] = {}
    for letter in SPACE:
        for name in (letter, f"{letter}-coordinate", f"grid/{letter}", f"coordinates/{letter}"):
            if name in present and len(present[name]) == 1 and name not in (fields or ()):
                coordinates[letter] = _load(path, name, False, slice(None))
                del present[name]
                break
    likely = [name for name, shape in present.items() if name in (axes or ()) or dim + 1 <= len(shape) <= dim + 2]
    found = {
        name: Field(
            name,
            (axes or {}).get(name) or default_axes(name, len(present[name]), dim, path),
            present[name],
            loader(path, name),
            path,
        )
        for name in choose(path, fields, list(present) if fields else likely)
    }
    asked = Asked(placement, domain, ignore_coordinates)
    return assemble(path, "hdf5", found, asked, coordinates, said.get("placement"), attributes=said)
