"""From the arrays of a file to fields with named axes and to the coordinates of these axes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from quadnorm.problems.files.axes.coordinates import FileCoordinates
from quadnorm.problems.files.axes.dimensions import check_letters
from quadnorm.problems.files.axes.dimensions import listed as named
from quadnorm.problems.files.axes.request import Item, Request, choose
from quadnorm.problems.files.axes.shared_nodes import nodes_of
from quadnorm.problems.files.axes.unnamed import name_axes
from quadnorm.problems.files.model import SPACE, Field


def as_fields(
    path: Path, items: Mapping[str, Item], request: Request, lines: FileCoordinates
) -> tuple[dict[str, Field], FileCoordinates]:
    """The wanted arrays as fields, and the coordinates of their axes: those of ``lines``, which help to name the axes,
    and those of the arrays' dimensions."""
    listed = request.fields if request.fields is not None and not callable(request.fields) else None
    likely = list(items) if listed else [name for name, i in items.items() if request.is_field(name, i)]
    if not likely:
        raise _no_fields(path, items, request)
    chosen = {name: items[name] for name in choose(path, request.fields, likely)}
    if isinstance(request.axes, str) and all(len(i.shape) != len(request.axes) for i in chosen.values()):
        held = ", ".join(f"{name} {i.shape}" for name, i in chosen.items())
        raise ValueError(f"{path}: axes={request.axes} name {len(request.axes)} axes, which no array has: {held}")
    dims = {name: i.dims for name, i in chosen.items()}
    letters = name_axes(path, {name: i.shape for name, i in chosen.items()}, request, lines, dims)
    for name, i in chosen.items():
        if request.trusting and request.letters(name, len(i.shape)) is not None:
            check_letters(path, name, letters[name], i.dims)
    fields = {name: _field(path, name, i, letters[name]) for name, i in chosen.items()}
    return fields, _with_dimensions(path, letters, chosen, _turned(lines, letters, chosen, request))


def _field(path: Path, name: str, i: Item, letters: str) -> Field:
    first = max(letters.find("n"), 0)  # samples may be stored last, as in MATLAB's (x, y, sample)
    fits = len(letters) == len(i.shape)
    order = letters[first] + letters[:first] + letters[first + 1 :] if fits else letters
    shape = (i.shape[first], *i.shape[:first], *i.shape[first + 1 :]) if fits and i.shape else i.shape
    return Field(name, order, shape, i.along(first if fits else 0), path, i.units)


def _with_dimensions(
    path: Path, letters: Mapping[str, str], chosen: Mapping[str, Item], lines: FileCoordinates
) -> FileCoordinates:
    """Coordinates of the dimensions; of other arrays only for axes that the dimensions do not call something else."""
    nodes = nodes_of(path, letters, {name: i.dims for name, i in chosen.items()})
    if not nodes.words and nodes.times is None:
        return lines
    kept = {a: x for a, x in lines.values.items() if nodes.kinds.get(a) in (None, lines.words.get(a, a))}
    words = {a: word for a, word in lines.words.items() if a in kept}
    return replace(
        lines,
        values=kept | dict(nodes.values),
        words=words | dict(nodes.words),
        times=nodes.times,
        located=nodes.located,
    )


def _turned(
    lines: FileCoordinates, letters: Mapping[str, str], chosen: Mapping[str, Item], request: Request
) -> FileCoordinates:
    """Latitudes and longitudes under the letters that the caller gave: these say where space is, not which axis is the
    latitude. It is the one as long as the latitudes; if both are, the first."""
    space = SPACE[: request.dim]
    given = [name for name in chosen if set(space) <= set(request.letters(name, len(chosen[name].shape)) or "")]
    if not lines.words or not given:
        return lines
    shape, axes = chosen[given[0]].shape, letters[given[0]]
    stored = "".join(a for a in axes if a in SPACE)
    sizes = [shape[axes.index(a)] for a in stored]
    orders = [lines.order] if lines.order else [space, space[::-1]]
    fitting = [o for o in orders if all(lines.counts.get(a, n) == n for a, n in zip(o, sizes, strict=True))]
    order = (fitting or orders)[0]
    new = dict(zip(order, stored, strict=True))
    values = {new[a]: x for a, x in lines.values.items()}
    words = {new[a]: word for a, word in lines.words.items()}
    return replace(lines, values=values, words=words, order=stored, unsure=len(fitting) > 1)


def _no_fields(path: Path, items: Mapping[str, Item], request: Request) -> ValueError:
    held = ", ".join(f"{n} {f'{named(i.dims)} of the sizes ' if i.dims else ''}{i.shape}" for n, i in items.items())
    held = held or "no array of numbers"
    return ValueError(
        f"{path}: no fields found: expected arrays with samples and {request.dim} spatial axes, got {held}. Say how "
        "many spatial axes there are (axes=1, axes=3; dim= of a reader), or name the axes, as in axes=xy for one "
        "sample without a sample axis"
    )
