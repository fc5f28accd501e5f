"""The config of a training run: frozen and validated."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from quadnorm.training.config.sections import (
    LEARNING_RATES,
    OperatorConfig,
    OptimiserConfig,
    ParallelConfig,
    Positive,
    ProblemConfig,
    ResolutionsConfig,
    SamplesConfig,
    SaveConfig,
    ScheduleConfig,
    Section,
    Seed,
    Threads,
)

# Settings that say how a run is carried out, not what is computed: they may change when it is resumed.
CIRCUMSTANCES = ("device", "save", "tensorboard", "parallel")


class TrainConfig(Section):
    """One training run. The defaults are the paper's protocol; where it gives none, the section says what we use.

    >>> config = TrainConfig(operator={"name": "galerkin", "params": {"norm": "quad"}}, epochs=50)
    >>> config.lr, config.warmup_epochs
    (0.0003, 5.0)
    """

    problem: ProblemConfig = ProblemConfig()
    operator: OperatorConfig = OperatorConfig()
    resolutions: ResolutionsConfig = ResolutionsConfig()
    samples: SamplesConfig = SamplesConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    loss: Literal["plain", "weighted", "mse"] = "plain"
    """Relative L² error with equal or with quadrature weights, or the mean square error over the targets' variance."""
    batch: Positive = 20
    """Samples per step."""
    epochs: Positive = 200
    """Passes over the training samples, unless stopped early."""
    patience: Positive | None = 30
    """Epochs without a better validation error before training stops; null: never stop early."""
    seed: Seed = 0
    """Seed of the initial weights and of the order of batches."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of parameters and data."""
    threads: Threads | None = None
    """Number of torch's threads, which affects the last bits of results; null: torch's choice when the run begins."""
    device: str = "cpu"
    """Where to train: `cpu`, `cuda`, `cuda:1`."""
    save: SaveConfig = SaveConfig()
    parallel: ParallelConfig = ParallelConfig()
    tensorboard: bool = False
    """Write TensorBoard's event files into the run's folder."""

    @model_validator(mode="after")
    def _check(self) -> TrainConfig:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(f"schedule.warmup is {self.warmup_epochs:g}; it must be less than epochs, {self.epochs}")
        return self

    @property
    def lr(self) -> float:
        """The peak learning rate."""
        if self.optimiser.lr is not None:
            return self.optimiser.lr
        return LEARNING_RATES.get(self.operator.name, LEARNING_RATES["fno"])

    @property
    def warmup_epochs(self) -> float:
        """Length of the warm-up, in epochs."""
        return min(10.0, self.epochs / 10) if self.schedule.warmup is None else self.schedule.warmup

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch; the last may be smaller."""
        return -(-self.samples.train // self.batch)

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run, if it is not stopped early."""
        return self.epochs * self.steps_per_epoch

    @property
    def val_resolutions(self) -> tuple[int | tuple[int, ...], ...]:
        """Grids of the validation."""
        return self.resolutions.val or self.resolutions.train

    @property
    def test_resolutions(self) -> tuple[int | tuple[int, ...], ...]:
        """Grids of the test."""
        return self.resolutions.test or self.resolutions.train

    def identity(self) -> dict[str, Any]:
        """The settings that decide the result: all but those that may change on resuming (device, saving, logging)."""
        return {k: v for k, v in self.model_dump(mode="json").items() if k not in CIRCUMSTANCES}
