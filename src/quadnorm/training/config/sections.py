"""The sections of a config, frozen and validated, with all their defaults."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from quadnorm._load import names_file
from quadnorm._suggest import unknown

# Learning rates of the paper. It gives none for Transolver: 3e-4 is its rate for attention models. The last two are
# those of neuraloperator's tutorial and PhysicsNeMo's example, the ResNet's is ours. A model of your own starts with
# the FNO's.
LEARNING_RATES = {
    "fno": 5e-4,
    "galerkin": 3e-4,
    "transolver": 3e-4,
    "resnet": 1e-3,
    "neuralop-fno": 1e-2,
    "physicsnemo-fno": 1e-3,
}

Positive = Annotated[int, Field(ge=1, le=10**9)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]  # the range that random generators accept
Threads = Annotated[int, Field(ge=1, le=256)]  # with thousands of threads the process dies
Resolution = Positive | tuple[Positive, ...]


def _several(value: Any) -> Any:
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


Resolutions = Annotated[tuple[Resolution, ...], BeforeValidator(_several)]


class Section(BaseModel):
    """A part of a config: immutable; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class ProblemConfig(Section):
    """Where the data come from: a problem's name, its parameters and the seed of its random streams."""

    name: str = "darcy"
    """Name of a problem, `files` for your own data, or FILE.py:CLASS for your own generator."""
    params: dict[str, Any] = {}
    """Its parameters."""
    seed: Seed = 0
    """Seed of the problem's random streams."""
    cache: bool = True
    """Keep solved instances on disk; without effect for problems that are read from files or cheap to draw."""


class OperatorConfig(Section):
    """The model: ``fno``, ``galerkin``, ``transolver``, ``resnet``, ``neuralop-fno``, ``physicsnemo-fno`` or your own,
    FILE.py:NAME, with arguments of its constructor such as ``norm``."""

    name: str = "fno"
    """`fno`, `galerkin`, `transolver`, `resnet`, `neuralop-fno`, `physicsnemo-fno` (FNOs of neuraloperator and
    PhysicsNeMo), or your own, FILE.py:NAME."""
    params: dict[str, Any] = {}
    """Arguments of its constructor, among them `norm`, `measure` and `width`."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if names_file(name):
            return name
        if name.endswith(".py"):
            raise ValueError(f"{name}: expected FILE.py:NAME, the class or function that makes it, as {name}:Model")
        if name.lower() not in LEARNING_RATES:
            raise ValueError(unknown("operator", name, LEARNING_RATES))
        return name.lower()


class ResolutionsConfig(Section):
    """Grids, each given as samples per axis: one number for all axes, or a list with one number for each axis.

    With several training grids an epoch uses ``per_epoch`` of them (default: all), and its batches alternate between
    these grids; every sample is seen once per epoch.
    """

    train: Resolutions = (33,)
    """Training grids."""
    val: Resolutions | None = None
    """Validation grids; the mean of their errors selects the best epoch. Default: the training grids."""
    test: Resolutions | None = None
    """Test grids; default: the training grids."""
    per_epoch: Positive | None = None
    """How many of the training grids an epoch uses; default: all."""

    @model_validator(mode="after")
    def _check(self) -> ResolutionsConfig:
        for name, grids in (("train", self.train), ("val", self.val), ("test", self.test)):
            if grids is not None and not grids:
                raise ValueError(f"{name} is empty; give at least one grid, such as 33")
            if grids is not None and len(set(grids)) < len(grids):
                raise ValueError(f"{name} names a grid twice: {list(grids)}")
        if self.per_epoch is not None and self.per_epoch > len(self.train):
            raise ValueError(f"per_epoch is {self.per_epoch}, but there are only {len(self.train)} training grids")
        return self


class SamplesConfig(Section):
    """How many instances each split has, and the index of its first instance.

    By default the test split comes first, then validation, then training, so that a larger training set leaves the
    other two unchanged. The splits must not overlap: early stopping never sees a test sample.
    """

    train: Positive = 900
    """Training samples."""
    val: Positive = 100
    """Validation samples."""
    test: Positive = 200
    """Test samples."""
    train_from: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Index of the first training sample; default: after the test and validation samples."""
    val_from: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Index of the first validation sample; default: after the test samples."""
    test_from: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Index of the first test sample; default: 0."""

    def indices(self, split: Literal["train", "val", "test"]) -> range:
        """Sample indices of a split.

        >>> SamplesConfig(train=900, val=100, test=200).indices("train")
        range(300, 1200)
        """
        defaults = {"test": 0, "val": self.test, "train": self.test + self.val}
        given: int | None = getattr(self, f"{split}_from")
        first = defaults[split] if given is None else given
        return range(first, first + int(getattr(self, split)))

    @model_validator(mode="after")
    def _check(self) -> SamplesConfig:
        ranges = sorted((self.indices(s).start, self.indices(s).stop, s) for s in ("train", "val", "test"))
        for (a, b, one), (c, d, other) in pairwise(ranges):
            if c < b:
                raise ValueError(
                    f"{one} takes samples {a}..{b - 1} and {other} takes {c}..{d - 1}; the splits must not overlap"
                )
        return self


class OptimiserConfig(Section):
    """AdamW with gradient clipping. The default ``lr`` is the paper's rate for the operator."""

    lr: Annotated[float, Field(gt=0)] | None = None
    """Peak learning rate; default: 3e-4 for `galerkin`, `transolver`, 1e-3 for `resnet`, `physicsnemo-fno`, 1e-2 for
    `neuralop-fno`, else 5e-4."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    """Decoupled weight decay."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """Decay rates of the two moments."""
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """AdamW's ε, added to the root of the second moment."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    """Largest total norm of the gradients; null: not clipped."""


class ScheduleConfig(Section):
    """Linear warm-up, then a cosine down to ``final`` × lr at the last step.

    ``warmup`` is in epochs and may be a fraction. Default: 10 as in the paper, but at most a tenth of the run.
    """

    warmup: Annotated[float, Field(ge=0)] | None = None
    """Epochs of linear warm-up; default: 10, at most a tenth of the run."""
    final: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Learning rate at the last step, as a share of the peak rate."""


class SaveConfig(Section):
    """How often the resumable checkpoint is written: every ``epochs``, and also every ``steps`` if given."""

    epochs: Positive = 1
    """Write the checkpoint every this many epochs."""
    steps: Positive | None = None
    """Also write it every this many steps."""


class ParallelConfig(Section):
    """Under ``torchrun``: ``space`` processes share each field, cut along its first axis; the batch is split over the
    groups of such processes."""

    space: Positive = 1
    """Processes that share each field."""
