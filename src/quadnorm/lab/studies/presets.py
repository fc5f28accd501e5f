"""The small presets ``desk`` and ``smoke``: what they shrink compared with the paper."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from quadnorm._suggest import unknown
from quadnorm.lab.studies.study import STAND_INS, Budget, Method, Run, Study, Variant

SMOKE_COARSEN = 4
SMOKE_WIDTH = 16  # with 8 channels GroupNorm would be InstanceNorm
SMOKE_LAYERS = 2
SMOKE_STAND_INS = {"darcy-neuralop": "darcy"}  # replaces data that would have to be downloaded first


def grids(sizes: tuple[int, ...], coarsen: int) -> tuple[int, ...]:
    """Every grid divided by ``coarsen``.

    >>> grids((64, 96, 421), 4)
    (16, 24, 105)
    """
    return tuple(max(8, round(n / coarsen)) for n in sizes)


def desk(variant: Variant) -> Variant:
    """The desk preset: fewer samples, epochs and channels, coarser grids at the same ratio, the main rows only."""
    d = variant.desk
    params = dict(variant.operator_params)
    params["width"] = max(8, 8 * round(params["width"] * d.width / 8))
    budget = replace(
        variant.budget,
        train=min(d.train, variant.budget.train),
        val=min(d.val, variant.budget.val),
        test=min(d.test, variant.budget.test),
        epochs=min(d.epochs, variant.budget.epochs),
        lr=d.lr or variant.budget.lr,
        batch=d.batch or variant.budget.batch,
        patience=None,  # every run gets the same number of steps
        warmup=None,
    )
    kept = {variant.method(label).label for label in d.methods or [m.label for m in variant.methods]}
    methods = (m for m in variant.methods if m.label in kept or m.reads in kept)
    variant = replace(variant, methods=tuple(m for m in methods if m.label not in d.left_out))
    return _shrunk(variant, d.coarsen, params, budget)


def smoke(variant: Variant) -> Variant:
    """The smoke preset: every method in seconds, to see that it runs; nothing is learned."""
    params = dict(variant.operator_params)
    params["width"] = SMOKE_WIDTH
    params["layers"] = min(SMOKE_LAYERS, params["layers"])
    budget = Budget(train=16, val=4, test=4, epochs=2, lr=variant.budget.lr, patience=None, batch=8)
    coarsen = min(SMOKE_COARSEN, max(1, min(variant.train + variant.test) // 8))
    problem = SMOKE_STAND_INS.get(variant.problem, variant.problem)
    return _shrunk(replace(variant, problem=problem), coarsen, params, budget)


def _shrunk(variant: Variant, coarsen: int, params: dict[str, Any], budget: Budget) -> Variant:
    train, test = grids(variant.train, coarsen), grids(variant.test, coarsen)
    if "modes" in params:  # a grid of n samples has n // 2 modes
        params["modes"] = min(params["modes"], min(train + test) // 2)
    return replace(
        variant,
        problem=STAND_INS.get(variant.problem, variant.problem),
        train=train,
        test=test,
        operator_params=params,
        budget=budget,
    )


def difference(paper: Study, small: Study) -> tuple[str, ...]:
    """What a preset changes compared with the paper, one line per kind of variant."""
    lines: dict[str, list[str]] = {}
    for there, here in zip(paper.variants, small.variants, strict=True):
        pairs = {
            "trained at": (_squares(here.train), _squares(there.train)),
            "tested up to": (f"{max(here.test)}²", f"{max(there.test)}²"),
            "samples": (here.budget.train, there.budget.train),
            "epochs": (here.budget.epochs, there.budget.epochs),
            "width": (here.operator_params["width"], there.operator_params["width"]),
            "layers": (here.operator_params["layers"], there.operator_params["layers"]),
            "batches of": (here.budget.batch, there.budget.batch),
            "learning rate": (f"{here.budget.lr:g}", f"{there.budget.lr:g}"),
            "by default, seeds": (len(small.seeds), len(paper.seeds)),
        }
        changes = [f"{what} {new} (paper: {old})" for what, (new, old) in pairs.items() if new != old]
        left_out = [m.label for m in there.methods if m not in here.methods]
        if left_out:
            changes.append(f"without {', '.join(left_out)}")
        lines.setdefault("; ".join(changes), []).append(here.name)
    alone = len(lines) == 1
    return tuple(
        f"The {small.preset} preset{'' if alone else ' for ' + ', '.join(names)}: {text}."
        for text, names in lines.items()
        if text
    )


def _squares(grids: tuple[int, ...]) -> str:
    return " and ".join(f"{n}²" for n in grids)


_BUDGET = {
    **{f"samples.{split}": split for split in ("train", "val", "test")},
    **{name: name for name in ("epochs", "batch", "patience", "lr", "warmup")},
}
_GRIDS = {"resolutions.train": "train", "resolutions.test": "test"}
_METHOD = ("method.mode", "method.measure", "method.alpha")
_OPEN = ("problem.", "operator.")  # any name may follow; the problem and the operator check it
_NAMES = {"quad": "QuadNorm", "quadrms": "QuadRMSNorm", "blend": "BlendQuadNorm"}
_QUADRATURE, _BLENDS = ("quad", "quadrms"), ("blend",)


def changed(study: Study, overrides: Sequence[str]) -> Study:
    """The study with overrides applied. Its name lists them: the same words on the command line give it again.

    Its runs have their own configs and so their own records; the paper's values are not shown in its tables.

    >>> from quadnorm.lab.studies import study
    >>> small = changed(study("tost").at("desk"), ["epochs=5", "samples.train=40"])
    >>> small.name, small.variants[0].budget.epochs, small.variants[0].label
    ('tost epochs=5 samples.train=40', 5, None)
    """
    if not overrides:
        return study
    variants = study.variants
    for text in overrides:
        key, value = _parsed(text)
        variants = tuple(_apply(v, key, value, text) for v in variants)
    variants = tuple(replace(v, label=None, panel=None) for v in variants)
    if variants == tuple(replace(v, label=None, panel=None) for v in study.variants):
        raise ValueError(f"{' '.join(overrides)} changes nothing in {study.name}; leave it out")
    result = replace(
        study,
        name=" ".join((study.name, *overrides)),
        variants=variants,
        tables=(),
        pictured=tuple(m.label for v in variants for m in v.methods if m.label.partition(",")[0] in study.pictured),
        changes=(*study.changes, *overrides),
        notes=(f"Changed from {study.name}: {', '.join(overrides)}.", *study.notes),
    )
    _check(result)
    return result


def _parsed(text: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise ValueError(f"override {text!r}: expected key=value, such as epochs=5 or problem.placement=cell")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ValueError(f"override {text!r}: not a value: {getattr(error, 'problem', None) or error}") from None
    if isinstance(parsed, str):  # 1e-3 is text in YAML 1.1
        with suppress(ValueError):
            parsed = float(parsed)
    return key, parsed


def _apply(v: Variant, key: str, value: Any, text: str) -> Variant:
    if key in _BUDGET:
        return replace(v, budget=_budget(v.budget, _BUDGET[key], value, text))
    if key in _GRIDS:
        sizes = value if isinstance(value, list) else [value]
        if not sizes or not all(isinstance(n, int) and not isinstance(n, bool) and n > 1 for n in sizes):
            raise ValueError(f"override {text!r}: expected samples per axis, as in 33 or [33,65]")
        grids: dict[str, Any] = {_GRIDS[key]: tuple(sizes)}
        return replace(v, **grids)
    if key in _METHOD:
        return replace(v, methods=_methods(v.methods, key.partition(".")[2], value))
    if key.startswith("problem."):
        return replace(v, problem_params={**v.problem_params, key.partition(".")[2]: value})
    if key == "operator.name":
        return _of_operator(v, str(value))
    if key.startswith("operator."):
        return replace(v, operator_params={**v.operator_params, key.partition(".")[2]: value})
    known = [*_BUDGET, *_GRIDS, *_METHOD, *(f"{prefix}NAME" for prefix in _OPEN)]
    raise ValueError(f"override {text!r}: " + unknown("key", key, known))


def _of_operator(v: Variant, name: str) -> Variant:
    """The setting with another operator, of this package or FILE.py:NAME, at its own defaults.

    The rows stay where it takes a ``norm`` by name; otherwise there is one, the model as it is written.
    """
    from quadnorm.training.model import operator_class

    known = inspect.signature(operator_class(name)).parameters.values()
    if any(p.name == "norm" or p.kind is inspect.Parameter.VAR_KEYWORD for p in known):
        # Of rows that differ in other arguments of the study's operator, the first stays.
        by_norm = {m.norm: replace(m, operator={}, printed=None) for m in reversed(v.methods)}
        methods = tuple(by_norm[norm] for norm in dict.fromkeys(m.norm for m in v.methods))
    else:
        methods = (Method("as written", "", printed=None),)
    return replace(v, operator=name, operator_params={}, methods=methods)


def _budget(budget: Budget, name: str, value: Any, text: str) -> Budget:
    whole = name not in ("lr", "warmup")
    none = value is None and name in ("patience", "warmup")
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool) and value > 0
    if not (none or number):
        raise ValueError(f"override {text!r}: expected a positive {'whole number' if whole else 'number'}")
    changes: dict[str, Any] = {name: value}
    return replace(budget, **changes)


def _method(method: Method, part: str, value: Any) -> Method:
    """The method with one part of its norm's name changed, and its label; unchanged if the norm has no such part."""
    head, *parts = method.norm.split(":")
    allowed = {"mode": _QUADRATURE, "measure": (*_QUADRATURE, *_BLENDS), "alpha": _BLENDS}[part]
    if head not in allowed:
        return method
    kept = [w for w in parts if not _KINDS[part](w)]
    first = part == "alpha" or (part == "mode" and kept[:1] != ["group"])
    parts = [str(value), *kept] if first else [*kept, str(value)]
    name = ", ".join((_NAMES[head], *(f"α = {w}" if _is_number(w) and head in _BLENDS else w for w in parts)))
    return replace(method, label=name, norm=":".join([head, *parts]), printed=None)


def _methods(methods: Sequence[Method], part: str, value: Any) -> tuple[Method, ...]:
    """Every method changed, without duplicates: with α = 0.2 the methods α = 0.1 and α = 0.3 become the same."""
    kept: list[Method] = []
    for original in methods:
        m = _method(original, part, value)
        if any((m.norm, m.operator) == (k.norm, k.operator) for k in kept):
            continue
        if any(m.label == k.label for k in kept):  # they differ in the operator; the old label says how
            m = replace(m, label=f"{m.label} ({original.label})")
        kept.append(m)
    return tuple(kept)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return word == "learned"
    return True


_KINDS: Mapping[str, Callable[[str], bool]] = {
    "mode": lambda w: w in ("layer", "instance", "group") or w.isdigit(),
    "measure": lambda w: not (w in ("layer", "instance", "group") or _is_number(w)),
    "alpha": _is_number,
}


def _check(study: Study) -> None:
    """Check every variant's config, problem, grids and networks before anything is run."""
    from quadnorm.training import read_config
    from quadnorm.training.data import problem_of
    from quadnorm.training.model import Sizes, build_model

    for v in study.variants:
        for method in v.methods:
            config = read_config(Run(v, method, study.seeds[0]).config())
            p = problem_of(config)
            for n in {*v.train, *v.test}:
                p.shape(n)
            build_model(config, Sizes.of(p))
