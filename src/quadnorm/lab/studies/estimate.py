"""An estimate of a study's cost before it runs: number of steps times measured seconds per step."""

import math
from dataclasses import dataclass, replace

from quadnorm.lab.studies.study import Study, Variant


@dataclass(frozen=True)
class StepCost:
    """Seconds of one training step, batch 20, one thread, at 32² and 64²; for an operator of this width and depth."""

    at_32: float
    at_64: float
    width: int
    layers: int


# About the processor time that `quadnorm bench studies` measures on the development machine while other jobs keep its
# two cores busy. On the idle machine a step of the FNO takes 0.095 and 0.22 s: a margin of a third.
STEP = {
    "fno": StepCost(0.13, 0.32, width=32, layers=4),
    "galerkin": StepCost(0.45, 1.75, width=64, layers=4),
    "transolver": StepCost(0.48, 1.9, width=64, layers=6),
    "resnet": StepCost(0.12, 0.5, width=32, layers=2),
    "neuralop-fno": StepCost(0.13, 0.45, width=32, layers=4),
    "physicsnemo-fno": StepCost(0.48, 1.0, width=32, layers=4),
}
FORWARD = 1 / 3  # of a training step: one pass of three
EFFICIENCY = 0.85  # of two workers side by side, which share memory bandwidth

# Seconds to make one instance, for all its resolutions; problems that are not listed count as expensive ones.
UNMEASURED = 0.3
SAMPLE = {
    "darcy": 0.3,
    "darcy-official": 0.02,
    "darcy-neuralop": 0.0001,
    "darcy-pdebench": 0.001,
    "varcoeff": 0.3,
    "cavity": 0.5,
    "navier-stokes": 0.5,
    "navier-stokes-steps": 0.8,
    "burgers": 0.05,
    "burgers-2d": 1.2,
    "helmholtz": 0.005,
    "poisson": 0.005,
    "reaction-diffusion": 0.005,
    "elasticity": 0.005,
    "poisson-mesh": 0.15,  # nearly all of it for the triangulations
    "elasticity-mesh": 0.15,
}
ON_A_LINE = ("burgers",)  # problems of one dimension


def step_seconds(operator: str, n: int, width: int, layers: int, batch: int = 20) -> float:
    """One training step at n², one thread.

    (a + b·n²), fitted to the two measured grids (a power of n where a would be negative), times factors for depth and
    width. The cost of a narrower network falls in proportion to its width, that of a wider one grows with its square.

    >>> round(step_seconds("fno", 64, width=32, layers=4), 2), round(step_seconds("fno", 64, width=64, layers=8), 2)
    (0.32, 2.56)
    """
    cost = STEP[operator]
    slope = (cost.at_64 - cost.at_32) / (64**2 - 32**2)
    fixed = cost.at_32 - slope * 32**2
    at_n = fixed + slope * n**2 if fixed >= 0 else cost.at_32 * (cost.at_64 / cost.at_32) ** math.log2(n / 32)
    ratio = width / cost.width
    return at_n * max(ratio, ratio**2) * layers / cost.layers * batch / 20


@dataclass(frozen=True)
class TimeEstimate:
    """Core-seconds of a study, by kind of work."""

    runs: int
    training: float
    validation: float
    testing: float
    data: float

    @property
    def core_seconds(self) -> float:
        """The sum over all kinds of work."""
        return self.training + self.validation + self.testing + self.data

    def minutes(self, workers: int = 2) -> float:
        """Wall-clock minutes on that many one-thread workers."""
        efficiency = 1.0 if workers == 1 else EFFICIENCY
        return self.core_seconds / (60 * workers * efficiency)


def estimate(study: Study) -> TimeEstimate:
    """The cost of a study; pass ``study.at("desk")`` for the cost at a preset.

    >>> from quadnorm.lab.studies import study
    >>> estimate(study("extreme-crossres").at("desk")).minutes() < 20
    True
    """
    training = validation = testing = 0.0
    runs = 0
    samples: dict[str, int] = {}
    for v in study.variants:
        here = len(v.methods) * len(study.seeds)
        runs += here
        b = v.budget
        # An epoch uses every sample once, so that several training grids share its steps.
        step = sum(_step(v, n) for n in v.train) / len(v.train)
        training += here * b.steps * step
        validation += here * b.epochs * b.val / b.batch * FORWARD * sum(_step(v, n) for n in v.train)
        passes = sum(_passes(v, e.route) * e.steps for e in study.evaluations)
        testing += here * b.test / b.batch * FORWARD * passes
        key = f"{v.problem} {sorted(v.problem_params.items())}"
        samples[key] = max(samples.get(key, 0), b.train + b.val + b.test)
    data = sum(SAMPLE.get(key.partition(" ")[0], UNMEASURED) * count for key, count in samples.items())
    return TimeEstimate(runs, training, validation, testing, data)


def _step(v: Variant, n: int) -> float:
    n = round(n**0.5) if v.problem in ON_A_LINE else n  # as many samples on a square
    return step_seconds(_measured(v), n, *_size(v), v.budget.batch)


def _measured(v: Variant) -> str:
    """The operator whose measured cost stands for the variant's: the FNO's for models of a user's file."""
    return v.operator if v.operator in STEP else "fno"


def _size(v: Variant) -> tuple[int, int]:
    """Width and layers; of a model that has none of the name, those that were measured."""
    cost, params = STEP[_measured(v)], v.operator_params
    return params.get("width", cost.width), params.get("layers", cost.layers)


def _passes(v: Variant, route: str) -> float:
    """Step-seconds of one batch over the test grids; a route through the training grid costs what that grid costs."""
    return sum(_step(v, n if route == "direct" else max(v.train)) for n in v.test)


# Number of fields (batch, width, N) in float32 that one layer saves for the backward pass, counted at 64²; doubled
# below for the memory of the backward pass itself.
KEPT_FIELDS = {
    "fno": 4.5,
    "galerkin": 9.6,
    "transolver": 4.5,
    "resnet": 5.5,
    "neuralop-fno": 9.0,
    "physicsnemo-fno": 9.0,
}
PROCESS = 0.5 * 2**30  # bytes of Python and torch before anything is loaded


@dataclass(frozen=True)
class Need:
    """What one run of a variant needs: ``data`` and ``memory`` in bytes, ``hours`` on one thread; and how many runs."""

    variant: str
    runs: int
    data: float
    memory: float
    hours: float


def needs(study: Study) -> tuple[Need, ...]:
    """What the runs of each variant need.

    Data are the fields in memory at the training grids, two channels in float32; memory adds the process itself and the
    fields that a training step saves.

    >>> from quadnorm.lab.studies import study
    >>> (need,) = needs(study("tost"))
    >>> need.runs, round(need.data / 2**20)
    (20, 31)
    """
    rows = []
    for v in study.variants:
        b, (width, layers) = v.budget, _size(v)
        data = sum(2 * 4 * n**2 * (b.train + b.val) for n in v.train)
        field = 4 * b.batch * width * max(v.train) ** 2
        memory = PROCESS + data + 2 * KEPT_FIELDS[_measured(v)] * field * layers
        one = replace(study, variants=(replace(v, methods=v.methods[:1]),), seeds=study.seeds[:1])
        cost = estimate(one)
        hours = (cost.core_seconds - cost.data) / 3600
        rows.append(Need(v.name, sum(len(study.seeds_of(m)) for m in v.methods), data, memory, hours))
    return tuple(rows)
