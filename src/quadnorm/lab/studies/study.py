"""A study as plain frozen data, without torch: what is trained, on which data, and what is measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from quadnorm._suggest import unknown
from quadnorm._ways import WAYS
from quadnorm.lab.studies.paper import PrintedCell, paper_table

Params = Mapping[str, Any]
STATISTICS = ("ci95", "std")
METRICS = ("plain", "weighted")
PRESETS = ("smoke", "desk", "paper")

# The released files are not part of this package, so small presets draw new data from the same law.
STAND_INS = {"darcy-official": "darcy", "darcy-pdebench": "darcy"}

# Index of the first test sample, for data whose test set is a file of its own: smooth2 begins at 1024 (training and
# validation are from smooth1), and the first 1000 samples of neuraloperator's set are its training file.
TEST_FROM = {"darcy-official": 1024, "darcy-neuralop": 1000, "darcy-pdebench": 9000}


@dataclass(frozen=True)
class Method:
    """One row of a study: the name of a norm for ``make_norm``, and other arguments of the operator that it changes.

    An empty ``norm``: the operator takes none, and has the norms that it is written with.

    ``printed`` is the row's name in the paper's table if it differs from ``label``; ``None`` for rows of ours.
    ``reads``: the label of the row of which this one is another reading of the paper (see ``catalog/parts.py``).
    ``seeds``: how many of the study's seeds the row uses, if the paper has fewer than for other rows.
    """

    label: str
    norm: str
    operator: Params = field(default_factory=dict)
    printed: str | None = ""
    seeds: int | None = None
    reads: str = ""

    @property
    def row(self) -> str | None:
        """The row's name in the paper's table, or None if the paper has no such row."""
        return self.label if self.printed == "" else self.printed


@dataclass(frozen=True)
class Budget:
    """Samples and optimisation of one run; the same for every method of a variant."""

    train: int
    val: int
    test: int
    epochs: int
    lr: float
    patience: int | None = 30
    warmup: float | None = None
    batch: int = 20

    def __post_init__(self) -> None:
        for name in ("train", "val", "test", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"a budget needs {name} of 1 or more, got {getattr(self, name)}")

    @property
    def steps(self) -> int:
        """Optimiser steps, if no run stops early."""
        return self.epochs * -(-self.train // self.batch)


@dataclass(frozen=True)
class Desk:
    """How the ``desk`` preset shrinks a variant.

    ``coarsen`` divides every grid, so that the ratio of test and training grids stays; ``width`` multiplies the
    operator's width (rounded to a multiple of 8); ``methods`` names the rows that are kept, empty for all, and with a
    row stay its other readings, unless ``left_out`` names them; ``lr`` and
    ``batch`` are the learning rate and the batch size, None for the paper's (a short run needs more and larger steps).
    """

    epochs: int
    train: int = 200
    val: int = 40
    test: int = 40
    coarsen: int = 1
    width: float = 1.0
    methods: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    lr: float | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Way:
    """A way to use a trained model at a test grid.

    ``route`` is a row of the table in :mod:`quadnorm.lab.studies.evaluate`, ``option`` its argument: which sums to
    anchor, or how to interpolate. ``view``: (name, value) pairs of problem parameters that change how the instances are
    sampled, not the instances themselves. ``steps``: how many times the model is run on its own output; the target is
    the problem's after as many (``problem.after(steps)``).
    """

    name: str
    label: str
    route: str = "direct"
    option: str = ""
    view: tuple[tuple[str, Any], ...] = ()
    steps: int = 1

    def rolled(self, steps: int) -> "Way":
        """The same way over so many steps."""
        return replace(self, name=f"{self.name}-{steps}-steps", label=f"{self.label}, {steps} steps", steps=steps)


AS_TRAINED = Way("as-trained", WAYS["as-trained"].title)
ANCHORED = Way("anchor-all", WAYS["anchored"].title, "anchored", "all")
EXTENDED = Way("extended", WAYS["extended"].title, "extended")
NATIVE = Way("native", WAYS["native"].title, "native", "cubic")
TRANSFERRED = Way("transferred", WAYS["transferred"].title, "transferred")
# The ways in which every study with other grids is evaluated.
TRANSFER = (AS_TRAINED, ANCHORED, EXTENDED, NATIVE)


@dataclass(frozen=True)
class Variant:
    """One setting of a study: a problem, an operator, grids and a budget, shared by all its methods."""

    name: str
    problem: str
    operator: str
    methods: tuple[Method, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    budget: Budget
    desk: Desk
    problem_params: Params = field(default_factory=dict)
    operator_params: Params = field(default_factory=dict)
    label: str | None = None  # the paper's table of this setting, and its panel
    panel: str | None = None
    statistic: str | None = None  # the number after ± in that table, if it is not the study's
    loss: str = "plain"

    def printed(self) -> dict[tuple[str, int], PrintedCell]:
        """The paper's values for this setting, by (our method's label, resolution); empty if there are none."""
        if self.label is None:
            return {}
        cells = paper_table(self.label).errors(self.panel)
        return {(m.label, n): cells[m.row, n] for m in self.methods for n in self.test if m.row and (m.row, n) in cells}

    def method(self, label: str) -> Method:
        """The method with this label."""
        for method in self.methods:
            if method.label == label:
                return method
        raise ValueError(unknown("method", label, [m.label for m in self.methods]))


@dataclass(frozen=True)
class Run:
    """One training run of a study."""

    variant: Variant
    method: Method
    seed: int
    threads: int = 1

    def config(self) -> dict[str, Any]:
        """The run as the sections of a training config.

        Two studies that train the same model give the same config, so a record serves both.
        """
        v, b = self.variant, self.variant.budget
        norm = {"norm": self.method.norm} if self.method.norm else {}
        samples = {"train": b.train, "val": b.val, "test": b.test}
        if v.problem in TEST_FROM:
            samples |= {"train_from": 0, "val_from": b.train, "test_from": TEST_FROM[v.problem]}
        return {
            "problem": {"name": v.problem, "params": dict(v.problem_params)},
            "operator": {
                "name": v.operator,
                "params": {**v.operator_params, **self.method.operator, **norm},
            },
            "resolutions": {"train": list(v.train), "test": list(v.test)},
            "samples": samples,
            "optimiser": {"lr": b.lr},
            "schedule": {} if b.warmup is None else {"warmup": b.warmup},
            "batch": b.batch,
            "epochs": b.epochs,
            "patience": b.patience,
            "seed": self.seed,
            "threads": self.threads,
            **({} if v.loss == "plain" else {"loss": v.loss}),  # the usual one is not part of a record's key
        }


@dataclass(frozen=True)
class Study:
    """A study, named after the label of its table without ``tab:``.

    ``tables`` are the paper's tables that it rebuilds. ``statistic`` is the number after ±: ``ci95`` or ``std``.
    ``metric``: the relative L² error that tables show, ``plain`` (equal weights) or ``weighted`` by the quadrature.
    ``notes`` say what the paper leaves open, what was chosen, and where it contradicts itself. ``changes`` are the
    overrides that were applied (see :mod:`quadnorm.lab.studies.presets`): a changed study is another study.
    ``pictured``: methods whose first seed stores fields and an audit for figures
    (see :mod:`quadnorm.lab.studies.pictures`).
    """

    name: str
    title: str
    theme: str
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    statistic: str = "ci95"
    tables: tuple[str, ...] = ()
    evaluations: tuple[Way, ...] = (AS_TRAINED,)
    metric: str = "plain"
    notes: tuple[str, ...] = ()
    desk_seeds: int = 3
    preset: str = "paper"
    changes: tuple[str, ...] = ()
    threads: int = 1  # of every run; fixed, because it affects the last bits of the results
    pictured: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.statistic not in STATISTICS:
            raise ValueError(unknown("statistic", self.statistic, STATISTICS))
        if self.metric not in METRICS:
            raise ValueError(unknown("metric", self.metric, METRICS))
        if not self.variants or not self.seeds:
            raise ValueError(f"study {self.name!r} needs at least one variant and one seed")

    def variant(self, name: str) -> Variant:
        """The variant with this name."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise ValueError(unknown(f"variant of {self.name}", name, [v.name for v in self.variants]))

    def runs(self) -> Iterator[Run]:
        """Every training run; for a variant and a seed, all methods in turn."""
        for variant in self.variants:
            for seed in self.seeds:
                for method in variant.methods:
                    if seed in self.seeds_of(method):
                        yield Run(variant, method, seed, self.threads)

    @property
    def reads_files(self) -> bool:
        """Whether it reads released files, which are not part of this package."""
        return any(v.problem in STAND_INS for v in self.variants)

    def seeds_of(self, method: Method) -> tuple[int, ...]:
        """The seeds that a method is run with."""
        return self.seeds if method.seeds is None else self.seeds[: method.seeds]

    def spread(self, variant: Variant) -> str:
        """The statistic after ± in a variant's table: ``ci95`` or ``std``."""
        return variant.statistic or self.statistic

    def at(self, preset: str, released: bool = False) -> "Study":
        """The study at a preset: ``paper`` unchanged, ``desk`` shrunk by its :class:`Desk`, ``smoke`` in seconds.

        ``released``: also a small preset reads the released files, instead of drawing data of the same law.

        >>> from quadnorm.lab.studies import study
        >>> v = study("extreme-crossres").at("smoke").variants[0]
        >>> v.train, v.test, v.budget.epochs, v.operator_params["width"]
        ((8,), (8, 16, 32, 64), 2, 16)
        """
        from quadnorm.lab.studies.presets import desk, difference, smoke

        if preset not in PRESETS:
            raise ValueError(unknown("preset", preset, PRESETS))
        if preset == self.preset:
            return self
        if self.preset != "paper":
            raise ValueError(
                f"study {self.name!r} is already at preset {self.preset!r}; take it from the catalog for {preset!r}"
            )
        scale, seeds = (smoke, 2) if preset == "smoke" else (desk, self.desk_seeds)
        variants = tuple(map(scale, self.variants))
        if released:
            pairs = zip(variants, self.variants, strict=True)
            variants = tuple(replace(v, problem=w.problem) if w.problem in STAND_INS else v for v, w in pairs)
        small = replace(self, variants=variants, seeds=self.seeds[:seeds], preset=preset)
        return replace(small, notes=(*self.notes, *difference(self, small)))


@dataclass(frozen=True)
class Derived:
    """A table of the paper that is computed from the records of studies."""

    name: str
    label: str
    title: str
    draws_on: tuple[str, ...]
    notes: tuple[str, ...] = ()
