"""xarray in and out: a model on a DataArray, and the fields of an evaluation as a Dataset with their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quadnorm.measures.data.measure import located
from quadnorm.measures.data.names import kind_of
from quadnorm.problems.base import Problem, Resolution
from quadnorm.problems.points import POINTS, PointFields


def on_array(
    model: Callable[[Tensor], Tensor],
    data: Any,
    dataset: Any = None,
    *,
    dims: Sequence[str] | None = None,
    channel: str | None = None,
    points: bool = False,
    name: str | None = None,
) -> Any:
    """Run a model on a DataArray; the output is a DataArray with the coordinates of the input.

    Args:
        model: any function from (B, C, *spatial) to (B, C', *spatial): trained, anchored, extended, transferred.
        data: a DataArray; its dimensions may come in any order.
        dataset: the Dataset that it is from, as for :func:`quadnorm.measure_of`.
        dims: the dimensions of space, in the order of the model's axes; default as found by ``measure_of``.
        channel: the dimension of channels; default the one that is called so, if any. All others are samples.
        points: the model was trained on points, as data on uneven axes and meshes are: it gets volumes, coordinates and
            fields, (B, 1 + d + C, N).
        name: of the output.

    >>> import xarray
    >>> t = xarray.DataArray(np.ones((3, 2)), {"x": [0.0, 0.5, 1.0], "time": [1, 2]}, ("x", "time"))
    >>> on_array(lambda x: 2 * x, t).sel(time=2).values
    array([2., 2., 2.], dtype=float32)
    """
    found = None if dims is not None and not points else located(data, dataset, dims=dims)
    space = tuple(dims) if dims is not None else found.dims if found is not None else ()
    rest = [str(d) for d in data.dims if d not in space]
    channel = channel or next((d for d in rest if kind_of(d) == "channel"), None)
    samples = [d for d in rest if d != channel]
    ordered = data.transpose(*samples, *([channel] if channel else []), *space)
    shape = tuple(data.sizes[d] for d in space)
    count, channels = prod(data.sizes[d] for d in samples), data.sizes[channel] if channel else 1
    values = np.ascontiguousarray(ordered.values, dtype=np.float32).reshape(count, channels, *shape)
    x = torch.from_numpy(values)
    if points and found is not None:
        x = _packed(x, found)
    with torch.no_grad():
        y = model(x)
    spatial = (prod(shape),) if points else shape
    if not isinstance(y, Tensor) or y.ndim != 2 + len(spatial) or tuple(y.shape[2:]) != spatial or len(y) != count:
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"the model gives {got} for an input of shape {tuple(x.shape)}; expected (B, C, *spatial)")
    return _labelled(y.cpu().numpy(), data, samples, channel, space, name)


def _packed(x: Tensor, found: Any) -> Tensor:
    from quadnorm.problems.files.places import as_places

    places = as_places(found, "the array")
    volumes = torch.from_numpy(places.volumes).float().expand(len(x), -1)
    coordinates = torch.from_numpy(places.coordinates).float().expand(len(x), -1, -1)
    return PointFields(volumes, coordinates, x.flatten(2)).packed()


def _labelled(
    y: np.ndarray, data: Any, samples: Sequence[str], channel: str | None, space: Sequence[str], name: str | None
) -> Any:
    """The output's array (B, C', …) with dimensions and the coordinates that lie on those it kept."""
    import xarray

    out_channel = channel if channel or y.shape[1] == 1 else "channel"
    keeps = channel is None or y.shape[1] == data.sizes[channel]
    names = [*samples, *([out_channel] if out_channel else []), *space]
    sizes = [data.sizes[d] for d in samples] + ([y.shape[1]] if out_channel else []) + [data.sizes[d] for d in space]
    kept = {k: v for k, v in data.coords.items() if set(v.dims) <= set(names) and (keeps or channel not in v.dims)}
    out = xarray.DataArray(y.reshape(sizes), dims=names, coords=kept, name=name or data.name)
    return out.transpose(*data.dims) if set(names) == set(data.dims) else out


def as_dataset(
    p: Problem, resolution: Resolution, fields: Mapping[str, tuple[Tensor, Tensor, Tensor]], indices: Sequence[int]
) -> Any:
    """The fields of an evaluation as an xarray Dataset: ``input`` and ``truth`` (sample, *space), ``prediction`` (way,
    sample, *space), each with an axis of channels if there are several; points have their ``volume``.

    ``fields``: name of the way → input, truth and prediction (n, C, *grid). Coordinates are those of the problem's
    files, and else of its nodes.

    >>> from quadnorm.problems import problem
    >>> p = problem("poisson")
    >>> x, y = p.sample(range(2), 5)
    >>> as_dataset(p, 5, {"zero": (x, y, 0 * y)}, range(2)).truth.sel(sample=1, x=0.5).dims
    ('y',)
    """
    import xarray

    dims, shape, coordinates = p.coordinates(resolution)
    x, y, _ = next(iter(fields.values()))
    out = xarray.Dataset(coords={"sample": list(indices), "way": list(fields), **coordinates})
    inputs = p.inputs
    if p.placement == POINTS:  # where they are is known, or else different in every sample
        out["volume"] = (("sample", *dims), x[:, 0].reshape(len(x), *shape).numpy())
        if not coordinates:
            places = {name: (("sample", *dims), x[:, 1 + k].numpy()) for k, name in enumerate(inputs[1 : 1 + p.dim])}
            out = out.assign_coords(places)
        x, inputs = x[:, 1 + p.dim :], inputs[1 + p.dim :]
    prediction = torch.stack([field for _, _, field in fields.values()])
    for name, values, names in (("input", x, inputs), ("truth", y, p.outputs), ("prediction", prediction, p.outputs)):
        before = ("way", "sample") if name == "prediction" else ("sample",)
        channel = "input_channel" if name == "input" else "channel"
        several = values.shape[len(before)] > 1
        sizes = (*values.shape[: len(before) + several], *shape)
        out[name] = ((*before, *([channel] if several else []), *dims), values.reshape(sizes).numpy())
        if several:
            out = out.assign_coords({channel: list(names)})
    return out
