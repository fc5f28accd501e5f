"""Name the axes of arrays that do not name them: (sample, x, y), (sample, channel, x, y) or (sample, x, y, channel).

Channels come first unless the file itself shows that they come last: another array or the coordinates of the same file
fit one reading only. Where both readings fit and channels first is not the natural one, the caller is asked. Where the
file names the dimensions, these decide (:mod:`quadnorm.problems.files.axes.dimensions`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from quadnorm.problems.files.axes.coordinates import FileCoordinates
from quadnorm.problems.files.axes.dimensions import Dimensions, listed, ways
from quadnorm.problems.files.axes.request import AXES, Request, Shape
from quadnorm.problems.files.model import SPACE


def name_axes(
    path: Path,
    shapes: Mapping[str, Shape],
    request: Request,
    lines: FileCoordinates,
    dims: Mapping[str, Dimensions] | None = None,
) -> dict[str, str]:
    """Letters of the axes of each array; ``dims`` are the dimensions of arrays, where the file names them.

    >>> shapes = {"a": (5, 64, 64, 3), "u": (5, 64, 64)}
    >>> name_axes(Path("a.npz"), shapes, Request(), FileCoordinates({}))
    {'a': 'nxyc', 'u': 'nxy'}
    """
    space, dims = SPACE[: request.dim], dims or {}
    known = tuple(lines.counts[a] for a in space) if set(space) <= set(lines.counts) else None
    # Coordinates may show that the axes are stored in another order, (sample, y, x).
    orders = (lines.order,) if lines.order else (space, space[::-1]) if known else (space,)
    for order in orders:
        readings = {n: _readings(path, n, shape, request, order, dims.get(n, ())) for n, shape in shapes.items()}
        grids = [g for g in _grids(readings, shapes, space) if known is None or g == known]
        if grids:
            unnamed = known is None and request.axes is None and not any(d.kind for own in dims.values() for d in own)
            if unnamed and all(_samples_look_last(shape, space) for shape in shapes.values()):
                name, shape = next(iter(shapes.items()))
                raise _ask(path, name, shape, [readings[name][0], space + "n"])
            return {name: _settled(path, name, shapes[name], ways_, grids, space) for name, ways_ in readings.items()}
    if known and request.axes is None:
        _ask_about_last(path, {n: s for n, s in shapes.items() if not dims.get(n)}, orders, known)
    return {n: _readings(path, n, shape, request, space, dims.get(n, ()))[0] for n, shape in shapes.items()}


def _readings(path: Path, name: str, shape: Shape, request: Request, space: str, dims: Dimensions) -> list[str]:
    """The ways to read an array, channels first before channels last."""
    given = request.letters(name, len(shape))
    if given is not None:
        return [given]
    if dims:
        return _by_dimensions(path, name, shape, request, dims)
    if len(shape) == request.dim + 1:
        return ["n" + space]
    if len(shape) == request.dim + 2:
        return _with_channels(["nc" + space, "n" + space + "c"], request.channels)
    raise ValueError(
        f"{path}: {name!r} has {len(shape)} dimensions, {shape}; expected samples and {request.dim} spatial axes, with "
        f"or without channels. Say how many spatial axes there are (axes=1, axes=3; dim= of a reader), or name the "
        f"axes of the array, as in axes={{{name}: nxyt}} (n sample, t time, c channel, x y z space)"
    )


def _with_channels(each: list[str], channels: str) -> list[str]:
    """The ways with channels before space, or those with channels after it, if the caller says so."""
    if channels == "auto":
        return each
    chosen = [way for way in each if "c" in way and (way.index("c") < way.index("x")) == (channels == "first")]
    return chosen or each


def _by_dimensions(path: Path, name: str, shape: Shape, request: Request, dims: Dimensions) -> list[str]:
    found = ways(dims, request.dim)
    if not found:
        raise ValueError(
            f"{path}: {name!r} has the dimensions {listed(dims)} of the sizes {shape}; expected {request.dim} spatial "
            "axes among them. Say how many there are (axes=1, axes=3; dim= of a reader), or name the axes of the "
            f"array, as in axes={{{name}: nxyt}} (n sample, t time, c channel, x y z space)"
        )
    if len({"".join(sorted(way)) for way in found}) > 1:
        said = " or ".join(f"axes={{{name}: {way}}}" for way in found)
        raise ValueError(
            f"{path}: {name!r} has the dimensions {listed(dims)}; it is not clear which are samples and which are "
            f"channels; say so with {said} (n sample, t time, c channel, x y z space)"
        )
    return _with_channels(found, request.channels)


def _ask_about_last(path: Path, shapes: Mapping[str, Shape], orders: Sequence[str], known: Shape) -> None:
    """Raise an error for an array that fits the coordinates only if its last axis is not space."""
    for name, shape in shapes.items():
        for order in orders:
            if len(shape) == len(known) + 1 and shape[:-1] == tuple(known[SPACE.index(a)] for a in order):
                raise _ask(path, name, shape, [order + "n", order + "c"])


def _grids(readings: Mapping[str, list[str]], shapes: Mapping[str, Shape], space: str) -> list[Shape]:
    """The grids on which every array can be read."""
    each = [{g for way in found if (g := _grid(way, shapes[name], space))} for name, found in readings.items()]
    each = [grids for grids in each if grids]
    return sorted(set.intersection(*each)) if each else []


def _grid(letters: str, shape: Shape, space: str) -> Shape | None:
    if len(letters) != len(shape) or not set(space) <= set(letters):
        return None
    return tuple(shape[letters.index(a)] for a in space)


def _settled(path: Path, name: str, shape: Shape, each: Sequence[str], grids: Sequence[Shape], space: str) -> str:
    """The only reading of an array on one of the grids; if there are two, channels first where that is natural."""
    fitting = [way for way in each if _grid(way, shape, space) in (*grids, None)]
    if len(fitting) > 1 and not (len(shape) == len(space) + 2 and _channels_first_is_natural(shape)):
        raise _ask(path, name, shape, fitting)
    return fitting[0]


def _channels_first_is_natural(shape: Shape) -> bool:
    """Fewer channels than nodes along each axis, and no square grid that channels last would give instead.

    >>> [_channels_first_is_natural(s) for s in ((9, 3, 64, 64), (9, 64, 64, 3), (9, 16, 16, 20))]
    [True, False, False]
    """
    _, channels, *grid = shape
    squarer = len(set(shape[1:-1])) == 1 < len(set(grid))
    return channels < min(grid) and not (squarer and len(grid) > 1)


def _samples_look_last(shape: Shape, space: str) -> bool:
    """Whether the grid is square only if the last axis runs over samples, as in MATLAB's (64, 64, 100)."""
    return len(shape) == len(space) + 1 > 2 and len(set(shape[:-1])) == 1 < len(set(shape))


def _ask(path: Path, name: str, shape: Shape, each: Sequence[str]) -> ValueError:
    words = " or as ".join(f"({', '.join(AXES[a] for a in way)})" for way in each)
    options = " or ".join(f"axes={way}" for way in each)
    if all("c" in way for way in each):
        more = len(shape) - 1
        options = f"channels=first or channels=last (axes={more} if it has {more} spatial axes)"
    return ValueError(f"{path}: {name!r} has shape {shape}, which can be read as {words}; say which with {options}")
