"""Adapted models in small files: how a model was adapted. Its weights stay in the user's own checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from quadnorm._suggest import unknown
from quadnorm.adapt.adapted import SAVED, Adapted, shapes_of
from quadnorm.adapt.anchoring import anchor
from quadnorm.adapt.extending import extend
from quadnorm.adapt.native import at_native
from quadnorm.adapt.transferred import again

WAYS = {"anchor": anchor, "extend": extend, "at_native": at_native, "transfer": again}


def load_adapted(path: str | Path, model: nn.Module, *, example: Any = None) -> Adapted:
    """The model, adapted as the file says that ``adapted.save(path)`` wrote.

    Args:
        path: the file.
        model: the model that was adapted, its weights loaded.
        example: an input at the training grid, if random numbers of the saved shapes are no input for the model.

    Raises:
        ValueError: if the file is of another kind, or was written for a model with other parameters.

    >>> import tempfile, quadnorm as qn
    >>> model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     qn.extend(model, 9, "endpoint").save(f"{folder}/adapted.json")
    ...     again = load_adapted(f"{folder}/adapted.json", model)
    >>> again.resolution, again.placements
    ((9,), ('endpoint',))
    """
    saved = _read(Path(path))
    _check_model(saved["state"], shapes_of(model), str(path))
    adapted: Adapted = adapted_as(saved, model, example)
    return adapted


def adapted_as(saved: Mapping[str, Any], model: nn.Module, example: Any = None) -> Any:
    """The model, adapted as :meth:`Adapted.saved` says."""
    if example is None and saved["example"] is not None:
        device = next((p.device for p in model.parameters()), None)
        random = torch.Generator("cpu").manual_seed(0)  # the caller's random numbers stay as they are
        numbers = (torch.randn(shape, generator=random, device="cpu") for shape, _ in saved["example"])
        dtypes = (getattr(torch, dtype) for _, dtype in saved["example"])
        example = tuple(x.to(device, dtype) for x, dtype in zip(numbers, dtypes, strict=True))
    make: Any = WAYS[saved["way"]]
    grid = (tuple(v) if isinstance(v, list) else v for v in (saved["resolution"], saved["placements"]))
    return make(model, *grid, layout=saved["layout"], example=example, **saved["options"])


def _read(path: Path) -> dict[str, Any]:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path} is not JSON ({error}); expected a file that adapted.save(path) wrote") from error
    if not isinstance(saved, dict) or saved.get("format") != SAVED:
        raise ValueError(f"{path} does not say how a model was adapted; expected a file that adapted.save(path) wrote")
    missing = {"way", "resolution", "placements", "layout", "options", "example", "state"} - saved.keys()
    if missing:
        raise ValueError(f"{path} has no {', '.join(sorted(missing))}; it was cut off, or edited")
    if saved["way"] not in WAYS:
        raise ValueError(f"{path}: " + unknown("way to adapt a model", str(saved["way"]), WAYS))
    return saved


def _check_model(saved: dict[str, Any], own: dict[str, list[int]], path: str) -> None:
    """Refuse a model with other parameters than the one that was adapted."""
    if saved == own:
        return
    differ = [f"{n} {saved[n]} → {own[n]}" for n in saved if n in own and saved[n] != own[n]]
    lacks, more = ([n for n in a if n not in b] for a, b in ((saved, own), (own, saved)))
    parts = [("other shapes", differ), ("missing", lacks), ("not in the file", more)]
    text = "; ".join(f"{what}: {', '.join(names[:3])}{', …' * (len(names) > 3)}" for what, names in parts if names)
    raise ValueError(f"{path} was written for another model ({text}); pass the model that was adapted")
