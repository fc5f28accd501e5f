"""Settle where the nodes of one axis lie: the file, its layout and the caller must agree and leave one placement."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from quadnorm.measures.data.placements import (
    LATITUDE,
    LONGITUDE,
    Domain,
    gaussian,
    likely,
    nodes,
    on_earth,
    readings,
    spacing,
    spans,
    unwrapped,
    whole_circle,
)
from quadnorm.problems.files.model import SPACE, FieldFile

_ANY_PLACEMENT = "placement= ('endpoint', 'cell', 'periodic', 'left', 'interior')"


@dataclass(frozen=True)
class StoredAxis:
    """One axis as described by the file, its layout and the caller; they must agree, and determine the placement."""

    path: Path
    letter: str
    count: int
    coordinates: np.ndarray | None
    want: str | None  # the caller's placement
    domain: Domain | None  # the caller's domain
    known: str | None  # the layout's placement
    word: str = ""  # the axis's name, if it has one besides its letter

    @property
    def title(self) -> str:
        """The axis in messages."""
        return f"axis {self.letter} ({self.word})" if self.word not in ("", self.letter) else f"axis {self.letter}"

    def settled(self) -> tuple[str, np.ndarray, Domain]:
        """Placement, nodes and domain."""
        placement = self.want or self.known
        if self.coordinates is None:
            return self._by_placement(placement)
        x = self._checked(self.coordinates)
        if x.size > 1 and x[0] > x[-1]:  # as latitudes from north to south; the axis begins at its first node
            mirrored = replace(self, coordinates=-x, domain=self.domain and (-self.domain[1], -self.domain[0]))
            placement, _, (lo, hi) = mirrored.settled()
            return placement, x, (-hi, -lo)
        even = self._even(x)
        if placement == "coordinates" or (placement is None and not even):
            return "coordinates", x, self.domain or (float(x[0]), float(x[-1]))
        possible = readings(x, self.domain) if even else {}
        if placement is None:
            return self._only(x, on_earth(self.word, x, possible, None if self.domain else likely(x)))
        if placement == "periodic" and "periodic" not in possible and "cell" in possible:
            return placement, x, possible["cell"]  # on a circle no node is the first: cell centres are periodic too
        if placement in possible:
            return placement, x, possible[placement]
        if placement == "periodic" and self.word == LONGITUDE and whole_circle(x):
            return placement, x, spans(x)["periodic"]
        if possible or self.domain is not None or not even:
            raise self._contradiction(x, placement, possible)
        return placement, x, spans(x)[placement]  # no domain with round ends fits, so nothing contradicts the placement

    def _even(self, x: np.ndarray) -> bool:
        return spacing(x) is not None and not (self.word == LATITUDE and gaussian(x))

    def _by_placement(self, placement: str | None) -> tuple[str, np.ndarray, Domain]:
        if placement is None or placement == "coordinates":
            raise ValueError(
                f"{self.path}: the file does not say where the {self.count} nodes of {self.title} lie; pass "
                "placement='endpoint' (both ends stored), 'cell' (centres of cells), 'periodic' or 'left' (first end "
                "stored, last not), 'interior' (neither end stored)"
            )
        ends = self.domain or (0.0, 1.0)
        return placement, nodes(placement, self.count, ends), ends

    def _checked(self, coordinates: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(coordinates):
            raise ValueError(f"{self.path}: coordinates of {self.title} must be real, got complex numbers")
        x = np.asarray(coordinates, dtype=np.float64)
        x = unwrapped(x) if self.word == LONGITUDE else x
        if x.shape != (self.count,):
            raise ValueError(
                f"{self.path}: {self.title} has {self.count} nodes, its coordinates have shape {x.shape}; if "
                "they are no coordinates, pass ignore_coordinates=true and placement="
            )
        steps = np.diff(x)
        if not np.isfinite(x).all() or not ((steps > 0).all() or (steps < 0).all()):
            raise ValueError(
                f"{self.path}: coordinates of {self.title} must be finite, and increasing or decreasing; if "
                "they are no coordinates, pass ignore_coordinates=true and placement="
            )
        return x

    def _only(self, x: np.ndarray, possible: Mapping[str, Domain]) -> tuple[str, np.ndarray, Domain]:
        if len(possible) == 1:
            ((placement, ends),) = possible.items()
            return placement, x, ends
        listed = " or ".join(f"placement={p!r}" for p in possible)
        problem = (
            "do not say where the axis ends" if self.domain is None else f"are nodes of no placement on {self.domain}"
        )
        if possible:
            problem = "can be read in more than one way"
        raise ValueError(
            f"{self.path}: coordinates of {self.title}, {self.count} from {x[0]:.6g} to {x[-1]:.6g}, {problem}; "
            f"pass {listed or _ANY_PLACEMENT}, or domain=(lo, hi), the ends of the axis"
        )

    def _contradiction(self, x: np.ndarray, placement: str, possible: Mapping[str, Domain]) -> ValueError:
        source = "you said" if self.want else "the layout says"
        seen = " or ".join(possible) if possible else "no such nodes"
        seen = seen if self._even(x) else "not equispaced"
        return ValueError(
            f"{self.path}: {source} that {self.title} is {placement!r}, but its {self.count} coordinates "
            f"{x[0]:.6g} … {x[-1]:.6g} are {seen}{'' if self.domain is None else f' of {self.domain}'}; if the "
            "coordinates are wrong, pass placement= and ignore_coordinates=True, if the domain is another one, pass "
            "domain=(lo, hi)"
        )


def uneven(file: FieldFile) -> str:
    """The axes of a file whose nodes are not equispaced, in words; empty if there are none."""
    return " and ".join(
        _axis(word, x)
        for word, x, placement in zip(file.words or SPACE, file.coordinates, file.placement, strict=False)
        if placement == "coordinates"
    )


def _axis(word: str, x: np.ndarray) -> str:
    if x.size < 2:
        return f"{word}, a single node at {x[0]:.6g}"
    kind = "Gaussian latitudes" if word == LATITUDE and gaussian(x) else "nodes"
    steps = np.abs(np.diff(x))
    return (
        f"{word}, {len(x)} {kind} from {x[0]:.6g} to {x[-1]:.6g} with steps between {steps.min():.6g} and "
        f"{steps.max():.6g}"
    )
