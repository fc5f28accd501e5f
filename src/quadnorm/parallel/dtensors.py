"""DTensors in, DTensors out: what their placements say of the split, and local tensors between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Size, Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from quadnorm.parallel.split import Part, Split


@dataclass(frozen=True)
class Layout:
    """How a DTensor input was laid out; the output is laid out alike."""

    mesh: DeviceMesh
    placements: tuple[Any, ...]
    batch: int  # of all data ranks together
    spatial: tuple[int, ...]
    first: int  # the first spatial dimension


def entered(
    split: Split, args: tuple[Any, ...], kwargs: dict[str, Any], first: int, grid: tuple[int, ...] | None = None
) -> tuple[Layout | None, Part, tuple[Any, ...], dict[str, Any]]:
    """The layout of a DTensor input (None for local tensors), this rank's part, and the arguments as local tensors.

    ``first`` is the first spatial dimension of the input; ``grid`` the whole grid's shape, of samples in a row.
    """
    x = args[0] if args else next(iter(kwargs.values()))
    if not isinstance(x, Tensor):
        raise TypeError(f"expected this rank's samples as the first argument, a tensor, got {type(x).__name__}")
    last = 1 if first == 1 else 0  # channels last
    if not isinstance(x, DTensor):
        local = tuple(x.shape[first : x.ndim - last])
        part = split.resolve(local) if grid is None else split.part_of(grid)
        return None, part, tuple(map(_local, args)), {k: _local(v) for k, v in kwargs.items()}
    if grid is not None:
        raise ValueError("samples in a row come as local tensors: a DTensor would cut the rows anywhere")
    spatial = tuple(x.shape[first : x.ndim - last])
    _check(split, x, first, len(spatial))
    layout = Layout(x.device_mesh, tuple(x.placements), x.shape[0], spatial, first)
    part = split.part_of(spatial, [None] * len(split.axes))
    return layout, part, tuple(map(_local, args)), {k: _local(v) for k, v in kwargs.items()}


def _local(value: Any) -> Any:
    return value.to_local() if isinstance(value, DTensor) else value


def left(y: Any, layout: Layout | None) -> Any:
    """The output as a DTensor, if the input was one."""
    if layout is None or not isinstance(y, Tensor):
        return y
    channels = y.shape[1] if layout.first == 2 else y.shape[-1]
    if layout.first == 2:
        shape: tuple[int, ...] = (layout.batch, channels, *layout.spatial)
    else:
        shape = (layout.batch, *layout.spatial, channels)
    stride: list[int] = []
    step = 1
    for n in reversed(shape):
        stride.insert(0, step)
        step *= n
    return DTensor.from_local(
        y.contiguous(), layout.mesh, layout.placements, run_check=False, shape=Size(shape), stride=tuple(stride)
    )


def _check(split: Split, x: DTensor, first: int, ndim: int) -> None:
    names = x.device_mesh.mesh_dim_names
    mine = None if split.mesh is None else split.mesh.mesh_dim_names
    axes = {first + a for a in split._axes(ndim)}
    mesh_dims: dict[int, int] = {}
    for k, p in enumerate(x.placements):
        if isinstance(p, Shard) and p.dim in axes:
            mesh_dims[p.dim] = k
        elif not (isinstance(p, Replicate) or (isinstance(p, Shard) and p.dim == 0)):
            raise ValueError(
                f"a DTensor placed {tuple(x.placements)} cannot be taken: along space it must be cut by Shard"
            )
    if set(mesh_dims) != axes:
        raise ValueError(
            f"the model is split along dimension{'s' * (len(axes) > 1)} {sorted(axes)} of its input, the DTensor has "
            f"the placements {tuple(x.placements)}; use distribute_tensor(x, mesh, [Shard({min(axes)})])"
        )
    if names is not None and mine is not None and any(names[k] not in mine for k in mesh_dims.values()):
        raise ValueError(
            f"the DTensor is cut over {[names[k] for k in mesh_dims.values()]}, the model over {list(mine)}"
        )
