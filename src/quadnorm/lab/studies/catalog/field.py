"""Against the field: the protocol of critics of resolution transfer (arXiv 2510.06646), with every way beside theirs.

Train at 16 samples per axis, test at 16, 32, 64 and 128. Fields with the waves up to 3 periods per length alone keep
their content on every grid; whole fields bring content that is new to a model which was trained without it.
"""

from dataclasses import replace

from quadnorm.lab.studies.catalog.parts import LR, seeds, shared_way
from quadnorm.lab.studies.study import (
    AS_TRAINED,
    TRANSFER,
    TRANSFERRED,
    Budget,
    Desk,
    Method,
    Params,
    Study,
    Variant,
    Way,
)

BAND = 3
_PROBLEMS: dict[str, tuple[str, Params]] = {
    "darcy": ("darcy", {"placement": "cell"}),
    "burgers": ("burgers", {"placement": "periodic"}),
    "navier-stokes": ("navier-stokes", {}),
}
_OPERATORS: dict[str, Params] = {"fno": {"width": 32, "modes": 8, "layers": 4}, "resnet": {"width": 32, "layers": 2}}
# Epochs of as many processor seconds as 30 at 16: a step at 16, 32 and 64 in turn costs this many times as much.
_COST = {("fno", 2): 3.1, ("resnet", 2): 5.2, ("fno", 1): 1.1, ("resnet", 1): 1.05}

_WAYS = (AS_TRAINED, TRANSFERRED, *TRANSFER[1:], shared_way("crop-pad"))


def _seen(ways: tuple[Way, ...], name: str, label: str, band: int) -> tuple[Way, ...]:
    """The same ways on fields with other waves."""
    return tuple(replace(w, name=f"{w.name}-{name}", label=f"{w.label}, {label}", view=(("band", band),)) for w in ways)


def _variant(problem: str, operator: str, band: int, train: tuple[int, ...] = (16,), share: float = 1.0) -> Variant:
    name, params = _PROBLEMS[problem]
    return Variant(
        name=f"{problem}, {operator}" + ("" if len(train) == 1 else ", equal cost" if share > 1 else ", equal samples"),
        problem=name,
        operator=operator,
        methods=(Method("None", "none", printed=None),),
        train=train,
        test=(16, 32, 64, 128),
        budget=Budget(1000, 100, 200, epochs=round(200 / share), lr=LR[operator], patience=None),
        desk=Desk(epochs=round(30 / share), train=400, width=0.5, lr=2e-3),
        problem_params={**params, **({"band": band} if band else {})},
        operator_params=_OPERATORS[operator],
    )


def _each(band: int) -> tuple[Variant, ...]:
    return tuple(_variant(problem, operator, band) for problem in _PROBLEMS for operator in _OPERATORS)


def _several(band: int, *operators: str) -> tuple[Variant, ...]:
    return tuple(
        _variant(problem, operator, band, (16, 32, 64), share)
        for problem in _PROBLEMS
        for operator in operators
        for share in (1.0, _COST[operator, 1 if problem == "burgers" else 2])
    )


_NOTES = (
    "Nodes as in PDEBench, the data of that paper: cell centres for Darcy flow, a periodic axis for Burgers; "
    "Navier–Stokes is the periodic flow of the FNO benchmark instead of theirs. They filter bicubically when they "
    "coarsen; here samples are taken at points, or of fields with a sharp cut at 3 periods per length along each axis.",
    "The fixed band crops the input's discrete spectrum to the training grid and pads the output's; CROP trains a "
    "network with that inside it.",
)
_SEVERAL = (
    "An epoch sees every sample once and its batches alternate between the grids: equal samples are as many epochs as "
    "at 16 alone, equal cost as many processor seconds (one thread).",
)

STUDIES = (
    Study(
        name="false-promise",
        title="Trained at 16 on waves up to 3 periods: the same content on finer grids, and content never seen",
        theme="ours",
        variants=_each(BAND),
        seeds=seeds(5),
        evaluations=(*_WAYS, *_seen(_WAYS, "new", "new content", 0)),
        notes=_NOTES,
    ),
    Study(
        name="false-promise-whole",
        title="Trained at 16 on samples of whole fields: finer grids that show more of them, and fields that have less",
        theme="ours",
        variants=_each(0),
        seeds=seeds(5),
        evaluations=(*_WAYS, *_seen(_WAYS, "less", "less content", BAND)),
        notes=_NOTES,
    ),
    Study(
        name="pdebench-darcy",
        title="The same protocol on PDEBench's Darcy flow: trained at 16 on cell averages, tested up to its own 128",
        theme="ours",
        variants=tuple(replace(_variant("darcy", o, 0), name=o, problem="darcy-pdebench") for o in _OPERATORS),
        seeds=seeds(5),
        evaluations=_WAYS,
        notes=(
            "With the file 2D_DarcyFlow_beta1.0_Train.hdf5 (DOI 10.18419/darus-2986) in DIR, --data DIR reads it; the "
            "small presets replace it by darcy at cell centres otherwise, whose runs are those of false-promise-whole.",
        ),
    ),
    Study(
        name="false-promise-multires",
        title="Trained at 16, 32 and 64 on whole fields, at equal samples and at equal cost",
        theme="ours",
        variants=_several(0, *_OPERATORS),
        seeds=seeds(5),
        evaluations=(AS_TRAINED, *_seen((AS_TRAINED,), "less", "less content", BAND)),
        notes=(*_NOTES[:1], *_SEVERAL),
    ),
    Study(
        name="false-promise-multires-low",
        title="Trained at 16, 32 and 64 on waves up to 3 periods, at equal samples and at equal cost",
        theme="ours",
        variants=_several(BAND, "fno"),
        seeds=seeds(5),
        evaluations=(AS_TRAINED, *_seen((AS_TRAINED,), "new", "new content", 0)),
        notes=(*_NOTES[:1], *_SEVERAL),
    ),
)
