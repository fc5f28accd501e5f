"""The ways to use a trained model at another grid, and their names in records."""

from __future__ import annotations

from collections.abc import Iterable

from quadnorm._ways import WAYS

AS_TRAINED, ANCHORED, EXTENDED, NATIVE, TRANSFERRED = WAYS

# Way → names of its evaluations in records.
NAMES: dict[str, tuple[str, ...]] = {
    AS_TRAINED: ("as-trained",),
    ANCHORED: ("anchored", "anchor-all"),
    EXTENDED: ("extended",),
    NATIVE: ("native",),
    TRANSFERRED: ("transferred",),
}
TITLES = {
    **{name: way.title for name, way in WAYS.items()},
    "anchor-norms": "norms anchored",
    "anchor-kernels": "all sums but the norms' anchored",
    "native-fourier": f"{WAYS[NATIVE].title}, zero-padded",
    "crop-pad": "fixed band",
    "bicubic": "bicubic data",
}


def way_of(evaluation: str) -> str | None:
    """The way that an evaluation belongs to, or None.

    >>> way_of("anchor-all"), way_of("crop-pad")
    ('anchored', None)
    """
    return next((way for way, names in NAMES.items() if evaluation in names), None)


def evaluation_for(way: str, evaluations: Iterable[str]) -> str | None:
    """The one of these evaluations that belongs to a way, or None.

    >>> evaluation_for("anchored", ["as-trained", "anchor-all"])
    'anchor-all'
    """
    return next((name for name in evaluations if name in NAMES[way]), None)


def way_title(evaluation: str) -> str:
    """The name of an evaluation for readers.

    >>> way_title("anchor-all"), way_title("crop-pad")
    ('anchored', 'fixed band')
    """
    return TITLES.get(way_of(evaluation) or evaluation, evaluation)
