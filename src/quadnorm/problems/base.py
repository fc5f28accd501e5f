"""The base class of problems: a frozen set of parameters that gives the same continuous instances on every grid."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quadnorm._memory import fits, require
from quadnorm._suggest import unknown
from quadnorm.measures.base import whole_number, whole_numbers
from quadnorm.measures.placement import PLACEMENTS, Placements, placement_of, placements_per_axis
from quadnorm.problems.parameters import check_parameters
from quadnorm.problems.solvers.pool import run

if TYPE_CHECKING:
    from quadnorm.problems.cache import Progress

Array = npt.NDArray[Any]
Resolution = int | Sequence[int]
Coordinates = tuple[tuple[str, ...], tuple[int, ...], dict[str, tuple[tuple[str, ...], Array]]]
_CACHED = 2**18  # numbers: 2 MB in double precision


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """A family of PDE instances; each instance is a function on the domain that can be sampled on any grid.

    A subclass defines how instances are made (:meth:`_instances`: draw, solve once) and how they are evaluated on a
    grid (:meth:`_on_grid`). Sampling, streaming in blocks, several resolutions at once and the cache are built on these
    two methods. The spatial axes of every array are (x, y): ``u[..., i, j]`` is u(x_i, y_j).
    """

    placement: Placements = "endpoint"

    version: ClassVar[int] = 1  # raised by one whenever the numbers of the problem's samples change
    source: ClassVar[str | None] = None  # hash of the user's file that defines the problem, if there is one
    name: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]]  # names of the channels of x
    outputs: ClassVar[tuple[str, ...]]  # names of the channels of y
    placements: ClassVar[tuple[str, ...]] = ("endpoint",)  # node placements the problem can be sampled at
    dim: ClassVar[int] = 2
    smallest: ClassVar[int] = 2  # fewest nodes per axis
    block: ClassVar[int] = 16  # samples held in memory at once, and stored in one file of the cache
    stored: ClassVar[Mapping[str, str]] = {}  # dtypes of instance arrays on disk, if they differ from those in memory
    kept: ClassVar[bool] = True  # whether the cache keeps instances; False if they are read from files anyway
    views: ClassVar[tuple[str, ...]] = ("placement",)  # parameters that change the sampling, not the instances

    def __post_init__(self) -> None:
        # Types and ranges are declared with the fields. A subclass checks conditions between several fields in its own
        # __post_init__, after calling this one.
        check_parameters(self)
        self._check_placement()

    def _check_placement(self) -> None:
        if self.placement not in self.placements:
            raise ValueError(f"{self.name}: " + unknown("placement", self.placement, self.placements))

    @abstractmethod
    def _instances(self, indices: Sequence[int], seed: int, workers: int) -> dict[str, Array]:
        """The continuous instances: arrays whose first axis runs over ``indices``, the same for every resolution.

        The bits of a sample must depend on (problem, parameters, seed, index) only, not on the batch or the workers.
        """

    @abstractmethod
    def _on_grid(self, instances: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Input (B, C_in, *shape) and output (B, C_out, *shape) of the instances at the nodes of a grid."""

    def _streams(self, indices: Sequence[int], seed: int, purpose: str = "") -> list[np.random.Generator]:
        return [stream(self.name, seed, i, purpose) for i in indices]

    def sample(
        self,
        indices: Iterable[int] | int,
        resolution: Resolution,
        seed: int = 0,
        *,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """Input and output of the samples ``indices`` (an int n means the first n) at one resolution.

        x is (B, C_in, *resolution) and y is (B, C_out, *resolution), channels named by ``inputs`` and ``outputs``.
        """
        return self.sample_many(indices, [resolution], seed, dtype=dtype, workers=workers)[0]

    def sample_many(
        self,
        indices: Iterable[int] | int,
        resolutions: Sequence[Resolution],
        seed: int = 0,
        *,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
    ) -> list[tuple[Tensor, Tensor]]:
        """The same samples at several resolutions, each instance drawn and solved once."""
        wanted = self.indices(indices)
        blocks = self._blocks(wanted, checked_seed(seed), workers)
        return _gather(self, len(wanted), resolutions, dtype, blocks, workers)

    def batches(
        self,
        indices: Iterable[int] | int,
        resolution: Resolution,
        seed: int = 0,
        *,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Like :meth:`sample`, in batches of at most ``block`` samples: memory does not grow with their number."""
        for instances in self._blocks(self.indices(indices), checked_seed(seed), workers):
            yield _gather(self, _count(instances), [resolution], dtype, [instances], workers)[0]

    def _blocks(self, wanted: Sequence[int], seed: int, workers: int) -> Iterator[dict[str, Array]]:
        for start in range(0, len(wanted), self.block):
            yield self._instances(wanted[start : start + self.block], seed, workers)

    def dataset(
        self,
        indices: Iterable[int] | int,
        resolution: Resolution,
        seed: int = 0,
        *,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Like :meth:`sample`, with the cache on disk: instances made before are read, new ones are stored.

        Arrays listed in ``stored`` have the precision of the disk, which is enough for float32.
        """
        return self.dataset_many(indices, [resolution], seed, dtype=dtype, workers=workers, progress=progress)[0]

    def dataset_many(
        self,
        indices: Iterable[int] | int,
        resolutions: Sequence[Resolution],
        seed: int = 0,
        *,
        dtype: torch.dtype = torch.float32,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> list[tuple[Tensor, Tensor]]:
        """Like :meth:`sample_many`, with the cache on disk."""
        from quadnorm.problems import cache

        wanted = self.indices(indices)
        blocks = cache.instances(self, wanted, checked_seed(seed), workers=workers, progress=progress)
        return _gather(self, len(wanted), resolutions, dtype, blocks, workers)

    def instances(self, indices: Iterable[int] | int, seed: int = 0, *, workers: int = 1) -> dict[str, Array]:
        """The instances as drawn and solved, before sampling: coefficients or fine fields, and the solver's record."""
        return self._instances(self.indices(indices), checked_seed(seed), workers)

    def indices(self, indices: Iterable[int] | int) -> Sequence[int]:
        """The sample indices as a sequence: an int n means the first n."""
        count = whole_number(indices)
        given = range(count) if count is not None else indices
        # Rounding, or reading a boolean mask as 0 and 1, would draw other samples than were meant.
        wanted = given if isinstance(given, range) else whole_numbers(given)
        if not wanted or min(wanted) < 0:
            raise ValueError(
                f"{self.name}: expected at least one sample index, whole numbers and none negative; got {indices!r}. "
                f"Pass a range, such as range(20), or the number of samples"
            )
        return wanted

    def shape(self, resolution: Resolution) -> tuple[int, ...]:
        """The shape of the grid: an int means the same number of nodes on every axis."""
        same = whole_number(resolution)
        given = whole_numbers(resolution) if same is None else [same] * self.dim
        if given is None or len(given) != self.dim or min(given) < self.smallest:
            raise ValueError(
                f"{self.name}: resolution must be an int or {self.dim} ints, each at least {self.smallest}; "
                f"got {resolution!r}"
            )
        return tuple(given)

    def numbers(self, resolution: Resolution) -> int:
        """How many numbers one sample has at a resolution, input and output together."""
        return (len(self.inputs) + len(self.outputs)) * math.prod(self.shape(resolution))

    def nodes(self, resolution: Resolution) -> tuple[npt.NDArray[np.float64], ...]:
        """Coordinates of the nodes, one float64 array per axis."""
        shape = self.shape(resolution)
        names = placements_per_axis(self.placement, self.dim)
        return tuple(placement_of(name).nodes(n).numpy() for name, n in zip(names, shape, strict=True))

    def coordinates(self, resolution: Resolution) -> Coordinates:
        """The dimensions of a field in xarray's sense, their sizes, and coordinates by name with their dimensions."""
        if self.placement == "points":
            return ("point",), self.shape(resolution), {}
        dims = tuple("xyz"[: self.dim])
        nodes = self.nodes(resolution)
        return dims, self.shape(resolution), {d: ((d,), x) for d, x in zip(dims, nodes, strict=True)}

    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        given = {f.name for f in fields(self) if f.init}
        return {name: value for name, value in asdict(self).items() if name in given}

    def key(self) -> str:
        """A text that identifies the instances: the problem and its parameters, without ``views``."""
        named = {name: value for name, value in self.parameters().items() if name not in self.views}
        source = {} if self.source is None else {"source": self.source}
        return json.dumps({"problem": self.name, **source, **named}, sort_keys=True, default=str)

    def check_tests(self) -> None:  # noqa: B027, data that are drawn need no check
        """Raise a ValueError for test data that would otherwise be refused only when a model has been trained."""

    def card(self) -> str:
        """The data card: what is solved, how it is drawn, how accurate it is, what a sample costs."""
        chosen = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.init)
        text = inspect.cleandoc(type(self).__doc__ or "")
        return (
            f"{self.name}: {', '.join(self.inputs)} → {', '.join(self.outputs)}\n\n{text}"
            f"\n\nNodes: {self._nodes_text()}.\nParameters: {chosen}."
        )

    def _nodes_text(self) -> str:
        if isinstance(self.placement, str):
            return f"{self.placement}, {PLACEMENTS[self.placement]}"
        return "; ".join(f"axis {k}: {name}, {PLACEMENTS[name]}" for k, name in enumerate(self.placement))


def stream(problem: str, seed: int, index: int, purpose: str = "") -> np.random.Generator:
    """The generator of one sample of one problem: neither the resolution, nor the other samples of a batch, nor the
    number of workers changes its numbers (counter-based, Philox, with a hash of the arguments as its key).

    ``purpose`` separates quantities of one sample, so that drawing more of one never shifts another.

    >>> first = stream("darcy", seed=0, index=3).standard_normal(2)
    >>> again = stream("darcy", seed=0, index=3).standard_normal(2)
    >>> bool((first == again).all())
    True
    """
    # JSON-like text, not Python's hash(): that one differs from process to process.
    name = f"quadnorm stream 1\0{problem}\0{seed}\0{index}\0{purpose}"
    key = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


def checked_seed(seed: int) -> int:
    """The seed, if it is a nonnegative integer."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a nonnegative integer below 2^63, got {seed!r}")
    return int(seed)


def _count(instances: Mapping[str, Array]) -> int:
    return len(next(iter(instances.values())))


def _gather(
    p: Problem,
    count: int,
    resolutions: Sequence[Resolution],
    dtype: torch.dtype,
    blocks: Iterable[Mapping[str, Array]],
    workers: int,
) -> list[tuple[Tensor, Tensor]]:
    """Sample instances, given block by block, on several grids; memory holds the output and one block."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}; cast afterwards if need be")
    shapes = [p.shape(r) for r in resolutions]
    need = count * dtype.itemsize * sum(map(p.numbers, resolutions))
    what = f"{count} samples of {p.name} at {', '.join(map(str, resolutions))}"
    empty: Callable[..., Tensor] = partial(
        torch.empty, device="cpu"
    )  # they are filled by numpy, whatever the default device
    if not p.kept and not fits(need):  # files may be larger than memory: then the samples are kept on disk
        from quadnorm.problems.cache import spilled

        empty = spilled(need, what)
    else:
        require(need, what)
    tensors = [
        (empty((count, len(p.inputs), *s), dtype=dtype), empty((count, len(p.outputs), *s), dtype=dtype))
        for s in shapes
    ]
    start = 0
    for instances in blocks:
        block = _count(instances)
        jobs = []
        for shape, pair in zip(shapes, tensors, strict=True):
            # A few samples at a time: they stay in the processor's cache until they are cast to the output's dtype.
            step = max(1, _CACHED // (math.prod(shape) * (len(p.inputs) + len(p.outputs))))
            for i in range(0, block, step):
                part = {name: array[i : i + step] for name, array in instances.items()}
                out = tuple(t.numpy()[start + i : start + min(i + step, block)] for t in pair)
                jobs.append(partial(_see, p, part, shape, *out))
        run(jobs, workers)
        start += block
    return tensors


def _see(p: Problem, instances: Mapping[str, Array], shape: tuple[int, ...], x: Array, y: Array) -> None:
    for out, values in zip((x, y), p._on_grid(instances, shape), strict=True):
        with np.errstate(over="ignore", under="ignore"):
            out[...] = values
        if not p.kept and values.dtype.itemsize > out.dtype.itemsize:
            _check_range(p, values, out)


def _check_range(p: Problem, values: Array, out: Array) -> None:
    """Refuse samples whose largest value float32 cannot hold: it would become infinity, or zero."""
    largest = np.abs(np.where(np.isfinite(values), values, 0)).reshape(len(values), -1).max(1, initial=0)
    limits = np.finfo(out.dtype)
    wrong = (largest > limits.max) | ((largest > 0) & (largest < limits.tiny))
    if wrong.any():
        raise ValueError(
            f"{p.name}: values of {largest[wrong][0]:.3g} are out of the range of {out.dtype}, {limits.tiny:.1e} to "
            f"{limits.max:.1e}; store the field in other units, or train with dtype=float64"
        )
