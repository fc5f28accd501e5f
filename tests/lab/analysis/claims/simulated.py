"""Records that are never written: a library whose errors are drawn from a law that the test knows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from quadnorm.lab.analysis.results import RecordedRun, Results
from quadnorm.lab.studies import study, study_names
from quadnorm.lab.studies.study import Method, Run, Study, Variant

# (study, variant at the paper's size, row, way, the paper's grid, a number per seed) -> errors of all seeds in per cent
Law = Callable[[str, Variant, Method, str, int, np.ndarray], Any]


@dataclass
class Simulated:
    """Stands in for a Library: every study at the desk preset with these seeds, drawn when it is first asked for.

    ``share``: of the variance that all rows of a seed have in common, as paired runs do.
    """

    law: Law
    rng: np.random.Generator
    seeds: int | None = 3
    share: float = 0.5
    alpha: Callable[[np.ndarray], np.ndarray] | None = None
    memo: dict[Any, Any] = field(default_factory=dict)

    def comparable(self, name: str) -> Results:
        if name not in self.memo:
            self.memo[name] = self._draw(name)
        return self.memo[name]

    results = comparable

    def all_comparable(self):
        return (self.comparable(name) for name in study_names())

    def _draw(self, name: str) -> Results:
        full, s = _planned(name)
        count = self.seeds or len(full.seeds)
        errors, runs = {}, []
        for v, there in zip(s.variants, full.variants, strict=True):
            common = self.rng.standard_normal(count)
            for m in v.methods:
                own = self.rng.standard_normal(count)  # of the trained model: the same at all grids but for a little
                for way in s.evaluations:
                    for n, printed in zip(v.test, there.test, strict=True):
                        z = np.sqrt(self.share) * common + np.sqrt(1 - self.share) * (
                            0.9 * own + np.sqrt(1 - 0.81) * self.rng.standard_normal(count)
                        )
                        values = self.law(name, there, m, way.name, printed, z)
                        errors[v.name, m.label, way.name, n] = dict(enumerate(np.broadcast_to(values, count).tolist()))
                if self.alpha is not None and "learned" in m.norm:
                    for seed, a in enumerate(self.alpha(self.rng.standard_normal(count))):
                        runs.append(_recorded(v, m, seed, {"blocks.0.norm": float(a)}))
        return Results(replace(s, seeds=tuple(range(count))), errors, tuple(runs))


@cache
def _planned(name: str) -> tuple[Study, Study]:
    return study(name), study(name).at("desk")


def _recorded(v: Variant, m: Method, seed: int, alpha: dict[str, float]) -> RecordedRun:
    return RecordedRun(Run(v, m, seed), f"{m.norm}-s{seed}", Path(), {"alpha": alpha})
