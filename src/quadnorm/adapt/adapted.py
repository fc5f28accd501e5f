"""The module that the ways to another grid return: it runs a captured graph for every kind of input."""

from __future__ import annotations

import inspect
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from quadnorm import _torch
from quadnorm._files import write_atomic
from quadnorm._tensors import is_plain
from quadnorm.adapt.graphs.capture import Obstacle
from quadnorm.adapt.graphs.kinds import LOCK, Graphs
from quadnorm.adapt.graphs.passes import plain_module
from quadnorm.adapt.graphs.proof import difference_of, with_gradients
from quadnorm.adapt.graphs.real_pairs import NotInRealPairsError, in_real_pairs
from quadnorm.adapt.planning.plan import input_kind
from quadnorm.adapt.trees import as_arguments, mapped, tensors
from quadnorm.adapt.watching.layouts import grid_of_inputs, needs_grid, regridded
from quadnorm.adapt.watching.patches import is_watched
from quadnorm.adapt.watching.watch import OutOfStepError
from quadnorm.measures.base import Shape

SAVED = "quadnorm adapted model 1"  # the kind of file, and its version


class _Trial(threading.local):
    """Whether this thread tries adapted models out, a few calls of each kind: graphs would not pay."""

    active = False


_TRIAL = _Trial()


@contextmanager
def trial() -> Iterator[None]:
    """For functions that look at models and try them out: one at a time, adapted models steered at every call."""
    _torch.require("adapting a model")
    with LOCK:
        before, _TRIAL.active = _TRIAL.active, True
        try:
            yield
        finally:
            _TRIAL.active = before


class Adapted(nn.Module, ABC):
    """A model on any grid. At its training grid the model itself runs, elsewhere a graph of its steered run.

    A graph is captured at the first call with a kind of input: grid, dtype, device, training mode, autocast, gradients;
    it serves all batches. Where a run cannot be captured (:class:`~quadnorm.adapt.graphs.capture.Obstacle`), the model
    is steered at every call, which is slower; that is logged and noted in the report, once.

    A way implements :meth:`plan_for`, which looks at the model, and :meth:`steered`, one run. Both are given the model:
    it may be a twin of ``self.model``. The names in the ``state_dict`` are the model's own.
    """

    way = ""  # the function of quadnorm that makes it

    def __init__(self, model: nn.Module, resolution: Shape, placements: tuple[str, ...], layout: str) -> None:
        super().__init__()
        self.model = model
        self.resolution, self.placements, self.layout = resolution, placements, layout
        self.example: Any = None  # (args, kwargs) on the training grid
        self._graphs = Graphs()
        self.register_state_dict_post_hook(_to_original_names)
        self.register_load_state_dict_pre_hook(_from_original_names)

    # --- what a way implements ---------------------------------------------------------------------------------------

    @abstractmethod
    def plan_for(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> Any:
        """What a steered run needs to know of the model, for arguments of this kind on the grid ``shape``."""

    def steering_plan(self, model: nn.Module, args: Any, kwargs: Any, shape: Shape) -> Any:
        """The same for :meth:`steered`, which may need none."""
        return self.plan_for(model, args, kwargs, shape)

    @abstractmethod
    def steered(self, model: nn.Module, plan: Any, args: Any, kwargs: Any, shape: Shape) -> Any:
        """The output on the grid ``shape``. May be recorded: no values are read, no batches compared."""

    def at_training_grid(self, args: Any, kwargs: Any) -> Any:
        """The model itself."""
        return self.model(*args, **kwargs)

    def grid_of(self, args: Any, kwargs: Any, grid: Shape | None = None) -> Shape:
        """The grid of the inputs; ``grid`` is needed for tokens on two or more axes."""
        return grid_of_inputs(args, kwargs, len(self.resolution), self.layout, grid)

    def kind_of(self, args: Any, kwargs: Any, shape: Shape | None) -> Hashable:
        """What one plan serves: inputs of a kind, on any grid."""
        return input_kind(self.model, args, kwargs)

    def options(self) -> dict[str, Any]:
        """What else the way needs to adapt the model in the same manner, in the words of JSON."""
        return {}

    # --- calls -------------------------------------------------------------------------------------------------------

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *args: Any, grid: Shape | None = None, **kwargs: Any) -> Any:
        """The model's arguments on any grid; ``grid`` is needed for tokens on two or more axes."""
        shape = self.grid_of(args, kwargs, grid)
        if shape == self.resolution:
            return self.at_training_grid(args, kwargs)
        given = tensors((args, kwargs))
        if any(t.is_meta or 0 in t.shape for t in given):
            return self.at_training_grid(args, kwargs)  # no values, or no samples: no sums
        if _TRIAL.active or not is_plain(*given) or is_watched():
            return self.run_steered(args, kwargs, shape)
        return self._graphs.run(self, args, kwargs, shape)

    def run_steered(self, args: Any, kwargs: Any, shape: Shape) -> Any:
        """The output without a graph."""
        with LOCK:
            plans, key = self._graphs.plans, self.kind_of(args, kwargs, shape)
            if key in plans:
                try:
                    return self.steered(self.model, plans[key], args, kwargs, shape)
                except OutOfStepError:  # another branch, or another number of steps: look again
                    del plans[key]
            plans[key] = self.steering_plan(self.model, args, kwargs, shape)
            return self.steered(self.model, plans[key], args, kwargs, shape)

    def plan(self, args: Any, kwargs: Any, shape: Shape | None = None, again: bool = False) -> Any:
        """The plan of the model; made once for each kind of input, or ``again``. Default grid: the training grid."""
        plans, key = self._graphs.plans, self.kind_of(args, kwargs, shape)
        if again or plans.get(key) is None:
            plans[key] = self.plan_for(self.model, args, kwargs, shape or self.resolution)
        return plans[key]

    def at(self, grid: int | Sequence[int], *, batch: int | None = None, example: Any = None) -> fx.GraphModule:
        r"""The plain module of one grid: an ``fx`` graph with the model's parameters, and no code of the model or ours.

        It compiles (``torch.compile``), exports (``torch.export``, ``torch.onnx``) and is traced by ``torch.jit``. Its
        batch is free unless ``batch`` fixes it. Parameters are shared with the model, and have its names. Complex
        arithmetic is done in pairs of real numbers where all of its operations are known, Fourier transforms by
        matrices, so that it exports to runtimes without complex numbers. Should the example's output or derivatives
        not be the same in pairs, it stays complex.

        Args:
            grid: samples per axis.
            batch: a fixed batch, for a model that does different things for different batches.
            example: arguments on any grid, as for :func:`quadnorm.extend`; default those that the model was recorded
                with. Their dtype, channels and further arguments are the module's.

        Raises:
            CannotCaptureError: if the model cannot be captured; the error says why.

        >>> from quadnorm import extend
        >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
        >>> everywhere = extend(model, 9, "endpoint")
        >>> plain, x = everywhere.at(17), torch.randn(5, 1, 17)
        >>> torch.allclose(plain(x), everywhere(x), atol=1e-6), list(plain.state_dict()) == list(model.state_dict())
        (True, True)
        """
        d = len(self.resolution)
        shape = (grid,) * d if isinstance(grid, int) else tuple(grid)
        if len(shape) != d or any(n < 1 for n in shape):
            raise ValueError(f"the model has {d} spatial axes, got the grid {grid}; give one number, or one for each")
        if example is None and self.example is None:
            raise ValueError("the module of one grid needs an example of the model's input; pass example=")
        args, kwargs = self.example if example is None else as_arguments(example)
        given = mapped(Tensor.detach, (args, kwargs))
        old = self.grid_of(args, kwargs, self.resolution if needs_grid(self.layout, d) else None)
        args, kwargs = given = self.regridded(given, old, shape)
        graph, proven = self._graphs.plain_graph(self, args, kwargs, shape, batch)
        if batch is None and graph.comparisons:
            raise ValueError(
                f"the model does different things for different batches ({'; '.join(graph.comparisons)}); pass batch=, "
                "and use one module for each"
            )
        name = f"{type(self.model).__name__}At{'x'.join(map(str, shape))}"

        def plain_copy() -> fx.GraphModule:
            names = _input_names(self.model, given)
            return plain_module(graph.module, graph.state, self.model, names, graph.output, name)

        plain = plain_copy()
        try:
            pairs = in_real_pairs(plain_copy())  # it takes over the constants of the one that it is given
        except NotInRealPairsError:
            return plain
        with torch.enable_grad():
            inputs = tensors(with_gradients(proven))
            differs = difference_of(lambda: plain(*inputs), lambda: pairs(*inputs), inputs, [*plain.parameters()])
        return plain if differs else pairs

    def save(self, path: str | Path) -> None:
        """Write how the model was adapted as a small JSON file; the weights stay in the model's own checkpoint.

        :func:`quadnorm.load_adapted` reads it, given the model.
        """
        path = Path(path)
        if path.suffix != ".json":
            raise ValueError(f"an adapted model is saved as JSON, got {path.name!r}; name it {path.stem}.json")
        write_atomic(path, json.dumps(self.saved(), indent=1), "the adapted model")

    def saved(self) -> dict[str, Any]:
        """What :meth:`save` writes."""
        args, kwargs = self.example or ((), {})
        plain = bool(args) and not kwargs and all(isinstance(a, Tensor) for a in args)
        return {
            "format": SAVED,
            "way": self.way,
            "resolution": self.resolution,
            "placements": self.placements,
            "layout": self.layout,
            "options": self.options(),
            "example": [[list(a.shape), str(a.dtype).removeprefix("torch.")] for a in args] if plain else None,
            "versions": {"quadnorm": version("quadnorm"), "torch": torch.__version__},
            "state": shapes_of(self.model),
        }

    def forget(self) -> None:
        """Drop plans and graphs; the next call makes them anew."""
        self._graphs = Graphs()

    def regridded(self, arguments: Any, old: Shape, new: Shape, method: str = "cubic") -> Any:
        """The fields among the arguments on another grid."""
        return regridded(arguments, old, new, self.placements, self.layout, method)

    @property
    def obstacles(self) -> dict[Obstacle, str]:
        """Why calls so far had to be steered, if some had."""
        return dict(self._graphs.obstacles)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_graphs": Graphs()}

    def extra_repr(self) -> str:
        """The grid."""
        return f"resolution={self.resolution}, placement={self.placements}, layout={self.layout!r}"


def shapes_of(model: nn.Module) -> dict[str, list[int]]:
    """The shape of each tensor of a model's state, by its name."""
    return {name: list(t.shape) for name, t in state_names(model).items()}


def _input_names(model: nn.Module, arguments: Any) -> list[str]:
    """Names for the tensors among arguments: those of the model's forward where they are arguments themselves."""
    args, kwargs = arguments
    parameters = inspect.signature(model.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found: list[str] = []
    for k, (name, value) in enumerate((*zip(chain(names, repeat("")), args, strict=False), *kwargs.items())):
        many = tensors(value)
        found += [name or f"x{k}"] if many == [value] else [f"{name or 'x'}_{i}" for i in range(len(many))]
    return found


# --- names in the state ----------------------------------------------------------------------------------------------


def _to_original_names(module: nn.Module, state: Any, prefix: str, local_metadata: Any) -> None:
    """State-dict hook: ``model.name`` → ``name``."""
    inner = f"{prefix}model."
    for key in [k for k in state if k.startswith(inner)]:
        state[prefix + key.removeprefix(inner)] = state.pop(key)
    metadata = getattr(state, "_metadata", None)
    if metadata is not None:
        for key in [k for k in metadata if f"{k}.".startswith(inner)]:
            metadata[f"{prefix}{f'{key}.'.removeprefix(inner)}".removesuffix(".")] = metadata.pop(key)


def _from_original_names(module: nn.Module, state: Any, prefix: str, *others: Any) -> None:
    """Load-state-dict hook: ``name`` → ``model.name``; names as they once were saved, with ``model.``, stay."""
    own = set(state_names(module.model))  # type: ignore[arg-type]
    for key in [k for k in state if k.startswith(prefix)]:
        name = key.removeprefix(prefix)
        if name in own or not (name.startswith("model.") and name.removeprefix("model.") in own):
            state[f"{prefix}model.{name}"] = state.pop(key)
    module.forget()  # type: ignore[operator] # plans hold fields that were computed from parameters


def state_names(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model's state by name."""
    return {name: t for name, t in model.state_dict(keep_vars=True).items() if isinstance(t, Tensor)}
