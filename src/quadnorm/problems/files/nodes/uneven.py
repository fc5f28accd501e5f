"""Say which axes of a file are not equispaced, and what can be done."""

import numpy as np

from quadnorm.measures.data.placements import LATITUDE, gaussian
from quadnorm.problems.files.model import SPACE, FieldFile


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
