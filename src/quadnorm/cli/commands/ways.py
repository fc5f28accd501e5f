"""The ways to use a trained model at another grid, side by side: ``quadnorm eval RUN --how all``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from quadnorm._suggest import unknown
from quadnorm._text import one_line
from quadnorm._ways import WAYS
from quadnorm.adapt import CannotFollowError
from quadnorm.adapt.transferred import Transferred
from quadnorm.cli.terminal import note
from quadnorm.lab.studies.evaluate import ESTIMATED, predictor
from quadnorm.lab.studies.study import ANCHORED, EXTENDED, NATIVE, TRANSFERRED
from quadnorm.problems import Problem
from quadnorm.problems.points import POINTS
from quadnorm.training import TrainConfig
from quadnorm.training.data import Grid, problem_of, samples, settled, viewed
from quadnorm.training.evaluation import Errors, Fields, evaluate_model

_ROUTES = {"transferred": TRANSFERRED, "anchored": ANCHORED, "extended": EXTENDED, "native": NATIVE}


def chosen_ways(text: str) -> list[str]:
    """The ways that a comma-separated list names.

    >>> chosen_ways("as-trained, native")
    ['as-trained', 'native']
    """
    names = list(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in WAYS:
            raise ValueError(unknown("way to use a model at another grid", name, WAYS))
    return names or ["transferred"]


def errors_by_way(
    model: nn.Module,
    config: TrainConfig,
    grids: Sequence[Grid] | None,
    ways: Sequence[str],
    given: Mapping[Any, Callable[[Tensor], Tensor]] | None = None,
    on_progress: Callable[[str, Grid], None] | None = None,
    fields: dict[str, dict[Grid, Fields]] | None = None,
    **options: Any,
) -> dict[str, list[Errors]]:
    """Errors at each grid for each way; ``options`` go to :func:`~quadnorm.training.evaluate_model`.

    A way in which the model does not run at a grid, though in another it does, has no errors there; a note says why.
    ``given`` has the adapted models that there are already, by way; ``on_progress`` is called after each way and grid;
    ``fields`` is filled with input, truth and prediction by way and grid, if it is given.
    """
    view: Mapping[str, Any] = options.get("view") or {}
    p = viewed(problem_of(config), view)
    if p.placement == POINTS and any(way != "as-trained" for way in ways):
        raise ValueError(f"{p.name} has its samples on meshes; there a model is evaluated as trained")
    wanted = grids or settled(config, p).test_resolutions

    ready = dict(given or {})

    def at(way: str, n: Grid) -> Errors:
        try:
            use = ready.get(way) or _predict(model, config, p, way, n)
            if isinstance(use, Transferred):
                ready[way] = use  # one module for every grid
                use.estimate(samples(config, options.get("split", "test"), [n], p)[n][0][:ESTIMATED])
            kept = None if fields is None else fields.setdefault(way, {})
            return evaluate_model(use, config, [n], fields=kept, **options).grids[0]
        except CannotFollowError as error:
            others = ",".join(other for other in ways if other != way) or "as-trained"
            raise ValueError(f"--how {way}: this model cannot be used so ({error}); try --how {others}") from error

    errors: dict[str, list[Errors]] = {way: [] for way in ways}
    for n in wanted:
        refused: dict[str, Exception] = {}
        for way in ways:
            try:
                errors[way].append(at(way, n))
            except (ValueError, RuntimeError) as error:
                if isinstance(error.__cause__, CannotFollowError):
                    raise
                refused[way] = error  # the model's own, as of a grid with too few samples for its waves
            if on_progress is not None:
                on_progress(way, n)
        if len(refused) == len(ways):
            raise next(iter(refused.values()))
        for way, error in refused.items():
            note(f"{WAYS[way].title}: the model does not run at {n} ({one_line(error)})")
    return errors


def _predict(model: nn.Module, config: TrainConfig, p: Problem, way: str, grid: Grid) -> Callable[[Tensor], Tensor]:
    model.eval()
    if way == "as-trained":
        return model
    return predictor(model, config, _ROUTES[way], p, p.shape(grid))
